#include "model_runner.h"

namespace tessera::cases {

Result<LoadedModel*> ModelRunner::loaded(const std::string& model,
                                         const std::map<std::string, Shape>& shapes) {
  std::unique_ptr<LoadedModel>& slot = loaded_[{model, shapes}];
  if (slot == nullptr) {
    LoadOptions load;
    load.arch = arch_;
    load.shapes = shapes;
    const std::string path = folder_ + "/models/" + model + ".onnx";
    SessionOptions options;
    options.device = device_;
    auto network = Network::load(path, load);
    if (network.ok()) {
      TESSERA_TRY(Session session, Session::open(*network, options));
      slot = std::make_unique<LoadedModel>(
          LoadedModel{std::move(*network), std::move(session), std::nullopt});
      return slot.get();
    }
    // Of any other reason the session has the same to say.
    if (network.error().code != ErrorCode::kUnsupported) return network.error();
    TESSERA_TRY(DynamicNetwork whole, DynamicNetwork::open(path, {.load = {.arch = arch_}}));
    TESSERA_TRY(DynamicSession parts, DynamicSession::open(std::move(whole), options));
    slot = std::make_unique<LoadedModel>(LoadedModel{std::nullopt, std::nullopt, std::move(parts)});
  }
  return slot.get();
}

Result<const LoadedModel*> ModelRunner::load(const std::string& model) {
  TESSERA_TRY(const LoadedModel* found, loaded(model, {}));
  return found;
}

Result<std::vector<Tensor>> ModelRunner::run(const std::string& model,
                                             const std::vector<Tensor>& inputs) {
  TESSERA_TRY(LoadedModel * found, loaded(model, {}));
  if (found->parts) {
    TESSERA_TRY(RunResult result, found->parts->run(inputs));
    return std::move(result.outputs);
  }
  const auto& wanted = found->network->inputs();
  std::map<std::string, Shape> shapes;
  bool same = inputs.size() == wanted.size();
  for (std::size_t i = 0; i < wanted.size() && i < inputs.size(); ++i) {
    shapes[wanted[i].name] = inputs[i].dims;
    same = same && wanted[i].dims == inputs[i].dims;
  }
  if (!same) {
    TESSERA_TRY(found, loaded(model, shapes));
  }
  if (found->parts) {
    TESSERA_TRY(RunResult parts, found->parts->run(inputs));
    return std::move(parts.outputs);
  }
  TESSERA_TRY(RunResult result, found->session->run(inputs));
  return std::move(result.outputs);
}

}  // namespace tessera::cases
