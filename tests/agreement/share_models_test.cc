// Stored models whose layers are shared out among cores: the bits are those of the program for one
// core. What cannot be cut is named. TESSERA_TEST_WHOLE takes every number of cores with every split, else
// each model has one or two of them, others than its neighbour.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "arch/architecture_file.h"
#include "base/test_volume.h"
#include "card_runs.h"
#include "compile/compile_shares.h"
#include "device/host_steps.h"
#include "link/one_list.h"
#include "network/network.h"
#include "random_runs.h"

namespace tessera::agreement {
namespace {

using compile::LayerShare;
using compile::SharedProgram;
using compile::ShareWay;
using compile::Split;

struct SharedModel {
  const char* file;
  const char* arch;
  std::vector<int> cores;
};

const SharedModel kModels[] = {
    {"mlperf_tiny_resnet8_fp32", "tessera128", {2, 3, 4, 7, 16, 64}},
    {"mlperf_tiny_resnet8_int8_qdq", "edge", {2, 3, 4, 7, 16, 64}},
    {"vit_cifar10_ibp_3_3_8", "tessera128", {2, 3, 4, 7, 16, 64}},
    {"yunet_n_320", "tessera128", {2, 3, 4, 7, 16, 64}},
    {"squeezenet_fp16", "tessera128", {2, 3, 4, 7, 16, 64}},
    {"mobilenet_v2_224_uint8_qdq", "tessera128", {2, 3, 4, 7, 16, 64}},
    {"mobilenet_v1_224_fp32", "edge", {3, 16}},
    {"resnet50_int8_qdq", "tessera128", {3, 16}},
    {"ssd_mobilenet_v1_coco_uint8_qdq", "tessera128", {3, 16}},
    {"selfie_segmentation", "edge", {3, 16}},
    {"silero_vad_16k_op15", "tessera128", {3, 16}},  // with a host step
    {"dtln_1", "tessera128", {3, 16}},
    {"yolox_nano", "edge", {3, 16}},
    {"yolov3_tiny_coco_lut8", "tessera128", {3, 16}},
    {"tcmonodepth_small", "tessera128", {3, 16}},
    {"swift_f0", "tessera128", {3, 16}},
    {"cifar10_resnet_4b", "brainwave", {3, 16}},
    {"ten_vad", "tessera128", {3, 16}},
};

class ShareModels : public testing::TestWithParam<SharedModel> {};

// The outputs of a program whose host steps the test takes.
Result<std::vector<Tensor>> run_with_host(const isa::Program& program, const ChipConfig& chip,
                                          const std::vector<Tensor>& inputs) {
  TESSERA_TRY(const auto core, card::Core::create(chip));
  TESSERA_RETURN_IF_ERROR(core->load(program));
  TESSERA_TRY(const device::OpenSteps steps, device::open_steps(program));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TESSERA_RETURN_IF_ERROR(core->write(program.inputs[i].address, inputs[i].bytes));
  }
  for (std::size_t s = 0; s < program.segments.size(); ++s) {
    TESSERA_RETURN_IF_ERROR(core->run_segment(s, {}));
    device::CoreDram dram(*core);
    for (const device::OpenStep& step : steps[s]) {
      TESSERA_RETURN_IF_ERROR(device::run_step(dram, step));
    }
  }
  std::vector<Tensor> outputs;
  for (const isa::TensorSlot& slot : program.outputs) {
    Tensor tensor = Tensor::zeros(slot.format, slot.dims);
    TESSERA_RETURN_IF_ERROR(core->read(slot.address, tensor.bytes));
    outputs.push_back(std::move(tensor));
  }
  return outputs;
}

// Layers of each way, the bytes of DRAM that all cores move, and the names of those not cut.
void print_layers(const SharedProgram& shared) {
  std::map<std::string, int> ways;
  std::int64_t read = 0, written = 0;
  for (const LayerShare& layer : shared.layers) {
    ++ways[compile::share_way_name(layer.way)];
    if (layer.way == ShareWay::kOneCore) {
      std::printf("  %s: %s\n", layer.name.c_str(), layer.reason.c_str());
    }
    read += layer.bytes_read;
    written += layer.bytes_written;
  }
  std::string text;
  for (const auto& [way, count] : ways) text += " " + way + " " + std::to_string(count);
  std::printf("%zu cores:%s; %lld bytes read, %lld written, %lld dependencies between cores\n",
              shared.card.cores.size(), text.c_str(), static_cast<long long>(read),
              static_cast<long long>(written), static_cast<long long>(shared.remote_dependencies));
}

void check_split(const std::shared_ptr<const graph::Graph>& graph, const ChipConfig& chip,
                 const compile::ShareChoice& choice, const std::vector<Tensor>& expected) {
  const auto shared = compile::compile_shares(graph, chip, {}, choice);
  ASSERT_TRUE(shared.ok()) << shared.error().to_string();
  for (const isa::Program& core : shared->card.cores) {
    EXPECT_EQ(core.segments.size(), shared->card.cores[0].segments.size());
  }
  print_layers(*shared);
  constexpr int kCoresProved = 7;
  if (choice.cores <= kCoresProved) {
    EXPECT_EQ(find_race(shared->card), "");
  }
  for (const LayerShare& layer : shared->layers) {
    EXPECT_EQ(layer.way == ShareWay::kOneCore, !layer.reason.empty()) << layer.name;
  }
  const auto list = link::in_one_list(shared->card, chip, link::ListOrder::kLastCore);
  ASSERT_TRUE(list.ok()) << list.error().to_string();
  const auto found = run_with_host(list->program, list->chip, random_inputs(*graph, 1));
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  EXPECT_TRUE(expected == *found);
}

TEST_P(ShareModels, GiveTheBitsOfOneCore) {
  const SharedModel& model = GetParam();
  const std::string path =
      std::string(TESSERA_TEST_DATA) + "/models/" + model.file + std::string(".onnx");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  const ChipConfig chip = *load_chip_config(model.arch);
  const auto graph = network::load_graph(path, chip, {.arch = model.arch});
  ASSERT_TRUE(graph.ok()) << graph.error().to_string();
  const auto one_core = build_program(*graph, chip, {});
  ASSERT_TRUE(one_core.ok()) << one_core.error().to_string();
  const auto expected = run_with_host(*one_core, chip, random_inputs(**graph, 1));
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  constexpr Split kSplits[] = {Split::kRows, Split::kChannels, Split::kGrid};
  const int combinations = static_cast<int>(model.cores.size() * std::size(kSplits));
  const auto one_in = visit_one_in(std::min(combinations, 9), combinations);
  auto number = std::ranges::find(kModels, model.file, &SharedModel::file) - std::begin(kModels);
  for (const int cores : model.cores) {
    for (const Split split : kSplits) {
      if (number++ % one_in != 0) continue;
      SCOPED_TRACE(testing::Message() << cores << " cores, split " << static_cast<int>(split));
      check_split(*graph, chip,
                  {.cores = cores, .split = split, .of_nodes = {}, .share_loads = false},
                  *expected);
    }
  }
}

std::string name_of(const testing::TestParamInfo<SharedModel>& info) { return info.param.file; }
INSTANTIATE_TEST_SUITE_P(Stored, ShareModels, testing::ValuesIn(kModels), name_of);

}  // namespace
}  // namespace tessera::agreement
