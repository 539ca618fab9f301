// Readable listings of packages and programs: inspect().
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "package/container.h"
#include "package/sha256.h"
#include "package/weight_use.h"
#include "tessera/visible_text.h"

namespace tessera::package {
namespace {

using isa::CardProgram;
using isa::engine_kind_name;
using isa::EngineKind;
using isa::Frame;
using isa::FrameTask;
using isa::LayerHint;
using isa::Program;
using isa::TaskDescriptor;
using isa::TensorSlot;

std::string dims_text(const Shape& dims) {
  std::string text;
  for (const std::int64_t extent : dims) {
    text += (text.empty() ? "" : "x") + std::to_string(extent);
  }
  return text.empty() ? "scalar" : text;
}

std::string bytes_text(std::int64_t bytes) {
  if (bytes < 10'000) return fmt::format("{} B", bytes);
  if (bytes < 10'000'000) return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / 1024);
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / 1024 / 1024);
}

std::string slots_text(const char* title, const std::vector<TensorSlot>& slots) {
  std::string out;
  for (const TensorSlot& slot : slots) {
    out += fmt::format("  {:<8} {:<40} {:<5} {}", title, visible_text(slot.name),
                       format_name(slot.format), dims_text(slot.dims));
    if (!slot.dense_dims.empty()) {
      out += fmt::format(", the blocks of {}", dims_text(slot.dense_dims));
    }
    out += "\n";
  }
  return out;
}

}  // namespace

// The layers whose kernels are stored compressed.
std::string compressed_layers_text(const Package& package) {
  const std::vector<WeightUse> layers = weight_use_by_layer(package);
  std::string out;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const WeightUse& use = layers[i];
    if (use.compressed_loads() == 0) continue;
    if (out.empty()) {
      out += fmt::format("\n{:<40} {:>8} {:>5} {:>5} {:>12} {:>12} {:>7}\n", "compressed weights",
                         "palette", "mask", "both", "expanded", "moved", "saved");
    }
    out += fmt::format(
        "{:<40.40} {:>8} {:>5} {:>5} {:>12} {:>12} {:>6.1f}%\n",
        visible_text(package.hints[i].name), use.palette_loads, use.mask_loads, use.both_loads,
        bytes_text(use.expanded_bytes), bytes_text(use.moved_bytes),
        100.0 * static_cast<double>(use.saved_bytes()) / static_cast<double>(use.expanded_bytes));
  }
  return out;
}

std::string dependencies_text(const Package& package) {
  std::size_t kept = 0;
  for (const Frame& frame : package.frames) {
    for (const FrameTask& task : frame.tasks) kept += task.dependencies.size();
  }
  return fmt::format("  {} dependencies, {} redundant ones dropped", kept,
                     package.dependencies_dropped);
}

std::string inspect(const Package& package) {
  std::string out = fmt::format("package for {} (fingerprint {:016x})\n",
                                visible_text(package.chip_name), package.chip_fingerprint);
  std::size_t tasks = 0;
  for (const Frame& frame : package.frames) tasks += frame.tasks.size();
  out += slots_text("input", package.inputs) + slots_text("output", package.outputs);
  out += fmt::format("  {} frames, {} tasks, {} segments, {} host steps\n", package.frames.size(),
                     tasks, package.segments, package.host_steps.size());
  out +=
      fmt::format("  weights {}, workspace {}, state buffer peak {} a partition\n",
                  bytes_text(static_cast<std::int64_t>(package.weights.size())),
                  bytes_text(package.workspace_bytes), bytes_text(package.state_buffer_peak_bytes));
  out += dependencies_text(package) + "\n  " + weight_use_text(weight_use(package)) + "\n\n";
  out += fmt::format("{:>5}  {:<40} {:<12} {:>18} {:>6} {:>12} {:>12}\n", "frame", "layer", "kind",
                     "output", "tasks", "MACs", "cycles (est)");
  for (std::size_t i = 0; i < package.frames.size(); ++i) {
    const Frame& frame = package.frames[i];
    const LayerHint& hint = package.hints[frame.layer];
    out +=
        fmt::format("{:>5}  {:<40.40} {:<12} {:>18} {:>6} {:>12} {:>12}\n", i,
                    visible_text(hint.name), visible_text(hint.kind), dims_text(hint.output_dims),
                    frame.tasks.size(), hint.macs, frame.estimated_cycles);
  }
  return out + compressed_layers_text(package) + prepared_text(package);
}

// Bytes of weights in another file.
std::string elsewhere_text(const Program& program) {
  const std::string file = visible_text(program.weights_file);
  if (program.weights.part()) {
    return fmt::format("  weights in '{}', SHA-256 {}\n", file,
                       sha256_text(program.weights.part()->digest));
  }
  if (program.weights.parts().empty()) return "";
  return fmt::format("  {} of the weights in {} of '{}'\n",
                     bytes_text(static_cast<std::int64_t>(program.weights.bytes_of_parts())),
                     program.weights.parts().size() == 1
                         ? "a part"
                         : fmt::format("{} parts", program.weights.parts().size()),
                     file);
}

// What is counted of an engine's tasks, or of a core's.
struct TaskCount {
  std::int64_t tasks = 0, steps = 0, dependencies = 0, remote = 0;
  void add(const TaskDescriptor& task) {
    ++tasks;
    steps += task.steps();
    dependencies += std::ssize(task.dependencies);
    remote += std::ssize(task.remote);
  }
};

std::string head_text(const Program& program, const char* what, std::size_t tasks,
                      std::size_t stream_bytes) {
  std::string out = fmt::format("{} {} (fingerprint {:016x})\n", what,
                                visible_text(program.chip_name), program.chip_fingerprint);
  out += slots_text("input", program.inputs) + slots_text("output", program.outputs);
  out +=
      fmt::format("  {} tasks in {} segments, descriptors {}, weights {}, workspace {}\n\n", tasks,
                  program.segments.size(), bytes_text(static_cast<std::int64_t>(stream_bytes)),
                  bytes_text(static_cast<std::int64_t>(program.weights.size())),
                  bytes_text(program.workspace_bytes));
  return out + elsewhere_text(program);
}

std::string inspect(const Program& program) {
  std::string out = head_text(program, "program for", program.tasks.size(), program.stream.size());
  std::map<EngineKind, TaskCount> counts;
  for (const TaskDescriptor& task : program.tasks) counts[task.engine].add(task);
  out += fmt::format("{:<8} {:>8} {:>10} {:>13}\n", "engine", "tasks", "steps", "dependencies");
  for (const auto& [engine, count] : counts) {
    out += fmt::format("{:<8} {:>8} {:>10} {:>13}\n", engine_kind_name(engine), count.tasks,
                       count.steps, count.dependencies);
  }
  out += fmt::format("{} redundant dependencies dropped: they follow from these\n",
                     program.dependencies_dropped);
  return out;
}

std::string inspect(const CardProgram& program) {
  if (program.cores.size() == 1) return inspect(program.cores.front());
  std::size_t stream_bytes = 0;
  for (const Program& core : program.cores) stream_bytes += core.stream.size();
  const std::string what =
      fmt::format("program for {} cores of {} with {} {}{}, on", program.cores.size(),
                  program.cards == 1 ? "a card" : fmt::format("{} cards", program.cards),
                  program.memories(), program.memories() == 1 ? "memory" : "memories",
                  program.images == 1 ? "" : fmt::format(", {} images at once", program.images));
  std::string out =
      head_text(program.cores.front(), what.c_str(), program.task_count(), stream_bytes);
  out += fmt::format("{:>4} {:>6} {:>8} {:>10} {:>13} {:>15}\n", "core", "memory", "tasks", "steps",
                     "dependencies", "on other cores");
  for (std::size_t core = 0; core < program.cores.size(); ++core) {
    TaskCount count;
    for (const TaskDescriptor& task : program.cores[core].tasks) count.add(task);
    out += fmt::format("{:>4} {:>6} {:>8} {:>10} {:>13} {:>15}\n", core, program.memory_of(core),
                       count.tasks, count.steps, count.dependencies, count.remote);
  }
  return out + fmt::format("{} loads that several cores have in common\n", program.share_count());
}

int memories_of(const isa::PreparedCores& prepared) {
  const auto& memories = prepared.key.memory_of_core;
  return memories.empty() ? 1 : 1 + *std::ranges::max_element(memories);
}

namespace {

// At the whole bandwidth of the memories, and at half of it.
std::string model_text(const isa::ModelledCores& model) {
  return fmt::format("{:>13.0f} {:>13.0f}", isa::modelled_network(model, 1),
                     isa::modelled_network(model, 0.5));
}

}  // namespace

std::string prepared_text(const Package& package) {
  if (package.prepared == nullptr) return "";
  const isa::PreparedPrograms& all = *package.prepared;
  std::string out = fmt::format(
      "for several cores: {} templates of {}, kernels that are cut otherwise {}\n"
      "{:>5} {:>5} {:>8} {:>8} {:>12} {:>12} {:>13} {:>13}\n",
      all.templates.templates.size(), bytes_text(static_cast<std::int64_t>(all.templates.bytes())),
      bytes_text(static_cast<std::int64_t>(all.kernels.size())), "cores", "cards", "memories",
      "tasks", "descriptors", "values", "model: cycles", "half the mem.");
  if (all.one_core != nullptr) {
    out += fmt::format("{:>5} {:>5} {:>8} {:>8} {:>12} {:>12} {}\n", 1, 1, 1, "", "", "",
                       model_text(*all.one_core));
  }
  for (const auto& prepared : all.programs) {
    out += fmt::format("{:>5} {:>5} {:>8} {:>8} {:>12} {:>12} {}\n", prepared->key.cores,
                       prepared->key.cards, memories_of(*prepared), prepared->tasks(),
                       bytes_text(static_cast<std::int64_t>(prepared->stream_bytes())),
                       bytes_text(static_cast<std::int64_t>(prepared->value_bytes())),
                       prepared->model == nullptr ? "" : model_text(*prepared->model));
  }
  return out;
}

}  // namespace tessera::package
