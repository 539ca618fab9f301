// The seven models that must run: whole on the processor, valid after every pass, and the same
// after a round trip through text. Skipped where the model files are not there
// (TESSERA_OCR_MODELS: folder of the three OCR models, TESSERA_TEST_DATA: folder with models/).
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "graph/build.h"
#include "graph/graph_text.h"
#include "graph/verify.h"
#include "model/import.h"

namespace tessera::graph {
namespace {

struct Case {
  const char* folder_variable;
  const char* folder;  // below it
  const char* file;
  Shape x_dims;  // empty: the file's own
};

class Models : public ::testing::TestWithParam<Case> {};

std::string default_folder(const std::string& variable) {
#ifdef TESSERA_TEST_DATA
  if (variable == "TESSERA_TEST_DATA") return TESSERA_TEST_DATA;
#endif
  return "";
}

// The model's path, or "" and a reason.
std::string path_of(const Case& model, std::string& reason) {
  const char* set = std::getenv(model.folder_variable);
  const std::string folder = set != nullptr ? set : default_folder(model.folder_variable);
  const std::string path = folder + model.folder + "/" + model.file;
  if (!folder.empty() && std::filesystem::exists(path)) return path;
  reason = std::string(model.file) + " is not there; set " + model.folder_variable;
  return "";
}

void expect_whole_on_processor(const model::Model& model, BuildOptions options) {
  options.require_full_offload = true;
  const auto graph = build(model, options);
  ASSERT_TRUE(graph.ok()) << graph.error().to_string();
  EXPECT_FALSE(graph->nodes.empty());
  std::map<std::string, std::shared_ptr<const Tensor>> constants;
  for (const TensorInfo& tensor : graph->tensors) constants[tensor.name] = tensor.constant;
  const std::string text = dump(*graph);
  const auto parsed = parse(text, [&](const std::string& name) { return constants[name]; });
  ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
  EXPECT_EQ(dump(*parsed), text);
  EXPECT_TRUE(verify(*parsed).ok());
}

TEST_P(Models, RunWholeOnTheProcessorAndRoundTripThroughText) {
  std::string reason;
  const std::string path = path_of(GetParam(), reason);
  if (path.empty()) GTEST_SKIP() << reason;
  const auto model = model::import_file(path);
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  BuildOptions options;
  if (!GetParam().x_dims.empty()) options.infer.shapes["x"] = GetParam().x_dims;
  expect_whole_on_processor(*model, options);
  options.vector_format = Format::kF32;
  options.matrix.kind = MatrixKind::kFloat;
  expect_whole_on_processor(*model, options);
}

INSTANTIATE_TEST_SUITE_P(
    Seven, Models,
    ::testing::Values(
        Case{"TESSERA_OCR_MODELS", "", "ch_PP-OCRv4_det_infer.onnx", {1, 3, 640, 640}},
        Case{"TESSERA_OCR_MODELS", "", "ch_PP-OCRv4_det_infer.onnx", {1, 3, 96, 224}},
        Case{"TESSERA_OCR_MODELS", "", "ch_PP-OCRv4_rec_infer.onnx", {1, 3, 48, 320}},
        Case{"TESSERA_OCR_MODELS", "", "ch_ppocr_mobile_v2.0_cls_infer.onnx", {1, 3, 48, 192}},
        Case{"TESSERA_TEST_DATA", "/models", "mobilenet_v1_224_fp32.onnx", {}},
        Case{"TESSERA_TEST_DATA", "/models", "squeezenet_fp16.onnx", {}},
        Case{"TESSERA_TEST_DATA", "/models", "fastestdet.onnx", {}},
        Case{"TESSERA_TEST_DATA", "/models", "mlperf_tiny_resnet8_int8_qdq.onnx", {}}));

}  // namespace
}  // namespace tessera::graph
