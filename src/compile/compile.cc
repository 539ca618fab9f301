#include "compile/compile.h"

#include <fmt/format.h>

#include <utility>

#include "arch/architecture_file.h"
#include "base/check.h"
#include "compile/build_layers.h"
#include "compile/estimate.h"
#include "compile/layer.h"
#include "compile/layout_choice.h"
#include "compile/plan.h"
#include "compile/plan_choice.h"
#include "compile/storage.h"
#include "compile/transposition_pass.h"
#include "compile/weight_region.h"
#include "package/host_step.h"

namespace tessera::compile {
namespace {

using graph::Graph;
using graph::TensorId;
using isa::BaseIndex;
using isa::DramAddress;
using isa::TensorSlot;
using package::Package;

constexpr std::int64_t kSlotAlignmentBytes = 64;

// Compiles one graph; each member is the result of one stage.
class Compiler {
 public:
  Compiler(std::shared_ptr<const Graph> graph, const ChipConfig& chip,
           const CompileOptions& options)
      : graph_(std::move(graph)),
        chip_(chip),
        options_(options),
        weights_(options.compress_weights) {}

  Result<Package> run() {
    TESSERA_TRY(storages_, plan_storages(*graph_, chip_));
    if (options_.choose_views) {
      const ViewChoices choices = choose_views(*graph_, chip_, storages_);
      TESSERA_TRY(storages_, plan_storages(*graph_, chip_, choices));
    }
    TESSERA_TRY(layers_, build_layers(*graph_, chip_, storages_, weights_));
    package_.transpositions = add_transpositions(*graph_, chip_, options_, storages_, layers_);
    const PlanInputs inputs{*graph_, chip_, options_, storages_, layers_};
    assign_addresses();
    TESSERA_TRY(draft_, choose_plan(inputs, addresses_));
    addresses_ = std::move(draft_.addresses);
    package_.dependencies_dropped = draft_.dependencies_dropped;
    package_.chip_name = chip_.name;
    package_.graph = graph_;
    package_.workspace_bytes = draft_.plan.workspace_bytes;
    package_.state_buffer_peak_bytes = draft_.plan.buffer_peak_bytes;
    add_hints();
    add_slots();
    add_frames();
    add_host_steps();
    add_placements();
    package_.weights = weights_.take();
    return std::move(package_);
  }

 private:
  void assign_addresses() {
    std::int64_t inputs = 0;
    std::int64_t outputs = 0;
    const auto next = [](std::int64_t& end, std::int64_t bytes) {
      const std::int64_t offset = end;
      end = round_up(end + bytes, kSlotAlignmentBytes);
      return offset;
    };
    for (std::size_t i = 0; i < storages_.storages.size(); ++i) {
      const Storage& storage = storages_.storages[i];
      std::int64_t offset = 0;
      switch (storage.base) {
        case BaseIndex::kWeights:
          offset = weights_.add(graph_->tensor(storage.owner).constant->bytes);
          break;
        case BaseIndex::kWorkspace:
          break;  // the plan's
        case BaseIndex::kInput:
          offset = next(inputs, storage.bytes());
          break;
        case BaseIndex::kOutput:
          offset = next(outputs, storage.bytes());
          break;
      }
      addresses_.push_back({storage.base, static_cast<std::uint64_t>(offset)});
    }
    package_.input_bytes = inputs;
    package_.output_bytes = outputs;
  }

  void add_hints() {
    for (const PlannedLayer& layer : layers_) {
      isa::LayerHint hint{.name = layer.name, .kind = "Move", .origins = {}, .output_dims = {}};
      if (layer.kind == LayerKind::kTranspose) hint.kind = "Transposition";
      if (layer.node >= 0) {
        const graph::Node& node = graph_->nodes[layer.node];
        hint.kind = graph::node_kind_name(node.kind());
        hint.origins = node.origins;
        if (!node.outputs.empty()) hint.output_dims = graph_->tensor(node.outputs[0]).dims;
        hint.macs = graph::node_macs(*graph_, node);
      }
      package_.hints.push_back(std::move(hint));
    }
  }

  TensorSlot slot(TensorId id, StorageIndex storage, std::int64_t element_offset) const {
    const graph::TensorInfo& info = graph_->tensor(id);
    DramAddress address = addresses_[storage];
    address.offset += static_cast<std::uint64_t>(element_offset * format_bytes(info.format));
    return {info.name, id.value, info.format, info.dims, address, info.dense_dims};
  }

  TensorSlot slot(TensorId id) const {
    const Place& place = storages_.places[id];
    TESSERA_CHECK(place.valid() && place.map.is_dense(), "tensor '{}' is not dense",
                  graph_->tensor(id).name);
    return slot(id, place.storage, place.map.offset());
  }

  void add_slots() {
    for (const TensorId id : graph_->inputs) package_.inputs.push_back(slot(id));
    for (std::size_t i = 0; i < graph_->outputs.size(); ++i) {
      package_.outputs.push_back(slot(graph_->outputs[i], storages_.output_storages[i], 0));
    }
  }

  // One frame per layer that has tasks.
  void add_frames() {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> place_of;  // frame and position, a task
    for (std::size_t i = 0; i < draft_.tasks.tasks.size(); ++i) {
      const isa::TaskDescriptor& task = draft_.tasks.tasks[i];
      if (package_.frames.empty() || package_.frames.back().layer != task.layer) {
        isa::Frame frame;
        frame.layer = task.layer;
        frame.segment = draft_.tasks.segments[i];
        package_.frames.push_back(std::move(frame));
      }
      isa::Frame& frame = package_.frames.back();
      place_of.emplace_back(package_.frames.size() - 1, frame.tasks.size());
      isa::FrameTask framed{
          .descriptor = task, .dependencies = {}, .piece = draft_.tasks.pieces[i]};
      framed.descriptor.dependencies.clear();
      framed.descriptor.id = 0;
      for (const isa::Dependency& d : task.dependencies) {
        const auto [other_frame, other_task] = place_of[d.task];
        framed.dependencies.push_back(
            {other_frame, other_task, d.numerator, d.denominator, d.offset});
      }
      frame.tasks.push_back(std::move(framed));
    }
    for (isa::Frame& frame : package_.frames) {
      frame.estimated_cycles = estimate_frame(frame, chip_);
    }
  }

  void add_host_steps() {
    for (const PlannedLayer& layer : layers_) {
      if (layer.kind != LayerKind::kHost) continue;
      const graph::Node& node = graph_->nodes[layer.node];
      isa::HostStep step;
      step.node = layer.node;
      for (const TensorId id : node.inputs) step.inputs.push_back(slot(id));
      for (const TensorId id : node.outputs) step.outputs.push_back(slot(id));
      package::close_host_step(*graph_, node, step);
      package_.host_steps.push_back(std::move(step));
    }
    package_.segments = static_cast<std::uint32_t>(package_.host_steps.size()) + 1;
  }

  void add_placements() {
    const auto add = [&](const PlacedBlock& block, bool in_buffer, std::int64_t first,
                         std::int64_t last) {
      if (first < 0) return;
      package_.placements.push_back({.name = block.name,
                                     .in_state_buffer = in_buffer,
                                     .offset = block.offset,
                                     .bytes = block.bytes,
                                     .first_use = first,
                                     .last_use = last});
    };
    for (std::size_t i = 0; i < draft_.plan.buffer_blocks.size(); ++i) {
      add(draft_.plan.buffer_blocks[i], true, draft_.tasks.block_first[i],
          draft_.tasks.block_last[i]);
    }
    for (std::size_t i = 0; i < draft_.plan.home_blocks.size(); ++i) {
      add(draft_.plan.home_blocks[i], false, draft_.tasks.home_first[i], draft_.tasks.home_last[i]);
    }
  }

  std::shared_ptr<const Graph> graph_;
  const ChipConfig& chip_;
  const CompileOptions& options_;
  WeightRegion weights_;
  StoragePlan storages_;
  Layers layers_;
  Draft draft_;
  Addresses addresses_;
  Package package_;
};

// The chip with as much of its memories as the network may use.
Result<ChipConfig> bounded(const ChipConfig& chip, const CompileOptions& options) {
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

Result<Package> compile_bounded(std::shared_ptr<const Graph> graph, const ChipConfig& chip,
                                const CompileOptions& options) {
  auto package = Compiler(graph, chip, options).run();
  if (!package.ok() && package.error().code == ErrorCode::kDoesNotFit && options.choose_views) {
    // The cheapest views may have longer rows than a small buffer holds.
    CompileOptions plain = options;
    plain.choose_views = false;
    package = Compiler(std::move(graph), chip, plain).run();
  }
  return package;
}

}  // namespace

Result<Package> compile(std::shared_ptr<const Graph> graph, const ChipConfig& chip,
                        const CompileOptions& options) {
  TESSERA_CHECK(graph != nullptr, "no graph");
  const std::string name = graph->name;
  TESSERA_TRY(const ChipConfig usable, bounded(chip, options));
  auto package = compile_bounded(std::move(graph), usable, options);
  if (!package.ok()) return package.error().with_context("compiling '" + name + "'");
  // It runs on the whole chip.
  package->chip_fingerprint = fingerprint(chip);
  return package;
}

}  // namespace tessera::compile
