// Models compiled, linked, and lifted out of their programs again: the host device gives the same
// bits for both graphs, and layers come back as layers.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <set>

#include "arch/architecture_file.h"
#include "arch/chip_config.h"
#include "compile/compile.h"
#include "concord/lift/lift.h"
#include "host/executor.h"
#include "link/link.h"
#include "network/network.h"
#include "ocr_models.h"
#include "package/container.h"
#include "tools/files/tensor_file.h"

namespace tessera {
namespace {

using graph::Graph;
using graph::NodeKind;
using graph::TensorId;

struct LiftedModel {
  const char* file;
  const char* arch;
  bool ocr = false;  // fetched; otherwise stored beside the project
  Shape shape = {};  // of input "x"; empty: the model's own
};

const LiftedModel kModels[] = {
    {"ch_PP-OCRv4_det_infer", "tessera128", true, {1, 3, 320, 320}},
    {"ch_PP-OCRv4_det_infer", "edge", true, {1, 3, 96, 64}},
    {"ch_PP-OCRv4_rec_infer", "tessera128", true, {1, 3, 48, 320}},
    {"ch_PP-OCRv4_rec_infer", "pe128x64", true, {1, 3, 48, 64}},
    {"ch_ppocr_mobile_v2.0_cls_infer", "tessera128", true, {1, 3, 48, 192}},
    {"mobilenet_v1_224_fp32", "tessera128"},
    {"mobilenet_v1_224_fp32", "edge"},
    {"dtln_1", "tessera128"},
    {"gtcrn_simple", "tessera128"},
    {"vit_cifar10_ibp_3_3_8", "tessera128"},
    {"vit_cifar10_ibp_3_3_8", "f32"},
    {"silero_vad_16k_op15", "tessera128"},
    {"mlperf_tiny_resnet8_int8_qdq", "edge"},
    {"mobilenet_v2_224_uint8_qdq", "tessera128"},
    {"mobilenet_v1_224_fp32", "tessera128+mxfp8e4m3"},
    {"vit_cifar10_ibp_3_3_8", "brainwave"},
    {"resnet50_int8_qdq", "edge"},
    {"yolox_nano", "edge"},
    {"selfie_segmentation", "edge"},
    {"squeezenet_fp16", "tessera128"},
    {"ssd_mobilenet_v1_coco_uint8_qdq", "tessera128"},
    {"moonshine_tiny_encoder_q8", "tessera128"},
    {"yolov3_tiny_coco_lut8", "tessera128"},
    {"basic_pitch_nmp", "edge"},
    {"dtln_2", "tessera128"},
    {"tcmonodepth_small", "tessera128"},
    {"swift_f0", "tessera128"},
    {"ten_vad", "tessera128"},
    {"byte_sb_bidi_lstm", "tessera128"},
};

// Nodes that compute something which an output needs; Moves where `moves`.
std::int64_t needed(const Graph& graph, bool moves) {
  std::set<TensorId> wanted(graph.outputs.begin(), graph.outputs.end());
  std::int64_t count = 0;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const bool used = std::any_of(node->outputs.begin(), node->outputs.end(),
                                  [&](TensorId id) { return wanted.contains(id); });
    if (!used) continue;
    wanted.insert(node->inputs.begin(), node->inputs.end());
    count += (node->kind() == NodeKind::kMove) == moves ? 1 : 0;
  }
  return count;
}

std::vector<Tensor> run(std::shared_ptr<const Graph> graph, const std::vector<Tensor>& inputs) {
  auto executor = host::make_host_executor(std::move(graph));
  EXPECT_TRUE(executor.ok()) << executor.error().to_string();
  if (!executor.ok()) return {};
  auto outputs = (*executor)->run(inputs);
  EXPECT_TRUE(outputs.ok()) << outputs.error().to_string();
  return outputs.ok() ? std::move(*outputs) : std::vector<Tensor>{};
}

class LiftModels : public testing::TestWithParam<int> {
 protected:
  // The path, or "" where the model is not there.
  static std::string path_of(const LiftedModel& model) {
    static const std::string ocr = ocr_models_folder();
    const std::string folder =
        model.ocr ? ocr : (std::filesystem::path(TESSERA_TEST_DATA) / "models").string();
    const std::string path = folder + "/" + model.file + ".onnx";
    return !folder.empty() && std::filesystem::exists(path) ? path : "";
  }
};

TEST_P(LiftModels, ComeBackWithTheSameBits) {
  const LiftedModel& model = kModels[GetParam()];
  const std::string path = path_of(model);
  if (path.empty()) GTEST_SKIP() << "the model " << model.file << " is not there";
  LoadOptions options;
  if (!model.shape.empty()) options.shapes["x"] = model.shape;
  const ChipConfig chip = *load_chip_config(model.arch);
  const auto graph = network::load_graph(path, chip, options);
  ASSERT_TRUE(graph.ok()) << graph.error().to_string();
  const auto package = compile::compile(*graph, chip);
  ASSERT_TRUE(package.ok()) << package.error().to_string();
  const auto linked = link::link(*package, chip);
  ASSERT_TRUE(linked.ok()) << linked.error().to_string();
  // By way of a file: nothing but the program is there.
  const auto program = package::parse_program(package::serialise(*linked), model.file);
  ASSERT_TRUE(program.ok()) << program.error().to_string();
  const auto begin = std::chrono::steady_clock::now();
  const auto lifted = concord::lift(*program, chip);
  ASSERT_TRUE(lifted.ok()) << lifted.error().to_string();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::vector<Tensor> inputs;
  for (const TensorId id : (*graph)->inputs) {
    const graph::TensorInfo& info = (*graph)->tensor(id);
    inputs.push_back(tools::random_tensor({info.name, info.format, info.dims}, 7, inputs.size()));
  }
  EXPECT_EQ(run(*lifted, inputs), run(*graph, inputs));
  const std::int64_t layers = needed(**graph, false);
  EXPECT_LE(needed(**lifted, false), layers);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("%s on %s: %zu tasks; %lld layers -> %lld, %lld moves -> %lld; %.2f s, peak %ld MB\n",
              model.file, model.arch, program->tasks.size(), static_cast<long long>(layers),
              static_cast<long long>(needed(**lifted, false)),
              static_cast<long long>(needed(**graph, true)),
              static_cast<long long>(needed(**lifted, true)), took.count(), usage.ru_maxrss / 1024);
}

INSTANTIATE_TEST_SUITE_P(All, LiftModels, testing::Range(0, static_cast<int>(std::size(kModels))));

}  // namespace
}  // namespace tessera
