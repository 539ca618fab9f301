// Rules of single nodes, by kind: how many operands, which shapes, which formats.
#include <fmt/format.h>

#include <algorithm>

#include "graph/move_box.h"
#include "graph/verify.h"

namespace tessera::graph {

namespace {

std::string list(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (const std::int64_t number : numbers) {
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  }
  return text;
}

// Collects the first broken rule.
class Rules {
 public:
  Rules(const Graph& graph, const Node& node, Stage stage)
      : graph_(graph), node_(node), stage_(stage) {}

  const TensorInfo& input(std::size_t i) const { return graph_.tensor(node_.inputs[i]); }
  const TensorInfo& output() const { return graph_.tensor(node_.outputs[0]); }
  std::size_t inputs() const { return node_.inputs.size(); }
  const Graph& graph() const { return graph_; }
  const Node& node() const { return node_; }

  template <typename... Values>
  bool must(bool holds, fmt::format_string<Values...> rule, Values&&... values) {
    if (!holds && broken_.empty()) broken_ = fmt::format(rule, std::forward<Values>(values)...);
    return holds;
  }
  // The format of a product's operands: in a draft that of the one that is no constant.
  Format operand_format() const {
    const bool other = stage_ == Stage::kDraft && input(0).constant != nullptr &&
                       input(1).constant == nullptr && is_vector_float(input(1).format);
    return input(other ? 1 : 0).format;
  }
  // `i` has format `format`; a float constant of a draft may still have another float format.
  bool must_be(std::size_t i, Format format) {
    const TensorInfo& tensor = input(i);
    const bool draft = stage_ == Stage::kDraft && tensor.constant != nullptr &&
                       format_is_float(tensor.format) && format_is_float(format);
    return must(tensor.format == format || draft, "input '{}' is {}, {} is needed", tensor.name,
                format_name(tensor.format), format_name(format));
  }
  const std::string& broken() const { return broken_; }

  bool operands(std::size_t least, std::size_t most) {
    if (!must(inputs() >= least && inputs() <= most, "has {} inputs, {} to {} are needed", inputs(),
              least, most)) {
      return false;
    }
    if (!must(node_.outputs.size() == 1, "has {} outputs, one is needed", node_.outputs.size())) {
      return false;
    }
    for (std::size_t i = 0; i < inputs(); ++i) {
      must(element_count(input(i).dims) > 0, "input '{}' has no elements", input(i).name);
    }
    return broken_.empty();
  }

 private:
  const Graph& graph_;
  const Node& node_;
  const Stage stage_;
  std::string broken_;
};

// The array takes 16 bits in two halves.
bool is_array_integer(Format format) {
  return format_is_affine(format) && format_bytes(format) <= 2;
}

// Formats, bias and post-processing of a product with `channels` output channels.
void check_product(Rules& rules, const MatrixFormat& matrix, const IntegerOperands& integer,
                   const PostProcess& post, std::int64_t channels) {
  const auto one_or_all = [&](std::size_t count) {
    return count == 1 || static_cast<std::int64_t>(count) == channels;
  };
  const bool integers = matrix.kind == MatrixKind::kInteger;
  const Format bias = integers ? Format::kI32 : rules.input(0).format;
  if (integers) {
    rules.must(is_array_integer(rules.input(0).format) && is_array_integer(rules.input(1).format),
               "an integer product of {} and {}; i8, u8, i16 and u16 are allowed",
               format_name(rules.input(0).format), format_name(rules.input(1).format));
    const std::int64_t bytes =
        format_bytes(rules.input(0).format) + format_bytes(rules.input(1).format);
    rules.must(bytes == 2 || rules.input(1).constant != nullptr,
               "an integer product of 16 bits, whose weights are no constant");
    rules.must(one_or_all(integer.stationary_zero_points.size()),
               "{} stationary zero points for {} output channels",
               integer.stationary_zero_points.size(), channels);
    rules.must(post.activation == Activation{}, "an integer product has an activation");
    const bool fits = post.requantise ? is_array_integer(rules.output().format)
                                      : rules.output().format == Format::kI32;
    rules.must(fits, "the integer result is {}", format_name(rules.output().format));
  } else {
    // The exact sum is rounded once, to the operands' format or to f32.
    const Format operands = rules.operand_format();
    rules.must(is_vector_float(rules.output().format) &&
                   (rules.output().format == operands || rules.output().format == Format::kF32),
               "a float product of {} gives {}", format_name(operands),
               format_name(rules.output().format));
    rules.must_be(0, operands);
    rules.must_be(1, operands);
    rules.must(!post.requantise, "a float product is requantised");
  }
  const std::int32_t response = post.local_response.size;
  rules.must(response >= 0 && response <= kLocalResponseSizeMax,
             "a local response normalisation over {} channels; 1 to {} are allowed", response,
             kLocalResponseSizeMax);
  rules.must(response == 0 || !integers, "an integer product is normalised over its channels");
  if (post.requantise) {
    rules.must(one_or_all(post.multipliers.size()), "{} multipliers for {} output channels",
               post.multipliers.size(), channels);
  }
  if (rules.inputs() == 3) {
    rules.must(rules.input(2).constant != nullptr, "the bias is not a constant");
    rules.must(rules.input(2).dims == Shape{channels}, "the bias has {} elements for {} channels",
               element_count(rules.input(2).dims), channels);
    rules.must_be(2, bias);
  }
}

struct WindowAxis {
  std::int64_t input, kernel, stride, pad_begin, pad_end, dilation, input_dilation;
  std::int64_t output() const {
    const std::int64_t span =
        (input - 1) * input_dilation + 1 + pad_begin + pad_end - (dilation * (kernel - 1) + 1);
    return span < 0 ? 0 : span / stride + 1;
  }
};

void check_image_output(Rules& rules, std::int64_t channels, const WindowAxis& height,
                        const WindowAxis& width) {
  for (const WindowAxis* axis : {&height, &width}) {
    rules.must(
        axis->stride > 0 && axis->dilation > 0 && axis->input_dilation > 0 && axis->kernel > 0,
        "window, strides and dilations are at least 1");
  }
  if (!rules.broken().empty()) return;
  const Shape expected = {rules.input(0).dims[0], channels, height.output(), width.output()};
  rules.must(rules.output().dims == expected, "the output is [{}], the window gives [{}]",
             list(rules.output().dims), list(expected));
}

void check(Rules& rules, const ConvAttributes& conv) {
  if (!rules.operands(2, 3)) return;
  const Shape& x = rules.input(0).dims;
  const Shape& w = rules.input(1).dims;
  if (!rules.must(x.size() == 4 && w.size() == 4, "x has rank {}, weights {}; 4 are needed",
                  x.size(), w.size())) {
    return;
  }
  rules.must(rules.input(1).constant != nullptr, "the weights are not a constant");
  if (!rules.must(conv.groups > 0 && x[1] == w[1] * conv.groups && w[0] % conv.groups == 0,
                  "{} channels, {} groups and weights [{}] do not fit", x[1], conv.groups,
                  list(w))) {
    return;
  }
  rules.must(!conv.channel_wise || format_is_float(rules.input(0).format) ||
                 format_bytes(rules.input(0).format) + format_bytes(rules.input(1).format) == 2,
             "a channel-wise product of 16-bit integers");
  rules.must(!conv.channel_wise || w[1] == 1, "channel-wise with {} channels a group", w[1]);
  check_product(rules, conv.matrix, conv.integer, conv.post, w[0]);
  check_image_output(rules, w[0],
                     {x[2], w[2], conv.stride_h, conv.pad_top, conv.pad_bottom, conv.dilation_h,
                      conv.input_dilation_h},
                     {x[3], w[3], conv.stride_w, conv.pad_left, conv.pad_right, conv.dilation_w,
                      conv.input_dilation_w});
}

void check(Rules& rules, const MatMulAttributes& matmul) {
  if (!rules.operands(2, 3)) return;
  const Shape& a = rules.input(0).dims;
  const Shape& b = rules.input(1).dims;
  if (!rules.must(a.size() >= 2 && b.size() >= 2,
                  "operands of rank {} and {}; at least 2 is needed", a.size(), b.size())) {
    return;
  }
  rules.must(a.back() == b[b.size() - 2], "K is {} on one side and {} on the other", a.back(),
             b[b.size() - 2]);
  const bool same_leading = a.size() == b.size() && std::equal(a.begin(), a.end() - 2, b.begin());
  rules.must(b.size() == 2 || same_leading, "leading axes differ: [{}] and [{}]", list(a), list(b));
  Shape expected = a;
  expected.back() = b.back();
  rules.must(rules.output().dims == expected, "the output is [{}], the product [{}]",
             list(rules.output().dims), list(expected));
  check_product(rules, matmul.matrix, matmul.integer, matmul.post, b.back());
}

// Pooling and reduction take numbers of at most 32 bits.
void check_filter_formats(Rules& rules) {
  for (const Format format : {rules.input(0).format, rules.output().format}) {
    rules.must(format_bytes(format) <= 4 && format != Format::kBool,
               "the planar engine's filters do not take {}", format_name(format));
  }
}

// Formats at the two ends of a planar operation.
void check_affine(Rules& rules, std::size_t i, const Affine& input) {
  const Format format = rules.input(i).format;
  rules.must(!input.enabled || format_is_affine(format), "input '{}' is {} and has a scale",
             rules.input(i).name, format_name(format));
}

void check_affine_output(Rules& rules, const Affine& output) {
  const Format format = rules.output().format;
  rules.must(!output.enabled || format_is_affine(format), "the output is {} and has a scale",
             format_name(format));
}

// Functions of single elements around a filter.
void check_converters(Rules& rules, const Activation& before, const Activation& after,
                      bool affine) {
  const bool none = before == Activation{} && after == Activation{};
  rules.must(none || !affine, "functions around a filter of integers with a scale");
  rules.must(before == Activation{} || format_is_vector(rules.input(0).format),
             "'{}' of {} in front of a filter", unary_function_name(before.function),
             format_name(rules.input(0).format));
  rules.must(after == Activation{} || format_is_vector(rules.output().format),
             "'{}' to {} behind a filter", unary_function_name(after.function),
             format_name(rules.output().format));
  rules.must(unary_row(before.function).kind == UnaryKind::kLine,
             "'{}' in front of a filter, which compares, multiplies and adds only",
             unary_function_name(before.function));
}

void check(Rules& rules, const PoolAttributes& pool) {
  if (!rules.operands(1, 1)) return;
  const Shape& x = rules.input(0).dims;
  if (!rules.must(x.size() == 4, "x has rank {}; 4 is needed", x.size())) return;
  check_filter_formats(rules);
  check_affine(rules, 0, pool.input);
  check_affine_output(rules, pool.output);
  const bool affine = pool.input.enabled || pool.output.enabled;
  check_converters(rules, pool.before, pool.after, affine);
  rules.must(affine || rules.input(0).format == rules.output().format, "pooling changes {} to {}",
             format_name(rules.input(0).format), format_name(rules.output().format));
  check_image_output(
      rules, x[1],
      {x[2], pool.window_h, pool.stride_h, pool.pad_top, pool.pad_bottom, pool.dilation_h, 1},
      {x[3], pool.window_w, pool.stride_w, pool.pad_left, pool.pad_right, pool.dilation_w, 1});
}

// The broadcast of two shapes; false if they do not fit.
bool broadcast(const Shape& a, const Shape& b, Shape& result) {
  result.assign(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 1; i <= result.size(); ++i) {
    const std::int64_t left = i <= a.size() ? a[a.size() - i] : 1;
    const std::int64_t right = i <= b.size() ? b[b.size() - i] : 1;
    if (left != right && left != 1 && right != 1) return false;
    result[result.size() - i] = left == 1 ? right : left;
  }
  return true;
}

void check(Rules& rules, const ElementwiseAttributes& elementwise) {
  const std::size_t count = elementwise.gain_bias ? 3 : elementwise.binary ? 2 : 1;
  if (!rules.operands(count, count)) return;
  Shape expected = rules.input(0).dims;
  for (std::size_t i = 1; i < count; ++i) {
    const Shape before = expected;
    if (!rules.must(broadcast(before, rules.input(i).dims, expected),
                    "[{}] and [{}] do not broadcast", list(before), list(rules.input(i).dims))) {
      return;
    }
  }
  if (elementwise.gain_bias) {
    rules.must(!elementwise.binary, "gain and bias, and a binary function");
    rules.must(format_is_vector(elementwise.gain_format) && format_is_vector(rules.input(2).format),
               "gain and bias give {} and {}; f16, bf16 and f32 are allowed",
               format_name(elementwise.gain_format), format_name(rules.input(2).format));
  }
  rules.must(rules.output().dims == expected, "the output is [{}], the operands give [{}]",
             list(rules.output().dims), list(expected));
  for (std::size_t i = 0; i < std::min<std::size_t>(count, 2); ++i) {
    check_affine(rules, i, elementwise.inputs[i]);
  }
  check_affine_output(rules, elementwise.output);
}

void check(Rules& rules, const ReduceAttributes& reduce) {
  if (!rules.operands(1, 1)) return;
  Shape expected = rules.input(0).dims;
  const auto rank = static_cast<std::int64_t>(expected.size());
  const bool ascending =
      !reduce.axes.empty() &&
      std::is_sorted(reduce.axes.begin(), reduce.axes.end(), std::less_equal<>()) &&
      reduce.axes.front() >= 0 && reduce.axes.back() < rank;
  if (!rules.must(ascending, "axes [{}] of rank {}; ascending and non-negative ones are needed",
                  list(reduce.axes), rank)) {
    return;
  }
  for (auto axis = reduce.axes.rbegin(); axis != reduce.axes.rend(); ++axis) {
    if (reduce.keep_dims) {
      expected[static_cast<std::size_t>(*axis)] = 1;
    } else {
      expected.erase(expected.begin() + *axis);
    }
  }
  rules.must(rules.output().dims == expected, "the output is [{}], the axes give [{}]",
             list(rules.output().dims), list(expected));
  check_filter_formats(rules);
  check_converters(rules, reduce.before, {}, reduce.input.enabled);
  check_affine(rules, 0, reduce.input);
  check_affine_output(rules, reduce.output);
}

void check(Rules& rules, const MoveAttributes& move) {
  if (!rules.operands(1, kBoxesMax)) return;
  const std::int64_t output_count = element_count(rules.output().dims);
  std::int64_t written = 0;
  for (std::size_t i = 0; i < rules.inputs(); ++i) rules.must_be(i, rules.output().format);
  for (const CopyBox& box : move.copies) {
    const std::size_t axes = box.extents.size();
    const bool rank_fits = axes >= 1 && axes <= kBoxAxesMax && box.input_strides.size() == axes &&
                           box.output_strides.size() == axes;
    if (!rules.must(rank_fits, "a copy has {} axes; 1 to {} are allowed", axes, kBoxAxesMax))
      return;
    for (const std::int64_t extent : box.extents) {
      if (!rules.must(extent > 0, "a copy has an extent of {}", extent)) return;
    }
    const bool input_fits = box.input >= 0 && static_cast<std::size_t>(box.input) < rules.inputs();
    if (!rules.must(input_fits, "a copy reads input {} of {}", box.input, rules.inputs())) return;
    const ElementRange from = input_range(box);
    const std::int64_t input_count =
        element_count(rules.input(static_cast<std::size_t>(box.input)).dims);
    rules.must(from.first >= 0 && from.last < input_count, "a copy reads elements {} to {} of {}",
               from.first, from.last, input_count);
    const ElementRange to = output_range(box);
    rules.must(to.first >= 0 && to.last < output_count, "a copy writes elements {} to {} of {}",
               to.first, to.last, output_count);
    written += box_elements(box);
  }
  rules.must(move.has_fill || written >= output_count, "copies write {} of {} elements", written,
             output_count);
}

void check(Rules& rules, const HostStepAttributes& step) {
  rules.must(!step.reason.empty(), "a host step gives no reason");
  rules.must(!step.node.op_type.empty(), "a host step has no operator");
  const auto present = [](const std::vector<std::string>& names) {
    return names.size() - static_cast<std::size_t>(std::count(names.begin(), names.end(), ""));
  };
  rules.must(present(step.node.inputs) == rules.node().inputs.size() &&
                 present(step.node.outputs) == rules.node().outputs.size(),
             "a host step's operator has {} inputs and {} outputs", present(step.node.inputs),
             present(step.node.outputs));
}

}  // namespace

std::string broken_node_rule(const Graph& graph, const Node& node, Stage stage) {
  Rules rules(graph, node, stage);
  std::visit([&](const auto& attributes) { check(rules, attributes); }, node.attributes);
  return rules.broken();
}

}  // namespace tessera::graph
