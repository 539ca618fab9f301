#include "compile/compile.h"

#include <utility>

#include "arch/architecture_file.h"
#include "base/check.h"
#include "compile/estimate.h"
#include "compile/far_parts.h"
#include "compile/plan.h"
#include "compile/plan_choice.h"
#include "compile/prepare.h"
#include "compile/timeline.h"
#include "graph/order_by_height.h"

namespace tessera::compile {
namespace {

using graph::Graph;
using package::Package;

// Where another order of nodes, and other places of parts, are tried. The time of larger networks is that of
// their products and weights, in any order.
constexpr std::size_t kOrderedNodesMax = 4096;
constexpr std::int64_t kOrderedBytesMax = std::int64_t{32} << 20;

// Compiles one graph; each member is the result of one stage.
class Compiler {
 public:
  Compiler(std::shared_ptr<const Graph> graph, const ChipConfig& chip,
           const CompileOptions& options, TensorSet apart = {})
      : graph_(std::move(graph)), chip_(chip), options_(options), apart_(std::move(apart)) {}

  Result<Package> run() {
    TESSERA_TRY(prepared_, prepare(*graph_, chip_, options_, {}, apart_));
    const PlanInputs inputs{*graph_, chip_, options_, prepared_.storages, prepared_.layers};
    TESSERA_TRY(draft_, choose_plan(inputs, prepared_.addresses));
    if (graph_->nodes.size() <= kOrderedNodesMax) far_parts_ = far_parts(inputs, draft_.plan);
    const Addresses& addresses = draft_.addresses;
    package_.dependencies_dropped = draft_.dependencies_dropped;
    package_.chip_name = chip_.name;
    package_.graph = graph_;
    package_.transpositions = std::move(prepared_.transpositions);
    package_.input_bytes = prepared_.input_bytes;
    package_.output_bytes = prepared_.output_bytes;
    package_.workspace_bytes = draft_.plan.workspace_bytes;
    package_.state_buffer_peak_bytes = draft_.plan.buffer_peak_bytes;
    package_.hints = layer_hints(*graph_, prepared_.layers);
    package_.inputs = input_slots(*graph_, prepared_.storages, addresses);
    package_.outputs = output_slots(*graph_, prepared_.storages, addresses);
    add_frames();
    package_.host_steps = make_host_steps(*graph_, prepared_.layers, prepared_.storages, addresses);
    package_.segments = static_cast<std::uint32_t>(package_.host_steps.size()) + 1;
    add_placements();
    package_.weights = prepared_.weights.take();
    return std::move(package_);
  }

  // Of the plan that run() made (compile/far_parts.h).
  const TensorSet& parts_from_far() const { return far_parts_; }
  // That the tasks of run() take by the model of time.
  Cycles cycles() const {
    if (!draft_.timeline.ends.empty()) return draft_.timeline.cycles;
    return predict_timeline(chip_, draft_.tasks.segments, draft_.tasks.tasks).cycles;
  }

 private:
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
  const TensorSet apart_;
  Prepared prepared_;
  Draft draft_;
  TensorSet far_parts_;
  Package package_;
};

// Another order has to take a hundredth less, for the model is that.
constexpr Cycles kDoubtShare = 100;

bool may_reorder(const Graph& graph) {
  if (graph.nodes.size() > kOrderedNodesMax) return false;
  std::int64_t bytes = 0;
  for (const graph::TensorInfo& tensor : graph.tensors) {
    if (tensor.constant != nullptr) bytes += std::ssize(tensor.constant->bytes);
  }
  return bytes <= kOrderedBytesMax;
}

// What was compiled, and what it takes by the model of time.
struct Attempt {
  std::shared_ptr<const Graph> graph;
  Package package;
  Cycles cycles = 0;
  TensorSet far_parts;
};

Result<Attempt> attempt(std::shared_ptr<const Graph> graph, const ChipConfig& chip,
                        const CompileOptions& options, TensorSet apart = {}) {
  Compiler compiler(graph, chip, options, std::move(apart));
  TESSERA_TRY(Package package, compiler.run());
  return Attempt{std::move(graph), std::move(package), compiler.cycles(),
                 compiler.parts_from_far()};
}

// The better of both. Another one that does not fit is none.
Status take_if_better(Result<Attempt> other, Attempt& best) {
  if (!other.ok()) {
    return other.error().code == ErrorCode::kDoesNotFit ? Status{} : other.error();
  }
  if (other->cycles < best.cycles - best.cycles / kDoubtShare) best = *std::move(other);
  return {};
}

// In the order that the graph has, or by height (graph/order_by_height.h) where that takes less time; then with parts of
// concatenations apart that are made long before the others (compile/far_parts.h), where that does.
Result<Package> compile_ordered(std::shared_ptr<const Graph> graph, const ChipConfig& chip,
                                const CompileOptions& options) {
  TESSERA_TRY(Attempt best, attempt(std::move(graph), chip, options));
  if (may_reorder(*best.graph)) {
    if (auto reordered = graph::ordered_by_height(*best.graph)) {
      auto by_height = std::make_shared<const Graph>(*std::move(reordered));
      TESSERA_RETURN_IF_ERROR(take_if_better(attempt(std::move(by_height), chip, options), best));
    }
  }
  if (!best.far_parts.empty()) {
    TESSERA_RETURN_IF_ERROR(
        take_if_better(attempt(best.graph, chip, options, best.far_parts), best));
  }
  return std::move(best.package);
}

Result<Package> compile_bounded(std::shared_ptr<const Graph> graph, const ChipConfig& chip,
                                const CompileOptions& options) {
  auto package = compile_ordered(graph, chip, options);
  if (!package.ok() && package.error().code == ErrorCode::kDoesNotFit && options.choose_views) {
    // The cheapest views may have longer rows than a small buffer holds.
    CompileOptions plain = options;
    plain.choose_views = false;
    package = compile_ordered(std::move(graph), chip, plain);
  }
  return package;
}

}  // namespace

Result<Package> compile(std::shared_ptr<const Graph> graph, const ChipConfig& chip,
                        const CompileOptions& options) {
  TESSERA_CHECK(graph != nullptr, "no graph");
  const std::string name = graph->name;
  TESSERA_TRY(const ChipConfig usable, bounded_chip(chip, options));
  auto package = compile_bounded(std::move(graph), usable, options);
  if (!package.ok()) return package.error().with_context("compiling '" + name + "'");
  // It runs on the whole chip.
  package->chip_fingerprint = fingerprint(chip);
  return package;
}

}  // namespace tessera::compile
