#include "graph/integer_range.h"

#include <algorithm>

namespace tessera::graph {

namespace {

using Range = std::optional<IntegerRange>;

// How far back nodes are followed.
constexpr int kDepthMax = 32;

Range within_i32(std::int64_t low, std::int64_t high) {
  if (low < INT32_MIN || high > INT32_MAX) return std::nullopt;
  return IntegerRange{low, high};
}

Range of_constant(const Tensor& tensor) {
  const std::vector<std::int64_t> values = integers(tensor);
  if (values.empty()) return IntegerRange{};
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return within_i32(*low, *high);
}

Range of_format(Format format) {
  switch (format) {
    case Format::kBool:
      return IntegerRange{0, 1};
    case Format::kU8:
      return IntegerRange{0, UINT8_MAX};
    case Format::kI8:
      return IntegerRange{INT8_MIN, INT8_MAX};
    case Format::kU16:
      return IntegerRange{0, UINT16_MAX};
    case Format::kI16:
      return IntegerRange{INT16_MIN, INT16_MAX};
    case Format::kI32:
      return IntegerRange{INT32_MIN, INT32_MAX};
    default:
      return std::nullopt;
  }
}

// The results of a function of two that is monotonic in each operand.
template <typename F>
Range of_corners(const IntegerRange& a, const IntegerRange& b, F&& f) {
  const auto [low, high] =
      std::minmax({f(a.low, b.low), f(a.low, b.high), f(a.high, b.low), f(a.high, b.high)});
  return within_i32(low, high);
}

Range of_binary(const std::string& type, const IntegerRange& a, const IntegerRange& b) {
  using Number = std::int64_t;
  if (type == "Add") return of_corners(a, b, [](Number x, Number y) { return x + y; });
  if (type == "Sub") return of_corners(a, b, [](Number x, Number y) { return x - y; });
  if (type == "Mul") return of_corners(a, b, [](Number x, Number y) { return x * y; });
  if (type == "Max") return of_corners(a, b, [](Number x, Number y) { return std::max(x, y); });
  if (type == "Min") return of_corners(a, b, [](Number x, Number y) { return std::min(x, y); });
  return std::nullopt;
}

Range of_unary(const std::string& type, const IntegerRange& x) {
  if (type == "Neg") return within_i32(-x.high, -x.low);
  if (type == "Abs") {
    const std::int64_t high = std::max(std::abs(x.low), std::abs(x.high));
    return within_i32(x.low <= 0 && x.high >= 0 ? 0 : std::min(std::abs(x.low), std::abs(x.high)),
                      high);
  }
  // Every element is one of the operand's.
  for (const char* copies : {"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose",
                             "Slice", "Expand", "Tile", "Gather", "Split", "Cast"}) {
    if (type == copies) return x;
  }
  return std::nullopt;
}

Range range_of(const Lowering& at, const std::string& value, int depth);

Range of_node(const Lowering& at, const model::Node& node, int depth) {
  const std::string& type = node.op_type;
  if (type == "ArgMax" || type == "ArgMin") {
    const Shape& dims = at.type(node.inputs[0]).dims;
    return within_i32(0, element_count(dims));
  }
  const Range first = node.inputs.empty() ? Range{} : range_of(at, node.inputs[0], depth + 1);
  if (!first) return std::nullopt;
  if (const Range unary = of_unary(type, *first)) return unary;
  if (node.inputs.size() != 2) return std::nullopt;
  const Range second = range_of(at, node.inputs[1], depth + 1);
  return second ? of_binary(type, *first, *second) : std::nullopt;
}

Range range_of(const Lowering& at, const std::string& value, int depth) {
  if (value.empty() || depth > kDepthMax) return std::nullopt;
  const model::TypedValue& typed = at.type(value);
  if (format_is_float(typed.format)) return std::nullopt;
  if (const Constant known = at.known(value)) return of_constant(*known);
  if (format_bytes(typed.format) < 8) return of_format(typed.format);
  const model::Node* const node = at.producer(value);
  if (node == nullptr || !node->domain.empty()) return std::nullopt;
  const Range found = of_node(at, *node, depth);
  // Below zero it would have wrapped around.
  return found && typed.format == Format::kU64 && found->low < 0 ? std::nullopt : found;
}

}  // namespace

std::optional<IntegerRange> integer_range(const Lowering& at, const std::string& value) {
  return range_of(at, value, 0);
}

}  // namespace tessera::graph
