// Readable listings of packages and programs: inspect() and disassemble().
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "arch/cost.h"
#include "program/container.h"
#include "program/registers.h"
#include "program/weight_use.h"

namespace tessera::program {
namespace {

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

// Names and values of the fields that differ from their defaults.
class FieldLister {
 public:
  template <typename T>
  void operator()(const char* name, T& field) {
    if constexpr (std::is_same_v<T, Format>) {
      add(name, std::string(format_name(field)));
    } else if constexpr (std::is_same_v<T, UnaryFunction>) {
      add(name, std::string(unary_function_name(field)));
    } else if constexpr (std::is_same_v<T, BinaryFunction>) {
      add(name, std::string(binary_function_name(field)));
    } else if constexpr (std::is_same_v<T, ReduceFunction>) {
      add(name, std::string(reduce_function_name(field)));
    } else if constexpr (std::is_same_v<T, PoolFunction>) {
      add(name, std::string(pool_function_name(field)));
    } else if constexpr (std::is_enum_v<T>) {
      add(name, std::to_string(static_cast<int>(field)));
    } else if constexpr (std::is_same_v<T, bool>) {
      add(name, field ? "true" : "false");
    } else if constexpr (std::is_same_v<T, float>) {
      add(name, fmt::format("{}", field));
    } else {
      add(name, fmt::format("{}", +field));
    }
  }
  template <typename T>
  void group(const char* name, T& fields) {
    const std::string outer = prefix_;
    prefix_ += std::string(name) + ".";
    visit_fields(*this, fields);
    prefix_ = outer;
  }
  const std::vector<std::pair<std::string, std::string>>& fields() const { return fields_; }

 private:
  void add(const char* name, std::string value) {
    fields_.emplace_back(prefix_ + name, std::move(value));
  }
  std::string prefix_;
  std::vector<std::pair<std::string, std::string>> fields_;
};

template <typename T>
void list_fields(const T& config, std::string& out) {
  T fields = config;
  T resets{};
  FieldLister lister;
  FieldLister defaults;
  visit_fields(lister, fields);
  visit_fields(defaults, resets);
  std::string line;
  for (std::size_t i = 0; i < lister.fields().size(); ++i) {
    if (lister.fields()[i].second == defaults.fields()[i].second) continue;
    const std::string field =
        fmt::format("{} = {}", lister.fields()[i].first, lister.fields()[i].second);
    if (!line.empty() && line.size() + field.size() > 92) {
      out += "    " + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : ", ") + field;
  }
  if (!line.empty()) out += "    " + line + "\n";
}

const char* config_name(const TaskConfig& config) {
  static constexpr const char* kNames[] = {"product", "planar", "transfer", "copy", "kernel"};
  return kNames[config.index()];
}

// The block loop of an identity product, the first blocks one by one.
void list_blocks(const NeuralTask& task, std::string& out) {
  constexpr std::int64_t kListed = 8;
  const KernelImageShape& image = task.product.image;
  const MatrixExtents matrix{task.output.columns, task.moving.columns};
  const std::int64_t p = image.channels;
  const auto cut = [&](const MatrixExtents& part) {
    return transpose_blocks(part, {p, image.rows, image.columns});
  };
  const TransposeBlocks all = cut(matrix);
  out +=
      fmt::format("    transposes {} x {} {} a row: {} blocks of {} x {}, {} passes of {} x {}\n",
                  matrix.channels, matrix.columns, format_name(task.moving.format), all.blocks, p,
                  p, all.passes, image.rows, image.columns);
  std::int64_t listed = 0;
  for (std::int64_t c = 0; c < matrix.channels; c += p) {
    for (std::int64_t x = 0; x < matrix.columns && listed < kListed; x += p, ++listed) {
      const MatrixExtents part{std::min(p, matrix.channels - c), std::min(p, matrix.columns - x)};
      out += fmt::format("      block channels {}..{}, columns {}..{}: passes {}\n", c,
                         c + part.channels - 1, x, x + part.columns - 1, cut(part).passes);
    }
  }
  if (listed < all.blocks) out += fmt::format("      and {} blocks more\n", all.blocks - listed);
}

void list_task(const TaskDescriptor& task, std::string& out) {
  out += fmt::format("task {:<5} {:<7} {:<8} {} x {} rows by {} = {} steps\n", task.id,
                     engine_kind_name(task.engine), config_name(task.config), task.bands.images,
                     task.bands.rows, task.bands.rows_per_step, task.steps());
  for (const Dependency& d : task.dependencies) {
    if (d.numerator == 0) {
      out += fmt::format("    after task {}: {} steps\n", d.task,
                         (d.offset + d.denominator - 1) / d.denominator);
    } else {
      out += fmt::format("    after task {}: ({} j {} {}) / {} steps\n", d.task, d.numerator,
                         d.offset < 0 ? "-" : "+", std::abs(d.offset), d.denominator);
    }
  }
  const auto* neural = std::get_if<NeuralTask>(&task.config);
  if (neural != nullptr && neural->transpose) list_blocks(*neural, out);
  std::visit(
      [&out](const auto& fields) {
        using T = std::decay_t<decltype(fields)>;
        if constexpr (std::is_same_v<T, CopyTask>)
          list_fields(FlatCopyTask(fields), out);
        else
          list_fields(fields, out);
      },
      task.config);
}

std::string slots_text(const char* title, const std::vector<TensorSlot>& slots) {
  std::string out;
  for (const TensorSlot& slot : slots) {
    out += fmt::format("  {:<8} {:<40} {:<5} {}\n", title, slot.name, format_name(slot.format),
                       dims_text(slot.dims));
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
        "{:<40.40} {:>8} {:>5} {:>5} {:>12} {:>12} {:>6.1f}%\n", package.hints[i].name,
        use.palette_loads, use.mask_loads, use.both_loads, bytes_text(use.expanded_bytes),
        bytes_text(use.moved_bytes),
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
  std::string out = fmt::format("package for {} (fingerprint {:016x})\n", package.chip_name,
                                package.chip_fingerprint);
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
    out += fmt::format("{:>5}  {:<40.40} {:<12} {:>18} {:>6} {:>12} {:>12}\n", i, hint.name,
                       hint.kind, dims_text(hint.output_dims), frame.tasks.size(), hint.macs,
                       frame.estimated_cycles);
  }
  return out + compressed_layers_text(package);
}

std::string inspect(const Program& program) {
  std::string out = fmt::format("program for {} (fingerprint {:016x})\n", program.chip_name,
                                program.chip_fingerprint);
  out += slots_text("input", program.inputs) + slots_text("output", program.outputs);
  out += fmt::format("  {} tasks in {} segments, descriptors {}, weights {}, workspace {}\n\n",
                     program.tasks.size(), program.segments.size(),
                     bytes_text(static_cast<std::int64_t>(program.stream.size())),
                     bytes_text(static_cast<std::int64_t>(program.weights.size())),
                     bytes_text(program.workspace_bytes));
  struct Count {
    std::int64_t tasks = 0, steps = 0, dependencies = 0;
  };
  std::map<EngineKind, Count> counts;
  for (const TaskDescriptor& task : program.tasks) {
    Count& count = counts[task.engine];
    ++count.tasks;
    count.steps += task.steps();
    count.dependencies += static_cast<std::int64_t>(task.dependencies.size());
  }
  out += fmt::format("{:<8} {:>8} {:>10} {:>13}\n", "engine", "tasks", "steps", "dependencies");
  for (const auto& [engine, count] : counts) {
    out += fmt::format("{:<8} {:>8} {:>10} {:>13}\n", engine_kind_name(engine), count.tasks,
                       count.steps, count.dependencies);
  }
  out += fmt::format("{} redundant dependencies dropped: they follow from these\n",
                     program.dependencies_dropped);
  return out;
}

std::string disassemble(const Program& program) {
  std::string out =
      fmt::format("; program for {}, {} tasks\n", program.chip_name, program.tasks.size());
  std::uint32_t layer = UINT32_MAX;
  for (const TaskDescriptor& task : program.tasks) {
    if (task.layer != layer && task.layer < program.hints.size()) {
      const LayerHint& hint = program.hints[task.layer];
      out += fmt::format("\n; layer {}: {} ({}) {}\n", task.layer, hint.name, hint.kind,
                         dims_text(hint.output_dims));
      layer = task.layer;
    }
    list_task(task, out);
  }
  return out;
}

}  // namespace tessera::program
