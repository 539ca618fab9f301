#include "accuracy/trial.h"

#include <fmt/format.h>

#include <utility>

#include "accuracy/outputs.h"
#include "arch/architecture_file.h"
#include "arch/format_choice.h"
#include "host/executor.h"
#include "model/given_inputs.h"
#include "model/import.h"
#include "network/first_part.h"
#include "network/network.h"
#include "package/container.h"

namespace tessera::accuracy {
namespace {

Result<std::vector<std::vector<Tensor>>> outputs_of(std::shared_ptr<const graph::Graph> graph,
                                                    const FormatCases& cases) {
  TESSERA_TRY(const auto executor,
              host::make_host_executor(std::move(graph), {.threads = cases.threads}));
  std::vector<std::vector<Tensor>> outputs;
  for (const std::vector<Tensor>& inputs : cases.inputs) {
    TESSERA_TRY(std::vector<Tensor> found, executor->run(inputs));
    outputs.push_back(std::move(found));
  }
  return outputs;
}

Status check_cases(const graph::Graph& graph, const FormatCases& cases) {
  if (cases.inputs.empty()) {
    return Error{ErrorCode::kInvalidArgument, "no case is given; formats are chosen on inputs"};
  }
  for (const std::vector<Tensor>& inputs : cases.inputs) {
    if (inputs.size() != graph.inputs.size()) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("a case has {} inputs, the model takes {}", inputs.size(),
                               graph.inputs.size())};
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const graph::TensorInfo& info = graph.tensor(graph.inputs[i]);
      if (inputs[i].format == info.format && inputs[i].dims == info.dims) continue;
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("a case's input '{}' has another format or shape than the model's",
                               info.name)};
    }
  }
  return {};
}

}  // namespace

Result<Trials> Trials::open(const std::string& path, const LoadOptions& load,
                            const FormatCases& cases, Extent extent) {
  if (package::kind_of_file(path) != package::FileKind::kOther) {
    return Error{
        ErrorCode::kUnsupported,
        fmt::format("'{}' is compiled for one choice of formats; give the ONNX model", path)};
  }
  Trials trials;
  trials.load_ = load;
  trials.load_.layer_formats = {};
  trials.load_.progress = {};
  trials.cases_ = &cases;
  TESSERA_TRY(trials.chip_, load_chip_config(load.arch));
  trials.float32_chip_ = trials.chip_;
  TESSERA_RETURN_IF_ERROR(apply_format_choice("f32", trials.float32_chip_.formats));
  TESSERA_TRY(model::Model model, model::import_file(path));
  model::give_inputs(model, trials.load_.given);
  if (extent == Extent::kFirstPart) {
    TESSERA_TRY(auto part, network::first_part(model, trials.load_));
    if (part) model = std::move(part->model);
  }
  trials.model_ = std::make_shared<const model::Model>(std::move(model));
  TESSERA_TRY(trials.float32_,
              network::graph_of_model(*trials.model_, trials.float32_chip_, trials.load_));
  TESSERA_RETURN_IF_ERROR(check_cases(*trials.float32_, cases));
  TESSERA_TRY(trials.expected_, outputs_of(trials.float32_, cases));
  return trials;
}

Result<std::shared_ptr<const graph::Graph>> Trials::graph(const LayerFormats& formats) const {
  LoadOptions load = load_;
  load.layer_formats = formats;
  return network::graph_of_model(*model_, chip_, load);
}

Result<double> Trials::cosine(std::shared_ptr<const graph::Graph> graph) {
  ++runs_;
  TESSERA_TRY(const auto found, outputs_of(std::move(graph), *cases_));
  return least_cosine(expected_, found);
}

}  // namespace tessera::accuracy
