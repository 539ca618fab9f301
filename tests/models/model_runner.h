// Models by name on one architecture and device, loaded when they are first needed.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/tessera.h"

namespace tessera::cases {

// One model for one set of input shapes; or, where data decides what it computes, for all: it runs in parts.
struct LoadedModel {
  std::optional<Network> network;  // none in parts
  std::optional<Session> session;
  std::optional<DynamicSession> parts;
  // In parts: of the last run.
  const Placement& placement() const { return network ? network->placement() : parts->placement(); }
};

class ModelRunner {
 public:
  // `folder` holds models/NAME.onnx.
  ModelRunner(std::string folder, std::string arch, DeviceKind device)
      : folder_(std::move(folder)), arch_(std::move(arch)), device_(device) {}

  // As it compiles with no option at all: open dimensions take their defaults. A model that no single network can be is
  // taken in parts.
  Result<const LoadedModel*> load(const std::string& model);
  // Compiles once for the inputs' shapes.
  Result<std::vector<Tensor>> run(const std::string& model, const std::vector<Tensor>& inputs);
  // Lets go of all networks.
  void forget() { loaded_.clear(); }

  const std::string& arch() const { return arch_; }

 private:
  Result<LoadedModel*> loaded(const std::string& model, const std::map<std::string, Shape>& shapes);

  const std::string folder_, arch_;
  const DeviceKind device_;
  std::map<std::pair<std::string, std::map<std::string, Shape>>, std::unique_ptr<LoadedModel>>
      loaded_;
};

}  // namespace tessera::cases
