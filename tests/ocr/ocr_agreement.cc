// The lines that the processor reads equal those of float32 (ONNX Runtime) on generated pictures.
//
//   ocr_agreement PICTURES MODELS ONNXRUNTIME SCRIPT EXPLAINED [--device sim|host] [--limit N]
//                 [--one-in N]
//
// The same pipeline runs twice, once on the device and once on ONNX Runtime. A picture whose lines
// differ must be named in EXPLAINED ("name: reason"), and a name there must differ, so that the
// list stays true. Ends with "N passed, N failed".
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "onnxruntime_inference.h"
#include "pipeline.h"

namespace {

constexpr const char* kModelFiles[] = {"ch_PP-OCRv4_det_infer.onnx",
                                       "ch_ppocr_mobile_v2.0_cls_infer.onnx",
                                       "ch_PP-OCRv4_rec_infer.onnx"};

struct Arguments {
  std::string pictures, models, packages, script, explained;
  std::string device = "host";
  std::size_t limit = SIZE_MAX;
  std::size_t one_in = 1;
};

struct Tally {
  int passed = 0, failed = 0, lines = 0, lines_as_drawn = 0, drawn = 0;
};

std::map<std::string, std::string> read_explained(const std::string& path) {
  std::map<std::string, std::string> reasons;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(": ");
    if (line.empty() || line[0] == '#' || colon == std::string::npos) continue;
    reasons[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return reasons;
}

// Passes the device's recognition on and asks float32 for the same input: where the best characters
// of a column differ, how sure is float32?
class MarginRecorder : public ocr::Inference {
 public:
  MarginRecorder(ocr::Inference& device, ocr::Inference& reference)
      : device_(device), reference_(reference) {}

  tessera::Result<tessera::Tensor> run(const tessera::Tensor& input) override {
    TESSERA_TRY(tessera::Tensor found, device_.run(input));
    TESSERA_TRY(const tessera::Tensor expected, reference_.run(input));
    const std::int64_t classes = expected.dims.back();
    const std::span<const float> a = found.as<float>(), b = expected.as<float>();
    for (std::size_t at = 0; at < b.size(); at += static_cast<std::size_t>(classes)) {
      const float* const column = b.data() + at;
      const auto best_a = std::max_element(a.data() + at, a.data() + at + classes) - a.data() -
                          static_cast<std::ptrdiff_t>(at);
      const auto best_b = std::max_element(column, column + classes) - column;
      ++columns;
      if (best_a == best_b) continue;
      ++different;
      largest_margin = std::max(largest_margin, column[best_b] - column[best_a]);
    }
    return found;
  }

  int columns = 0, different = 0;
  float largest_margin = 0;  // of float32's probabilities

 private:
  ocr::Inference& device_;
  ocr::Inference& reference_;
};

std::vector<std::string> texts(const std::vector<ocr::Line>& lines) {
  std::vector<std::string> result;
  for (const ocr::Line& line : lines) result.push_back(line.text);
  return result;
}

void count_drawn(const std::filesystem::path& picture, const std::vector<std::string>& found,
                 Tally& tally) {
  std::ifstream in(std::filesystem::path(picture).replace_extension(".txt"));
  for (std::string line; std::getline(in, line);) {
    ++tally.drawn;
    if (std::find(found.begin(), found.end(), line) != found.end()) ++tally.lines_as_drawn;
  }
}

void print_difference(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::string left = i < a.size() ? a[i] : "-", right = i < b.size() ? b[i] : "-";
    if (left != right) std::printf("    device '%s', float32 '%s'\n", left.c_str(), right.c_str());
  }
}

tessera::Status compare(const Arguments& arguments, Tally& tally) {
  ocr::TesseraOptions options;
  TESSERA_TRY(options.device, tessera::device_kind_from_name(arguments.device));
  const std::string folder = arguments.models + "/";
  ocr::TesseraInference detection("detection", folder + kModelFiles[0], options);
  ocr::TesseraInference direction("direction", folder + kModelFiles[1], options);
  ocr::TesseraInference recognition("recognition", folder + kModelFiles[2], options);
  TESSERA_TRY(const auto server,
              ocr::OnnxRuntimeServer::start({arguments.script, arguments.packages}));
  ocr::OnnxRuntimeInference detection32(*server, folder + kModelFiles[0]);
  ocr::OnnxRuntimeInference direction32(*server, folder + kModelFiles[1]);
  ocr::OnnxRuntimeInference recognition32(*server, folder + kModelFiles[2]);
  TESSERA_TRY(const auto characters, ocr::read_characters(folder + "ppocr_keys_v1.txt"));
  const auto explained = read_explained(arguments.explained);
  std::vector<std::filesystem::path> pictures;
  for (const auto& entry : std::filesystem::directory_iterator(arguments.pictures)) {
    if (entry.path().extension() == ".png") pictures.push_back(entry.path());
  }
  std::sort(pictures.begin(), pictures.end());
  std::size_t place = 0;
  std::erase_if(pictures, [&](const auto&) { return place++ % arguments.one_in != 0; });
  pictures.resize(std::min(pictures.size(), arguments.limit));
  for (const auto& path : pictures) {
    TESSERA_TRY(const tessera::Picture picture, tessera::read_picture(path.string()));
    MarginRecorder recorder(recognition, recognition32);
    TESSERA_TRY(const auto found,
                ocr::read_text(picture, {detection, direction, recorder, characters}, {}, {}));
    TESSERA_TRY(
        const auto wanted,
        ocr::read_text(picture, {detection32, direction32, recognition32, characters}, {}, {}));
    const std::vector<std::string> a = texts(found), b = texts(wanted);
    const std::string name = path.stem().string();
    const auto reason = explained.find(name);
    const bool ok = (a == b) == (reason == explained.end());
    ok ? ++tally.passed : ++tally.failed;
    tally.lines += static_cast<int>(a.size());
    count_drawn(path, a, tally);
    std::printf("%-6s %s: %zu lines%s%s\n", ok ? "ok" : "FAILED", name.c_str(), a.size(),
                reason == explained.end() ? "" : ", explained: ",
                reason == explained.end() ? "" : reason->second.c_str());
    print_difference(a, b);
    if (a != b) {
      std::printf("    %d of %d columns differ on the same input, largest float32 margin %.3f\n",
                  recorder.different, recorder.columns,
                  static_cast<double>(recorder.largest_margin));
    }
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fprintf(stderr,
                 "usage: %s PICTURES MODELS ONNXRUNTIME SCRIPT EXPLAINED "
                 "[--device D] [--limit N] [--one-in N]\n",
                 argv[0]);
    return 2;
  }
  Arguments arguments{argv[1], argv[2], argv[3], argv[4], argv[5]};
  for (int i = 6; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--device") == 0) arguments.device = argv[i + 1];
    if (std::strcmp(argv[i], "--limit") == 0) arguments.limit = std::stoul(argv[i + 1]);
    if (std::strcmp(argv[i], "--one-in") == 0) {
      arguments.one_in = std::max(1UL, std::stoul(argv[i + 1]));
    }
  }
  Tally tally;
  const tessera::Status status = compare(arguments, tally);
  if (!status.ok()) {
    std::fprintf(stderr, "ocr_agreement: %s\n", status.error().to_string().c_str());
    return 1;
  }
  std::printf("%d lines on '%s', %d of %d drawn lines read as drawn\n", tally.lines,
              arguments.device.c_str(), tally.lines_as_drawn, tally.drawn);
  std::printf("%d passed, %d failed\n", tally.passed, tally.failed);
  return tally.failed == 0 && tally.passed > 0 ? 0 : 1;
}
