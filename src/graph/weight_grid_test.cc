#include "graph/weight_grid.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "arith/rounding.h"

namespace tessera::graph {
namespace {

std::shared_ptr<const Tensor> halves(const Shape& dims, const std::vector<double>& values) {
  Tensor tensor = Tensor::zeros(Format::kF16, dims);
  for (std::size_t i = 0; i < values.size(); ++i) {
    arith::write_element(Format::kF16, values[i], tensor.bytes.data() + i * 2);
  }
  return std::make_shared<const Tensor>(std::move(tensor));
}

std::vector<double> numbers(const Tensor& tensor) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < element_count(tensor.dims); ++i) {
    values.push_back(arith::read_element(Format::kF16, tensor.bytes.data() + i * 2));
  }
  return values;
}

// Output channels are rows of a kernel and columns of a matrix, and each has a scale of its own.
TEST(WeightsOnGrid, GoByOutputChannel) {
  const std::vector<double> weights = {7.0, 0.6, 1.3, 0.25, 0.3, 0.1};
  Graph graph;
  graph.tensors = {{"x", Format::kF16, {1, 3, 1, 1}, nullptr},
                   {"w", Format::kF16, {2, 3, 1, 1}, halves({2, 3, 1, 1}, weights)},
                   {"b", Format::kF16, {2}, halves({2}, {0.3, 0.3})},
                   {"y", Format::kF16, {1, 2, 1, 1}, nullptr},
                   {"a", Format::kF16, {1, 3}, nullptr},
                   {"m", Format::kF16, {3, 2}, halves({3, 2}, weights)},
                   {"z", Format::kF16, {1, 2}, nullptr}};
  graph.nodes = {{"conv", {}, {{0}, {1}, {2}}, {{3}}, ConvAttributes{}},
                 {"matrix", {}, {{4}, {5}}, {{6}}, MatMulAttributes{}}};
  put_weights_on_grid(graph, {arith::WeightGridKind::kFixedRange, 3});
  const auto of_node = [&](std::size_t node, std::size_t input) {
    return numbers(*graph.tensor(graph.nodes[node].inputs[input]).constant);
  };
  EXPECT_EQ(of_node(0, 1), (std::vector<double>{6, 0, 2, 0.25, 0.25, 0.125}));
  EXPECT_EQ(of_node(1, 1), (std::vector<double>{6, 0.5, 2, 0.25, 0, 0}));
  EXPECT_EQ(of_node(0, 2), numbers(*halves({2}, {0.3, 0.3})));
  EXPECT_EQ(numbers(*graph.tensor({1}).constant), numbers(*halves({6}, weights)));
}

}  // namespace
}  // namespace tessera::graph
