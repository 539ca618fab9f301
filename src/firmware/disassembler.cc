#include "firmware/disassembler.h"

#include <fmt/format.h>

#include <span>
#include <string>
#include <vector>

#include "firmware/digest.h"
#include "firmware/integer_list.h"
#include "firmware/program_text.h"
#include "firmware/task_text.h"

namespace tessera::firmware {
namespace {

using isa::HostStep;
using isa::LayerHint;
using isa::Program;
using isa::Segment;
using isa::TensorSlot;

std::string slot_text(const TensorSlot& slot) {
  const std::string outside =
      slot.dense_dims.empty() ? "" : " blocks_of " + integers_text(slot.dense_dims);
  return fmt::format("{} tensor {} {} {}{} at {} + {}\n", in_quotes(slot.name), slot.tensor,
                     format_name(slot.format), integers_text(slot.dims), outside,
                     kRegionNames[static_cast<std::size_t>(slot.address.base)],
                     slot.address.offset);
}

std::string layer_text(const LayerHint& hint) {
  std::string out = fmt::format("layer {} kind {} dims {} macs {}", in_quotes(hint.name),
                                in_quotes(hint.kind), integers_text(hint.output_dims), hint.macs);
  if (!hint.origins.empty()) {
    out += " origins [";
    for (std::size_t i = 0; i < hint.origins.size(); ++i) {
      out += (i == 0 ? "" : ", ") + in_quotes(hint.origins[i]);
    }
    out += "]";
  }
  return out + "\n";
}

std::string dropped_text(const Program& program) {
  if (program.dependencies_dropped == 0) return "";
  return fmt::format("dropped {}\n", program.dependencies_dropped);
}

std::string hex_text(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "[";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i % 32 == 0) out += i == 0 ? "\n  \"" : "\",\n  \"";
    const auto byte = static_cast<unsigned>(bytes[i]);
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out + (bytes.empty() ? "]\n" : "\"]\n");
}

std::string weights_text(const Program& program, const DisassembleOptions& options) {
  const std::size_t bytes = program.weights.size();
  if (bytes == 0) return "";
  if (options.weights == WeightsPlace::kLeftOut) {
    return fmt::format("; weights: {} bytes, left out of this text\n", bytes);
  }
  if (options.weights != WeightsPlace::kInline) {
    return fmt::format("weights {} {} bytes {} sha256 \"{}\"\n",
                       options.weights == WeightsPlace::kFile ? "file" : "of",
                       in_quotes(options.file), bytes, sha256_text(program.weights));
  }
  return fmt::format("weights bytes {} ", bytes) + hex_text(program.weights);
}

// The step's body, and the constants that it takes.
std::string body_text(const HostStep& step) {
  std::string out = "    graph " + in_quotes(step.body) + "\n";
  for (const isa::StepConstant& constant : step.constants) {
    const Tensor& value = *constant.value;
    out += fmt::format("    constant {} {} {} bytes {} ", in_quotes(constant.name),
                       format_name(value.format), integers_text(value.dims), value.bytes.size()) +
           hex_text(value.bytes);
  }
  return out;
}

std::string piece_text(const isa::PieceHint& piece) {
  return fmt::format("piece {}\n",
                     integers_text({piece.image, piece.channel, piece.row, piece.column,
                                    piece.input_channel, piece.window_row, piece.window_column}));
}

std::string segment_text(const Segment& segment) {
  std::string out = fmt::format("segment tasks {} to {}\n", segment.task_first, segment.task_last);
  for (const HostStep& step : segment.host_steps) {
    out += fmt::format("  host_step node {}\n", step.node);
    for (const TensorSlot& slot : step.inputs) out += "    reads " + slot_text(slot);
    for (const TensorSlot& slot : step.outputs) out += "    gives " + slot_text(slot);
    if (!step.body.empty()) out += body_text(step);
    out += "  end\n";
  }
  return out + "end\n";
}

// "cores 3 memories [0, 1, 1] cards 2 images 1", of several.
std::string cores_text(const isa::CardProgram& card) {
  std::string out = fmt::format("cores {}", card.cores.size());
  if (!card.memory_of_core.empty()) {
    out += " memories " + integers_text({card.memory_of_core.begin(), card.memory_of_core.end()});
  }
  return out + fmt::format(" cards {} images {}\n", card.cards, card.images);
}

// What stands in front of the first core's tasks, and is there once. `cores`: cores_text(), or nothing.
std::string head_text(const Program& program, const std::string& cores,
                      const DisassembleOptions& options) {
  std::string out = fmt::format("chip {} fingerprint {:#018x}\n", in_quotes(program.chip_name),
                                program.chip_fingerprint);
  out += fmt::format("regions workspace {} input {} output {}\n", program.workspace_bytes,
                     program.input_bytes, program.output_bytes);
  if (program.region) {
    const isa::MemoryRange& buffer = program.region->state_buffer;
    const isa::MemoryRange& kernel = program.region->kernel_memory;
    out += fmt::format("region buffer {} to {} kernel {} to {}\n", buffer.first, buffer.last(),
                       kernel.first, kernel.last());
  }
  out += cores + dropped_text(program);
  for (const TensorSlot& slot : program.inputs) out += "input " + slot_text(slot);
  for (const TensorSlot& slot : program.outputs) out += "output " + slot_text(slot);
  out += weights_text(program, options);
  for (const LayerHint& hint : program.hints) out += layer_text(hint);
  return out;
}

// A core's tasks and segments. `hints`: of the layers, which the first core has.
std::string tasks_text(const Program& program, const std::vector<LayerHint>& hints) {
  std::string out;
  std::uint32_t layer = UINT32_MAX;
  std::size_t segment = 0;
  const auto close_segments = [&](std::size_t task) {
    while (segment < program.segments.size() && program.segments[segment].task_last <= task) {
      out += "\n" + segment_text(program.segments[segment++]);
    }
  };
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    close_segments(i);
    const isa::TaskDescriptor& task = program.tasks[i];
    if (task.layer != layer && task.layer < hints.size()) {
      // A name may hold anything; in a comment it stays on its line.
      const LayerHint& hint = hints[task.layer];
      out += fmt::format("\n; layer {}: {} {} {}\n", task.layer, in_quotes(hint.name),
                         in_quotes(hint.kind), integers_text(hint.output_dims));
      layer = task.layer;
    }
    const std::size_t end =
        i + 1 < program.tasks.size() ? program.stream_offsets[i + 1] : program.stream.size();
    out +=
        task_text(task, std::span(program.stream)
                            .subspan(program.stream_offsets[i], end - program.stream_offsets[i]));
    if (i < program.pieces.size() && program.pieces[i].known) out += piece_text(program.pieces[i]);
  }
  while (segment < program.segments.size()) out += "\n" + segment_text(program.segments[segment++]);
  return out;
}

}  // namespace

std::string disassemble(const Program& program, const DisassembleOptions& options) {
  return fmt::format("; {} tasks in {} segments for {}\nprogram 1\n", program.tasks.size(),
                     program.segments.size(), in_quotes(program.chip_name)) +
         head_text(program, "", options) + tasks_text(program, program.hints);
}

std::string disassemble(const isa::CardProgram& card, const DisassembleOptions& options) {
  const Program& first = card.cores.front();
  if (card.cores.size() == 1) return disassemble(first, options);
  std::string out =
      fmt::format("; {} tasks of {} cores in {} segments for {}\nprogram 1\n", card.task_count(),
                  card.cores.size(), first.segments.size(), in_quotes(first.chip_name)) +
      head_text(first, cores_text(card), options) + tasks_text(first, first.hints);
  for (std::size_t core = 1; core < card.cores.size(); ++core) {
    const Program& program = card.cores[core];
    out += fmt::format("\n; {} tasks\ncore {}\n", program.tasks.size(), core) +
           dropped_text(program) + tasks_text(program, first.hints);
  }
  return out;
}

}  // namespace tessera::firmware
