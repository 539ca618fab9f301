#include "compile/compile_shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "arch/architecture_file.h"
#include "base/check.h"
#include "compile/engine_choice.h"
#include "compile/plain_order.h"
#include "compile/share_draft.h"
#include "compile/share_memories.h"
#include "isa/dependencies.h"
#include "isa/encoding.h"
#include "isa/remote_dependencies.h"

namespace tessera::compile {
namespace {

using graph::Graph;
using isa::CoreTask;
using isa::CoreTasks;
using isa::TaskDescriptor;

struct Traffic {
  std::int64_t read = 0, written = 0;
};

// Useful bytes of DRAM.
Traffic traffic_of(const TaskDescriptor& task) {
  if (const auto* transfer = std::get_if<isa::TransferTask>(&task.config)) {
    const std::int64_t bytes = std::int64_t{task.bands.images} * task.bands.rows *
                               transfer->channel_count * transfer->buffer.columns *
                               format_bytes(transfer->buffer.format);
    return task.engine == isa::EngineKind::kLoad ? Traffic{bytes, 0} : Traffic{0, bytes};
  }
  if (const auto* copy = std::get_if<isa::CopyTask>(&task.config)) {
    std::int64_t bytes = copy->element_bytes;
    for (const std::int64_t extent : copy->extents) bytes *= extent;
    return {copy->fill ? 0 : bytes, bytes};
  }
  if (const auto* kernel = std::get_if<isa::KernelTask>(&task.config)) {
    return {kernel->stored_bytes(), 0};
  }
  return {};
}

class ShareCompiler {
 public:
  ShareCompiler(std::shared_ptr<const Graph> graph, const ShareSetting& setting, ShareDraft draft)
      : graph_(std::move(graph)),
        chip_(setting.chip),
        choice_(setting.choice),
        draft_(std::move(draft)),
        prepared_(draft_.prepared),
        work_(draft_.work) {}

  SharedProgram run() {
    result_.card.cores.resize(static_cast<std::size_t>(choice_.cores));
    result_.choice = choice_;
    result_.card.memory_of_core = choice_.memory_of_core;
    place_in_memories(chip_, prepared_.storages, prepared_.addresses, choice_.memory_of_core,
                      draft_.emitted);
    for (std::size_t core = 0; core < draft_.emitted.size(); ++core) {
      add_core(std::move(draft_.emitted[core]), result_.card.cores[core]);
    }
    result_.remote_dependencies = isa::derive_remote_dependencies(order(), tasks_);
    if (choice_.meet_after_layers) meet_after_layers(tasks_);
    if (choice_.load_before_arithmetic) load_before_arithmetic(tasks_);
    if (choice_.share_loads && choice_.cores > 1) {
      result_.load_shares = share_loads(choice_.memory_of_core, tasks_);
    }
    finish_programs(draft_.workspace_bytes);
    add_layers(draft_.held);
    return std::move(result_);
  }

 private:
  void add_core(EmittedTasks emitted, isa::Program& program) {
    choose_engines(chip_, emitted.segments, emitted.tasks);
    program.dependencies_dropped = isa::derive_dependencies(chip_, emitted.segments, emitted.tasks);
    program.pieces = std::move(emitted.pieces);
    tasks_.push_back({std::move(emitted.segments), std::move(emitted.tasks)});
    numbers_.push_back(std::move(emitted.numbers));
  }

  // Layer by layer; within a layer copies in their order, which may write over each other, all else
  // core by core.
  std::vector<CoreTask> order() const {
    std::vector<std::tuple<std::uint32_t, std::int32_t, CoreTask>> keyed;
    for (std::uint32_t core = 0; core < tasks_.size(); ++core) {
      std::size_t of_layer = 0;
      const std::vector<TaskDescriptor>& tasks = tasks_[core].tasks;
      for (std::size_t i = 0; i < tasks.size(); ++i) {
        const std::uint32_t layer = tasks[i].layer;
        const bool first = i == 0 || tasks[i - 1].layer != layer;
        if (first) {
          of_layer = 0;
        } else if (numbers_[core][i] != numbers_[core][i - 1]) {
          ++of_layer;  // else a part of the same copy
        }
        const std::vector<std::int32_t>& copies = work_[layer].copies[core];
        keyed.emplace_back(layer, copies.empty() ? 0 : copies[of_layer],
                           CoreTask{core, static_cast<isa::TaskId>(i)});
      }
    }
    std::stable_sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) {
      return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
    });
    std::vector<CoreTask> result;
    for (const auto& [layer, copy, task] : keyed) result.push_back(task);
    return result;
  }

  void finish_programs(std::int64_t workspace) {
    add_segments();
    for (std::size_t core = 0; core < tasks_.size(); ++core) {
      isa::Program& program = result_.card.cores[core];
      program.chip_fingerprint = fingerprint(chip_);
      program.chip_name = chip_.name;
      program.tasks = std::move(tasks_[core].tasks);
      program.workspace_bytes = workspace;
      program.input_bytes = prepared_.input_bytes;
      program.output_bytes = prepared_.output_bytes;
      isa::encode_stream(program);
    }
    isa::Program& first = result_.card.cores.front();
    first.weights = prepared_.weights.take();
    first.inputs = input_slots(*graph_, prepared_.storages, prepared_.addresses);
    first.outputs = output_slots(*graph_, prepared_.storages, prepared_.addresses);
    first.hints = layer_hints(*graph_, prepared_.layers);
  }

  // Host steps with no task of any core between them follow one segment.
  void add_segments() {
    std::vector<isa::HostStep> steps =
        make_host_steps(*graph_, prepared_.layers, prepared_.storages, prepared_.addresses);
    const auto count = static_cast<std::uint32_t>(steps.size()) + 1;
    for (std::uint32_t s = 0; s < count; ++s) {
      bool empty = true;
      std::vector<isa::Segment> of_cores(tasks_.size());
      for (std::size_t core = 0; core < tasks_.size(); ++core) {
        const std::vector<std::uint32_t>& segments = tasks_[core].segments;
        const auto [first, last] = std::equal_range(segments.begin(), segments.end(), s);
        of_cores[core].task_first = static_cast<std::uint32_t>(first - segments.begin());
        of_cores[core].task_last = static_cast<std::uint32_t>(last - segments.begin());
        empty = empty && first == last;
      }
      if (s == 0 || !empty) {
        for (std::size_t core = 0; core < tasks_.size(); ++core) {
          result_.card.cores[core].segments.push_back(std::move(of_cores[core]));
        }
      }
      if (s >= steps.size()) continue;
      isa::Segment& segment = result_.card.cores.front().segments.back();
      segment.host_steps.push_back(std::move(steps[s]));
    }
  }

  void add_layers(const HeldStorages& held) {
    for (std::size_t i = 0; i < work_.size(); ++i) {
      LayerShare share;
      share.name = prepared_.layers[i].name;
      share.node = prepared_.layers[i].node;
      share.way = work_[i].way;
      share.reason = std::move(work_[i].reason);
      const bool makes = work_[i].way != ShareWay::kHost && work_[i].way != ShareWay::kNone;
      const StorageIndex output = prepared_.layers[i].output.storage;
      if (makes && output >= 0) share.hand_over = held[output].why;
      result_.layers.push_back(std::move(share));
    }
    for (const isa::Program& program : result_.card.cores) {
      std::set<std::uint32_t> layers;  // whose tasks may lie among those of others
      for (const TaskDescriptor& task : program.tasks) {
        LayerShare& share = result_.layers[task.layer];
        if (layers.insert(task.layer).second) ++share.cores;
        const Traffic traffic = traffic_of(task);
        share.bytes_read += traffic.read;
        share.bytes_written += traffic.written;
      }
    }
  }

  const std::shared_ptr<const Graph> graph_;
  const ChipConfig& chip_;
  const ShareChoice& choice_;
  ShareDraft draft_;
  Prepared& prepared_;
  Table<LayerIndex, LayerWork>& work_;
  std::vector<CoreTasks> tasks_;                    // of each core
  std::vector<std::vector<std::int32_t>> numbers_;  // of its tasks before they were cut
  SharedProgram result_;
};

}  // namespace

Result<SharedProgram> compile_shares(const std::shared_ptr<const Graph>& graph,
                                     const ChipConfig& chip, const CompileOptions& options,
                                     const ShareChoice& choice) {
  TESSERA_CHECK(graph != nullptr, "no graph");
  if (choice.cores < 1 || choice.cores > kCoresMax) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("a program for {} cores, allowed 1 to {}", choice.cores, kCoresMax)};
  }
  TESSERA_TRY(ShareSetting setting, share_setting(chip, options, choice));
  auto draft = draft_in_any_views(*graph, setting);
  if (!draft.ok()) {
    return draft.error().with_context(
        fmt::format("compiling '{}' for {} cores", graph->name, choice.cores));
  }
  SharedProgram program = ShareCompiler(graph, setting, std::move(*draft)).run();
  // They run on whole cores.
  for (isa::Program& core : program.card.cores) core.chip_fingerprint = fingerprint(chip);
  return program;
}

}  // namespace tessera::compile
