#include "runtime/conform.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "arith/rounding.h"
#include "model/import.h"

namespace tessera::runtime {
namespace {

namespace fs = std::filesystem;

// input_0.pb, input_1.pb, ... in this order.
Result<std::vector<Tensor>> read_set(const fs::path& folder, const std::string& prefix) {
  std::vector<Tensor> tensors;
  for (int i = 0;; ++i) {
    const fs::path path = folder / fmt::format("{}_{}.pb", prefix, i);
    if (!fs::exists(path)) return tensors;
    TESSERA_TRY(Tensor tensor, model::import_tensor_file(path.string()));
    tensors.push_back(std::move(tensor));
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

// Input files belong to the model's inputs in order; shapes come from the files.
Result<LoadOptions> options_for(const model::Model& model, const std::vector<Tensor>& inputs) {
  LoadOptions options;
  if (inputs.size() > model.graph.inputs.size()) {
    return Error{ErrorCode::kInvalidModel, fmt::format("{} input files, the model has {} inputs",
                                                       inputs.size(), model.graph.inputs.size())};
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    options.shapes[model.graph.inputs[i].name] = inputs[i].dims;
  }
  return options;
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

SetOutcome run_set(const fs::path& model_path, const fs::path& set, const ChipConfig& chip,
                   const SessionOptions& session, const ConformTolerance& tolerance,
                   std::int64_t& nodes_on_host) {
  const auto model = model::import_file(model_path.string());
  if (!model.ok()) return outcome_of(model.error());
  auto inputs = read_set(set, "input");
  auto expected = read_set(set, "output");
  if (!inputs.ok()) return outcome_of(inputs.error());
  if (!expected.ok()) return outcome_of(expected.error());
  const auto options = options_for(*model, *inputs);
  if (!options.ok()) return outcome_of(options.error());
  const auto graph = load_graph(model_path.string(), chip, *options);
  if (!graph.ok()) return outcome_of(graph.error());
  const auto network = network_from_graph(*graph, chip, *options);
  if (!network.ok()) return outcome_of(network.error());
  nodes_on_host = network->placement().nodes_on_host;
  auto opened = Session::open(*network, session);
  if (!opened.ok()) return outcome_of(opened.error());
  for (std::size_t i = 0; i < inputs->size() && i < network->inputs().size(); ++i) {
    as_bf16_where_declared((*inputs)[i], network->inputs()[i].format);
  }
  const auto result = opened->run(*inputs);
  if (!result.ok()) return outcome_of_run(result.error());
  if (result->outputs.size() != expected->size()) {
    return {Verdict::kWrong,
            fmt::format("{} outputs, {} expected", result->outputs.size(), expected->size())};
  }
  for (std::size_t i = 0; i < expected->size(); ++i) {
    as_bf16_where_declared((*expected)[i], network->outputs()[i].format);
    const std::string found =
        difference(result->outputs[i], (*expected)[i], network->outputs()[i].name, tolerance);
    if (!found.empty()) return {Verdict::kWrong, found};
  }
  return {Verdict::kPassed, ""};
}

}  // namespace

Result<std::vector<std::string>> find_tests(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> tests;
  fs::recursive_directory_iterator it(folder, error);
  if (error) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("reading '{}': {}", folder, error.message())};
  }
  for (const fs::directory_entry& entry : it) {
    if (entry.path().filename() == "model.onnx") tests.push_back(entry.path().parent_path());
  }
  std::sort(tests.begin(), tests.end());
  if (tests.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("'{}' has no folder with a model.onnx", folder)};
  }
  return tests;
}

ConformResult run_test(const std::string& folder, const ChipConfig& chip,
                       const SessionOptions& session, const ConformTolerance& tolerance) {
  ConformResult result;
  result.test = fs::path(folder).filename().string();
  std::vector<fs::path> sets;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("test_data_set_")) {
      sets.push_back(entry.path());
    }
  }
  std::sort(sets.begin(), sets.end());
  if (sets.empty()) {
    result.verdict = Verdict::kRefused;
    result.reason = "no test_data_set_* folder";
  }
  for (const fs::path& set : sets) {
    const SetOutcome outcome = run_set(fs::path(folder) / "model.onnx", set, chip, session,
                                       tolerance, result.nodes_on_host);
    if (outcome.verdict == Verdict::kPassed) continue;
    result.verdict = outcome.verdict;
    result.reason = outcome.reason;
    break;
  }
  return result;
}

}  // namespace tessera::runtime
