#include "compile/prepare.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "compile/build_layers.h"
#include "compile/kernel_store.h"
#include "compile/layout_choice.h"
#include "compile/surface_conventions.h"
#include "compile/transposition_pass.h"
#include "package/host_step.h"

namespace tessera::compile {
namespace {

using graph::Graph;
using graph::TensorId;
using isa::BaseIndex;
using isa::DramAddress;
using isa::TensorSlot;

void assign_addresses(const Graph& graph, KernelStore& kernels, Prepared& prepared) {
  const auto next = [](std::int64_t& end, std::int64_t bytes) {
    const std::int64_t offset = end;
    end = round_up(end + bytes, kAlignmentBytes);
    return offset;
  };
  for (const Storage& storage : prepared.storages.storages) {
    std::int64_t offset = 0;
    switch (storage.base) {
      case BaseIndex::kWeights:
        offset = prepared.weights.add(kernels.constant(graph.tensor(storage.owner).constant));
        break;
      case BaseIndex::kWorkspace:
        break;  // the plan's
      case BaseIndex::kInput:
        offset = next(prepared.input_bytes, storage.bytes());
        break;
      case BaseIndex::kOutput:
        offset = next(prepared.output_bytes, storage.bytes());
        break;
    }
    prepared.addresses.push_back({storage.base, static_cast<std::uint64_t>(offset)});
  }
}

TensorSlot slot(const Graph& graph, TensorId id, DramAddress address, std::int64_t first_element) {
  const graph::TensorInfo& info = graph.tensor(id);
  address.offset += static_cast<std::uint64_t>(first_element * format_bytes(info.format));
  return {info.name, id.value, info.format, info.dims, address, info.dense_dims};
}

TensorSlot slot(const Graph& graph, const StoragePlan& storages, const Addresses& addresses,
                TensorId id) {
  const Place& place = storages.places[id];
  TESSERA_CHECK(place.valid() && place.map.is_dense(), "tensor '{}' is not dense",
                graph.tensor(id).name);
  return slot(graph, id, addresses[place.storage], place.map.offset());
}

}  // namespace

Result<Prepared> prepare(const Graph& graph, const ChipConfig& chip, const CompileOptions& options,
                         const ShareChoice& shares, const std::set<TensorId>& apart) {
  Prepared prepared;
  const std::shared_ptr<KernelStore> kernels =
      options.kernels != nullptr ? options.kernels : std::make_shared<KernelStore>();
  TESSERA_RETURN_IF_ERROR(watched(options.watch, "plan_storages"));
  TESSERA_TRY(prepared.storages, plan_storages(graph, chip, {}, apart));
  if (options.choose_views) {
    TESSERA_TRY(const ViewChoices choices,
                choose_views(graph, chip, prepared.storages, options.watch));
    TESSERA_TRY(prepared.storages, plan_storages(graph, chip, choices, apart));
  }
  TESSERA_TRY(
      prepared.layers,
      build_layers(graph, chip, prepared.storages,
                   {*kernels, prepared.weights, options.compress_weights, options.watch}, shares));
  prepared.transpositions =
      add_transpositions(graph, chip, options, prepared.storages, prepared.layers);
  assign_addresses(graph, *kernels, prepared);
  return prepared;
}

Result<ChipConfig> bounded_chip(const ChipConfig& chip, const CompileOptions& options) {
  ChipConfig result = chip;
  const auto bound = [](std::int64_t bytes, std::int32_t& of, const char* memory) -> Status {
    if (bytes < 0 || bytes > of) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{} bytes of a {} partition, which has {}", bytes, memory, of)};
    }
    if (bytes > 0) of = static_cast<std::int32_t>(bytes);
    return {};
  };
  TESSERA_RETURN_IF_ERROR(
      bound(options.state_buffer_bytes, result.state_buffer.bytes_per_partition, "state buffer"));
  TESSERA_RETURN_IF_ERROR(bound(options.kernel_memory_bytes,
                                result.neural.kernel_bytes_per_partition, "kernel memory"));
  return result;
}

std::vector<isa::LayerHint> layer_hints(const Graph& graph, const Layers& layers) {
  std::vector<isa::LayerHint> hints;
  for (const PlannedLayer& layer : layers) {
    isa::LayerHint hint{.name = layer.name, .kind = "Move", .origins = {}, .output_dims = {}};
    if (layer.kind == LayerKind::kTranspose) hint.kind = "Transposition";
    if (layer.node >= 0) {
      const graph::Node& node = graph.nodes[layer.node];
      hint.kind = graph::node_kind_name(node.kind());
      hint.origins = node.origins;
      if (!node.outputs.empty()) hint.output_dims = graph.tensor(node.outputs[0]).dims;
      hint.macs = graph::node_macs(graph, node);
    }
    hints.push_back(std::move(hint));
  }
  return hints;
}

std::vector<TensorSlot> input_slots(const Graph& graph, const StoragePlan& storages,
                                    const Addresses& addresses) {
  std::vector<TensorSlot> slots;
  for (const TensorId id : graph.inputs) slots.push_back(slot(graph, storages, addresses, id));
  return slots;
}

std::vector<TensorSlot> output_slots(const Graph& graph, const StoragePlan& storages,
                                     const Addresses& addresses) {
  std::vector<TensorSlot> slots;
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    slots.push_back(slot(graph, graph.outputs[i], addresses[storages.output_storages[i]], 0));
  }
  return slots;
}

std::vector<isa::HostStep> make_host_steps(const Graph& graph, const Layers& layers,
                                           const StoragePlan& storages,
                                           const Addresses& addresses) {
  std::vector<isa::HostStep> steps;
  for (const PlannedLayer& layer : layers) {
    if (layer.kind != LayerKind::kHost) continue;
    const graph::Node& node = graph.nodes[layer.node];
    isa::HostStep step;
    step.node = layer.node;
    for (const TensorId id : node.inputs) {
      step.inputs.push_back(slot(graph, storages, addresses, id));
    }
    for (const TensorId id : node.outputs) {
      step.outputs.push_back(slot(graph, storages, addresses, id));
    }
    package::close_host_step(graph, node, step);
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace tessera::compile
