// Host and reference give equal bits on every layer that the stored models have: layer_shapes.txt,
// a line per distinct layer, written by write_layer_shapes.
#include "layer_shapes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "host/executor.h"

namespace tessera {
namespace {

constexpr std::int64_t kWorkMax = 30'000;  // of a layer: the reference does not hurry
constexpr std::size_t kLayersMin = 300;

std::vector<std::string> stored_lines() {
  std::ifstream file(TESSERA_LAYER_SHAPES);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') lines.push_back(line);
  }
  return lines;
}

// Empty where the devices agree.
std::string disagreement(const std::string& line, unsigned seed, std::int64_t& values) {
  auto made = layer_graph(line, kWorkMax, seed);
  if (!made.ok()) return made.error().to_string();
  const auto graph = std::make_shared<const graph::Graph>(std::move(*made));
  std::vector<Tensor> inputs;
  for (const graph::TensorId id : graph->inputs) {
    const graph::TensorInfo& tensor = graph->tensor(id);
    inputs.push_back(random_layer_tensor(tensor.format, tensor.dims, seed + 100));
  }
  auto host = host::make_host_executor(graph, {.threads = 2});
  auto ref = host::make_reference_executor(graph);
  if (!host.ok()) return host.error().to_string();
  if (!ref.ok()) return ref.error().to_string();
  auto fast = (*host)->run(inputs);
  auto plain = (*ref)->run(inputs);
  if (!fast.ok() || !plain.ok()) return "a run failed";
  values += element_count((*plain)[0].dims);
  return *fast == *plain ? "" : "the bits differ";
}

TEST(LayerShapes, HostEqualsTheReferenceOnEveryLayerOfTheStoredModels) {
  const std::vector<std::string> lines = stored_lines();
  ASSERT_GE(lines.size(), kLayersMin);
  std::int64_t values = 0;
  unsigned seed = 1;
  for (const std::string& line : lines) {
    const std::string what = disagreement(line, seed += 1000, values);
    EXPECT_EQ(what, "") << line;
  }
  fmt::print("{} layers, {} values compared\n", lines.size(), values);
}

TEST(LayerShapes, BrokenLinesAreRefused) {
  EXPECT_FALSE(layer_graph("conv 1 2 3", kWorkMax, 1).ok());
  EXPECT_FALSE(layer_graph("move", kWorkMax, 1).ok());
}

}  // namespace
}  // namespace tessera
