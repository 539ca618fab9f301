#include "device/executor_device.h"

#include <fmt/format.h>

#include <algorithm>

#include "host/executor.h"

namespace tessera::device {
namespace {

struct LoadedGraph {
  std::shared_ptr<const NetworkState> network;  // shared with the session
  std::unique_ptr<host::Executor> executor;
};

class ExecutorDevice : public Device {
 public:
  explicit ExecutorDevice(const SessionOptions& options) : options_(options) {}

  DeviceKind kind() const override { return options_.device; }

  Result<LoadedId> load(std::shared_ptr<const NetworkState> network) override {
    LoadedGraph loaded;
    const auto& graph = network->package.graph;
    if (options_.device == DeviceKind::kHost) {
      TESSERA_TRY(loaded.executor, host::make_host_executor(graph, {.threads = options_.threads}));
    } else {
      TESSERA_TRY(loaded.executor, host::make_reference_executor(graph));
    }
    loaded.network = std::move(network);
    loaded_.push_back(std::move(loaded));
    return static_cast<LoadedId>(loaded_.size() - 1);
  }

 protected:
  Result<RunResult> execute(LoadedId id, const Views& inputs, const Views& outputs) override {
    const auto index = static_cast<std::size_t>(id);
    if (index >= loaded_.size()) {
      return Error{ErrorCode::kInvalidArgument, fmt::format("network {} is not loaded", index)};
    }
    const NetworkState& network = *loaded_[index].network;
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      tensors.push_back(
          {network.inputs[i].format, network.inputs[i].dims, {inputs[i].begin(), inputs[i].end()}});
    }
    std::size_t done = 0;
    const std::size_t nodes = network.graph().nodes.size();
    host::NodeObserver observer;
    if (options_.progress) {
      observer = [&](const graph::Node&, graph::TensorId, const Tensor&) {
        options_.progress(device_kind_name(options_.device),
                          static_cast<double>(++done) / static_cast<double>(nodes));
      };
    }
    TESSERA_TRY(const std::vector<Tensor> results, loaded_[index].executor->run(tensors, observer));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      std::copy(results[i].bytes.begin(), results[i].bytes.end(), outputs[i].begin());
    }
    return RunResult{};
  }

 private:
  const SessionOptions options_;
  std::vector<LoadedGraph> loaded_;
};

}  // namespace

Result<std::unique_ptr<Device>> make_executor_device(const SessionOptions& options) {
  return std::unique_ptr<Device>(std::make_unique<ExecutorDevice>(options));
}

}  // namespace tessera::device
