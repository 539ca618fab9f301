#include "runtime/conform.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "arith/rounding.h"
#include "model/import.h"
#include "model/infer.h"
#include "model/ops/draw.h"

namespace tessera::runtime {
namespace {

namespace fs = std::filesystem;

// input_0.pb, input_1.pb, ... in this order: one entry per file, its tensors within. `values` says
// what kind each is; files beyond it are tensors.
Result<std::vector<std::vector<Tensor>>> read_set(const fs::path& folder, const std::string& prefix,
                                                  const std::vector<model::ValueInfo>& values) {
  std::vector<std::vector<Tensor>> files;
  for (std::size_t i = 0;; ++i) {
    const fs::path path = folder / fmt::format("{}_{}.pb", prefix, i);
    std::error_code error;
    if (!fs::exists(path, error)) return files;
    const auto kind = i < values.size() ? values[i].kind : model::ValueKind::kTensor;
    TESSERA_TRY(std::vector<Tensor> tensors, model::import_value_file(path.string(), kind));
    files.push_back(std::move(tensors));
  }
}

// The tolerance for a format: never below the distance of neighbouring values, since a reference
// may round the last bit the other way (older bf16 data are truncated).
ConformTolerance for_format(ConformTolerance tolerance, Format format) {
  const double spacing = format == Format::kBf16 ? 0x1p-7 : format == Format::kF16 ? 0x1p-10 : 0.0;
  tolerance.relative = std::max(tolerance.relative, spacing);
  return tolerance;
}

// f16 and bf16 results saturate where IEEE 754 overflows (docs/numbers.md).
bool saturated(double found, double expected, Format format) {
  const bool saturates = format == Format::kF16 || format == Format::kBf16;
  return saturates && std::isinf(expected) && found == arith::round_value(format, expected);
}

bool close(double found, double expected, const ConformTolerance& tolerance) {
  if (std::isnan(expected)) return std::isnan(found);
  if (std::isinf(expected) || std::isinf(found)) return found == expected;
  return std::abs(found - expected) <= tolerance.absolute + tolerance.relative * std::abs(expected);
}

// Older test data store bf16 elements as u16; the bits are the same.
void as_bf16_where_declared(Tensor& tensor, Format declared) {
  if (tensor.format == Format::kU16 && declared == Format::kBf16) tensor.format = Format::kBf16;
}

// Empty if equal, otherwise the first difference.
std::string difference(const Tensor& found, const Tensor& expected, const std::string& name,
                       const ConformTolerance& tolerance) {
  if (found.format != expected.format || found.dims != expected.dims) {
    return fmt::format("output '{}': found {} [{}], expected {} [{}]", name,
                       format_name(found.format), fmt::join(found.dims, "x"),
                       format_name(expected.format), fmt::join(expected.dims, "x"));
  }
  const bool is_float = format_is_float(expected.format);
  if (!is_float && found.bytes == expected.bytes) return "";
  const ConformTolerance allowed = for_format(tolerance, expected.format);
  const std::int64_t element = format_bytes(expected.format);
  for (std::int64_t i = 0; i < element_count(expected.dims); ++i) {
    const double a = arith::read_element(found.format, found.bytes.data() + i * element);
    const double b = arith::read_element(expected.format, expected.bytes.data() + i * element);
    if (is_float ? close(a, b, allowed) || saturated(a, b, expected.format) : a == b) continue;
    return fmt::format("output '{}' element {}: found {}, expected {}", name, i, a, b);
  }
  return "";
}

// Input files belong to the model's inputs in order; shapes and lengths come from the files.
Result<LoadOptions> options_for(const model::Model& model,
                                std::vector<std::vector<Tensor>>& inputs) {
  LoadOptions options;
  if (inputs.size() > model.graph.inputs.size()) {
    return Error{ErrorCode::kInvalidModel, fmt::format("{} input files, the model has {} inputs",
                                                       inputs.size(), model.graph.inputs.size())};
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const model::ValueInfo& info = model.graph.inputs[i];
    const bool tensor = info.kind == model::ValueKind::kTensor;
    if (!tensor) options.lengths[info.name] = static_cast<std::int64_t>(inputs[i].size());
    for (std::size_t k = 0; k < inputs[i].size(); ++k) {
      as_bf16_where_declared(inputs[i][k], info.format);
      options.shapes[tensor ? info.name : fmt::format("{}[{}]", info.name, k)] = inputs[i][k].dims;
    }
  }
  return options;
}

// What a shape depends on has its value at compile time. Returns the number of such inputs.
std::int64_t bind_inputs(const model::Model& model, const std::vector<std::vector<Tensor>>& inputs,
                         LoadOptions& options) {
  std::map<std::string, const Tensor*> given;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].empty()) given[model.graph.inputs[i].name] = inputs[i].data();
  }
  network::bind_deciding(model, given, options);
  return static_cast<std::int64_t>(options.constants.size());
}

// The tensors of all values in one row; those that are bound left out.
std::vector<Tensor> flat(const std::vector<std::vector<Tensor>>& values,
                         const std::vector<model::ValueInfo>& infos, const LoadOptions& options) {
  std::vector<Tensor> row;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i < infos.size() && options.constants.contains(infos[i].name)) continue;
    row.insert(row.end(), values[i].begin(), values[i].end());
  }
  return row;
}

struct SetOutcome {
  Verdict verdict;
  std::string reason;
};

// Before anything runs, every error is a refusal, unless it is our own fault.
SetOutcome outcome_of(const Error& error) {
  return {error.code == ErrorCode::kInternal ? Verdict::kWrong : Verdict::kRefused, error.message};
}

// While running, only what is refused by name is one.
SetOutcome outcome_of_run(const Error& error) {
  return {error.code == ErrorCode::kUnsupported ? Verdict::kRefused : Verdict::kWrong,
          error.message};
}

// One test while it runs; `result` collects what is reported of it.
struct TestRun {
  const ChipConfig& chip;
  const SessionOptions& session;
  const ConformTolerance& tolerance;
  ConformResult& result;
};

// Empty if every output is as expected.
std::string differences(const std::vector<TensorDescription>& descriptions,
                        const std::vector<Tensor>& found, std::vector<Tensor>& expected,
                        const ConformTolerance& tolerance) {
  if (found.size() != expected.size()) {
    return fmt::format("{} outputs, {} expected", found.size(), expected.size());
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    as_bf16_where_declared(expected[i], descriptions[i].format);
    std::string text = difference(found[i], expected[i], descriptions[i].name, tolerance);
    if (!text.empty()) return text;
  }
  return "";
}

// One data set: the tensors of each input and output of the model.
struct DataSet {
  std::vector<std::vector<Tensor>> inputs, outputs;
};

// A data set is a folder, or the files of outputs beside a model that stands alone
// ("NAME.onnx", "NAME_output_0.pb"); the inputs of those are k/n for the k-th of n elements.
Result<DataSet> read_data(const fs::path& place, const model::Model& model) {
  DataSet data;
  std::error_code error;
  if (fs::is_directory(place, error)) {
    TESSERA_TRY(data.inputs, read_set(place, "input", model.graph.inputs));
    TESSERA_TRY(data.outputs, read_set(place, "output", model.graph.outputs));
    return data;
  }
  TESSERA_TRY(data.outputs, read_set(place.parent_path(), place.stem().string() + "_output",
                                     model.graph.outputs));
  for (const model::ValueInfo& input : model.graph.inputs) {
    if (input.format != Format::kF32 || input.kind != model::ValueKind::kTensor) {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("input '{}' of a model without input files is not f32", input.name)};
    }
    Shape dims;
    for (const model::Dimension& dim : input.dims)
      dims.push_back(std::max<std::int64_t>(1, dim.value));
    Tensor tensor = Tensor::zeros(input.format, dims);
    const auto count = static_cast<double>(element_count(dims));
    double next = 0;
    for (float& value : tensor.as<float>()) value = arith::f32_from_f64(next++ / count);
    data.inputs.push_back({std::move(tensor)});
  }
  return data;
}

SetOutcome run_set(const fs::path& model_path, const fs::path& set, const TestRun& run) {
  const auto model = model::import_file(model_path.string());
  if (!model.ok()) return outcome_of(model.error());
  const auto draw = std::ranges::find_if(model->graph.nodes, model::ops::draws_at_random);
  if (draw != model->graph.nodes.end()) {
    return {Verdict::kRefused,
            fmt::format("node '{}' ({}): it draws at random, so no two runs could be compared",
                        draw->name, draw->op_type)};
  }
  auto data = read_data(set, *model);
  if (!data.ok()) return outcome_of(data.error());
  if (data->outputs.empty()) return {Verdict::kRefused, "no output files to compare with"};
  auto* const inputs = &data->inputs;
  const auto* const outputs = &data->outputs;
  auto options = options_for(*model, *inputs);
  if (!options.ok()) return outcome_of(options.error());
  run.result.inputs_bound = bind_inputs(*model, *inputs, *options);
  const auto graph = network::load_graph(model_path.string(), run.chip, *options);
  if (!graph.ok()) return outcome_of(graph.error());
  const auto network = network::network_from_graph(*graph, run.chip, *options);
  if (!network.ok()) return outcome_of(network.error());
  run.result.nodes_on_host = network->placement().nodes_on_host;
  run.result.nodes_on_processor = network->placement().nodes_on_processor;
  auto opened = Session::open(*network, run.session);
  if (!opened.ok()) return outcome_of(opened.error());
  const auto result = opened->run(flat(*inputs, model->graph.inputs, *options));
  if (!result.ok()) return outcome_of_run(result.error());
  std::vector<Tensor> expected = flat(*outputs, {}, {});
  const std::string found =
      differences(network->outputs(), result->outputs, expected, run.tolerance);
  return found.empty() ? SetOutcome{Verdict::kPassed, ""} : SetOutcome{Verdict::kWrong, found};
}

}  // namespace

Result<std::vector<std::string>> find_tests(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> tests;
  fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    const fs::path& path = it->path();
    std::error_code none;
    if (path.filename() == "model.onnx") {
      tests.push_back(path.parent_path());
    } else if (path.extension() == ".onnx" &&
               fs::exists(path.parent_path() / (path.stem().string() + "_output_0.pb"), none)) {
      tests.push_back(path);
    }
  }
  if (error) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("reading '{}': {}", folder, error.message())};
  }
  std::sort(tests.begin(), tests.end());
  if (tests.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("'{}' has no folder with a model.onnx", folder)};
  }
  return tests;
}

namespace {

// The data sets of a test: the folders in it, or, of a model that stands alone, the model itself.
std::vector<fs::path> data_sets(const fs::path& test) {
  std::error_code error;
  if (!fs::is_directory(test, error)) return {test};
  std::vector<fs::path> sets;
  fs::directory_iterator it(test, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    if (it->path().filename().string().starts_with("test_data_set_")) sets.push_back(it->path());
  }
  std::sort(sets.begin(), sets.end());
  return sets;
}

}  // namespace

ConformResult run_test(const std::string& folder, const ChipConfig& chip,
                       const SessionOptions& session, const ConformTolerance& tolerance) {
  ConformResult result;
  const fs::path test(folder);
  const std::vector<fs::path> sets = data_sets(test);
  const bool alone = sets.size() == 1 && sets[0] == test;
  result.test = alone ? test.stem().string() : test.filename().string();
  if (sets.empty()) {
    result.verdict = Verdict::kRefused;
    result.reason = "no test_data_set_* folder";
  }
  for (const fs::path& set : sets) {
    const SetOutcome outcome =
        run_set(alone ? test : test / "model.onnx", set, {chip, session, tolerance, result});
    if (outcome.verdict == Verdict::kPassed) continue;
    result.verdict = outcome.verdict;
    result.reason = outcome.reason;
    break;
  }
  return result;
}

}  // namespace tessera::runtime
