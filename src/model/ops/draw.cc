#include "model/ops/draw.h"

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <variant>

#include "arith/rounding.h"
#include "model/ops/call.h"
#include "model/ops/errors.h"
#include "model/ops/generate.h"

namespace tessera::model::ops {
namespace {

template <typename T>
T attribute(const Node& node, const std::string& name, T otherwise) {
  const auto found = node.attributes.find(name);
  if (found == node.attributes.end()) return otherwise;
  const T* value = std::get_if<T>(&found->second);
  return value == nullptr ? otherwise : *value;
}

// SplitMix64: whole numbers alone, so that every machine draws the same.
class Generator {
 public:
  explicit Generator(const Node& node) {
    for (const char letter : node.name)
      state_ = (state_ ^ static_cast<std::uint8_t>(letter)) * 0x100000001B3U;
    state_ ^= std::bit_cast<std::uint32_t>(attribute(node, "seed", 0.0F));
  }
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }
  // 0 to 1, a whole number of 2^-32.
  double uniform() { return static_cast<double>(next() >> 32U) * 0x1p-32; }
  // The sum of twelve of them has a variance of 1; exact in binary64.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

 private:
  std::uint64_t state_ = 0xCBF29CE484222325U;
};

}  // namespace

bool draws_at_random(const Node& node) {
  return node.domain.empty() &&
         (node.op_type == "RandomNormal" || node.op_type == "RandomNormalLike" ||
          node.op_type == "RandomUniform" || node.op_type == "RandomUniformLike");
}

Result<Tensor> sample(const Node& node, const TypedValue* like) {
  const bool takes_shape = node.op_type.ends_with("Like");
  if (takes_shape != (like != nullptr)) return invalid("one input is needed, or none");
  const Shape dims = takes_shape ? like->dims : attribute(node, "shape", Integers{});
  Format format = takes_shape ? like->format : Format::kF32;
  if (node.attributes.contains("dtype")) {
    TESSERA_TRY(format, format_of_data_type(attribute(node, "dtype", std::int64_t{1})));
  }
  if (!format_is_float(format)) {
    return invalid(fmt::format("format {}, allowed are floats", format_name(format)));
  }
  TESSERA_RETURN_IF_ERROR(check_size(format, dims));
  const bool normal = node.op_type.starts_with("RandomNormal");
  const double first = normal ? attribute(node, "mean", 0.0F) : attribute(node, "low", 0.0F);
  const double second = normal ? attribute(node, "scale", 1.0F) : attribute(node, "high", 1.0F);
  Tensor tensor = Tensor::zeros(format, dims);
  Generator generator(node);
  std::byte* element = tensor.bytes.data();
  for (std::int64_t i = 0; i < element_count(dims); ++i, element += format_bytes(format)) {
    const double value = normal ? first + generator.normal() * second
                                : first + generator.uniform() * (second - first);
    arith::write_element(format, value, element);
  }
  return tensor;
}

}  // namespace tessera::model::ops
