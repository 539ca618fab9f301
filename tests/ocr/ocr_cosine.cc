// The OCR models on real inputs: a device against float32 (ONNX Runtime), tensor by tensor.
//
//   ocr_cosine MODELS ONNXRUNTIME SCRIPT PICTURE... [--device D] [--arch A]
//              [--cosine-min C] [--rtol R --atol A]
//
// The pipeline runs on the device; every input it makes also goes to ONNX Runtime. Prints for each
// model the runs, the smallest cosine and the largest error / (atol + rtol |expected|). Ends with
// "N passed, N failed", a model being one.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "onnxruntime_inference.h"
#include "pipeline.h"

namespace {

struct Arguments {
  std::string models, packages, script, arch = "tessera128", device = "host";
  std::vector<std::string> pictures;
  double cosine_min = 0, relative = 0, absolute = 0;
};

// Runs both, keeps the worst agreement, passes the device's result on.
class Recorder : public ocr::Inference {
 public:
  Recorder(const Arguments& arguments, ocr::Inference& device, ocr::Inference& reference)
      : arguments_(arguments), device_(device), reference_(reference) {}

  tessera::Result<tessera::Tensor> run(const tessera::Tensor& input) override {
    TESSERA_TRY(tessera::Tensor found, device_.run(input));
    TESSERA_TRY(const tessera::Tensor expected, reference_.run(input));
    const std::span<const float> a = found.as<float>(), b = expected.as<float>();
    if (a.size() != b.size()) {
      return tessera::Error{tessera::ErrorCode::kInternal, "the outputs differ in size"};
    }
    double ab = 0, aa = 0, bb = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
      ab += x * y, aa += x * x, bb += y * y;
      const double allowed = arguments_.absolute + arguments_.relative * std::abs(y);
      if (allowed > 0) worst_ = std::max(worst_, std::abs(x - y) / allowed);
    }
    cosine_ = std::min(cosine_, ab / std::sqrt(aa * bb));
    ++runs_;
    return found;
  }

  bool report(const char* name) const {
    const bool ok =
        runs_ > 0 && cosine_ >= arguments_.cosine_min && (arguments_.relative == 0 || worst_ <= 1);
    std::printf("%-6s %-12s %3d runs, smallest cosine %.7f", ok ? "ok" : "FAILED", name, runs_,
                cosine_);
    if (arguments_.relative > 0) std::printf(", largest error / allowed %.4f", worst_);
    std::printf("\n");
    return ok;
  }

 private:
  const Arguments& arguments_;
  ocr::Inference& device_;
  ocr::Inference& reference_;
  int runs_ = 0;
  double cosine_ = 1, worst_ = 0;
};

tessera::Status run(const Arguments& arguments, int& passed, int& failed) {
  ocr::TesseraOptions options;
  options.arch = arguments.arch;
  TESSERA_TRY(options.device, tessera::device_kind_from_name(arguments.device));
  TESSERA_TRY(const auto server,
              ocr::OnnxRuntimeServer::start({arguments.script, arguments.packages}));
  const char* const names[] = {"detection", "direction", "recognition"};
  const std::string files[] = {arguments.models + "/ch_PP-OCRv4_det_infer.onnx",
                               arguments.models + "/ch_ppocr_mobile_v2.0_cls_infer.onnx",
                               arguments.models + "/ch_PP-OCRv4_rec_infer.onnx"};
  std::vector<std::unique_ptr<ocr::Inference>> owned;
  std::vector<std::unique_ptr<Recorder>> recorders;
  for (int i = 0; i < 3; ++i) {
    owned.push_back(std::make_unique<ocr::TesseraInference>(names[i], files[i], options));
    owned.push_back(std::make_unique<ocr::OnnxRuntimeInference>(*server, files[i]));
    recorders.push_back(
        std::make_unique<Recorder>(arguments, *owned[owned.size() - 2], *owned.back()));
  }
  TESSERA_TRY(const auto characters, ocr::read_characters(arguments.models + "/ppocr_keys_v1.txt"));
  for (const std::string& path : arguments.pictures) {
    TESSERA_TRY(const tessera::Picture picture, tessera::read_picture(path));
    TESSERA_TRY(
        const auto lines,
        ocr::read_text(picture, {*recorders[0], *recorders[1], *recorders[2], characters}, {}, {}));
    std::printf("%s: %zu lines\n", path.c_str(), lines.size());
  }
  for (int i = 0; i < 3; ++i) recorders[i]->report(names[i]) ? ++passed : ++failed;
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.starts_with("--")) {
      words.push_back(word);
    } else if (i + 1 < argc) {
      const std::string value = argv[++i];
      if (word == "--device") arguments.device = value;
      if (word == "--arch") arguments.arch = value;
      if (word == "--cosine-min") arguments.cosine_min = std::stod(value);
      if (word == "--rtol") arguments.relative = std::stod(value);
      if (word == "--atol") arguments.absolute = std::stod(value);
    }
  }
  if (words.size() < 4) {
    std::fprintf(stderr, "usage: %s MODELS ONNXRUNTIME SCRIPT PICTURE... [options]\n", argv[0]);
    return 2;
  }
  arguments.models = words[0], arguments.packages = words[1], arguments.script = words[2];
  arguments.pictures.assign(words.begin() + 3, words.end());
  int passed = 0, failed = 0;
  const tessera::Status status = run(arguments, passed, failed);
  if (!status.ok()) {
    std::fprintf(stderr, "ocr_cosine: %s\n", status.error().to_string().c_str());
    return 1;
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
