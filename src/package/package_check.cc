#include "package/package_check.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

namespace tessera::package {
namespace {

using isa::Frame;
using isa::FrameDependency;
using isa::FrameTask;
using isa::HostStep;
using isa::kBaseIndexCount;
using isa::TensorSlot;

Error bad(std::string message) { return {ErrorCode::kInvalidModel, std::move(message)}; }

Status check_frame(const isa::Unlinked& unlinked, const Frame& frame) {
  if (frame.segment >= unlinked.segments) {
    return bad(
        fmt::format("a frame of segment {}, there are {}", frame.segment, unlinked.segments));
  }
  if (frame.layer >= unlinked.hints.size()) {
    return bad(
        fmt::format("a frame of layer {}, there are {}", frame.layer, unlinked.hints.size()));
  }
  for (const FrameTask& task : frame.tasks) {
    for (const FrameDependency& d : task.dependencies) {
      if (d.frame >= unlinked.frames.size() || d.task >= unlinked.frames[d.frame].tasks.size()) {
        return bad(
            fmt::format("a dependency on frame {} task {} that is not there", d.frame, d.task));
      }
    }
  }
  return {};
}

class PackageChecker {
 public:
  // `regions`: a package or a program of its.
  template <typename Regions>
  PackageChecker(const Package& package, const Regions& regions)
      : package_(package),
        graph_(*package.graph),
        regions_{static_cast<std::int64_t>(regions.weights.size()), regions.workspace_bytes,
                 regions.input_bytes, regions.output_bytes} {}

  Status run() const {
    TESSERA_RETURN_IF_ERROR(check_unlinked(package_));
    TESSERA_RETURN_IF_ERROR(check_slots(package_.inputs, graph_.inputs, "inputs"));
    TESSERA_RETURN_IF_ERROR(check_slots(package_.outputs, graph_.outputs, "outputs"));
    for (const HostStep& step : package_.host_steps) {
      TESSERA_RETURN_IF_ERROR(check_host_step(step));
    }
    return check_transpositions();
  }

  // Of a program for several cores, whose regions the checker was made for.
  Status run(const isa::Program& first) const {
    TESSERA_RETURN_IF_ERROR(check_slots(first.inputs, graph_.inputs, "inputs"));
    TESSERA_RETURN_IF_ERROR(check_slots(first.outputs, graph_.outputs, "outputs"));
    for (const isa::Segment& segment : first.segments) {
      for (const HostStep& step : segment.host_steps) {
        TESSERA_RETURN_IF_ERROR(check_host_step(step));
      }
    }
    return {};
  }

 private:
  Status check_slot(const TensorSlot& slot, graph::TensorId id) const {
    const graph::TensorInfo& info = graph_.tensor(id);
    if (slot.tensor != id.value || slot.format != info.format || slot.dims != info.dims ||
        slot.dense_dims != info.dense_dims) {
      return bad(fmt::format("tensor '{}' of the package is not tensor '{}' of its graph",
                             slot.name, info.name));
    }
    if (info.constant != nullptr) return {};  // taken from the graph, not from DRAM
    const std::int64_t bytes = element_count(info.dims) * format_bytes(info.format);
    const std::int64_t size = regions_[static_cast<std::size_t>(slot.address.base)];
    if (bytes > size || slot.address.offset > static_cast<std::uint64_t>(size - bytes)) {
      return bad(fmt::format("tensor '{}': {} bytes at {} of DRAM region {}, which has {}",
                             slot.name, bytes, slot.address.offset,
                             static_cast<int>(slot.address.base), size));
    }
    return {};
  }

  Status check_slots(const std::vector<TensorSlot>& slots,
                     const std::vector<graph::TensorId>& tensors, const std::string& what) const {
    if (slots.size() != tensors.size()) {
      return bad(
          fmt::format("{}: the package has {}, its graph {}", what, slots.size(), tensors.size()));
    }
    for (std::size_t i = 0; i < slots.size(); ++i) {
      TESSERA_RETURN_IF_ERROR(check_slot(slots[i], tensors[i]));
    }
    return {};
  }

  Status check_host_step(const HostStep& step) const {
    if (step.node < 0 || static_cast<std::size_t>(step.node) >= graph_.nodes.size()) {
      return bad(
          fmt::format("a host step of node {}, there are {}", step.node, graph_.nodes.size()));
    }
    const graph::Node& node = graph_.nodes[step.node];
    if (node.kind() != graph::NodeKind::kHostStep) {
      return bad(fmt::format("a host step of node '{}', which is not for the host", node.name));
    }
    TESSERA_RETURN_IF_ERROR(
        check_slots(step.inputs, node.inputs, "inputs of host step '" + node.name + "'"));
    return check_slots(step.outputs, node.outputs, "outputs of host step '" + node.name + "'");
  }

  Status check_transpositions() const {
    for (const TranspositionHint& hint : package_.transpositions) {
      if (hint.layer >= package_.hints.size()) {
        return bad(fmt::format("a transposition in layer {}, there are {}", hint.layer,
                               package_.hints.size()));
      }
    }
    return {};
  }

  const Package& package_;
  const graph::Graph& graph_;
  const std::array<std::int64_t, kBaseIndexCount> regions_;  // bytes, by BaseIndex
};

}  // namespace

Status check_regions(std::int64_t workspace, std::int64_t inputs, std::int64_t outputs) {
  for (const std::int64_t bytes : {workspace, inputs, outputs}) {
    if (bytes < 0 || bytes > kRegionBytesMax) {
      return bad(fmt::format("a DRAM region of {} bytes, allowed 0..{}", bytes, kRegionBytesMax));
    }
  }
  return {};
}

Status check_unlinked(const isa::Unlinked& unlinked) {
  TESSERA_RETURN_IF_ERROR(
      check_regions(unlinked.workspace_bytes, unlinked.input_bytes, unlinked.output_bytes));
  if (unlinked.segments < 1 || unlinked.segments != unlinked.host_steps.size() + 1) {
    return bad(fmt::format("{} segments around {} host steps", unlinked.segments,
                           unlinked.host_steps.size()));
  }
  for (const Frame& frame : unlinked.frames) TESSERA_RETURN_IF_ERROR(check_frame(unlinked, frame));
  return {};
}

Status check_package(const Package& package) { return PackageChecker(package, package).run(); }

namespace {

Status check_model_nodes(const Package& package, const isa::ModelledCores* model) {
  if (model == nullptr || model->chosen.size() == package.graph->nodes.size()) return {};
  return Error{ErrorCode::kInvalidModel,
               fmt::format("a performance model of {} nodes, the graph has {}",
                           model->chosen.size(), package.graph->nodes.size())};
}

}  // namespace

Status check_prepared(const Package& package) {
  if (package.prepared == nullptr) return {};
  TESSERA_RETURN_IF_ERROR(check_model_nodes(package, package.prepared->one_core.get()));
  for (const auto& prepared : package.prepared->programs) {
    Status status = check_model_nodes(package, prepared->model.get());
    if (status.ok()) status = PackageChecker(package, prepared->first).run(prepared->first);
    if (!status.ok()) {
      return status.error().with_context(fmt::format("for {} cores", prepared->key.cores));
    }
  }
  return {};
}

}  // namespace tessera::package
