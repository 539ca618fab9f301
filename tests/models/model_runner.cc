#include "model_runner.h"

namespace tessera::cases {

Result<LoadedModel*> ModelRunner::loaded(const std::string& model,
                                         const std::map<std::string, Shape>& shapes) {
  std::unique_ptr<LoadedModel>& slot = loaded_[{model, shapes}];
  if (slot == nullptr) {
    LoadOptions load;
    load.arch = arch_;
    load.shapes = shapes;
    TESSERA_TRY(Network network, Network::load(folder_ + "/models/" + model + ".onnx", load));
    SessionOptions options;
    options.device = device_;
    TESSERA_TRY(Session session, Session::open(network, options));
    slot = std::make_unique<LoadedModel>(LoadedModel{std::move(network), std::move(session)});
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
  const auto& wanted = found->network.inputs();
  std::map<std::string, Shape> shapes;
  bool same = inputs.size() == wanted.size();
  for (std::size_t i = 0; i < wanted.size() && i < inputs.size(); ++i) {
    shapes[wanted[i].name] = inputs[i].dims;
    same = same && wanted[i].dims == inputs[i].dims;
  }
  if (!same) {
    TESSERA_TRY(found, loaded(model, shapes));
  }
  TESSERA_TRY(RunResult result, found->session.run(inputs));
  return std::move(result.outputs);
}

}  // namespace tessera::cases
