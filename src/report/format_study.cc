#include "report/format_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "accuracy/operand_bytes.h"
#include "accuracy/outputs.h"
#include "arch/architecture_file.h"
#include "arith/microscaling.h"
#include "arith/rounding.h"
#include "base/quantity.h"
#include "host/executor.h"
#include "model/given_inputs.h"
#include "model/import.h"
#include "model/insert_quantisation.h"
#include "network/network.h"

namespace tessera::report {
namespace {

using accuracy::OutputSums;
using accuracy::values_of;
using graph::Graph;
using graph::Node;
using graph::NodeKind;

constexpr const char* kBaseline = "f32";
constexpr const char* kInteger = "int8";

// Rows of scores along the last axis; none for an output of another kind.
struct Scores {
  std::int64_t rows = 0, classes = 0;
};
std::optional<Scores> scores_of(const Tensor& tensor) {
  Shape dims = tensor.dims;
  while (dims.size() > 2 && dims.back() == 1) dims.pop_back();  // [N, C, 1, 1]
  if (dims.size() < 2 || dims.size() > 3 || dims.back() < 2) return std::nullopt;
  if (!format_is_float(tensor.format)) return std::nullopt;
  return Scores{element_count(dims) / dims.back(), dims.back()};
}

std::vector<std::int64_t> best_classes(const Tensor& tensor, const Scores& scores) {
  const std::vector<double> values = values_of(tensor);
  std::vector<std::int64_t> best;
  for (std::int64_t row = 0; row < scores.rows; ++row) {
    const auto first = values.begin() + row * scores.classes;
    best.push_back(std::max_element(first, first + scores.classes) - first);
  }
  return best;
}

std::vector<std::int64_t> text_of(const std::vector<std::int64_t>& classes) {
  std::vector<std::int64_t> text;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (classes[i] != 0 && (i == 0 || classes[i] != classes[i - 1])) text.push_back(classes[i]);
  }
  return text;
}

// Texts of the images of a batch.
std::vector<std::vector<std::int64_t>> texts_of(const Tensor& tensor, const Scores& scores) {
  const std::vector<std::int64_t> classes = best_classes(tensor, scores);
  const std::int64_t steps = tensor.dims.size() == 3 ? tensor.dims[1] : scores.rows;
  std::vector<std::vector<std::int64_t>> texts;
  for (std::int64_t first = 0; first < scores.rows; first += steps) {
    texts.push_back(text_of({classes.begin() + first, classes.begin() + first + steps}));
  }
  return texts;
}

// Counts pairs that are equal.
struct Agreement {
  std::int64_t same = 0, all = 0;

  template <typename T>
  void add(const std::vector<T>& a, const std::vector<T>& b) {
    for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
      ++all;
      same += a[i] == b[i];
    }
  }
  std::optional<double> share() const {
    if (all == 0) return std::nullopt;
    return static_cast<double>(same) / static_cast<double>(all);
  }
};

// ---- runs

LoadOptions load_in(const FormatStudyOptions& options, const std::string& format) {
  LoadOptions load = options.load;
  if (format != kInteger) load.arch += "+" + format;
  load.progress = {};
  return load;
}

using GraphResult = Result<std::shared_ptr<const Graph>>;

GraphResult graph_in(const model::Model& model, const LoadOptions& load) {
  TESSERA_TRY(const ChipConfig chip, load_chip_config(load.arch));
  return network::graph_of_model(model, chip, load);
}

// The extremes of `tensor`, together with what is there.
void widen(const Tensor& tensor, model::ValueRange& range) {
  for (const double value : values_of(tensor)) {
    if (!std::isfinite(value)) continue;
    range.lowest = std::min(range.lowest, static_cast<float>(value));
    range.highest = std::max(range.highest, static_cast<float>(value));
  }
}

// The ranges of what float products read, over all cases in float32.
Result<std::map<std::string, model::ValueRange>> calibrated(const model::Model& model,
                                                            const FormatStudyOptions& options) {
  std::map<std::string, model::ValueRange> ranges;
  model::Model observed = model;
  std::set<std::string> outputs;
  for (const model::ValueInfo& output : model.graph.outputs) outputs.insert(output.name);
  std::map<std::string, std::size_t> inputs;
  for (std::size_t i = 0; i < model.graph.inputs.size(); ++i) {
    inputs[model.graph.inputs[i].name] = i;
  }
  for (const std::string& name : model::quantisable_inputs(model)) {
    ranges[name] = {};
    const auto input = inputs.find(name);
    if (input != inputs.end()) {
      for (const auto& tensors : options.cases) widen(tensors[input->second], ranges[name]);
    } else if (outputs.insert(name).second) {
      observed.graph.outputs.push_back({.name = name, .dims = {}, .has_format = false});
    }
  }
  TESSERA_TRY(const auto graph, graph_in(observed, load_in(options, kBaseline)));
  TESSERA_TRY(const auto executor, host::make_host_executor(graph, {.threads = options.threads}));
  for (const std::vector<Tensor>& tensors : options.cases) {
    TESSERA_TRY(const std::vector<Tensor> found, executor->run(tensors));
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto range = ranges.find(graph->tensor(graph->outputs[i]).name);
      if (range != ranges.end()) widen(found[i], range->second);
    }
  }
  return ranges;
}

GraphResult graph_of_format(const model::Model& model, const std::string& format,
                            const FormatStudyOptions& options) {
  const LoadOptions load = load_in(options, format);
  if (format != kInteger) return graph_in(model, load);
  TESSERA_TRY(const auto ranges, calibrated(model, options));
  return graph_in(model::insert_quantisation(model, ranges), load);
}

Result<std::vector<std::vector<Tensor>>> outputs_of(std::shared_ptr<const Graph> graph,
                                                    const FormatStudyOptions& options) {
  TESSERA_TRY(const auto executor,
              host::make_host_executor(std::move(graph), {.threads = options.threads}));
  std::vector<std::vector<Tensor>> outputs;
  for (const std::vector<Tensor>& inputs : options.cases) {
    TESSERA_TRY(std::vector<Tensor> found, executor->run(inputs));
    outputs.push_back(std::move(found));
  }
  return outputs;
}

Result<std::int64_t> cycles_of(std::shared_ptr<const Graph> graph, const LoadOptions& load,
                               const std::vector<Tensor>& inputs) {
  TESSERA_TRY(const ChipConfig chip, load_chip_config(load.arch));
  TESSERA_TRY(const Network network, network::network_from_graph(std::move(graph), chip, load));
  SessionOptions options;
  options.timing_only = true;
  TESSERA_TRY(Session session, Session::open(network, options));
  TESSERA_TRY(const RunResult run, session.run(inputs));
  return run.cycles;
}

FormatRow row_of(const model::Model& model, const std::string& format,
                 const FormatStudyOptions& options,
                 const std::vector<std::vector<Tensor>>& expected) {
  FormatRow row;
  row.format = format;
  const auto graph = graph_of_format(model, format, options);
  if (!graph.ok()) {
    row.error = graph.error().message;
    return row;
  }
  const auto outputs = outputs_of(*graph, options);
  if (!outputs.ok()) {
    row.error = outputs.error().message;
    return row;
  }
  row.accuracy = accuracy_of(expected, *outputs, options.texts);
  const accuracy::OperandBytes bytes = accuracy::operand_bytes(**graph);
  row.weight_bytes = bytes.weights;
  row.activation_bytes = bytes.activations;
  const auto cycles = cycles_of(*graph, load_in(options, format), options.cases.front());
  if (cycles.ok()) {
    row.cycles = *cycles;
  } else {
    row.cycles_error = cycles.error().message;
  }
  return row;
}

}  // namespace

std::vector<std::string> study_formats() {
  std::vector<std::string> formats = {kBaseline, "f16"};
  for (int m = 15; m >= 3; --m) formats.push_back(fmt::format("bfp:{}", m));
  formats.emplace_back(kInteger);
  for (const MicroElement element :
       {MicroElement::kInt8, MicroElement::kE4M3, MicroElement::kE5M2, MicroElement::kE2M3,
        MicroElement::kE3M2, MicroElement::kE2M1}) {
    formats.emplace_back(arith::micro_element_name(element));
  }
  return formats;
}

Result<std::vector<TensorDescription>> study_inputs(const std::string& path,
                                                    const LoadOptions& options) {
  TESSERA_TRY(model::Model model, model::import_file(path));
  model::give_inputs(model, options.given);
  return study_inputs(model, options);
}

Result<std::vector<TensorDescription>> study_inputs(const model::Model& model,
                                                    const LoadOptions& options) {
  TESSERA_TRY(const auto graph, graph_in(model, options));
  std::vector<TensorDescription> inputs;
  for (const graph::TensorId id : graph->inputs) {
    const graph::TensorInfo& tensor = graph->tensor(id);
    inputs.push_back({tensor.name, tensor.format, tensor.dims});
  }
  return inputs;
}

Accuracy accuracy_of(const std::vector<std::vector<Tensor>>& expected,
                     const std::vector<std::vector<Tensor>>& found, bool texts) {
  Accuracy accuracy;
  Agreement top1, same_texts;
  const std::size_t outputs = expected.empty() ? 0 : expected[0].size();
  for (std::size_t output = 0; output < outputs; ++output) {
    OutputSums sums;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      sums.add(expected[i][output], found[i][output]);
    }
    accuracy.cosine = std::min(accuracy.cosine, sums.cosine());
    if (sums.max_error >= accuracy.max_error) {
      accuracy.max_error = sums.max_error;
      accuracy.largest = sums.largest;
    }
  }
  for (std::size_t i = 0; outputs > 0 && i < expected.size(); ++i) {
    const auto scores = scores_of(expected[i][0]);
    if (!scores) continue;
    top1.add(best_classes(expected[i][0], *scores), best_classes(found[i][0], *scores));
    if (texts) same_texts.add(texts_of(expected[i][0], *scores), texts_of(found[i][0], *scores));
  }
  accuracy.top1 = top1.share();
  accuracy.texts = same_texts.share();
  return accuracy;
}

Result<FormatStudy> format_study(const std::string& path, const FormatStudyOptions& options) {
  const auto report = [&](std::size_t done) {
    if (options.load.progress) {
      options.load.progress(
          "formats", static_cast<double>(done) / static_cast<double>(options.formats.size()));
    }
  };
  report(0);
  TESSERA_TRY(model::Model model, model::import_file(path));
  model::give_inputs(model, options.load.given);
  TESSERA_TRY(const auto baseline, graph_in(model, load_in(options, kBaseline)));
  FormatStudy study;
  study.cases = options.cases.size();
  study.notes = baseline->notes;
  study.external_files = baseline->external_files;
  TESSERA_TRY(const auto expected, outputs_of(baseline, options));
  for (const std::string& format : options.formats) {
    study.rows.push_back(row_of(model, format, options, expected));
    report(study.rows.size());
  }
  return study;
}

}  // namespace tessera::report
