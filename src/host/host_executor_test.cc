// The host device against the reference, bit for bit, on small random graphs.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "arith/rounding.h"
#include "host/executor.h"
#include "host/run_order.h"

namespace tessera::host {
namespace {

using graph::Graph;
using graph::TensorId;

constexpr unsigned kSeed = 20240613;

// Grows a graph node by node from random choices.
class Grower {
 public:
  explicit Grower(unsigned seed) : random_(seed) {
    const Format formats[] = {Format::kF16, Format::kF16, Format::kBf16, Format::kF32};
    graph_.vector_format = formats[pick(0, 3)];
    const Shape dims = {pick(1, 2), pick(1, 40), pick(1, 12), pick(1, 30)};
    last_ = add(graph_.vector_format, dims);
    graph_.inputs = {last_};
  }

  Graph grow(int nodes) {
    for (int i = 0; i < nodes; ++i) {
      switch (pick(0, 9)) {
        case 0:
        case 1:
          conv();
          break;
        case 2:
          pool();
          break;
        case 3:
          binary();
          break;
        case 4:
          reduce_and_scale();
          break;
        case 5:
          transpose();
          break;
        case 6:
          reshape_and_multiply();
          break;
        case 7:
          split_and_join();
          break;
        case 8:
          multiply_twice();
          break;
        default:
          pad();
          break;
      }
    }
    graph_.outputs = {last_};
    if (graph_.nodes.size() > 2) graph_.outputs.push_back(graph_.nodes[0].outputs[0]);
    return std::move(graph_);
  }

  // Rows of small nodes that do not read from each other, a larger product in front of each; they meet twice.
  Graph grow_branches(int branches, int steps) {
    graph_.tensors.clear();
    const Shape dims = {1, pick(2, 8), pick(2, 6), pick(2, 12)};
    last_ = add(graph_.vector_format, dims);
    graph_.inputs = {last_};
    for (int turn = 0; turn < 2; ++turn) {
      const TensorId source = last_;
      std::vector<TensorId> ends;
      for (int branch = 0; branch < branches; ++branch) {
        last_ = source;
        multiply_by_much();
        for (int step = 0; step < steps; ++step) small_step();
        ends.push_back(last_);
      }
      graph::ElementwiseAttributes sum;
      sum.binary = true;
      last_ = ends[0];
      for (int branch = 1; branch < branches; ++branch) {
        node({last_, ends[static_cast<std::size_t>(branch)]}, dims, sum);
      }
    }
    graph_.outputs = {last_, graph_.nodes[5].outputs[0]};
    return std::move(graph_);
  }

  Tensor random_tensor(Format format, const Shape& dims) {
    Tensor tensor = Tensor::zeros(format, dims);
    std::normal_distribution<double> normal;
    for (std::int64_t i = 0; i < element_count(dims); ++i) {
      arith::write_element(format, normal(random_) * std::exp2(normal(random_)),
                           tensor.bytes.data() + i * format_bytes(format));
    }
    return tensor;
  }

 private:
  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  const Shape& dims() const { return graph_.tensor(last_).dims; }

  TensorId add(Format format, const Shape& dims) {
    graph_.tensors.push_back({"t" + std::to_string(graph_.tensors.size()), format, dims, nullptr});
    return {static_cast<std::int32_t>(graph_.tensors.size()) - 1};
  }
  TensorId constant(const Shape& dims) {
    const TensorId id = add(graph_.vector_format, dims);
    graph_.tensor(id).constant =
        std::make_shared<const Tensor>(random_tensor(graph_.vector_format, dims));
    return id;
  }
  void node(std::vector<TensorId> inputs, const Shape& dims, graph::NodeAttributes attributes) {
    last_ = add(graph_.vector_format, dims);
    graph_.nodes.push_back({"n" + std::to_string(graph_.nodes.size()),
                            {},
                            std::move(inputs),
                            {last_},
                            std::move(attributes)});
  }

  void conv() {
    const Shape x = dims();
    graph::ConvAttributes conv;
    conv.channel_wise = pick(0, 2) == 0;
    const std::int64_t kernel = pick(1, 3);
    conv.stride_h = conv.stride_w = pick(1, 2);
    conv.pad_top = conv.pad_left = conv.pad_bottom = conv.pad_right = kernel / 2 + pick(0, 1);
    conv.groups = conv.channel_wise ? x[1] : 1;
    conv.cut = pick(0, 1) == 0 ? BlockCut::kChannel : BlockCut::kIm2col;
    conv.matrix.native_dimension = 16 << pick(0, 3);
    if (pick(0, 3) == 0) conv.matrix.kind = MatrixKind::kFloat;
    if (pick(0, 1) == 0) conv.post.activation.function = UnaryFunction::kRelu;
    const std::int64_t outputs = conv.channel_wise ? x[1] : pick(1, 100);
    const auto extent = [&](std::int64_t size) {
      return (size + 2 * conv.pad_top - kernel) / conv.stride_h + 1;
    };
    if (x[2] + 2 * conv.pad_top < kernel || x[3] + 2 * conv.pad_top < kernel) return;
    std::vector<TensorId> inputs = {last_, constant({outputs, x[1] / conv.groups, kernel, kernel})};
    if (pick(0, 1) == 0) inputs.push_back(constant({outputs}));
    node(inputs, {x[0], outputs, extent(x[2]), extent(x[3])}, conv);
  }

  void pool() {
    const Shape x = dims();
    if (x[2] < 2 || x[3] < 2) return;
    graph::PoolAttributes pool;
    pool.function = pick(0, 1) == 0 ? PoolFunction::kMaximum : PoolFunction::kAverage;
    pool.window_h = pool.window_w = 2;
    pool.stride_h = pool.stride_w = pick(1, 2);
    node({last_}, {x[0], x[1], (x[2] - 2) / pool.stride_h + 1, (x[3] - 2) / pool.stride_w + 1},
         pool);
  }

  void binary() {
    const Shape x = dims();
    graph::ElementwiseAttributes work;
    work.binary = true;
    work.function = pick(0, 1) == 0 ? BinaryFunction::kAdd : BinaryFunction::kMultiply;
    if (pick(0, 1) == 0) work.activation = {UnaryFunction::kHardSwish, 1.0f / 6, 0.5f};
    const Shape others[] = {{}, {x[1], 1, 1}, {1, x[1], 1, 1}, {x[3]},
                            x,  {x[2], 1},    {x[1], 1, x[3]}};
    node({last_, constant(others[pick(0, 6)])}, x, work);
  }

  void reduce_and_scale() {
    const Shape x = dims();
    graph::ReduceAttributes reduce;
    reduce.function = pick(0, 1) == 0 ? ReduceFunction::kMean : ReduceFunction::kMaximum;
    reduce.axes = pick(0, 1) == 0 ? std::vector<std::int64_t>{2, 3} : std::vector<std::int64_t>{1};
    Shape kept = x;
    for (const std::int64_t axis : reduce.axes) kept[static_cast<std::size_t>(axis)] = 1;
    const TensorId source = last_;
    node({source}, kept, reduce);
    graph::ElementwiseAttributes scale;
    scale.binary = true;
    scale.function = BinaryFunction::kMultiply;
    node({source, last_}, x, scale);
  }

  void transpose() {
    const Shape x = dims();
    graph::CopyBox box;
    box.extents = {x[0], x[3], x[1], x[2]};
    box.input_strides = {x[1] * x[2] * x[3], 1, x[2] * x[3], x[3]};
    box.output_strides = {x[3] * x[1] * x[2], x[1] * x[2], x[2], 1};
    graph::MoveAttributes move;
    move.copies = {box};
    node({last_}, {x[0], x[3], x[1], x[2]}, move);
  }

  void reshape_and_multiply() {
    const Shape x = dims();
    reshape({x[0], x[1] * x[2], x[3]});
    const std::int64_t outputs = pick(1, 60);
    graph::MatMulAttributes product;
    product.matrix.native_dimension = 16 << pick(0, 3);
    node({last_, constant({x[3], outputs})}, {x[0], x[1] * x[2], outputs}, product);
    reshape({x[0], x[1], x[2], outputs});
  }

  // Elements [first, first + count) of `source`, one behind the other.
  TensorId part(TensorId source, std::int64_t first, std::int64_t count) {
    graph::MoveAttributes move;
    move.copies = {
        {.input_offset = first, .extents = {count}, .input_strides = {1}, .output_strides = {1}}};
    node({source}, {count}, move);
    return last_;
  }

  // Two parts change places, and one of them its values; a part of the whole is read again later.
  void split_and_join() {
    const Shape x = dims();
    const std::int64_t all = element_count(x), few = all / 3;
    if (few == 0) return;
    const TensorId source = last_;
    const TensorId front = part(source, 0, few), back = part(source, few, all - few);
    graph::ElementwiseAttributes work;
    work.activation.function = UnaryFunction::kAbs;
    node({front}, {few}, work);
    const TensorId changed = last_;
    graph::MoveAttributes join;
    join.copies = {{.extents = {all - few}, .input_strides = {1}, .output_strides = {1}},
                   {.input = 1,
                    .output_offset = all - few,
                    .extents = {few},
                    .input_strides = {1},
                    .output_strides = {1}}};
    // The same part twice, and one that other nodes have changed.
    node({pick(0, 1) == 0 ? back : part(source, 0, all - few), changed}, {all}, join);
    const TensorId joined = last_;
    graph::ElementwiseAttributes sum;
    sum.binary = true;
    node({part(joined, all - few, few), front}, {few}, sum);
    const TensorId later = last_;
    node({joined, part(later, 0, 1)}, {all}, sum);
    reshape(x);
  }

  // By the same operand, as the steps of a recurrent network are.
  void multiply_twice() {
    const Shape x = dims();
    graph::MatMulAttributes product;
    product.matrix.native_dimension = 16 << pick(0, 3);
    const TensorId square = constant({x[3], x[3]});
    reshape({x[0], x[1] * x[2], x[3]});
    node({last_, square}, {x[0], x[1] * x[2], x[3]}, product);
    node({last_, square}, {x[0], x[1] * x[2], x[3]}, product);
    if (pick(0, 1) == 0) product.post.activation.function = UnaryFunction::kRelu;
    node({last_, square}, {x[0], x[1] * x[2], x[3]}, product);
    reshape(x);
  }

  // Of the same dimensions.
  void small_step() {
    switch (pick(0, 3)) {
      case 0:
        return binary();
      case 1:
        return reduce_and_scale();
      case 2:
        return split_and_join();
      default:
        return multiply_twice();
    }
  }

  // More than one thread's work, and back.
  void multiply_by_much() {
    const Shape x = dims();
    const std::int64_t rows = x[1] * x[2], many = 500'000 / rows / x[3] + 1;
    graph::MatMulAttributes product;
    reshape({x[0], rows, x[3]});
    node({last_, constant({x[3], many})}, {x[0], rows, many}, product);
    node({last_, constant({many, x[3]})}, {x[0], rows, x[3]}, product);
    reshape(x);
  }

  void reshape(const Shape& to) {
    graph::CopyBox box;
    box.extents = {element_count(to)};
    box.input_strides = box.output_strides = {1};
    graph::MoveAttributes move;
    move.copies = {box};
    node({last_}, to, move);
  }

  void pad() {
    const Shape x = dims();
    graph::MoveAttributes move;
    move.has_fill = true;
    move.fill = 0;
    graph::CopyBox box;
    box.extents = x;
    box.input_strides = {x[1] * x[2] * x[3], x[2] * x[3], x[3], 1};
    const std::int64_t columns = x[3] + 2;
    box.output_strides = {x[1] * x[2] * columns, x[2] * columns, columns, 1};
    box.output_offset = 1;
    move.copies = {box};
    node({last_}, {x[0], x[1], x[2], columns}, move);
  }

  std::mt19937 random_;
  Graph graph_;
  TensorId last_;
};

using Trace = std::map<std::int32_t, Tensor>;

Trace trace_of(Executor& executor, const Tensor& input, std::vector<Tensor>& outputs) {
  Trace trace;
  auto result = executor.run({&input, 1}, [&](const graph::Node&, TensorId id,
                                              const Tensor& value) { trace[id.value] = value; });
  EXPECT_TRUE(result.ok());
  if (result.ok()) outputs = *result;
  return trace;
}

TEST(HostExecutor, EveryNodeEqualsTheReferenceForEveryNumberOfThreads) {
  for (unsigned round = 0; round < 60 && !HasFailure(); ++round) {
    SCOPED_TRACE("seed " + std::to_string(kSeed + round));
    Grower grower(kSeed + round);
    const auto graph = std::make_shared<const Graph>(grower.grow(6));
    const graph::TensorInfo& info = graph->tensor(graph->inputs[0]);
    const Tensor input = grower.random_tensor(info.format, info.dims);
    auto reference = make_reference_executor(graph);
    ASSERT_TRUE(reference.ok());
    std::vector<Tensor> expected;
    const Trace trace = trace_of(**reference, input, expected);
    for (const int threads : {1, 2, 5}) {
      auto host = make_host_executor(graph, {.threads = threads});
      ASSERT_TRUE(host.ok()) << host.error().to_string();
      for (int again = 0; again < 2; ++again) {
        std::vector<Tensor> actual;
        const Trace other = trace_of(**host, input, actual);
        const auto unseen = (*host)->run({&input, 1});
        ASSERT_TRUE(unseen.ok()) << unseen.error().to_string();
        EXPECT_EQ(*unseen, expected) << threads << " threads, nobody looks";
        for (const auto& [id, value] : trace) {
          EXPECT_TRUE(other.at(id) == value) << threads << " threads, tensor " << id;
        }
        EXPECT_EQ(actual.size(), expected.size());
        EXPECT_TRUE(actual == expected) << threads << " threads";
        // Unobserved, element-wise nodes run together.
        const auto alone = (*host)->run({&input, 1});
        ASSERT_TRUE(alone.ok());
        EXPECT_TRUE(*alone == expected) << threads << " threads, unobserved";
      }
    }
  }
}

TEST(HostExecutor, BranchesOfSmallNodesEqualTheReferenceForEveryNumberOfThreads) {
  for (unsigned round = 0; round < 4 && !HasFailure(); ++round) {
    SCOPED_TRACE("seed " + std::to_string(kSeed + round));
    Grower grower(kSeed + round);
    const auto graph =
        std::make_shared<const Graph>(grower.grow_branches(2 + static_cast<int>(round % 3), 16));
    EXPECT_EQ(order_nodes(*graph, 2).stretches.size(), 2);
    const graph::TensorInfo& info = graph->tensor(graph->inputs[0]);
    const Tensor input = grower.random_tensor(info.format, info.dims);
    auto reference = make_reference_executor(graph);
    ASSERT_TRUE(reference.ok());
    std::vector<Tensor> expected;
    const Trace trace = trace_of(**reference, input, expected);
    for (const int threads : {1, 2, 5}) {
      SCOPED_TRACE(std::to_string(threads) + " threads");
      auto host = make_host_executor(graph, {.threads = threads});
      ASSERT_TRUE(host.ok()) << host.error().to_string();
      std::vector<Tensor> observed;
      for (const auto& [id, value] : trace_of(**host, input, observed)) {
        EXPECT_TRUE(trace.at(id) == value) << "tensor " << id;
      }
      for (int again = 0; again < 5; ++again) {
        const auto alone = (*host)->run({&input, 1});
        ASSERT_TRUE(alone.ok());
        EXPECT_TRUE(*alone == expected);
      }
    }
  }
}

TEST(RunOrder, KeepsTheGraphsOrderWithOneThreadAndWithShortBranches) {
  const auto is_kept = [](const Graph& graph, int threads) {
    const RunOrder order = order_nodes(graph, threads);
    return order.stretches.empty() && order.nodes.size() == graph.nodes.size() &&
           std::is_sorted(order.nodes.begin(), order.nodes.end());
  };
  EXPECT_TRUE(is_kept(Grower(kSeed).grow_branches(2, 20), 1));
  EXPECT_TRUE(is_kept(Grower(kSeed).grow_branches(2, 1), 2));
}

TEST(RunOrder, EveryNodeComesBehindThoseThatItReadsFrom) {
  for (unsigned round = 0; round < 4; ++round) {
    const Graph graph = Grower(kSeed + round).grow_branches(3, 20);
    const RunOrder order = order_nodes(graph, 2);
    std::map<TensorId, std::size_t> made;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) made[graph.nodes[i].outputs[0]] = i;
    std::set<std::size_t> done;
    for (const std::size_t index : order.nodes) {
      for (const TensorId id : graph.nodes[index].inputs) {
        const auto maker = made.find(id);
        EXPECT_TRUE(maker == made.end() || done.contains(maker->second)) << "node " << index;
      }
      EXPECT_TRUE(done.insert(index).second);
    }
    EXPECT_EQ(done.size(), graph.nodes.size());
  }
}

// Memory at its exact size, so that the sanitizer sees every byte too much.
TEST(HostExecutor, InputsAndOutputsAreUsedInPlaceWhereTheyCanBe) {
  for (unsigned round = 0; round < 60 && !HasFailure(); ++round) {
    SCOPED_TRACE("seed " + std::to_string(kSeed + round));
    Grower grower(kSeed + round);
    const auto graph = std::make_shared<const Graph>(grower.grow(5));
    const graph::TensorInfo& info = graph->tensor(graph->inputs[0]);
    Tensor input = grower.random_tensor(info.format, info.dims);
    const Tensor before = input;
    const auto host = make_host_executor(graph, {.threads = 2}).value();
    const std::vector<Tensor> expected = *host->run({&input, 1});
    std::vector<std::vector<std::byte>> memory;
    for (const Tensor& output : expected) memory.emplace_back(output.bytes.size());
    std::vector<std::span<std::byte>> outputs(memory.begin(), memory.end());
    const std::vector<std::span<std::byte>> inputs = {input.bytes};
    ASSERT_TRUE(host->run_on(inputs, outputs).ok());
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(memory[i], expected[i].bytes);
    EXPECT_TRUE(input == before);
    // A first node that moves may be a reshape: then the second output lies in the input.
    if (graph->nodes[0].kind() != graph::NodeKind::kMove) {
      EXPECT_EQ(host->bytes_copied(), 0);
    }
  }
}

// An output that lies on the input is written when everything has been read.
TEST(HostExecutor, OutputThatOverlapsAnInputIsCopiedAtTheEnd) {
  Grower grower(kSeed);
  Graph graph;
  graph.vector_format = Format::kF32;
  for (int i = 0; i < 3; ++i) {
    graph.tensors.emplace_back();
    graph.tensors.back().format = Format::kF32;
    graph.tensors.back().dims = {1, 8, 4, 5};
  }
  const auto copy = [](std::int32_t from, std::int32_t to) {
    graph::Node node;
    node.name = "copy to " + std::to_string(to);
    node.inputs = {TensorId{from}};
    node.outputs = {TensorId{to}};
    node.attributes = graph::ElementwiseAttributes{};
    return node;
  };
  graph.nodes = {copy(0, 1), copy(0, 2)};
  graph.inputs = {TensorId{0}};
  graph.outputs = {TensorId{1}, TensorId{2}};
  const auto shared = std::make_shared<const Graph>(std::move(graph));
  const Tensor input = grower.random_tensor(Format::kF32, {1, 8, 4, 5});
  const auto host = make_host_executor(shared, {.threads = 1}).value();
  std::vector<std::byte> memory = input.bytes, other(input.bytes.size());
  const std::vector<std::span<std::byte>> inputs = {memory}, outputs = {memory, other};
  ASSERT_TRUE(host->run_on(inputs, outputs).ok());
  EXPECT_EQ(memory, input.bytes);
  EXPECT_EQ(other, input.bytes);
  EXPECT_EQ(host->bytes_copied(), std::ssize(memory));
}

}  // namespace
}  // namespace tessera::host
