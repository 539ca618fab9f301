#include <memory>
#include <string>
#include <utility>

#include "arith/rounding.h"
#include "concord/testing/random_graph.h"

namespace tessera::concord::testing {
namespace {

using graph::Graph;
using graph::TensorId;

class Board {
 public:
  Board() { graph_.inputs = {add("x", kDims)}; }

  TensorId input() const { return graph_.inputs[0]; }
  TensorId number(double value) {
    const TensorId id = add("c" + std::to_string(graph_.tensors.size()), {1, 1, 1, 1});
    Tensor constant = Tensor::zeros(Format::kF16, {1, 1, 1, 1});
    arith::write_element(Format::kF16, value, constant.bytes.data());
    graph_.tensors.back().constant = std::make_shared<const Tensor>(std::move(constant));
    return id;
  }
  TensorId binary(BinaryFunction function, TensorId a, TensorId b) {
    graph::ElementwiseAttributes work;
    work.binary = true;
    work.function = function;
    const bool single = a != input() && b != input() && is_single(a) && is_single(b);
    return node({a, b}, single ? Shape{1, 1, 1, 1} : kDims, work);
  }
  template <typename Attributes>
  TensorId node(std::vector<TensorId> inputs, const Shape& dims, Attributes attributes) {
    const std::string name = "n" + std::to_string(graph_.nodes.size());
    const TensorId output = add(name, dims);
    graph_.nodes.push_back({name, {}, std::move(inputs), {output}, std::move(attributes)});
    return output;
  }
  void show(TensorId id) { graph_.outputs.push_back(id); }
  Graph take() { return std::move(graph_); }

  static inline const Shape kDims = {1, 6, 5, 1};

 private:
  bool is_single(TensorId id) const { return element_count(graph_.tensor(id).dims) == 1; }
  TensorId add(const std::string& name, const Shape& dims) {
    graph_.tensors.push_back({name, Format::kF16, dims, nullptr});
    return TensorId{static_cast<std::int32_t>(graph_.tensors.size()) - 1};
  }

  Graph graph_;
};

}  // namespace

Graph zeros_graph() {
  Board board;
  const TensorId x = board.input();
  for (const double zero : {0.0, -0.0}) {
    board.show(board.binary(BinaryFunction::kAdd, x, board.number(zero)));
    board.show(board.binary(BinaryFunction::kAdd, board.number(zero), x));
    board.show(board.binary(BinaryFunction::kSubtract, x, board.number(zero)));
    board.show(board.binary(BinaryFunction::kSubtract, board.number(zero), x));
  }
  for (const double chosen : {0.0, 1.0}) {  // a choice of x and a zero
    const TensorId mask = board.number(chosen);
    const TensorId zero = board.binary(BinaryFunction::kUnless, board.number(0), mask);
    board.show(
        board.binary(BinaryFunction::kAdd, board.binary(BinaryFunction::kWhen, x, mask), zero));
    const TensorId other = board.binary(BinaryFunction::kWhen, board.number(0), mask);
    board.show(
        board.binary(BinaryFunction::kAdd, other, board.binary(BinaryFunction::kUnless, x, mask)));
  }
  for (const ReduceFunction function : {ReduceFunction::kSum, ReduceFunction::kMean}) {
    graph::ReduceAttributes reduce;
    reduce.function = function;
    reduce.axes = {3};
    board.show(board.node({x}, Board::kDims, reduce));
  }
  graph::PoolAttributes pool;
  pool.function = PoolFunction::kAverage;
  board.show(board.node({x}, Board::kDims, pool));
  return board.take();
}

}  // namespace tessera::concord::testing
