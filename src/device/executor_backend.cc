#include <fmt/format.h>

#include "base/table.h"
#include "device/backends.h"
#include "device/value_notes.h"
#include "graph/node_graph.h"
#include "host/executor.h"
#include "network/network.h"

namespace tessera::device {
namespace {

class LoadedGraph : public Loaded {
 public:
  explicit LoadedGraph(std::shared_ptr<const graph::Graph> of)
      : graph(std::move(of)), notes(*graph) {}

  const std::shared_ptr<const graph::Graph> graph;
  const graph::NoteTable notes;
  Table<int, std::unique_ptr<host::Executor>> executors;  // one a kernel
};

std::vector<Loaded::Tensor> tensors_of(const graph::Graph& graph,
                                       const std::vector<graph::TensorId>& ids) {
  std::vector<Loaded::Tensor> tensors;
  for (const graph::TensorId id : ids) {
    const graph::TensorInfo& info = graph.tensor(id);
    tensors.push_back({info.name, Bytes{element_count(info.dims) * format_bytes(info.format)}});
  }
  return tensors;
}

class ExecutorBackend : public Backend {
 public:
  explicit ExecutorBackend(const DeviceConfig& options) : options_(options) {
    const std::string kind = device_kind_name(options.kind);
    properties_ = {.name = options.name.empty() ? kind : options.name,
                   .kind = kind,
                   .kernels = options.kernels,
                   .clock_hertz = 0,
                   .memory = options.memory.value > 0 ? options.memory : machine_memory(),
                   .shared_memory = true};
    threads_ = threads_a_kernel(options);
  }

  const Properties& properties() const override { return properties_; }

  Result<LoadedSet> load(const std::shared_ptr<const NetworkState>& network) override {
    LoadedSet set;
    TESSERA_TRY(const auto graph, network::graph_of(*network));
    TESSERA_TRY(auto loaded, prepare(graph));
    set.entries.push_back({std::move(loaded), {}});
    return set;
  }

  Result<LoadedSet> load_layers(const std::shared_ptr<const NetworkState>& network) override {
    LoadedSet set;
    TESSERA_TRY(const auto dense, network::dense_graph_of(*network));
    for (const graph::Node& node : dense->nodes) {
      graph::NodeGraph layer = graph::node_graph(*dense, node);
      TESSERA_TRY(auto loaded,
                  prepare(std::make_shared<const graph::Graph>(std::move(layer.graph))));
      set.entries.push_back({std::move(loaded),
                             {.id = {},
                              .name = node.name,
                              .inputs = std::move(layer.inputs),
                              .outputs = std::move(layer.outputs),
                              .weight_offset = {},
                              .weight_bytes = {}}});
    }
    return set;
  }

  Status place(LoadedSet&, std::span<const std::byte>) override { return {}; }

  RunOutcome run(const ActivityObserver::Run& run, Loaded& loaded, const RunViews& views,
                 RunTurn&) override {
    auto& program = static_cast<LoadedGraph&>(loaded);
    host::NodeObserver observer;
    std::size_t done = 0;
    if (options_.progress) {
      observer = [&](const graph::Node&, graph::TensorId, const tessera::Tensor&) {
        options_.progress(
            properties_.kind.c_str(),
            static_cast<double>(++done) / static_cast<double>(program.graph->nodes.size()));
      };
    }
    RunOutcome outcome;
    host::Executor& executor = *program.executors[run.kernel];
    outcome.status = executor.run_on(views.inputs, views.outputs, observer);
    outcome.bytes_copied = executor.bytes_copied();
    outcome.status_flags = status_flags(executor.flags());
    if (outcome.status.ok()) {
      outcome.value_notes =
          value_notes(*program.graph, program.notes, executor.values(), views.inputs);
    }
    return outcome;
  }

 private:
  Result<std::unique_ptr<Loaded>> prepare(const std::shared_ptr<const graph::Graph>& graph) {
    auto loaded = std::make_unique<LoadedGraph>(graph);
    loaded->name = graph->name;
    loaded->inputs = tensors_of(*graph, graph->inputs);
    loaded->outputs = tensors_of(*graph, graph->outputs);
    for (int kernel = 0; kernel < options_.kernels; ++kernel) {
      std::unique_ptr<host::Executor> executor;
      if (options_.kind == DeviceKind::kHost) {
        // Packed weights are there once, whatever the number of kernels.
        const host::Executor* const twin = kernel == 0 ? nullptr : loaded->executors[0].get();
        TESSERA_TRY(executor, host::make_host_executor(graph, {.threads = threads_, .twin = twin}));
      } else {
        TESSERA_TRY(executor, host::make_reference_executor(graph));
      }
      loaded->executors.push_back(std::move(executor));
    }
    return std::unique_ptr<Loaded>(std::move(loaded));
  }

  const DeviceConfig options_;
  Properties properties_;
  int threads_ = 1;
};

}  // namespace

Result<std::unique_ptr<Backend>> make_executor_backend(const DeviceConfig& options) {
  return std::unique_ptr<Backend>(std::make_unique<ExecutorBackend>(options));
}

}  // namespace tessera::device
