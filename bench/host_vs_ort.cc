// The host device against ONNX Runtime, in one run: float models against its float32, quantised
// models against its int8, a geometric mean each.
//
//   round 0..1  host, ONNX Runtime      warm-up, not counted
//   round 2..   host, ONNX Runtime, host, ONNX Runtime, ...      median of each
//
// Both have the same number of threads and the same input. The host's time is Session::run, with
// its copies in and out; ONNX Runtime's is its session.run, measured in its own process, without
// the pipe. A pause before each run lets the other side's threads stop spinning: ONNX Runtime's do
// so for 50 to 60 ms after a run (CPU time of its process), the host's for one. Speedup is
// ort_ms / host_ms: above 1, the host device is the faster one.
#include <fmt/format.h>
#include <hwy/targets.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "arith/kernels/tile/matrix_tiles.h"
#include "base/result.h"
#include "emulation.h"
#include "layer_times.h"
#include "onnxruntime_server.h"
#include "stored_models.h"
#include "tessera/session.h"
#include "tools/files/tensor_file.h"
#include "tools/terminal/console.h"
#include "zoo/zoo.h"

namespace tessera::bench {
namespace {

constexpr std::chrono::milliseconds kPause{120};  // before each run

struct Arguments {
  std::string ocr_models, packages;  // empty: what the fetch scripts print
  std::string data = TESSERA_TEST_DATA;
  // Folders of which every model is measured, in place of the cases.
  std::vector<std::string> models;
  std::string only;  // one case or model
  std::string arch = "tessera128";
  int rounds = 15;
  int threads = 2;
  int layers = 5;      // listed of each of the slowest models
  bool brief = false;  // no layers of models that are slower, no emulation in PyTorch
  bool json = false;
  std::string instructions = "all";  // that the host device may use
};

enum class Source {
  kOcr,     // a file of the OCR models
  kStored,  // a file of the stored models; left out, and said so, where there are none
  kZoo,     // a network of the zoo, written for this run
};
struct Case {
  const char* name;
  Source source;
  const char* file;
  bool quantised = false;
  Shape dims = {};  // of the first input; empty: the model's
  float scale = 1;  // of its values, which are otherwise random from -1 to 1
};
const Case kCases[] = {
    {"detection", Source::kOcr, "ch_PP-OCRv4_det_infer.onnx", false, {1, 3, 640, 640}},
    {"recognition", Source::kOcr, "ch_PP-OCRv4_rec_infer.onnx", false, {1, 3, 48, 320}},
    {"direction", Source::kOcr, "ch_ppocr_mobile_v2.0_cls_infer.onnx", false, {1, 3, 48, 192}},
    {"resnet50", Source::kZoo, "resnet50"},
    {"vit_tiny", Source::kZoo, "vit_tiny"},
    {"mobilenet_v1", Source::kStored, "mobilenet_v1_224_fp32.onnx"},
    {"yolox_nano", Source::kStored, "yolox_nano.onnx", false, {}, 128},
    {"vit_cifar10", Source::kStored, "vit_cifar10_ibp_3_3_8.onnx"},
    {"resnet50_int8", Source::kStored, "resnet50_int8_qdq.onnx", true},
    {"mobilenet_v2_int8", Source::kStored, "mobilenet_v2_224_uint8_qdq.onnx", true},
    {"resnet8_int8", Source::kStored, "mlperf_tiny_resnet8_int8_qdq.onnx", true},
};

struct Times {
  std::string name;
  bool quantised = false;
  Shape dims;
  std::vector<double> host_ms, ort_ms;
  double cosine = 0;                   // of the two outputs: that both computed the same network
  std::vector<LayerTime> layers = {};  // of a model that is slower
  double emulation_ms = -1;            // of a float model, where it can be measured
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double least(const std::vector<double>& values) { return *std::ranges::min_element(values); }

double speedup(const Times& times) { return median(times.ort_ms) / median(times.host_ms); }
// Of the quickest rounds: says whether another process disturbed the medians.
double speedup_of_least(const Times& times) { return least(times.ort_ms) / least(times.host_ms); }

// The last line that one of the project's fetch scripts prints: the folder it filled.
Result<std::string> fetched(const std::string& script) {
  const std::string command = "'" TESSERA_SOURCE_FOLDER "/scripts/" + script + "'";
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return Error{ErrorCode::kUnavailable, "cannot run " + command};
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  const int status = pclose(pipe);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (status == 0) return text;
  return Error{ErrorCode::kUnavailable,
               command + " failed; name the folders with --ocr-models and --onnxruntime"};
}

double cosine(const Tensor& a, const Tensor& b) {
  double ab = 0, aa = 0, bb = 0;
  const auto left = a.as<float>(), right = b.as<float>();
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    ab += double{left[i]} * right[i];
    aa += double{left[i]} * left[i];
    bb += double{right[i]} * right[i];
  }
  return ab / std::sqrt(aa * bb);
}

// Of the last minute: two threads of this program, and whatever else the machine does.
double load_average() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : -1;
}

void pause() { std::this_thread::sleep_for(kPause); }

// A folder for the networks of the zoo, gone with the object.
class ScratchFolder {
 public:
  static Result<ScratchFolder> make() {
    std::string name = (std::filesystem::temp_directory_path() / "host_vs_ort.XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      return Error{ErrorCode::kUnavailable, "cannot make a folder " + name};
    }
    return ScratchFolder(name);
  }
  ~ScratchFolder() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

std::string case_names() {
  std::string names;
  for (const Case& what : kCases) names += (names.empty() ? "" : ", ") + std::string(what.name);
  return names;
}

// Where the case's model lies; nothing where it is not stored here.
Result<std::optional<std::string>> model_path(const Arguments& arguments, const Case& what,
                                              const std::string& folder) {
  std::string path;
  switch (what.source) {
    case Source::kOcr:
      return std::optional(arguments.ocr_models + "/" + what.file);
    case Source::kStored:
      path = arguments.data + "/models/" + what.file;
      if (std::filesystem::exists(path)) return std::optional(path);
      fmt::print(stderr, "{}: left out, there is no {}\n", what.name, path);
      return std::optional<std::string>();
    case Source::kZoo:
      break;
  }
  path = fmt::format("{}/{}.onnx", folder, what.file);
  TESSERA_TRY(const zoo::ZooNetwork network, zoo::find_network(what.file));
  constexpr std::uint64_t kSeed = 1;
  TESSERA_TRY(const zoo::Summary summary, zoo::write_network(network, kSeed, path));
  (void)summary;
  return std::optional(path);
}

Result<Times> measure(const Arguments& arguments, const Case& what, const std::string& path,
                      OnnxRuntimeServer& ort) {
  constexpr int kWarmUp = 2;
  constexpr double kCosineMin = 0.99;
  LoadOptions load{.arch = arguments.arch};
  if (!what.dims.empty()) load.shapes = {{"x", what.dims}};
  TESSERA_TRY(const Network network, Network::load(path, load));
  TESSERA_TRY(Session session,
              Session::open(network, {.device = DeviceKind::kHost, .threads = arguments.threads}));
  std::vector<Tensor> inputs = {tools::random_tensor(network.inputs()[0], 7, 0)};
  if (what.scale != 1) {
    for (float& value : inputs[0].as<float>()) value *= what.scale;
  }
  const ProgressCallback progress = tools::progress_bar();
  Times times{what.name, what.quantised, network.inputs()[0].dims, {}, {}, 0};
  for (int round = 0; round < arguments.rounds + kWarmUp; ++round) {
    if (progress)
      progress(what.name, static_cast<double>(round + 1) / (arguments.rounds + kWarmUp));
    pause();
    const auto begin = std::chrono::steady_clock::now();
    TESSERA_TRY(const RunResult run, session.run(inputs));
    const std::chrono::duration<double, std::milli> elapsed =
        std::chrono::steady_clock::now() - begin;
    pause();
    TESSERA_TRY(const OnnxRuntimeAnswer answer, ort.run(path, inputs[0]));
    if (round >= kWarmUp) {
      times.host_ms.push_back(elapsed.count());
      times.ort_ms.push_back(answer.milliseconds);
    }
    if (run.outputs.empty() || run.outputs[0].dims != answer.output.dims ||
        run.outputs[0].format != Format::kF32) {
      return Error{ErrorCode::kInternal, path + ": the outputs are not comparable"};
    }
    times.cosine = cosine(run.outputs[0], answer.output);
    if (!(times.cosine > kCosineMin)) {
      return Error{ErrorCode::kInternal,
                   fmt::format("{}: cosine {:.6f} between the outputs, allowed at least {}; a time "
                               "of other results says nothing",
                               path, times.cosine, kCosineMin)};
    }
  }
  return times;
}

// For a model that is slower: its layers beside ONNX Runtime's. For a float model: emulation in
// PyTorch; where that is not to be had, a note says why.
Status look_closer(const Arguments& arguments, const Case& what, const std::string& path,
                   OnnxRuntimeServer& ort, Times& times) {
  constexpr int kLayerRuns = 10;
  LoadOptions load{.arch = arguments.arch};
  if (!what.dims.empty()) load.shapes = {{"x", what.dims}};
  TESSERA_TRY(const Network network, Network::load(path, load));
  if (speedup(times) < 1) {
    const Tensor input = tools::random_tensor(network.inputs()[0], 7, 0);
    TESSERA_TRY(const auto theirs, ort.layer_times(path, {input}, kLayerRuns));
    TESSERA_TRY(times.layers, layer_times(network, {input}, arguments.threads, kLayerRuns, theirs));
  }
  if (times.quantised) return {};
  const Result<double> emulation = emulation_ms(network, arguments.threads);
  if (emulation.ok()) {
    times.emulation_ms = *emulation;
  } else {
    fmt::print(stderr, "{}: no emulation: {}\n", what.name, emulation.error().message);
  }
  return {};
}

// Of the float models or of the quantised ones; NaN where there are none.
double geomean(const std::vector<Times>& all, bool quantised, double (*ratio)(const Times&)) {
  double sum = 0;
  int count = 0;
  for (const Times& times : all) {
    if (times.quantised != quantised) continue;
    sum += std::log(ratio(times));
    ++count;
  }
  return count > 0 ? std::exp(sum / count) : std::nan("");
}

void print_json(const Arguments& arguments, const std::string& version,
                const std::vector<Times>& all) {
  nlohmann::json models = nlohmann::json::array();
  for (const Times& times : all) {
    nlohmann::json layers = nlohmann::json::array();
    for (const LayerTime& layer : times.layers) {
      layers.push_back({{"name", layer.name},
                        {"kind", layer.kind},
                        {"host_ms", layer.host_ms},
                        {"ort_ms", layer.ort_ms}});
    }
    models.push_back({{"name", times.name},
                      {"layers", std::move(layers)},
                      {"emulation_ms", times.emulation_ms},
                      {"quantised", times.quantised},
                      {"dims", times.dims},
                      {"host_ms", median(times.host_ms)},
                      {"ort_ms", median(times.ort_ms)},
                      {"speedup", speedup(times)},
                      {"speedup_of_least", speedup_of_least(times)},
                      {"host_ms_all", times.host_ms},
                      {"ort_ms_all", times.ort_ms},
                      {"cosine", times.cosine}});
  }
  const nlohmann::json document = {
      {"suite", "host-vs-ort"},
      {"arch", arguments.arch},
      {"threads", arguments.threads},
      {"rounds", arguments.rounds},
      {"onnxruntime", version},
      {"models", std::move(models)},
      {"load_average", load_average()},
      {"geomean_speedup", geomean(all, false, speedup)},
      {"geomean_speedup_of_least", geomean(all, false, speedup_of_least)},
      {"geomean_speedup_int8", geomean(all, true, speedup)},
      {"geomean_speedup_int8_of_least", geomean(all, true, speedup_of_least)}};
  fmt::print("{}\n", tools::json_text(document));
}

void print_table(const Arguments& arguments, const std::string& version,
                 const std::vector<Times>& all) {
  tools::TextTable table(
      {"model", "input", "host ms", "least", "ORT ms", "least", "speedup", "of least", "cosine"});
  for (const Times& times : all) {
    table.add(
        {times.name, tools::dims_text(times.dims), fmt::format("{:.2f}", median(times.host_ms)),
         fmt::format("{:.2f}", least(times.host_ms)), fmt::format("{:.2f}", median(times.ort_ms)),
         fmt::format("{:.2f}", least(times.ort_ms)), fmt::format("{:.3f}", speedup(times)),
         fmt::format("{:.3f}", speedup_of_least(times)), fmt::format("{:.6f}", times.cosine)});
  }
  fmt::print(
      "{}\nONNX Runtime {}, {} threads each, medians of {} alternating rounds, load average "
      "{:.1f}\n"
      "geometric mean of the speedups, float models   {:.3f} (of the quickest rounds {:.3f})\n"
      "geometric mean of the speedups, int8 models    {:.3f} (of the quickest rounds {:.3f})\n",
      table.text(), version, arguments.threads, arguments.rounds, load_average(),
      geomean(all, false, speedup), geomean(all, false, speedup_of_least),
      geomean(all, true, speedup), geomean(all, true, speedup_of_least));
  for (const Times& times : all) {
    if (times.emulation_ms < 0) continue;
    fmt::print(
        "{}: its products emulated in PyTorch {:.1f} ms, {:.1f} times the whole network here\n",
        times.name, times.emulation_ms, times.emulation_ms / median(times.host_ms));
  }
  constexpr std::size_t kLayersShown = 8;
  for (const Times& times : all) {
    const std::string text = slower_layers_text(times.layers, kLayersShown);
    if (!text.empty()) fmt::print("\n{}\n{}", times.name, text);
  }
}

// The host device falls back to lesser instructions, as it would on an older processor. ONNX
// Runtime keeps all. Returns the targets that are left.
std::int64_t bind_instructions(const std::string& instructions) {
  constexpr std::int64_t kPairs = HWY_AVX3_DL;  // VNNI
  if (instructions != "all") kernels::tiles::leave_out();
  if (instructions == "avx512") hwy::DisableTargets(kPairs);
  if (instructions == "avx2") hwy::DisableTargets(kPairs | HWY_AVX3);
  // Asking chooses among all again, without what was disabled: so the choice comes behind the last
  // question.
  const std::int64_t there = hwy::SupportedTargets();
  hwy::GetChosenTarget().Update(there);
  return there;
}

// What the host device can use with `there`, by name.
std::string instructions_of(std::int64_t there) {
  if (kernels::has_matrix_tiles()) return "amx";
  if ((there & HWY_AVX3_DL) != 0) return "avx512vnni";
  if ((there & HWY_AVX3) != 0) return "avx512";
  return (there & HWY_AVX2) != 0 ? "avx2" : "less than avx2";
}

Status run(Arguments arguments) {
  const std::string there = instructions_of(bind_instructions(arguments.instructions));
  if (arguments.instructions != "all" && arguments.instructions != there) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("--instructions {}: this processor has {}", arguments.instructions, there)};
  }
  if (arguments.ocr_models.empty() && arguments.models.empty()) {
    TESSERA_TRY(arguments.ocr_models, fetched("fetch_ocr_models.sh"));
  }
  if (arguments.packages.empty()) {
    TESSERA_TRY(arguments.packages, fetched("fetch_onnxruntime.sh"));
  }
  TESSERA_TRY(const auto ort, OnnxRuntimeServer::start({.script = TESSERA_SOURCE_FOLDER
                                                        "/bench/onnxruntime/onnxruntime_server.cjs",
                                                        .packages = arguments.packages,
                                                        .threads = arguments.threads}));
  if (!arguments.models.empty()) {
    return measure_stored({.folders = arguments.models,
                           .only = arguments.only,
                           .arch = arguments.arch,
                           .instructions = there,
                           .rounds = arguments.rounds,
                           .threads = arguments.threads,
                           .layers = arguments.brief ? 0 : arguments.layers,
                           .json = arguments.json},
                          *ort);
  }
  TESSERA_TRY(const ScratchFolder scratch, ScratchFolder::make());
  std::vector<Times> all;
  for (const Case& what : kCases) {
    if (!arguments.only.empty() && arguments.only != what.name) continue;
    TESSERA_TRY(const auto path, model_path(arguments, what, scratch.path()));
    if (!path) continue;
    TESSERA_TRY(Times times, measure(arguments, what, *path, *ort));
    if (!arguments.brief) {
      TESSERA_RETURN_IF_ERROR(look_closer(arguments, what, *path, *ort, times));
    }
    all.push_back(std::move(times));
  }
  if (all.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("no model to measure; --only takes one of: {}", case_names())};
  }
  arguments.json ? print_json(arguments, ort->version(), all)
                 : print_table(arguments, ort->version(), all);
  return {};
}

int main_with(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"The host device against ONNX Runtime", "host_vs_ort"};
  app.add_option(
      "--models", arguments.models,
      "measure every model of this folder (models/*.onnx with cases/, or *.onnx) in place "
      "of the cases; may be given several times");
  app.add_option("--ocr-models", arguments.ocr_models,
                 "of the cases: folder (default: scripts/fetch_ocr_models.sh)");
  app.add_option("--onnxruntime", arguments.packages,
                 "folder with node_modules (default: scripts/fetch_onnxruntime.sh)");
  app.add_option("--data", arguments.data, "of the cases: folder with models/, the stored models");
  app.add_option("--only", arguments.only, "one model of --models, or one case: " + case_names());
  app.add_option("--arch", arguments.arch, "architecture")->capture_default_str();
  app.add_option("--repeat", arguments.rounds, "measured rounds")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("--threads", arguments.threads, "threads of each side")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  app.add_option(
         "--layers", arguments.layers,
         "of --models: how many of the slowest layers are listed for each of the slowest models")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  app.add_flag("--brief", arguments.brief,
               "leave out the layers of slower models and emulation in PyTorch");
  app.add_option("--instructions", arguments.instructions,
                 "of the host device: all; avx512vnni (no AMX); avx512 (no VNNI either); avx2")
      ->capture_default_str()
      ->check(CLI::IsMember({"all", "avx512vnni", "avx512", "avx2"}));
  app.add_flag("--json", arguments.json, "print one JSON object");
  app.footer("Example:\n  host_vs_ort --repeat 15 --json");
  CLI11_PARSE(app, argc, argv);
  const Status status = run(arguments);
  if (status.ok()) return 0;
  fmt::print(stderr, "host_vs_ort: {}\n", status.error().to_string());
  return 1;
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) { return tessera::bench::main_with(argc, argv); }
