// Small typed graphs for tests: by hand through a builder, or at random from a seed.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tessera::compile::testing {

// Adds nodes one by one; every tensor is f16 unless said otherwise. Constants are random.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::uint64_t seed) : random_(seed) { graph_.name = "test"; }

  graph::TensorId input(const Shape& dims, Format format = Format::kF16);
  graph::TensorId constant(const Shape& dims, Format format = Format::kF16);
  // y = conv(x): OIHW weights of `kernel`, bias, ReLU.
  struct ConvShape {
    std::int64_t output_channels = 1;
    std::int64_t kernel = 1, stride = 1, pad = 0, groups = 1;
    bool channel_wise = false;
    std::int64_t dilation = 1, input_dilation = 1;
  };
  graph::TensorId conv(graph::TensorId x, const ConvShape& shape);
  graph::TensorId matmul(graph::TensorId a, graph::TensorId b);
  graph::TensorId pool(graph::TensorId x, PoolFunction function, std::int64_t window,
                       std::int64_t stride, std::int64_t pad);
  graph::TensorId unary(graph::TensorId x, UnaryFunction function, Format output = Format::kF16);
  graph::TensorId binary(graph::TensorId a, graph::TensorId b, BinaryFunction function);
  graph::TensorId reduce(graph::TensorId x, std::vector<std::int64_t> axes,
                         ReduceFunction function);
  graph::TensorId reshape(graph::TensorId x, const Shape& dims);
  graph::TensorId transpose(graph::TensorId x, const std::vector<std::int64_t>& permutation);
  graph::TensorId concat(const std::vector<graph::TensorId>& parts, std::int64_t axis);
  graph::TensorId pad(graph::TensorId x, std::int64_t amount);       // rows and columns of NCHW
  graph::TensorId upsample(graph::TensorId x, std::int64_t factor);  // nearest, NCHW
  graph::TensorId slice(graph::TensorId x, std::int64_t axis, std::int64_t first,
                        std::int64_t count);
  void output(graph::TensorId id) { graph_.outputs.push_back(id); }

  const Shape& dims(graph::TensorId id) const { return graph_.tensor(id).dims; }
  std::mt19937_64& random() { return random_; }
  graph::Graph& graph() { return graph_; }
  std::shared_ptr<const graph::Graph> take() {
    return std::make_shared<const graph::Graph>(std::move(graph_));
  }

 private:
  graph::TensorId add_tensor(const Shape& dims, Format format);
  graph::TensorId add_node(std::vector<graph::TensorId> inputs, const Shape& dims, Format format,
                           graph::NodeAttributes attributes);

  graph::Graph graph_;
  std::mt19937_64 random_;
};

// A few layers on a random image: convolutions of all kinds, pooling, element-wise work with
// broadcasts, concatenation, transposition, products.
std::shared_ptr<const graph::Graph> random_graph(std::uint64_t seed);

}  // namespace tessera::compile::testing
