#include "stored_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/result.h"
#include "layer_times.h"
#include "model_case.h"
#include "tessera/dynamic_network.h"
#include "tessera/session.h"
#include "tools/files/tensor_file.h"
#include "tools/terminal/console.h"

namespace tessera::bench {
namespace {

constexpr std::chrono::milliseconds kPause{120};  // as host_vs_ort.cc says
constexpr int kWarmUp = 2;
constexpr double kCosineMin = 0.98;
constexpr std::size_t kWorst = 10;        // models whose layers are shown
constexpr double kLargeMilliseconds = 1;  // of ONNX Runtime's least time: a large model

struct ModelFile {
  std::string folder, path, name;
};

struct Row {
  std::string name;
  std::string skipped;  // why; empty: measured
  std::vector<double> host_ms, ort_ms;
  double cosine = 1;  // the least of all outputs
  // Of one of the worst:
  std::vector<LayerTime> slowest = {};
  std::vector<KindTime> kinds = {};
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}
double least(const std::vector<double>& values) { return *std::ranges::min_element(values); }
double speedup(const Row& row) { return median(row.ort_ms) / median(row.host_ms); }
// Of the quickest rounds: says whether another process disturbed the medians.
double speedup_of_least(const Row& row) { return least(row.ort_ms) / least(row.host_ms); }

std::string processor() {
  for (const std::string& line : cases::read_lines("/proc/cpuinfo")) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

Result<std::vector<ModelFile>> files_of(const StoredModels& what) {
  namespace fs = std::filesystem;
  std::vector<ModelFile> files;
  for (const std::string& folder : what.folders) {
    std::error_code error;
    const fs::path models =
        fs::is_directory(folder + "/models", error) ? folder + "/models" : folder;
    for (const auto& entry : fs::directory_iterator(models, error)) {
      if (entry.path().extension() != ".onnx") continue;
      const std::string name = entry.path().stem().string();
      if (what.only.empty() || what.only == name) {
        files.push_back({folder, entry.path().string(), name});
      }
    }
    if (error) return Error{ErrorCode::kInvalidArgument, folder + ": " + error.message()};
  }
  if (files.empty()) {
    return Error{ErrorCode::kInvalidArgument, "no model to measure in the folders of --models"};
  }
  std::sort(files.begin(), files.end(),
            [](const ModelFile& a, const ModelFile& b) { return a.name < b.name; });
  return files;
}

// Those of the model's first stored case; none where there is no case.
Result<std::vector<Tensor>> stored_inputs(const ModelFile& file) {
  std::vector<Tensor> inputs;
  if (!std::filesystem::exists(file.folder + "/cases/CASES.tsv")) return inputs;
  const auto cases = cases::read_cases(file.folder, file.name);
  if (!cases.ok()) return inputs;
  for (const cases::CaseTensor& row : cases->front().inputs) {
    TESSERA_TRY(Tensor input, cases::read_case_input(file.folder, row));
    input.dims = row.dims;
    inputs.push_back(std::move(input));
  }
  return inputs;
}

struct Prepared {
  std::optional<Network> network;      // none: the model runs in parts
  std::vector<Tensor> inputs;          // of the model
  std::vector<Tensor> network_inputs;  // without those whose values decide what is computed
  std::optional<DynamicNetwork> parts = {};
};

Result<Prepared> prepare(const StoredModels& what, const ModelFile& file) {
  TESSERA_TRY(std::vector<Tensor> inputs, stored_inputs(file));
  const LoadOptions load{.arch = what.arch};
  if (inputs.empty()) {
    TESSERA_TRY(Network network, Network::load(file.path, load));
    for (std::size_t i = 0; i < network.inputs().size(); ++i) {
      inputs.push_back(tools::random_tensor(network.inputs()[i], 7, i));
    }
    return Prepared{std::move(network), inputs, inputs};
  }
  TESSERA_TRY(const DynamicNetwork model, DynamicNetwork::open(file.path, {.load = load}));
  auto network = model.network_for(inputs);
  if (!network.ok()) {
    // In parts, where it can be run so; else the run says what this would.
    if (network.error().code != ErrorCode::kUnsupported) return network.error();
    return Prepared{std::nullopt, inputs, inputs, model};
  }
  TESSERA_TRY(std::vector<Tensor> network_inputs, model.inputs_of(*network, inputs));
  return Prepared{std::move(*network), std::move(inputs), std::move(network_inputs)};
}

using RunOnce = std::function<Result<RunResult>(const std::vector<Tensor>&)>;

// In a session of either kind.
Result<RunOnce> open_run(const StoredModels& what, const Prepared& prepared) {
  const SessionOptions options{.device = DeviceKind::kHost, .threads = what.threads};
  if (prepared.parts) {
    TESSERA_TRY(DynamicSession opened, DynamicSession::open(*prepared.parts, options));
    return RunOnce([session = std::make_shared<DynamicSession>(std::move(opened))](
                       const std::vector<Tensor>& inputs) { return session->run(inputs); });
  }
  TESSERA_TRY(Session opened, Session::open(*prepared.network, options));
  return RunOnce([session = std::make_shared<Session>(std::move(opened))](
                     const std::vector<Tensor>& inputs) { return session->run(inputs); });
}

// The least cosine of all outputs; an error where the outputs are not of one size.
Result<double> least_cosine(const std::vector<Tensor>& ours, const std::vector<Tensor>& theirs) {
  double cosine = 1;
  for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    if (element_count(ours[i].dims) != element_count(theirs[i].dims)) {
      return Error{ErrorCode::kInternal,
                   fmt::format("output {} has {} elements here, {} there", i,
                               element_count(ours[i].dims), element_count(theirs[i].dims))};
    }
    const std::vector<double> a = cases::values_of(ours[i]), b = cases::values_of(theirs[i]);
    // Of nothing but zeros there is no angle.
    if (a != b) cosine = std::min(cosine, cases::cosine(a, b));
  }
  return cosine;
}

Result<Row> measure(const StoredModels& what, const ModelFile& file, OnnxRuntimeServer& ort) {
  TESSERA_TRY(const Prepared prepared, prepare(what, file));
  TESSERA_TRY(const auto run_once, open_run(what, prepared));
  Row row{file.name, "", {}, {}};
  for (int round = 0; round < what.rounds + kWarmUp; ++round) {
    std::this_thread::sleep_for(kPause);
    const auto begin = std::chrono::steady_clock::now();
    TESSERA_TRY(const RunResult run, run_once(prepared.network_inputs));
    const std::chrono::duration<double, std::milli> elapsed =
        std::chrono::steady_clock::now() - begin;
    std::this_thread::sleep_for(kPause);
    TESSERA_TRY(const OnnxRuntimeAnswers answer, ort.run_all(file.path, prepared.inputs));
    if (round < kWarmUp) {
      TESSERA_TRY(row.cosine, least_cosine(run.outputs, answer.outputs));
      if (!(row.cosine > kCosineMin)) {
        return Error{ErrorCode::kInternal,
                     fmt::format("cosine {:.4f} between the outputs, allowed at least {}",
                                 row.cosine, kCosineMin)};
      }
      continue;
    }
    row.host_ms.push_back(elapsed.count());
    row.ort_ms.push_back(answer.milliseconds);
  }
  return row;
}

// The speedups of some of the models, as ratios of medians.
struct Distribution {
  std::vector<double> sorted;
  double geomean = std::nan(""), geomean_of_least = std::nan("");  // of the quickest rounds
};

template <typename Predicate>
Distribution distribution(const std::vector<Row>& rows, const Predicate& belongs) {
  Distribution result;
  double sum = 0, sum_of_least = 0;
  for (const Row& row : rows) {
    if (!row.skipped.empty() || !belongs(row)) continue;
    result.sorted.push_back(speedup(row));
    sum += std::log(speedup(row));
    sum_of_least += std::log(speedup_of_least(row));
  }
  if (result.sorted.empty()) return result;
  std::ranges::sort(result.sorted);
  const auto count = static_cast<double>(result.sorted.size());
  result.geomean = std::exp(sum / count);
  result.geomean_of_least = std::exp(sum_of_least / count);
  return result;
}

bool is_large(const Row& row) { return least(row.ort_ms) >= kLargeMilliseconds; }

struct Summary {
  Distribution all, large, small;
};
Summary summary_of(const std::vector<Row>& rows) {
  return {distribution(rows, [](const Row&) { return true; }), distribution(rows, is_large),
          distribution(rows, [](const Row& row) { return !is_large(row); })};
}

double quantile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(
      std::lround(share * static_cast<double>(sorted.size() - 1)))];
}

std::string distribution_text(const std::string& of, const Distribution& d) {
  if (d.sorted.empty()) return fmt::format("{}: none\n", of);
  return fmt::format(
      "{}: {} models, geometric mean {:.3f} (of the quickest rounds {:.3f}), the least {:.3f}, "
      "quarter {:.3f}, half {:.3f}, three quarters {:.3f}, the most {:.3f}\n",
      of, d.sorted.size(), d.geomean, d.geomean_of_least, d.sorted.front(),
      quantile(d.sorted, 0.25), quantile(d.sorted, 0.5), quantile(d.sorted, 0.75), d.sorted.back());
}

nlohmann::json layers_json(const std::vector<LayerTime>& layers) {
  nlohmann::json list = nlohmann::json::array();
  for (const LayerTime& layer : layers) {
    list.push_back(
        {{"name", layer.name},
         {"kind", layer.kind},
         {"host_ms", layer.host_ms},
         {"ort_ms", layer.ort_ms < 0 ? nlohmann::json() : nlohmann::json(layer.ort_ms)}});
  }
  return list;
}

nlohmann::json kinds_json(const std::vector<KindTime>& kinds) {
  nlohmann::json list = nlohmann::json::array();
  for (const KindTime& kind : kinds) {
    list.push_back({{"kind", kind.kind}, {"layers", kind.layers}, {"host_ms", kind.host_ms}});
  }
  return list;
}

nlohmann::json row_json(const Row& row) {
  if (!row.skipped.empty()) return {{"name", row.name}, {"skipped", row.skipped}};
  return {{"name", row.name},
          {"host_ms", median(row.host_ms)},
          {"ort_ms", median(row.ort_ms)},
          {"host_least_ms", least(row.host_ms)},
          {"ort_least_ms", least(row.ort_ms)},
          {"speedup", speedup(row)},
          {"speedup_of_least", speedup_of_least(row)},
          {"cosine", row.cosine},
          {"slowest_layers", layers_json(row.slowest)},
          {"kinds", kinds_json(row.kinds)}};
}

// NaN where there is none: null in JSON.
nlohmann::json distribution_json(const Distribution& d) {
  return {{"models", d.sorted.size()},
          {"geomean_speedup", d.geomean},
          {"geomean_speedup_of_least", d.geomean_of_least},
          {"least_speedup", d.sorted.empty() ? nlohmann::json() : nlohmann::json(d.sorted.front())},
          {"speedups", d.sorted}};
}

void print_json(const StoredModels& what, const std::vector<Row>& rows,
                const std::string& version) {
  const Summary summary = summary_of(rows);
  nlohmann::json models = nlohmann::json::array();
  for (const Row& row : rows) models.push_back(row_json(row));
  const nlohmann::json document = {{"suite", "host-vs-ort"},
                                   {"arch", what.arch},
                                   {"instructions", what.instructions},
                                   {"threads", what.threads},
                                   {"rounds", what.rounds},
                                   {"processor", processor()},
                                   {"onnxruntime", version},
                                   {"models", std::move(models)},
                                   {"geomean_speedup", summary.all.geomean},
                                   {"geomean_speedup_of_least", summary.all.geomean_of_least},
                                   {"least_speedup", summary.all.sorted.front()},
                                   {"large_from_ort_ms", kLargeMilliseconds},
                                   {"large", distribution_json(summary.large)},
                                   {"small", distribution_json(summary.small)}};
  fmt::print("{}\n", tools::json_text(document));
}

void print_table(const StoredModels& what, const std::vector<Row>& rows,
                 const std::string& version) {
  tools::TextTable table(
      {"model", "host ms", "least", "ORT ms", "least", "speedup", "of least", "cosine"});
  for (const Row& row : rows) {
    if (!row.skipped.empty()) continue;
    const auto cell = [](double value) { return fmt::format("{:.2f}", value); };
    table.add({row.name, cell(median(row.host_ms)), cell(least(row.host_ms)),
               cell(median(row.ort_ms)), cell(least(row.ort_ms)),
               fmt::format("{:.3f}", speedup(row)), fmt::format("{:.3f}", speedup_of_least(row)),
               fmt::format("{:.6f}", row.cosine)});
  }
  fmt::print("{}", table.text());
  for (const Row& row : rows) {
    if (!row.skipped.empty()) fmt::print("left out: {}: {}\n", row.name, row.skipped);
  }
  const Summary summary = summary_of(rows);
  fmt::print(
      "\n{}; ONNX Runtime {}, {} threads each, medians of {} alternating rounds; the host device "
      "with {}\n{}{}{}",
      processor(), version, what.threads, what.rounds, what.instructions,
      distribution_text("all", summary.all),
      distribution_text(fmt::format("ONNX Runtime {} ms or more", kLargeMilliseconds),
                        summary.large),
      distribution_text(fmt::format("below {} ms", kLargeMilliseconds), summary.small));
  for (const Row& row : rows) {
    if (row.slowest.empty()) continue;
    fmt::print("\n{}, {:.3f}\n{}{}", row.name, speedup(row), slowest_layers_text(row.slowest),
               kinds_text(row.kinds));
  }
}

// The slowest layers of the models with the least speedups.
Status look_at_worst(const StoredModels& what, const std::vector<ModelFile>& files,
                     OnnxRuntimeServer& ort, std::vector<Row>& rows) {
  constexpr int kLayerRuns = 10;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].skipped.empty()) order.push_back(i);
  }
  std::ranges::sort(order, {}, [&](std::size_t i) { return speedup(rows[i]); });
  order.resize(std::min(order.size(), kWorst));
  for (const std::size_t i : order) {
    TESSERA_TRY(const Prepared prepared, prepare(what, files[i]));
    TESSERA_TRY(const auto theirs, ort.layer_times(files[i].path, prepared.inputs, kLayerRuns));
    if (!prepared.network) continue;  // the layers of parts are not told apart
    TESSERA_TRY(auto layers, layer_times(*prepared.network, prepared.network_inputs, what.threads,
                                         kLayerRuns, theirs));
    rows[i].kinds = times_by_kind(layers);
    rows[i].slowest = slowest_layers(std::move(layers), static_cast<std::size_t>(what.layers));
  }
  return {};
}

}  // namespace

Status measure_stored(const StoredModels& what, OnnxRuntimeServer& ort) {
  TESSERA_TRY(const std::vector<ModelFile> files, files_of(what));
  const ProgressCallback progress = tools::progress_bar();
  std::vector<Row> rows;
  for (const ModelFile& file : files) {
    Result<Row> row = measure(what, file, ort);
    // Of a long list of notes the first says why.
    rows.push_back(row.ok() ? std::move(*row)
                            : Row{file.name, row.error().message.substr(0, 160), {}, {}});
    if (progress) {
      progress(file.name, static_cast<double>(rows.size()) / static_cast<double>(files.size()));
    }
  }
  if (std::ranges::all_of(rows, [](const Row& row) { return !row.skipped.empty(); })) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("none of the {} models was measured; the first, '{}': {}", rows.size(),
                             rows[0].name, rows[0].skipped)};
  }
  if (what.layers > 0) TESSERA_RETURN_IF_ERROR(look_at_worst(what, files, ort, rows));
  what.json ? print_json(what, rows, ort.version()) : print_table(what, rows, ort.version());
  return {};
}

}  // namespace tessera::bench
