// Reading text and finding speech, from files to lines and segments: our pipeline on the host
// device against ONNX Runtime's float32 with the same code around it, in one run.
//
//   round 0    pipeline, one by one, ONNX Runtime     warm-up, not counted
//   round 1..  pipeline, one by one, ONNX Runtime     median of each
//
// Every side decodes, resizes, cuts and writes with the steps of examples/ocr and examples/speech,
// and has the same number of threads. "One by one" is our own sessions in the loop that ONNX
// Runtime is called from. ONNX Runtime runs in a child process; what the pipe between costs is
// taken off its time, so that it counts as if it were in one process with the steps. What its
// Node.js interface takes for a run is still in it: where runs are short (speech), a model that
// computes nothing, with the same inputs, is measured between the rounds, and the ratio is printed
// without that too. A pause before each side lets the other one's threads stop spinning. Ratio:
// ONNX Runtime's time / the pipeline's.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "folder.h"
#include "model/testing/model_builder.h"
#include "onnxruntime_server.h"
#include "recordings.h"
#include "tessera/file.h"

namespace tessera::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPause{120};

struct Arguments {
  std::string ocr_models, vad_model, packages;
  std::string pictures = TESSERA_SOURCE_FOLDER "/examples/ocr/picture";
  std::string recordings = TESSERA_TEST_DATA "/inputs/audio";
  int rounds = 5, threads = 2, kernels = 2;
  std::size_t pictures_min = 4;  // fewer are read several times
  bool json = false;
};

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

struct Row {
  std::string name, agreement = {};
  std::vector<double> pipeline_ms = {}, one_by_one_ms = {}, ort_ms = {};
  std::vector<double> interface_ms = {};  // of ort_ms, at most; empty: not measured

  double ratio() const { return median(ort_ms) / median(pipeline_ms); }
  double ratio_without_interface() const {
    return (median(ort_ms) - median(interface_ms)) / median(pipeline_ms);
  }
  // Of the quickest rounds: says whether another process disturbed the medians.
  double ratio_of_least() const {
    return *std::ranges::min_element(ort_ms) / *std::ranges::min_element(pipeline_ms);
  }
};

// ONNX Runtime behind the interface of the steps; notes what the pipe costs.
class PipedInference : public ocr::Inference {
 public:
  PipedInference(OnnxRuntimeServer& server, std::string model, double& pipe_ms)
      : server_(server), model_(std::move(model)), pipe_ms_(pipe_ms) {}
  Result<Tensor> run(const Tensor& input) override {
    const auto begin = Clock::now();
    TESSERA_TRY(OnnxRuntimeAnswer answer, server_.run(model_, input));
    pipe_ms_ += milliseconds_since(begin) - answer.milliseconds;
    return std::move(answer.output);
  }

 private:
  OnnxRuntimeServer& server_;
  const std::string model_;
  double& pipe_ms_;
};

using Texts = std::vector<std::vector<std::string>>;

// The lines of each picture; an error if one could not be read.
class TextCollector {
 public:
  ocr::PictureCallback callback() {
    return [this](const ocr::PictureText& picture) {
      if (!picture.error.empty()) error_ = picture.path + ": " + picture.error;
      texts_.emplace_back();
      for (const ocr::Line& line : picture.lines) texts_.back().push_back(line.text);
    };
  }
  Result<Texts> take() {
    if (!error_.empty()) return Error{ErrorCode::kInvalidArgument, error_};
    return std::move(texts_);
  }

 private:
  Texts texts_;
  std::string error_;
};

std::string compare_texts(const Texts& ours, const Texts& plain, const Texts& theirs) {
  std::size_t lines = 0, different = 0;
  for (std::size_t p = 0; p < theirs.size(); ++p) {
    const std::size_t count = std::max(ours[p].size(), theirs[p].size());
    lines += count;
    for (std::size_t i = 0; i < count; ++i) {
      const bool both = i < ours[p].size() && i < theirs[p].size();
      different += both && ours[p][i] == theirs[p][i] ? 0 : 1;
    }
  }
  return fmt::format("{} of {} lines differ from ONNX Runtime's; {} one by one", different, lines,
                     ours == plain ? "as" : "NOT as");
}

class TextBench {
 public:
  TextBench(const Arguments& arguments, OnnxRuntimeServer& server)
      : server_(server), arguments_(arguments) {
    options_.models = arguments.ocr_models;
    options_.devices = {{.kind = DeviceKind::kHost,
                         .name = "host",
                         .kernels = arguments.kernels,
                         .threads = arguments.threads}};
  }

  Result<Row> run() {
    TESSERA_TRY(paths_, ocr::pictures_in(arguments_.pictures));
    const std::size_t found = paths_.size();
    while (paths_.size() < arguments_.pictures_min) paths_.push_back(paths_[paths_.size() % found]);
    TESSERA_TRY(characters_, ocr::read_characters(options_.models + "/ppocr_keys_v1.txt"));
    TESSERA_TRY(ocr::FolderReader reader, ocr::FolderReader::open(options_));
    const ocr::TesseraOptions session{
        .device = DeviceKind::kHost, .threads = arguments_.threads, .progress = {}};
    ocr::TesseraInference detection("detection", model("ch_PP-OCRv4_det_infer.onnx"), session);
    ocr::TesseraInference direction("direction", model("ch_ppocr_mobile_v2.0_cls_infer.onnx"),
                                    session);
    ocr::TesseraInference recognition("recognition", model("ch_PP-OCRv4_rec_infer.onnx"), session);
    Row row{.name = fmt::format("text, {} pictures", paths_.size())};
    Texts ours, plain, theirs;
    for (int round = 0; round <= arguments_.rounds; ++round) {
      TextCollector streamed, one_by_one;
      std::this_thread::sleep_for(kPause);
      TESSERA_TRY(const streaming::Use use, reader.read(paths_, streamed.callback()));
      std::this_thread::sleep_for(kPause);
      TESSERA_TRY(const double plain_seconds,
                  ocr::read_one_by_one(paths_, {detection, direction, recognition, characters_},
                                       options_.reading, one_by_one.callback()));
      std::this_thread::sleep_for(kPause);
      TESSERA_TRY(const double ort_ms, run_ort(theirs));
      TESSERA_TRY(ours, streamed.take());
      TESSERA_TRY(plain, one_by_one.take());
      if (round == 0) continue;
      row.pipeline_ms.push_back(use.seconds * 1e3);
      row.one_by_one_ms.push_back(plain_seconds * 1e3);
      row.ort_ms.push_back(ort_ms);
    }
    row.agreement = compare_texts(ours, plain, theirs);
    return row;
  }

 private:
  std::string model(const std::string& file) const { return options_.models + "/" + file; }

  Result<double> run_ort(Texts& texts) {
    double pipe_ms = 0;
    PipedInference detection(server_, model("ch_PP-OCRv4_det_infer.onnx"), pipe_ms);
    PipedInference direction(server_, model("ch_ppocr_mobile_v2.0_cls_infer.onnx"), pipe_ms);
    PipedInference recognition(server_, model("ch_PP-OCRv4_rec_infer.onnx"), pipe_ms);
    TextCollector collector;
    TESSERA_TRY(const double seconds,
                ocr::read_one_by_one(paths_, {detection, direction, recognition, characters_},
                                     options_.reading, collector.callback()));
    TESSERA_TRY(texts, collector.take());
    return seconds * 1e3 - pipe_ms;
  }

  OnnxRuntimeServer& server_;
  const Arguments& arguments_;
  ocr::FolderOptions options_;
  std::vector<std::string> paths_, characters_;
};

// ------------------------------------------------------------------------------------ speech

using Voices = std::vector<std::shared_ptr<speech::Voice>>;

Result<Voices> voices_of(const speech::Detection& detection) {
  Voices voices;
  for (const speech::RecordingResult& result : detection.recordings) {
    if (!result.error.empty()) return Error{ErrorCode::kUnavailable, result.error};
    voices.push_back(result.voice);
  }
  return voices;
}

std::string compare_voices(const Voices& ours, const Voices& plain, const Voices& theirs) {
  std::size_t segments = 0, different = 0;
  double worst = 0;
  bool same = true;
  for (std::size_t v = 0; v < theirs.size(); ++v) {
    const auto left = segments_of(*ours[v], {}), right = segments_of(*theirs[v], {});
    segments += std::max(left.size(), right.size());
    for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
      different += i < left.size() && i < right.size() && left[i] == right[i] ? 0 : 1;
    }
    for (std::size_t i = 0; i < ours[v]->probabilities.size(); ++i) {
      worst = std::max(worst, std::abs(static_cast<double>(ours[v]->probabilities[i]) -
                                       static_cast<double>(theirs[v]->probabilities[i])));
    }
    same = same && ours[v]->probabilities == plain[v]->probabilities;
  }
  return fmt::format(
      "{} of {} segments differ from ONNX Runtime's, probabilities by at most {:.2g}; {} one by "
      "one",
      different, segments, worst, same ? "as" : "NOT as");
}

class SpeechBench {
 public:
  SpeechBench(const Arguments& arguments, OnnxRuntimeServer& server)
      : server_(server), arguments_(arguments) {}

  Result<Row> run() {
    TESSERA_RETURN_IF_ERROR(read_recordings());
    TESSERA_TRY(const Network network,
                speech::load_voice_network(arguments_.vad_model, "tessera128"));
    const std::vector<DeviceOptions> devices = {{.kind = DeviceKind::kHost,
                                                 .name = "host",
                                                 .kernels = arguments_.kernels,
                                                 .threads = arguments_.threads}};
    Row row{.name = fmt::format("speech, {} recordings", recordings_.size())};
    Voices ours, plain, theirs;
    for (int round = 0; round <= arguments_.rounds; ++round) {
      std::this_thread::sleep_for(kPause);
      TESSERA_TRY(const auto streamed,
                  speech::detect_streams(network, {.devices = devices}, recordings_));
      std::this_thread::sleep_for(kPause);
      TESSERA_TRY(
          const auto one_by_one,
          speech::detect_one_by_one(
              network, {.device = DeviceKind::kHost, .threads = arguments_.threads}, recordings_));
      std::this_thread::sleep_for(kPause);
      TESSERA_TRY(const double ort_ms, run_ort(theirs));
      TESSERA_TRY(const double interface_ms, run_empty_model());
      TESSERA_TRY(ours, voices_of(streamed));
      TESSERA_TRY(plain, voices_of(one_by_one));
      if (round == 0) continue;
      row.pipeline_ms.push_back(streamed.use.seconds * 1e3);
      row.one_by_one_ms.push_back(one_by_one.use.seconds * 1e3);
      row.ort_ms.push_back(ort_ms);
      row.interface_ms.push_back(interface_ms);
    }
    row.agreement = compare_voices(ours, plain, theirs);
    return row;
  }

 private:
  Status read_recordings() {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(arguments_.recordings)) {
      if (entry.path().extension() == ".wav") paths.push_back(entry.path().string());
    }
    std::sort(paths.begin(), paths.end());
    for (const std::string& path : paths) {
      TESSERA_TRY(speech::Recording recording, speech::read_wav(path));
      recordings_.push_back(std::move(recording));
    }
    if (!recordings_.empty()) return {};
    return Error{ErrorCode::kInvalidArgument,
                 "folder '" + arguments_.recordings + "': no .wav file in it"};
  }

  Result<double> run_ort(Voices& voices) {
    Tensor rate = Tensor::zeros(Format::kI64, {});
    rate.as<std::int64_t>()[0] = speech::kSamplesPerSecond;
    voices.clear();
    double pipe_ms = 0;
    const auto begin = Clock::now();
    for (const speech::Recording& recording : recordings_) {
      voices.push_back(std::make_shared<speech::Voice>(recording));
      while (!voices.back()->done()) {
        std::vector<Tensor> inputs = next_inputs(*voices.back());
        inputs.push_back(rate);
        const auto call = Clock::now();
        TESSERA_TRY(OnnxRuntimeAnswers answer, server_.run_all(arguments_.vad_model, inputs));
        pipe_ms += milliseconds_since(call) - answer.milliseconds;
        TESSERA_RETURN_IF_ERROR(take_outputs(*voices.back(), std::move(answer.outputs)));
      }
    }
    return milliseconds_since(begin) - pipe_ms;
  }

  // As many runs as the recordings have chunks, of a model that hands two of its three inputs
  // through: what a run costs before anything is computed.
  Result<double> run_empty_model() {
    const std::string path =
        (std::filesystem::temp_directory_path() / fmt::format("empty_{}.onnx", getpid())).string();
    TESSERA_RETURN_IF_ERROR(write_text_file(
        path, model::testing::ModelBuilder(17)
                  .input("input", Format::kF32, {1, speech::kContext + speech::kChunk})
                  .input("state", Format::kF32, {2, 1, 128})
                  .input("sr", Format::kI64, {})
                  .node("Identity", {"input"}, {"output"})
                  .node("Identity", {"state"}, {"stateN"})
                  .output("output", Format::kF32, {1, speech::kContext + speech::kChunk})
                  .output("stateN", Format::kF32, {2, 1, 128})
                  .bytes()));
    const std::vector<Tensor> inputs = {
        Tensor::zeros(Format::kF32, {1, speech::kContext + speech::kChunk}),
        Tensor::zeros(Format::kF32, {2, 1, 128}), Tensor::zeros(Format::kI64, {})};
    TESSERA_TRY(OnnxRuntimeAnswers first, server_.run_all(path, inputs));  // loads it
    std::filesystem::remove(path);
    double sum = 0;
    for (const speech::Recording& recording : recordings_) {
      for (std::size_t i = 0; i < speech::Voice(recording).chunks(); ++i) {
        TESSERA_TRY(const OnnxRuntimeAnswers answer, server_.run_all(path, inputs));
        sum += answer.milliseconds;
      }
    }
    return sum;
  }

  OnnxRuntimeServer& server_;
  const Arguments& arguments_;
  std::vector<speech::Recording> recordings_;
};

void print(const Arguments& arguments, const std::string& version, const std::vector<Row>& rows) {
  if (arguments.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Row& row : rows) {
      list.push_back({{"name", row.name},
                      {"pipeline_ms", median(row.pipeline_ms)},
                      {"one_by_one_ms", median(row.one_by_one_ms)},
                      {"onnxruntime_ms", median(row.ort_ms)},
                      {"ratio", row.ratio()},
                      {"ratio_of_least", row.ratio_of_least()},
                      {"agreement", row.agreement}});
      if (row.interface_ms.empty()) continue;
      list.back()["interface_ms"] = median(row.interface_ms);
      list.back()["ratio_without_interface"] = row.ratio_without_interface();
    }
    const nlohmann::ordered_json all = {
        {"threads", arguments.threads}, {"onnxruntime", version}, {"rows", list}};
    fmt::print("{}\n", all.dump(2));
    return;
  }
  fmt::print("{} threads each, {} kernels, medians of {} rounds; ONNX Runtime {} in float32\n\n",
             arguments.threads, arguments.kernels, arguments.rounds, version);
  fmt::print("  {:<24}{:>12}{:>12}{:>14}{:>8}{:>10}\n", "milliseconds", "pipeline", "one by one",
             "ONNX Runtime", "ratio", "of least");
  for (const Row& row : rows) {
    fmt::print("  {:<24}{:>12.1f}{:>12.1f}{:>14.1f}{:>8.2f}{:>10.2f}\n    {}\n", row.name,
               median(row.pipeline_ms), median(row.one_by_one_ms), median(row.ort_ms), row.ratio(),
               row.ratio_of_least(), row.agreement);
    if (row.interface_ms.empty()) continue;
    fmt::print("    runs of an empty model take {:.1f}: without them the ratio is {:.2f}\n",
               median(row.interface_ms), row.ratio_without_interface());
  }
}

Result<std::unique_ptr<OnnxRuntimeServer>> start_server(const Arguments& arguments, bool spinning) {
  return OnnxRuntimeServer::start(
      {.script = TESSERA_SOURCE_FOLDER "/bench/onnxruntime/onnxruntime_server.cjs",
       .packages = arguments.packages,
       .threads = arguments.threads,
       .spinning = spinning});
}

Status run(const Arguments& arguments) {
  std::vector<Row> rows;
  std::string version;
  {
    // Three models take turns; one is alone. Each is run as ONNX Runtime is quicker.
    TESSERA_TRY(const auto server, start_server(arguments, false));
    version = server->version();
    TESSERA_TRY(Row text, TextBench(arguments, *server).run());
    rows.push_back(std::move(text));
  }
  if (std::filesystem::is_directory(arguments.recordings)) {
    TESSERA_TRY(const auto server, start_server(arguments, true));
    TESSERA_TRY(Row speech, SpeechBench(arguments, *server).run());
    rows.push_back(std::move(speech));
  } else {
    fmt::print(stderr, "speech: left out, there is no folder '{}'\n", arguments.recordings);
  }
  print(arguments, version, rows);
  return {};
}

int main_with(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"Text and speech: our pipeline against ONNX Runtime", "reading_vs_ort"};
  app.add_option("--ocr-models", arguments.ocr_models, "from scripts/fetch_ocr_models.sh")
      ->required();
  app.add_option("--vad-model", arguments.vad_model, "from scripts/fetch_vad_model.sh")->required();
  app.add_option("--onnxruntime", arguments.packages, "from scripts/fetch_onnxruntime.sh")
      ->required();
  app.add_option("--pictures", arguments.pictures, "folder")->capture_default_str();
  app.add_option("--recordings", arguments.recordings, "folder of .wav files")
      ->capture_default_str();
  app.add_option("--repeat", arguments.rounds, "measured rounds")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("--threads", arguments.threads, "of each side")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  app.add_option("--kernels", arguments.kernels, "of the host device, which share its threads")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  app.add_flag("--json", arguments.json, "print one JSON object");
  app.footer("Example:\n  scripts/bench.sh build/release, or with the three folders by hand");
  CLI11_PARSE(app, argc, argv);
  const Status status = run(arguments);
  if (status.ok()) return 0;
  fmt::print(stderr, "reading_vs_ort: {}\n", status.error().to_string());
  return 1;
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) { return tessera::bench::main_with(argc, argv); }
