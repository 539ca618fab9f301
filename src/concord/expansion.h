// What the expansions of the single node kinds share. Internal to src/concord.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "concord/rounding_steps.h"
#include "concord/steps.h"
#include "graph/graph.h"

namespace tessera::concord {

// The format in which elements of `format` pass between operations.
Format carrier(Format format);

// A tensor of the graph as it is carried.
struct Carried {
  ValueId value;
  Traits traits;
  bool raw = false;  // moved from the program's inputs: a NaN keeps its payload
};

class Expansion {
 public:
  Expansion(const graph::Graph& graph, Steps& steps, bool trainable)
      : graph_(graph), steps_(steps), trainable_(trainable) {}

  const graph::Graph& graph() const { return graph_; }
  Steps& steps() { return steps_; }
  const graph::TensorInfo& info(graph::TensorId id) const { return graph_.tensor(id); }

  // The node's operand, carried; constants are written at first use.
  Carried& operand(graph::TensorId id);
  void set(graph::TensorId id, const Carried& carried) { tensors_[index(id)] = carried; }
  // The operand as f64, NaN and infinities included (f32 is widened).
  ValueId wide(graph::TensorId id);
  // Whether the weights and biases of products are to be trained.
  bool trains() const { return trainable_; }
  // Such a constant (f64, elements of its format), laid out as `dims`; matrices [K, N] as [N, K].
  Result<ValueId> trained(const graph::Node& node, std::size_t input, const std::string& role,
                          const Shape& dims);
  // What follows is a layer of its own: a function that a product's post-processor applies.
  void begin_activation(const graph::Node& node);
  // Tables of functions that are written already.
  std::map<std::string, ValueId>& tables() { return tables_; }

 private:
  static std::size_t index(graph::TensorId id) { return static_cast<std::size_t>(id.value); }

  const graph::Graph& graph_;
  Steps& steps_;
  bool trainable_;
  std::map<std::string, ValueId> tables_;
  std::vector<Carried> tensors_ = std::vector<Carried>(graph_.tensors.size());
};

// An element of a constant as a number.
double element_of(const Tensor& tensor, std::int64_t i);

Error refuse(const graph::Node& node, const std::string& reason);

Result<Carried> expand_conv(Expansion& at, const graph::Node& node);
Result<Carried> expand_matmul(Expansion& at, const graph::Node& node);
Result<Carried> expand_integer_conv(Expansion& at, const graph::Node& node);
Result<Carried> expand_integer_matmul(Expansion& at, const graph::Node& node);
Result<Carried> expand_pool(Expansion& at, const graph::Node& node);
Result<Carried> expand_reduce(Expansion& at, const graph::Node& node);
Result<Carried> expand_elementwise(Expansion& at, const graph::Node& node);
Result<Carried> expand_move(Expansion& at, const graph::Node& node);

// round(activation(x)) to `format`; x is carried as elements of `source` (f16 or f32).
Result<Carried> expand_activation(Expansion& at, const graph::Node& node,
                                  const Activation& activation, const Carried& x, Format source,
                                  Format format);
// The function by float64 steps as arith::apply() has them, not rounded; nothing where there are
// none.
std::optional<ValueId> plain_function(Steps& steps, const Activation& activation, ValueId x,
                                      const Traits& traits);
// The values of a function of one f16, for every element of x, as elements of `format`.
// Elements with the same `name` share their table.
struct TableFunction {
  std::string name;
  std::function<double(double)> value;
};
ValueId look_up(Expansion& at, const Carried& x, Format format, const TableFunction& function);

// Elements of an integer format (carried in f64; never -0) from f64: half to even, saturating, NaN
// gives 0.
ValueId round_to_integer(Steps& steps, ValueId x, Format format, bool may_be_nan);

// float(q - zero point) * scale, f32, of integers carried in f64.
ValueId dequantise(Steps& steps, ValueId q, const Affine& affine);
// Back to integers of `format` (carried in f64) from f32.
ValueId quantise(Steps& steps, ValueId x, const Affine& affine, Format format, bool may_be_nan);

// [N, C, H, W] -> [N, C, KH, OH, KW, OW]: the samples under each tap; `fill` where there is none.
struct WindowAxis {
  std::int64_t extent = 1, kernel = 1, stride = 1, pad = 0, dilation = 1, input_dilation = 1;
  std::int64_t outputs = 1;
  bool is_whole() const {  // one tap, every sample, nothing between
    return kernel == 1 && stride == 1 && pad == 0 && input_dilation == 1 && outputs == extent;
  }
};
ValueId window_view(Steps& steps, ValueId x, const WindowAxis& rows, const WindowAxis& columns,
                    double fill);

}  // namespace tessera::concord
