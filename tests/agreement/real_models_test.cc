// The OCR models on every device: same bits for every device, tile budget and buffer size, same
// cycles for every run. Small input shapes; the full ones run in the OCR tests and in bench/.
#include <gtest/gtest.h>

#include "arch/architecture_file.h"
#include "network/network.h"
#include "ocr_models.h"
#include "runtime/compare.h"
#include "tools/files/tensor_file.h"

namespace tessera {
namespace {

struct ModelUnderTest {
  const char* name;
  const char* file;
  Shape shape;
};

const ModelUnderTest kModels[] = {
    {"detection", "ch_PP-OCRv4_det_infer.onnx", {1, 3, 96, 64}},
    {"recognition", "ch_PP-OCRv4_rec_infer.onnx", {1, 3, 48, 64}},
    {"direction", "ch_ppocr_mobile_v2.0_cls_infer.onnx", {1, 3, 48, 192}},
};

class RealModels : public testing::TestWithParam<int> {
 protected:
  static void SetUpTestSuite() { folder_ = ocr_models_folder(); }
  void SetUp() override {
    if (folder_.empty()) GTEST_SKIP() << "the OCR models could not be fetched";
  }
  const ModelUnderTest& model() const { return kModels[GetParam()]; }

  LoadOptions load_options() const {
    LoadOptions options;
    options.shapes["x"] = model().shape;
    return options;
  }
  Network load(const LoadOptions& options) const {
    auto network = Network::load(folder_ + "/" + model().file, options);
    EXPECT_TRUE(network.ok()) << network.error().to_string();
    return std::move(network).value();
  }
  std::vector<Tensor> inputs(const Network& network) const {
    return {tools::random_tensor(network.inputs()[0], 7, 0)};
  }
  RunResult run(const Network& network, const SessionOptions& options) const {
    auto session = Session::open(network, options);
    EXPECT_TRUE(session.ok()) << session.error().to_string();
    auto result = session->run(inputs(network));
    EXPECT_TRUE(result.ok()) << result.error().to_string();
    return std::move(result).value();
  }

  static std::string folder_;
};
std::string RealModels::folder_;

TEST_P(RealModels, SimHostAndRefGiveTheSameBits) {
  const Network network = load(load_options());
  const RunResult ref = run(network, {.device = DeviceKind::kRef});
  EXPECT_EQ(run(network, {.device = DeviceKind::kHost}).outputs, ref.outputs);
  EXPECT_EQ(run(network, {.device = DeviceKind::kHost, .threads = 1}).outputs, ref.outputs);
  EXPECT_EQ(run(network, {.device = DeviceKind::kSim, .check_hazards = true}).outputs, ref.outputs);
}

TEST_P(RealModels, NothingRunsOnTheHost) {
  const Network network = load(load_options());
  EXPECT_EQ(network.placement().nodes_on_host, 0);
  EXPECT_GT(network.placement().nodes_on_processor, 10);
}

TEST_P(RealModels, TwentyRunsTakeTheSameCyclesWithAndWithoutValues) {
  const Network network = load(load_options());
  const std::int64_t cycles = run(network, {}).cycles;
  EXPECT_GT(cycles, 0);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(run(network, {.timing_only = true}).cycles, cycles);
  }
}

TEST_P(RealModels, TileBudgetsDoNotChangeTheBits) {
  LoadOptions options = load_options();
  const std::vector<Tensor> expected = run(load(options), {.device = DeviceKind::kHost}).outputs;
  for (const std::int64_t budget : {32'768, 49'152, 65'536}) {
    options.tile_budget_bytes = budget;
    EXPECT_EQ(run(load(options), {}).outputs, expected) << budget;
  }
  options.tile_budget_bytes = 0;
  options.resident = false;
  EXPECT_EQ(run(load(options), {}).outputs, expected) << "everything through DRAM";
}

TEST_P(RealModels, StateBufferSizesDoNotChangeTheBits) {
  auto chip = load_chip_config("tessera128");
  ASSERT_TRUE(chip.ok());
  const std::string path = folder_ + "/" + model().file;
  auto graph = network::load_graph(path, *chip, load_options());
  ASSERT_TRUE(graph.ok()) << graph.error().to_string();
  std::vector<Tensor> expected;
  for (const std::int32_t bytes : {32'768, 65'536, 196'608}) {
    chip->state_buffer.bytes_per_partition = bytes;
    auto network = network::network_from_graph(*graph, *chip, {});
    ASSERT_TRUE(network.ok()) << bytes << ": " << network.error().to_string();
    const auto outputs = run(*network, {}).outputs;
    if (expected.empty()) expected = outputs;
    EXPECT_EQ(outputs, expected) << bytes;
  }
}

TEST_P(RealModels, AsynchronousEnginesBeatOneTaskAtATime) {
  const Network network = load(load_options());
  const RunResult asynchronous = run(network, {.timing_only = true});
  const RunResult serial = run(network, {.timing_only = true, .serial = true});
  EXPECT_LT(asynchronous.cycles, serial.cycles);
}

TEST_P(RealModels, EveryEnginesCyclesAddUp) {
  const RunResult result = run(load(load_options()), {.timing_only = true});
  for (const EngineUse& engine : result.engines) {
    EXPECT_EQ(engine.busy + engine.blocked_dependency + engine.blocked_memory +
                  engine.blocked_ports + engine.idle,
              result.cycles)
        << engine.name;
  }
}

TEST_P(RealModels, APlantedFaultIsFoundInItsLayer) {
  auto chip = load_chip_config("tessera128");
  ASSERT_TRUE(chip.ok());
  auto graph = network::load_graph(folder_ + "/" + model().file, *chip, load_options());
  ASSERT_TRUE(graph.ok()) << graph.error().to_string();
  std::vector<std::string> products;
  for (const graph::Node& node : (*graph)->nodes) {
    if (node.kind() == graph::NodeKind::kConv) products.push_back(node.name);
  }
  ASSERT_GT(products.size(), 4u);
  runtime::CompareOptions options;
  options.a.device = DeviceKind::kSim;
  options.b.device = DeviceKind::kHost;
  const graph::TensorInfo& input = (*graph)->tensor((*graph)->inputs[0]);
  const std::vector<Tensor> values = {
      tools::random_tensor({input.name, input.format, input.dims}, 7, 0)};
  const auto clean = runtime::compare(*graph, *chip, values, options);
  ASSERT_TRUE(clean.ok()) << clean.error().to_string();
  EXPECT_EQ(clean->mismatches, 0);
  options.fault_node = products[products.size() / 2];
  const auto found = runtime::compare(*graph, *chip, values, options);
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  ASSERT_TRUE(found->first_layer.has_value());
  EXPECT_EQ(found->layers[*found->first_layer].layer, options.fault_node);
  EXPECT_GE(found->layers[*found->first_layer].first_index, 0);
}

INSTANTIATE_TEST_SUITE_P(Ocr, RealModels, testing::Range(0, 3),
                         [](const auto& info) { return std::string(kModels[info.param].name); });

}  // namespace
}  // namespace tessera
