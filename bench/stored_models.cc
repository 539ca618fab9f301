#include "stored_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/result.h"
#include "model_case.h"
#include "tessera/session.h"
#include "tools/files/tensor_file.h"
#include "tools/terminal/console.h"

namespace tessera::bench {
namespace {

constexpr std::chrono::milliseconds kPause{120};  // as host_vs_ort.cc says
constexpr int kWarmUp = 2;
constexpr double kCosineMin = 0.98;

struct ModelFile {
  std::string folder, path, name;
};

struct Row {
  std::string name;
  std::string skipped;  // why; empty: measured
  std::vector<double> host_ms, ort_ms;
  double cosine = 1;  // the least of all outputs
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}
double least(const std::vector<double>& values) { return *std::ranges::min_element(values); }
double speedup(const Row& row) { return median(row.ort_ms) / median(row.host_ms); }

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
    return Error{ErrorCode::kInvalidArgument, "no model to measure in the folders of --all"};
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
  Session session;
  std::vector<Tensor> inputs;
};

Result<Prepared> prepare(const StoredModels& what, const ModelFile& file) {
  TESSERA_TRY(std::vector<Tensor> inputs, stored_inputs(file));
  LoadOptions load{.arch = what.arch};
  TESSERA_TRY(Network network, Network::load(file.path, load));
  if (inputs.empty()) {
    for (std::size_t i = 0; i < network.inputs().size(); ++i) {
      inputs.push_back(tools::random_tensor(network.inputs()[i], 7, i));
    }
  } else {
    for (std::size_t i = 0; i < std::min(inputs.size(), network.inputs().size()); ++i) {
      load.shapes[network.inputs()[i].name] = inputs[i].dims;
    }
    TESSERA_TRY(network, Network::load(file.path, load));
  }
  TESSERA_TRY(Session session,
              Session::open(network, {.device = DeviceKind::kHost, .threads = what.threads}));
  return Prepared{std::move(session), std::move(inputs)};
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
  TESSERA_TRY(Prepared prepared, prepare(what, file));
  Row row{file.name, "", {}, {}};
  for (int round = 0; round < what.rounds + kWarmUp; ++round) {
    std::this_thread::sleep_for(kPause);
    const auto begin = std::chrono::steady_clock::now();
    TESSERA_TRY(const RunResult run, prepared.session.run(prepared.inputs));
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

nlohmann::json line_of(const StoredModels& what, const Row& row, const std::string& version) {
  nlohmann::json line = {
      {"suite", "host-vs-ort"},  {"model", row.name},     {"instructions", what.instructions},
      {"threads", what.threads}, {"rounds", what.rounds}, {"processor", processor()},
      {"onnxruntime", version}};
  if (!row.skipped.empty()) {
    line["skipped"] = row.skipped;
    return line;
  }
  line.update({{"host_ms", median(row.host_ms)},
               {"ort_ms", median(row.ort_ms)},
               {"host_least_ms", least(row.host_ms)},
               {"ort_least_ms", least(row.ort_ms)},
               {"speedup", speedup(row)},
               {"speedup_of_least", least(row.ort_ms) / least(row.host_ms)},
               {"cosine", row.cosine}});
  return line;
}

void print_table(const StoredModels& what, const std::vector<Row>& rows,
                 const std::string& version) {
  tools::TextTable table({"model", "host ms", "least", "ORT ms", "least", "speedup", "cosine"});
  double sum = 0;
  const Row* worst = nullptr;
  int count = 0;
  for (const Row& row : rows) {
    if (!row.skipped.empty()) continue;
    const auto cell = [](double value) { return fmt::format("{:.2f}", value); };
    table.add({row.name, cell(median(row.host_ms)), cell(least(row.host_ms)),
               cell(median(row.ort_ms)), cell(least(row.ort_ms)),
               fmt::format("{:.3f}", speedup(row)), fmt::format("{:.6f}", row.cosine)});
    sum += std::log(speedup(row));
    ++count;
    if (worst == nullptr || speedup(row) < speedup(*worst)) worst = &row;
  }
  fmt::print("{}", table.text());
  for (const Row& row : rows) {
    if (!row.skipped.empty()) fmt::print("left out: {}: {}\n", row.name, row.skipped);
  }
  if (worst == nullptr) return;
  fmt::print(
      "\nONNX Runtime {}, {} threads each, medians of {} alternating rounds; the host device with "
      "{}\ngeometric mean of {} models {:.3f}, the worst {:.3f} ({})\n",
      version, what.threads, what.rounds, what.instructions, count, std::exp(sum / count),
      speedup(*worst), worst->name);
}

}  // namespace

Status measure_stored(const StoredModels& what, OnnxRuntimeServer& ort) {
  TESSERA_TRY(const std::vector<ModelFile> files, files_of(what));
  std::vector<Row> rows;
  for (const ModelFile& file : files) {
    Result<Row> row = measure(what, file, ort);
    // Of a long list of notes the first says why.
    rows.push_back(row.ok() ? std::move(*row)
                            : Row{file.name, row.error().message.substr(0, 160), {}, {}});
    if (!what.json) continue;
    fmt::print("{}\n", line_of(what, rows.back(), ort.version())
                           .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    std::fflush(stdout);
  }
  if (!what.json) print_table(what, rows, ort.version());
  return {};
}

}  // namespace tessera::bench
