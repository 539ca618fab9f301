// Weights that training may change: the bits of the same numbers as constants, whatever they become.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "arith/rounding.h"
#include "concord/expand/expand.h"
#include "concord/interpret.h"
#include "concord/testing/random_graph.h"
#include "concord/testing/trained_graph.h"
#include "graph/verify.h"
#include "host/executor.h"

namespace tessera::concord {
namespace {

using graph::Graph;
using testing::Values;

constexpr std::uint32_t kSeed = 20261128;

double element(const Tensor& tensor, std::int64_t i) {
  return arith::read_element(tensor.format, tensor.bytes.data() + i * format_bytes(tensor.format));
}

void set_element(Tensor& tensor, std::int64_t i, double value) {
  arith::write_element(tensor.format, value, tensor.bytes.data() + i * format_bytes(tensor.format));
}

// The constant of a scale or zero point for element `i` of a tensor [outputs, ...].
double of_output(const Software& software, ValueId id, std::int64_t i, const Shape& dims) {
  const Tensor& constant = *software.value(id).constant;
  const std::int64_t count = element_count(constant.dims);
  return element(constant, count == 1 ? 0 : i / (element_count(dims) / dims[0]));
}

// Other numbers in place of one parameter, and what they stand for in place of the graph's constant.
void change(Software& software, Value& value, Graph& graph, std::mt19937& random) {
  const std::size_t dot = value.name.rfind('.');
  const std::string layer = value.name.substr(0, dot), role = value.name.substr(dot + 1);
  for (const graph::Node& node : graph.nodes) {
    if (node.name != layer) continue;
    graph::TensorInfo& info = graph.tensor(node.inputs[role == "weight" ? 1 : 2]);
    const bool turned = node.kind() == graph::NodeKind::kMatMul && role == "weight";
    Tensor number = *value.constant, constant = *info.constant;
    for (std::int64_t i = 0; i < element_count(number.dims); ++i) {
      double x = (static_cast<double>(random()) * 0x1p-31 - 1) * (random() % 5 == 0 ? 2.5 : 0.8);
      if (random() % 9 == 0) x = -0.0;
      const std::int64_t to = turned ? i % number.dims[1] * number.dims[0] + i / number.dims[1] : i;
      if (value.elements == nullptr) {
        set_element(number, i, x);
        set_element(constant, to, element(number, i));
        continue;
      }
      const TrainedElements& elements = *value.elements;
      const double step = of_output(software, elements.step, i, number.dims);
      const double zero_point = of_output(software, elements.zero_point, i, number.dims);
      if (random() % 3 == 0) x = step * (static_cast<double>(random() % 300) - 150.5);  // ties
      set_element(number, i, x);
      const double whole = std::nearbyint(element(number, i) / step) + zero_point;
      set_element(constant, to, std::min(std::max(whole, elements.lowest), elements.highest));
    }
    value.constant = std::make_shared<const Tensor>(std::move(number));
    info.constant = std::make_shared<const Tensor>(std::move(constant));
  }
}

void expect_equal(const Graph& graph, const Software& software, Values kind, std::uint32_t seed) {
  const auto shared = std::make_shared<const Graph>(graph);
  const std::vector<Tensor> inputs = testing::random_inputs(graph, kind, seed);
  const auto expected = (*host::make_reference_executor(shared))->run(inputs);
  const auto actual = interpret(software, inputs);
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  ASSERT_TRUE(actual.ok()) << actual.error().to_string();
  EXPECT_TRUE(*expected == *actual);
}

void check(Graph graph) {
  ASSERT_TRUE(graph::verify(graph).ok()) << graph::verify(graph).error().to_string();
  auto software = expand(graph, {.fault_node = "", .trainable = true});
  ASSERT_TRUE(software.ok()) << software.error().to_string();
  std::mt19937 random(kSeed);
  for (std::uint32_t round = 0; round < 6; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    expect_equal(graph, *software, Values::kOrdinary, round);
    expect_equal(graph, *software, Values::kEdges, round);
    std::ptrdiff_t changed = 0;
    for (Value& value : software->values) {
      if (!value.trained) continue;
      change(*software, value, graph, random);
      ++changed;
    }
    const auto products = std::count_if(
        graph.nodes.begin(), graph.nodes.end(),
        [](const graph::Node& node) { return node.kind() != graph::NodeKind::kElementwise; });
    EXPECT_EQ(changed, 2 * products);
  }
}

TEST(Trained, ChannelWiseAndPlainWeightsGiveTheBitsOfConstantOnes) {
  check(testing::float_layers(Format::kF16, kSeed));
  check(testing::float_layers(Format::kF32, kSeed));
}

TEST(Trained, IntegerWeightsGiveTheBitsOfConstantOnes) { check(testing::integer_layers(kSeed)); }

TEST(Trained, IntegerSumsThatMayLeaveInt32AreRefused) {
  Graph graph = testing::integer_layers(kSeed);
  graph::TensorInfo& bias = graph.tensor(graph.nodes[0].inputs[2]);
  Tensor large = *bias.constant;
  large.as<std::int32_t>()[2] = 2147000000;
  bias.constant = std::make_shared<const Tensor>(std::move(large));
  const auto software = expand(graph, {.fault_node = "", .trainable = true});
  ASSERT_FALSE(software.ok());
  EXPECT_EQ(software.error().to_string(),
            "node 'conv' (conv) cannot be derived exactly: a sum may reach 2147622080, and int32 "
            "wraps around there (with any weights; --trainable allows them all)   [unsupported]");
}

}  // namespace
}  // namespace tessera::concord
