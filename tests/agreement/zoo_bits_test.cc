// Networks of the zoo in 8 bits: what is computed is near the float network, all devices give equal bits, and no layer
// reads or gives more than a byte an element.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "arch/architecture_file.h"
#include "base/test_volume.h"
#include "host/executor.h"
#include "network/network.h"
#include "tessera/session.h"
#include "tools/workloads/zoo_graph.h"
#include "zoo/weights.h"
#include "zoo/zoo.h"

namespace tessera::agreement {
namespace {

namespace fs = std::filesystem;
using GraphPointer = std::shared_ptr<const graph::Graph>;

GraphPointer zoo_graph(const std::string& name, int bits) {
  LoadOptions options;
  options.require_full_offload = true;
  const auto graph = tools::zoo_graph(name, *load_chip_config("cloud16"), options, bits);
  EXPECT_TRUE(graph.ok()) << graph.error().to_string();
  return graph.ok() ? *graph : nullptr;
}

Tensor normal(const Shape& dims, std::uint64_t seed) {
  Tensor tensor = Tensor::zeros(Format::kF32, dims);
  std::string bytes;
  zoo::fill_weights({.seed = seed, .stream = 1}, element_count(dims), bytes);
  std::memcpy(tensor.bytes.data(), bytes.data(), bytes.size());
  return tensor;
}

// What the doc string of an input of the network says: here that of values in [-3.46, 3.46], which a generated number
// never leaves.
Tensor in_8_bits(const Tensor& reals) {
  float lowest = 0, highest = 0;
  for (const float value : reals.as<float>()) {
    lowest = std::min(lowest, value);
    highest = std::max(highest, value);
  }
  const float scale = (highest - lowest) / 255;
  Tensor tensor = Tensor::zeros(Format::kU8, reals.dims);
  const auto integers = tensor.as<std::uint8_t>();
  for (std::size_t i = 0; i < integers.size(); ++i) {
    integers[i] = static_cast<std::uint8_t>(
        std::clamp(std::nearbyint((reals.as<float>()[i] - lowest) / scale), 0.0F, 255.0F));
  }
  return tensor;
}

std::vector<Tensor> run_host(const GraphPointer& graph, const Tensor& input) {
  const auto executor = host::make_host_executor(graph);
  EXPECT_TRUE(executor.ok());
  const auto outputs = (*executor)->run(std::vector<Tensor>{input});
  EXPECT_TRUE(outputs.ok()) << outputs.error().to_string();
  return *outputs;
}

double correlation(const Tensor& integers, const Tensor& reals) {
  const auto a = integers.as<std::uint8_t>();
  const auto b = reals.as<float>();
  const auto count = static_cast<double>(a.size());
  double mean_a = 0, mean_b = 0, ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    mean_a += a[i] / count;
    mean_b += b[i] / count;
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return ab / std::sqrt(aa * bb);
}

TEST(ZooBits, EightBitsAreNearTheFloatNetwork) {
  for (const char* const name : {"mobilenet_v1", "resnet18", "yolov3_tiny"}) {
    const GraphPointer floats = zoo_graph(name, 16), integers = zoo_graph(name, 8);
    const Tensor input = normal(floats->tensor(floats->inputs[0]).dims, 5);
    const std::vector<Tensor> expected = run_host(floats, input);
    const std::vector<Tensor> found = run_host(integers, in_8_bits(input));
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].format, Format::kU8);
      EXPECT_GT(correlation(found[i], expected[i]), 0.98) << name << " output " << i;
    }
  }
}

TEST(ZooBits, AllDevicesGiveTheSameBits) {
  const GraphPointer graph = zoo_graph("mobilenet_v1", 8);
  const Tensor input = in_8_bits(normal(graph->tensor(graph->inputs[0]).dims, 6));
  const std::vector<Tensor> host = run_host(graph, input);
  const auto reference = host::make_reference_executor(graph);
  ASSERT_TRUE(reference.ok());
  const auto plain = (*reference)->run(std::vector<Tensor>{input});
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ((*plain)[0].bytes, host[0].bytes);
  const ChipConfig chip = *load_chip_config("cloud16");
  const auto network = network::network_from_graph(graph, chip, {});
  ASSERT_TRUE(network.ok()) << network.error().to_string();
  for (const int cores : {1, 4}) {
    auto session = Session::open(*network, {.device = DeviceKind::kSim, .cores = cores});
    ASSERT_TRUE(session.ok()) << session.error().to_string();
    const auto run = session->run(std::vector<Tensor>{input});
    ASSERT_TRUE(run.ok()) << run.error().to_string();
    EXPECT_EQ(run->outputs[0].bytes, host[0].bytes) << cores << " cores";
  }
}

// Of other scales for each group of values, so that what is only moved shows a step if it changes them.
zoo::ValueRanges invented_ranges(const zoo::ZooNetwork& network) {
  zoo::ValueRanges ranges;
  float highest = 1;
  for (const std::vector<std::string>& group : zoo::rounded_values(network)) {
    for (const std::string& value : group) ranges[value] = {-0.5F, highest};
    highest *= 1.01F;
  }
  return ranges;
}

// A softmax in the end is of one number a class.
constexpr std::int64_t kClassesMax = 1000;

void expect_bytes(const graph::Graph& graph) {
  for (const graph::Node& node : graph.nodes) {
    EXPECT_NE(node.kind(), graph::NodeKind::kHostStep) << node.name;
    for (const graph::TensorId id : node.outputs) {
      const graph::TensorInfo& tensor = graph.tensor(id);
      if (element_count(tensor.dims) <= kClassesMax) continue;
      EXPECT_EQ(format_bytes(tensor.format), 1) << tensor.name;
    }
    const bool product =
        node.kind() == graph::NodeKind::kConv || node.kind() == graph::NodeKind::kMatMul;
    if (product) {
      EXPECT_EQ(graph.tensor(node.inputs[1]).format, Format::kI8) << node.name;
    }
  }
  for (const graph::TensorId id : graph.inputs) EXPECT_EQ(graph.tensor(id).format, Format::kU8);
  for (const graph::TensorId id : graph.outputs) EXPECT_EQ(graph.tensor(id).format, Format::kU8);
}

TEST(ZooBits, EveryLayerOfAConvolutionalNetworkReadsAndGivesBytes) {
  const ChipConfig chip = *load_chip_config("cloud16");
  const fs::path path = fs::path(::testing::TempDir()) / "zoo_bits_test.onnx";
  int number = 0;
  for (const char* const name : {"mobilenet_v1", "vgg16", "resnet18", "yolov3", "resnet50",
                                 "ssd_vgg", "inception_v3", "yolov3_tiny", "ssd_mobilenet"}) {
    if (number++ % visit_one_in(2, 2) != 0) continue;
    SCOPED_TRACE(name);
    const zoo::ZooNetwork network = *zoo::find_network(name);
    const auto summary =
        zoo::write_network_in_8_bits(network, 0, invented_ranges(network), path.string());
    ASSERT_TRUE(summary.ok());
    EXPECT_EQ(summary->macs, zoo::summarise(network).macs);
    EXPECT_EQ(summary->parameters, zoo::summarise(network).parameters);
    const auto graph = network::load_graph(path.string(), chip, {});
    ASSERT_TRUE(graph.ok()) << graph.error().to_string();
    expect_bytes(**graph);
  }
  fs::remove(path);
}

}  // namespace
}  // namespace tessera::agreement
