// Derived software, run by the project's own evaluator, against the reference device: equal bits
// after every layer.
#include "concord/expand.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "arith/rounding.h"
#include "concord/interpret.h"
#include "concord/testing/random_graph.h"
#include "graph/build.h"
#include "host/executor.h"

namespace tessera::concord {
namespace {

using graph::Graph;
using graph::TensorId;
using testing::random_graph;
using testing::random_inputs;
using testing::Values;

constexpr std::uint32_t kSeed = 20261122;

// Same bits, or both NaN (an intermediate NaN may have any sign; outputs are compared as bytes).
bool same_number(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || arith::bits_of_f64(a) == arith::bits_of_f64(b);
}

double element(const Tensor& tensor, std::int64_t i) {
  return arith::read_element(tensor.format, tensor.bytes.data() + i * format_bytes(tensor.format));
}

// "" or where the layer's value differs first.
std::string first_difference(const Layer& layer, const Tensor& expected, const Tensor& actual) {
  for (std::int64_t i = 0; i < element_count(expected.dims); ++i) {
    const double a = element(expected, i), b = element(actual, i);
    if (same_number(a, b)) continue;
    return layer.kind + " '" + layer.name + "' element " + std::to_string(i) + ": reference " +
           std::to_string(a) + ", derived " + std::to_string(b);
  }
  return "";
}

struct Outcome {
  std::string difference;  // "" where all bits are equal
  std::int64_t values = 0;
};

Outcome compare(const std::shared_ptr<const Graph>& graph, const Software& software,
                const std::vector<Tensor>& inputs) {
  Outcome outcome;
  std::map<std::string, Tensor> expected;
  auto reference = host::make_reference_executor(graph);
  auto outputs =
      (*reference)->run(inputs, [&](const graph::Node&, TensorId id, const Tensor& value) {
        expected[graph->tensor(id).name] = value;
      });
  EXPECT_TRUE(outputs.ok()) << outputs.error().to_string();
  std::map<std::int32_t, const Layer*> layers;
  for (const Layer& layer : software.layers) {
    if (!layer.tensor.empty()) layers[layer.result.value] = &layer;
  }
  auto derived = interpret(software, inputs, [&](ValueId id, const Tensor& value) {
    const auto layer = layers.find(id.value);
    if (layer == layers.end() || !outcome.difference.empty()) return;
    const Tensor& wanted = expected[layer->second->tensor];
    outcome.values += element_count(wanted.dims);
    outcome.difference = first_difference(*layer->second, wanted, value);
  });
  EXPECT_TRUE(derived.ok()) << derived.error().to_string();
  if (!derived.ok() || !outputs.ok()) return outcome;
  if (outcome.difference.empty() && !(*derived == *outputs)) outcome.difference = "an output";
  return outcome;
}

TEST(Expand, RandomGraphsGiveTheBitsOfTheReferenceAfterEveryLayer) {
  std::int64_t values = 0;
  int refused = 0;
  for (std::uint32_t round = 0; round < 150; ++round) {
    SCOPED_TRACE("seed " + std::to_string(kSeed + round));
    const auto graph = std::make_shared<const Graph>(random_graph(kSeed + round, 5));
    const auto software = expand(*graph);
    if (!software.ok()) {
      ++refused;
      EXPECT_NE(software.error().to_string().find("cannot be derived exactly"), std::string::npos);
      continue;
    }
    for (const Values kind : {Values::kOrdinary, Values::kEdges}) {
      const Outcome outcome = compare(graph, *software, random_inputs(*graph, kind, round));
      EXPECT_EQ(outcome.difference, "") << graph::dump(*graph);
      values += outcome.values;
    }
  }
  RecordProperty("values_compared", std::to_string(values));
  RecordProperty("refused", refused);
  EXPECT_LT(refused, 40);
  EXPECT_GT(values, 100000);
}

// Rather than the bits of another format, none.
TEST(Expand, RefusesMatrixFormatsThatHaveNoDerivedForm) {
  MatrixFormat q34_40;
  q34_40.long_format = LongFormat::kQ34_40;
  MatrixFormat micro;
  micro.kind = MatrixKind::kMicroscaling;
  const auto answer = [](const MatrixFormat& matrix) -> std::string {
    Graph graph;
    graph.tensors = {{"x", Format::kF16, {2, 3}, nullptr},
                     {"w", Format::kF16, {3, 4}, nullptr},
                     {"y", Format::kF16, {2, 4}, nullptr}};
    graph::MatMulAttributes product;
    product.matrix = matrix;
    graph.nodes = {{"p", {}, {{0}, {1}}, {{2}}, product}};
    graph.inputs = {{0}, {1}};
    graph.outputs = {{2}};
    const auto software = expand(graph);
    return software.ok() ? "derived" : software.error().to_string();
  };
  EXPECT_EQ(answer({}), "derived");
  EXPECT_EQ(answer(q34_40), "derived");
  EXPECT_NE(answer(micro).find("Microscaling has no derived form; choose block floating point"),
            std::string::npos);
}

// One node over all f16 numbers.
Graph function_graph(const Activation& activation, Format format) {
  Graph graph;
  graph.tensors = {{"x", Format::kF16, {65536}, nullptr}, {"y", format, {65536}, nullptr}};
  graph::ElementwiseAttributes work;
  work.activation = activation;
  graph.nodes = {{"f", {}, {{0}}, {{1}}, work}};
  graph.inputs = {{0}};
  graph.outputs = {{1}};
  return graph;
}

TEST(Expand, EveryFunctionOfEveryF16GivesTheBitsOfTheReference) {
  Tensor all = Tensor::zeros(Format::kF16, {65536});
  for (int i = 0; i < 65536; ++i)
    all.as<std::uint16_t>()[static_cast<std::size_t>(i)] = static_cast<std::uint16_t>(i);
  for (int f = 0; f < kUnaryFunctionCount; ++f) {
    Activation activation = {static_cast<UnaryFunction>(f), 0.3f, 0.7f};
    SCOPED_TRACE(std::string(unary_function_name(activation.function)));
    const auto graph = std::make_shared<const Graph>(function_graph(activation, Format::kF16));
    const auto software = expand(*graph);
    ASSERT_TRUE(software.ok()) << software.error().to_string();
    EXPECT_EQ(compare(graph, *software, {all}).difference, "");
  }
}

TEST(Expand, AFaultInOneRoundingIsFoundInItsLayer) {
  int found = 0;
  for (std::uint32_t round = 0; round < 12; ++round) {
    const auto graph = std::make_shared<const Graph>(random_graph(kSeed + round, 4));
    for (const graph::Node& node : graph->nodes) {
      if (node.kind() != graph::NodeKind::kConv) continue;
      const auto software = expand(*graph, {.fault_node = node.name});
      if (!software.ok()) continue;
      const Outcome outcome =
          compare(graph, *software, random_inputs(*graph, Values::kOrdinary, round));
      if (outcome.difference.empty()) continue;  // all zeros, say
      EXPECT_EQ(outcome.difference.find("conv '" + node.name + "'"), 0U) << outcome.difference;
      ++found;
    }
  }
  EXPECT_GT(found, 2);
}

}  // namespace
}  // namespace tessera::concord
