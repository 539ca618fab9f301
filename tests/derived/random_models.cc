#include "random_models.h"

#include <string>
#include <utility>

#include "arith/rounding.h"
#include "compile/testing/random_graph.h"

namespace tessera::derived {
namespace {

using compile::testing::GraphBuilder;
using graph::TensorId;

class Model {
 public:
  explicit Model(std::uint64_t seed) : builder_(seed) {}

  std::shared_ptr<const graph::Graph> run() {
    const Shape dims = {1, 1 + pick(20), 2 + pick(8), 2 + pick(8)};
    last_ = builder_.unary(builder_.input(dims, Format::kF32), UnaryFunction::kIdentity);
    const std::int64_t layers = 2 + pick(3);
    for (std::int64_t i = 0; i < layers; ++i) grow();
    builder_.output(builder_.unary(last_, UnaryFunction::kIdentity, Format::kF32));
    if (pick(2) == 0) builder_.output(integers());
    return builder_.take();
  }

 private:
  std::int64_t pick(std::int64_t count) {
    return static_cast<std::int64_t>(builder_.random()() % static_cast<std::uint64_t>(count));
  }
  const Shape& dims() const { return builder_.dims(last_); }

  void grow() {
    switch (pick(5)) {
      case 0:
        last_ = builder_.conv(last_, {1 + pick(40), 3, 1, 1});
        return;
      case 1:
        last_ = builder_.unary(integers(), UnaryFunction::kIdentity);
        return;
      case 2:
        return wide_function();
      case 3:
        return squares();
      default:
        return gather();
    }
  }

  TensorId integers() {
    constexpr Format kIntegers[] = {Format::kU8, Format::kI16, Format::kI32, Format::kI64};
    constexpr UnaryFunction kFunctions[] = {UnaryFunction::kIdentity, UnaryFunction::kNegate,
                                            UnaryFunction::kAbs, UnaryFunction::kExp};
    // The last is only taken of f16 elements.
    const bool wide = pick(2) == 0;
    const TensorId x = wide ? builder_.unary(last_, UnaryFunction::kIdentity, Format::kF32) : last_;
    return builder_.unary(x, kFunctions[pick(wide ? 3 : 4)], kIntegers[pick(4)]);
  }

  void wide_function() {
    constexpr UnaryFunction kFunctions[] = {UnaryFunction::kExp,        UnaryFunction::kSigmoid,
                                            UnaryFunction::kTanh,       UnaryFunction::kLog,
                                            UnaryFunction::kSquareRoot, UnaryFunction::kReciprocal};
    const TensorId wide = builder_.unary(last_, UnaryFunction::kNegate, Format::kF32);
    const TensorId y = builder_.unary(wide, kFunctions[pick(6)], Format::kF32);
    last_ = builder_.unary(y, UnaryFunction::kIdentity);
  }

  void squares() {
    constexpr ReduceFunction kFunctions[] = {ReduceFunction::kSumSquare,
                                             ReduceFunction::kRootSumSquare,
                                             ReduceFunction::kSumAbsolute, ReduceFunction::kMean};
    const std::vector<std::int64_t> axes[] = {{2, 3}, {1}, {3}};
    const TensorId sum = builder_.reduce(last_, axes[pick(3)], kFunctions[pick(4)]);
    last_ = builder_.binary(last_, sum, BinaryFunction::kMultiply);
  }

  // Rows of a table at places made of the elements; places below 0 count from the end.
  void gather() {
    const std::int64_t rows = 2 + pick(9);
    const TensorId low = number(-static_cast<double>(rows)), high = number(double(rows - 1));
    TensorId limited = builder_.binary(last_, low, BinaryFunction::kMaximum);
    limited = builder_.binary(limited, high, BinaryFunction::kMinimum);
    // A NaN has no place: unequal to itself, it counts as 0.
    limited = builder_.unary(limited, UnaryFunction::kIdentity, Format::kI16);
    const TensorId places = builder_.unary(limited, UnaryFunction::kIdentity, Format::kI64);
    graph::Graph& graph = builder_.graph();
    const TensorId table = builder_.constant({rows});
    graph::HostStepAttributes step;
    step.node.name = "gather" + std::to_string(graph.nodes.size());
    step.node.op_type = "Gather";
    step.node.inputs = {"table", "places"};
    step.node.outputs = {"rows"};
    step.node.attributes["axis"] = std::int64_t{0};
    step.opset = 17;
    step.reason = "the places are computed";
    const TensorId found{static_cast<std::int32_t>(graph.tensors.size())};
    graph.tensors.push_back({step.node.name + ".rows", Format::kF16, dims(), nullptr});
    const std::string name = step.node.name;
    graph.nodes.push_back({name, {}, {table, places}, {found}, std::move(step)});
    last_ = found;
  }

  TensorId number(double value) {
    const TensorId id = builder_.constant({}, Format::kF16);
    Tensor tensor = Tensor::zeros(Format::kF16, {});
    arith::write_element(Format::kF16, value, tensor.bytes.data());
    builder_.graph().tensor(id).constant = std::make_shared<const Tensor>(std::move(tensor));
    return id;
  }

  GraphBuilder builder_;
  TensorId last_;
};

}  // namespace

std::shared_ptr<const graph::Graph> random_model(std::uint64_t seed) { return Model(seed).run(); }

}  // namespace tessera::derived
