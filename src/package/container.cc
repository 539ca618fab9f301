#include "package/container.h"

#include <flatbuffers/flatbuffers.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <new>

#include "base/check.h"
#include "base/input_file.h"
#include "container_generated.h"
#include "graph/graph_text.h"
#include "graph/verify.h"
#include "isa/encoding.h"
#include "package/container_file.h"
#include "package/host_step.h"
#include "package/package_check.h"

namespace tessera::package {
namespace {

using isa::BaseIndex;
using isa::decode;
using isa::encode;
using isa::Frame;
using isa::FrameDependency;
using isa::FrameTask;
using isa::HostStep;
using isa::kBaseIndexCount;
using isa::LayerHint;
using isa::PieceHint;
using isa::Program;
using isa::Segment;
using isa::StepConstant;
using isa::TensorSlot;

constexpr std::int64_t kConstantAlignment = 64;

// ---- writing ----

std::unique_ptr<fb::TensorSlotT> to_fb(const TensorSlot& slot) {
  auto result = std::make_unique<fb::TensorSlotT>();
  result->name = slot.name;
  result->tensor = slot.tensor;
  result->format = static_cast<std::uint8_t>(slot.format);
  result->dims = slot.dims;
  result->base = static_cast<std::uint8_t>(slot.address.base);
  result->offset = slot.address.offset;
  result->dense_dims = slot.dense_dims;
  return result;
}

std::vector<std::unique_ptr<fb::TensorSlotT>> to_fb(const std::vector<TensorSlot>& slots) {
  std::vector<std::unique_ptr<fb::TensorSlotT>> result;
  for (const TensorSlot& slot : slots) result.push_back(to_fb(slot));
  return result;
}

std::unique_ptr<fb::HostStepT> to_fb(const HostStep& step) {
  auto result = std::make_unique<fb::HostStepT>();
  result->node = step.node;
  result->inputs = to_fb(step.inputs);
  result->outputs = to_fb(step.outputs);
  return result;
}

fb::Piece to_fb(const PieceHint& piece) {
  return {piece.known,  piece.image,         piece.channel,    piece.row,
          piece.column, piece.input_channel, piece.window_row, piece.window_column};
}

std::vector<std::unique_ptr<fb::HintT>> to_fb(const std::vector<LayerHint>& hints) {
  std::vector<std::unique_ptr<fb::HintT>> result;
  for (const LayerHint& hint : hints) {
    auto entry = std::make_unique<fb::HintT>();
    entry->name = hint.name;
    entry->kind = hint.kind;
    entry->origins = hint.origins;
    entry->output_dims = hint.output_dims;
    entry->macs = hint.macs;
    result.push_back(std::move(entry));
  }
  return result;
}

std::vector<std::unique_ptr<fb::TranspositionT>> to_fb(
    const std::vector<TranspositionHint>& transpositions) {
  std::vector<std::unique_ptr<fb::TranspositionT>> result;
  for (const TranspositionHint& hint : transpositions) {
    auto entry = std::make_unique<fb::TranspositionT>();
    entry->tensor = hint.tensor;
    entry->reader = hint.reader;
    entry->layer = hint.layer;
    entry->way = hint.way;
    entry->elements = hint.elements;
    entry->channels = hint.channels;
    entry->columns = hint.columns;
    entry->matrices = hint.matrices;
    entry->cycles = hint.cycles;
    entry->dram_bytes = hint.dram_bytes;
    entry->next_way = hint.next_way;
    entry->next_cycles = hint.next_cycles;
    result.push_back(std::move(entry));
  }
  return result;
}

std::unique_ptr<fb::FrameT> to_fb(const Frame& frame) {
  auto result = std::make_unique<fb::FrameT>();
  result->layer = frame.layer;
  result->segment = frame.segment;
  result->estimated_cycles = frame.estimated_cycles;
  for (const FrameTask& task : frame.tasks) {
    auto entry = std::make_unique<fb::FrameTaskT>();
    const std::vector<std::byte> bytes = encode(task.descriptor);
    const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
    entry->descriptor.assign(data, data + bytes.size());
    for (const FrameDependency& d : task.dependencies) {
      entry->dependencies.emplace_back(d.frame, d.task, d.numerator, d.denominator, d.offset);
    }
    if (task.piece.known) entry->piece = std::make_unique<fb::Piece>(to_fb(task.piece));
    result->tasks.push_back(std::move(entry));
  }
  return result;
}

// Appends the constant to the section and lists it.
void append_constant(const std::string& name, const Tensor& value, std::vector<std::byte>& section,
                     std::vector<std::unique_ptr<fb::ConstantT>>& list) {
  section.resize(static_cast<std::size_t>(
      round_up(static_cast<std::int64_t>(section.size()), kConstantAlignment)));
  auto entry = std::make_unique<fb::ConstantT>();
  entry->name = name;
  entry->format = static_cast<std::uint8_t>(value.format);
  entry->dims = value.dims;
  entry->offset = section.size();
  entry->bytes = value.bytes.size();
  section.insert(section.end(), value.bytes.begin(), value.bytes.end());
  list.push_back(std::move(entry));
}

template <typename Table>
std::vector<std::byte> pack(const char* magic, std::uint64_t fingerprint, const Table& table,
                            std::span<const std::byte> section, bool extended) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(Table::TableType::Pack(builder, &table));
  const auto payload = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  return write_container(magic, {fingerprint, payload, section},
                         extended ? kContainerVersionExtended : kContainerVersion);
}

// Whether a task has an extended header.
bool is_extended(std::span<const std::byte> descriptor) {
  return isa::descriptor_version(descriptor) > 1;
}
bool is_extended(const Package& package) {
  return std::ranges::any_of(package.frames, [](const Frame& frame) {
    return std::ranges::any_of(
        frame.tasks, [](const FrameTask& task) { return is_extended(encode(task.descriptor)); });
  });
}
bool is_extended(const Program& program) {
  return std::ranges::any_of(program.stream_offsets, [&](std::uint32_t offset) {
    return is_extended(std::span(program.stream).subspan(offset));
  });
}

// A step of a program, with its node and the constants that the node takes.
std::unique_ptr<fb::HostStepT> to_fb(const HostStep& step, std::vector<std::byte>& section) {
  auto result = to_fb(step);
  if (step.body.empty()) return result;
  result->graph_text = step.body;
  for (const StepConstant& constant : step.constants) {
    append_constant(constant.name, *constant.value, section, result->constants);
  }
  return result;
}

// ---- reading ----

Error bad(const std::string& name, const std::string& what) {
  return Error{ErrorCode::kInvalidModel, fmt::format("'{}': {}", name, what)};
}

Result<Format> format_of(std::uint8_t value, const std::string& what) {
  if (value >= kFormatCount) {
    return bad(what, fmt::format("format {}, allowed 0..{}", value, kFormatCount - 1));
  }
  return static_cast<Format>(value);
}

// Bytes of a dense tensor, checked against overflow.
Result<std::int64_t> dense_bytes(const Shape& dims, Format format, const std::string& what) {
  std::int64_t bytes = format_bytes(format);
  for (const std::int64_t extent : dims) {
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) {
      return bad(what, fmt::format("dimension {} out of range", extent));
    }
  }
  return bytes;
}

Result<std::vector<TensorSlot>> slots_of(const std::vector<std::unique_ptr<fb::TensorSlotT>>& list,
                                         const std::string& name) {
  std::vector<TensorSlot> slots;
  for (const auto& entry : list) {
    if (!entry) return bad(name, "an empty tensor slot");
    TensorSlot slot;
    slot.name = entry->name;
    slot.tensor = entry->tensor;
    TESSERA_TRY(slot.format, format_of(entry->format, name + "' tensor '" + entry->name));
    slot.dims = entry->dims;
    TESSERA_TRY(const std::int64_t bytes, dense_bytes(slot.dims, slot.format, name));
    (void)bytes;
    if (entry->base >= kBaseIndexCount) {
      return bad(name, fmt::format("tensor '{}': base {}, allowed 0..{}", entry->name, entry->base,
                                   kBaseIndexCount - 1));
    }
    slot.address = {static_cast<BaseIndex>(entry->base), entry->offset};
    slot.dense_dims = entry->dense_dims;
    slots.push_back(std::move(slot));
  }
  return slots;
}

Result<HostStep> host_step_of(const fb::HostStepT& entry, const std::string& name) {
  HostStep step;
  step.node = entry.node;
  TESSERA_TRY(step.inputs, slots_of(entry.inputs, name));
  TESSERA_TRY(step.outputs, slots_of(entry.outputs, name));
  return step;
}

PieceHint piece_of(const fb::Piece& piece) {
  return {.known = piece.known(),
          .image = piece.image(),
          .channel = piece.channel(),
          .row = piece.row(),
          .column = piece.column(),
          .input_channel = piece.input_channel(),
          .window_row = piece.window_row(),
          .window_column = piece.window_column()};
}

std::vector<LayerHint> hints_of(const std::vector<std::unique_ptr<fb::HintT>>& list) {
  std::vector<LayerHint> hints;
  for (const auto& entry : list) {
    if (!entry) continue;
    hints.push_back({entry->name, entry->kind, entry->origins, entry->output_dims, entry->macs});
  }
  return hints;
}

std::vector<TranspositionHint> transpositions_of(
    const std::vector<std::unique_ptr<fb::TranspositionT>>& list) {
  std::vector<TranspositionHint> transpositions;
  for (const auto& entry : list) {
    if (entry == nullptr) continue;
    transpositions.push_back({.tensor = entry->tensor,
                              .reader = entry->reader,
                              .layer = entry->layer,
                              .way = entry->way,
                              .elements = entry->elements,
                              .channels = entry->channels,
                              .columns = entry->columns,
                              .matrices = entry->matrices,
                              .cycles = entry->cycles,
                              .dram_bytes = entry->dram_bytes,
                              .next_way = entry->next_way,
                              .next_cycles = entry->next_cycles});
  }
  return transpositions;
}

Result<Frame> frame_of(const fb::FrameT& entry, const std::string& name) {
  Frame frame;
  frame.layer = entry.layer;
  frame.segment = entry.segment;
  frame.estimated_cycles = entry.estimated_cycles;
  for (const auto& task : entry.tasks) {
    if (!task) return bad(name, "an empty frame task");
    FrameTask result;
    std::size_t consumed = 0;
    auto descriptor = decode(std::as_bytes(std::span(task->descriptor)), consumed);
    if (!descriptor.ok()) return descriptor.error().with_context("'" + name + "'");
    result.descriptor = std::move(descriptor).value();
    for (const fb::FrameDependency& d : task->dependencies) {
      if (d.denominator() <= 0) return bad(name, "a frame dependency's denominator is below 1");
      result.dependencies.push_back(
          {d.frame(), d.task(), d.numerator(), d.denominator(), d.offset()});
    }
    if (task->piece) result.piece = piece_of(*task->piece);
    frame.tasks.push_back(std::move(result));
  }
  return frame;
}

Result<std::map<std::string, std::shared_ptr<const Tensor>>> constants_of(
    const std::vector<std::unique_ptr<fb::ConstantT>>& list, std::span<const std::byte> section,
    const std::string& name) {
  std::map<std::string, std::shared_ptr<const Tensor>> constants;
  std::uint64_t left = section.size();  // no byte belongs to two constants
  for (const auto& entry : list) {
    if (!entry) return bad(name, "an empty constant");
    const std::string what = name + "' constant '" + entry->name;
    TESSERA_TRY(const Format format, format_of(entry->format, what));
    TESSERA_TRY(const std::int64_t bytes, dense_bytes(entry->dims, format, what));
    if (static_cast<std::uint64_t>(bytes) != entry->bytes || entry->offset > section.size() ||
        entry->bytes > section.size() - entry->offset) {
      return bad(what, fmt::format("{} bytes at {} of a section of {}, the shape needs {}",
                                   entry->bytes, entry->offset, section.size(), bytes));
    }
    if (entry->bytes > left) return bad(what, "the constants share bytes of the section");
    left -= entry->bytes;
    auto tensor = std::make_shared<Tensor>();
    tensor->format = format;
    tensor->dims = entry->dims;
    const auto data = section.subspan(entry->offset, entry->bytes);
    tensor->bytes.assign(data.begin(), data.end());
    constants[entry->name] = std::move(tensor);
  }
  return constants;
}

// A program's step: its operands and its node fit each other.
Result<HostStep> whole_host_step_of(const fb::HostStepT& entry, std::span<const std::byte> section,
                                    const std::string& name) {
  TESSERA_TRY(HostStep step, host_step_of(entry, name));
  TESSERA_TRY(const auto constants, constants_of(entry.constants, section, name));
  step.body = entry.graph_text;
  for (const auto& [tensor, value] : constants) step.constants.push_back({tensor, value});
  const Status status = settle_host_step(step);
  if (!status.ok()) return bad(name, status.error().message);
  return step;
}

template <typename Table, typename Object>
Result<Object> unpack(const ContainerFile& file, const std::string& name) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(file.payload.data());
  flatbuffers::Verifier verifier(data, file.payload.size(), 64, 10'000'000);
  if (!verifier.VerifyBuffer<Table>(nullptr)) {
    return bad(name, "the payload is not a valid FlatBuffers table");
  }
  Object object;
  flatbuffers::GetRoot<Table>(data)->UnPackTo(&object);
  return object;
}

// How many dependencies were dropped; the linker adds to it.
Result<std::int64_t> count_of(std::int64_t dropped, const std::string& name) {
  constexpr std::int64_t kMost = std::int64_t{1} << 48;
  if (dropped >= 0 && dropped <= kMost) return dropped;
  return bad(name, fmt::format("{} dependencies dropped, allowed 0..{}", dropped, kMost));
}

Status fill_package(const fb::PackageT& table, std::span<const std::byte> section,
                    const std::string& name, Package& package) {
  package.chip_name = table.chip_name;
  TESSERA_TRY(const auto constants, constants_of(table.constants, section, name));
  const auto lookup = [&constants](const std::string& tensor) -> std::shared_ptr<const Tensor> {
    const auto found = constants.find(tensor);
    return found == constants.end() ? nullptr : found->second;
  };
  TESSERA_TRY(graph::Graph parsed, graph::parse(table.graph_text, lookup));
  TESSERA_RETURN_IF_ERROR(graph::verify(parsed));
  package.graph = std::make_shared<const graph::Graph>(std::move(parsed));
  for (const auto& entry : table.frames) {
    if (!entry) return bad(name, "an empty frame");
    TESSERA_TRY(Frame frame, frame_of(*entry, name));
    package.frames.push_back(std::move(frame));
  }
  for (const auto& entry : table.host_steps) {
    if (!entry) return bad(name, "an empty host step");
    TESSERA_TRY(HostStep step, host_step_of(*entry, name));
    package.host_steps.push_back(std::move(step));
  }
  package.segments = table.segments;
  package.workspace_bytes = table.workspace_bytes;
  package.input_bytes = table.input_bytes;
  package.output_bytes = table.output_bytes;
  TESSERA_TRY(package.inputs, slots_of(table.inputs, name));
  TESSERA_TRY(package.outputs, slots_of(table.outputs, name));
  package.hints = hints_of(table.hints);
  package.transpositions = transpositions_of(table.transpositions);
  for (const auto& entry : table.placements) {
    if (!entry) continue;
    package.placements.push_back({entry->name, entry->in_state_buffer, entry->offset, entry->bytes,
                                  entry->first_use, entry->last_use});
  }
  package.state_buffer_peak_bytes = table.state_buffer_peak_bytes;
  TESSERA_TRY(package.dependencies_dropped, count_of(table.dependencies_dropped, name));
  const Status status = check_package(package);
  if (!status.ok()) return bad(name, status.error().message);
  for (HostStep& step : package.host_steps) {  // the file has them in its graph
    close_host_step(*package.graph, package.graph->nodes[step.node], step);
  }
  return {};
}

Result<isa::CoreRegion> region_of(const fb::Region& region, const std::string& name) {
  for (const std::int64_t value : {region.state_buffer_first(), region.state_buffer_bytes(),
                                   region.kernel_memory_first(), region.kernel_memory_bytes()}) {
    if (value < 0 || value > INT32_MAX) {
      return bad(name,
                 fmt::format("{} in the region of the core, allowed 0..{}", value, INT32_MAX));
    }
  }
  return isa::CoreRegion{{region.state_buffer_first(), region.state_buffer_bytes()},
                         {region.kernel_memory_first(), region.kernel_memory_bytes()}};
}

Status fill_stream(const fb::ProgramT& table, const std::string& name, Program& program) {
  const auto stream = std::as_bytes(std::span(table.stream));
  program.stream.assign(stream.begin(), stream.end());
  for (std::size_t offset = 0; offset < program.stream.size();) {
    std::size_t consumed = 0;
    auto task = decode(std::span(program.stream).subspan(offset), consumed);
    if (!task.ok()) return task.error().with_context("'" + name + "'");
    program.stream_offsets.push_back(static_cast<std::uint32_t>(offset));
    program.tasks.push_back(std::move(task).value());
    offset += consumed;
  }
  return {};
}

Result<Package> read_package(std::span<const std::byte> bytes, const std::string& name) {
  TESSERA_TRY(const ContainerFile file, open_container(kPackageMagic, bytes, name));
  TESSERA_TRY(const fb::PackageT table, (unpack<fb::Package, fb::PackageT>(file, name)));
  Package package;
  package.chip_fingerprint = file.chip_fingerprint;
  // The last constant, without a name, is the weight region at the section's start.
  if (table.constants.empty() || !table.constants.back() ||
      table.constants.back()->bytes > file.section.size()) {
    return bad(name, "the weight region is missing or larger than its section");
  }
  const auto weights = file.section.first(table.constants.back()->bytes);
  package.weights.assign(weights.begin(), weights.end());
  TESSERA_RETURN_IF_ERROR(fill_package(table, file.section, name, package));
  return package;
}

Result<Program> read_program(std::span<const std::byte> bytes, const std::string& name) {
  TESSERA_TRY(const ContainerFile file, open_container(kProgramMagic, bytes, name));
  TESSERA_TRY(const fb::ProgramT table, (unpack<fb::Program, fb::ProgramT>(file, name)));
  Program program;
  program.chip_fingerprint = file.chip_fingerprint;
  program.chip_name = table.chip_name;
  TESSERA_RETURN_IF_ERROR(fill_stream(table, name, program));
  const auto section_bytes = static_cast<std::int64_t>(file.section.size());
  const std::int64_t weight_bytes = table.weight_bytes < 0 ? section_bytes : table.weight_bytes;
  if (weight_bytes > section_bytes) {
    return bad(name,
               fmt::format("{} bytes of weights in a section of {}", weight_bytes, section_bytes));
  }
  if (!table.pieces.empty() && table.pieces.size() != program.tasks.size()) {
    return bad(name,
               fmt::format("{} pieces of {} tasks", table.pieces.size(), program.tasks.size()));
  }
  for (const fb::Piece& piece : table.pieces) program.pieces.push_back(piece_of(piece));
  const auto weights = file.section.first(static_cast<std::size_t>(weight_bytes));
  for (const auto& entry : table.segments) {
    if (!entry || entry->task_first > entry->task_last || entry->task_last > program.tasks.size()) {
      return bad(name, fmt::format("a segment outside the {} tasks", program.tasks.size()));
    }
    Segment segment{entry->task_first, entry->task_last, {}};
    for (const auto& step : entry->host_steps) {
      if (!step) return bad(name, "an empty host step");
      TESSERA_TRY(HostStep reference, whole_host_step_of(*step, file.section, name));
      segment.host_steps.push_back(std::move(reference));
    }
    program.segments.push_back(std::move(segment));
  }
  program.workspace_bytes = table.workspace_bytes;
  program.input_bytes = table.input_bytes;
  program.output_bytes = table.output_bytes;
  const Status regions =
      check_regions(program.workspace_bytes, program.input_bytes, program.output_bytes);
  if (!regions.ok()) return bad(name, regions.error().message);
  if (table.region) {
    TESSERA_TRY(program.region, region_of(*table.region, name));
  }
  TESSERA_TRY(program.inputs, slots_of(table.inputs, name));
  TESSERA_TRY(program.outputs, slots_of(table.outputs, name));
  program.hints = hints_of(table.hints);
  TESSERA_TRY(program.dependencies_dropped, count_of(table.dependencies_dropped, name));
  program.weights.assign(weights.begin(), weights.end());
  return program;
}

// A small file may unfold into more than there is: tables may share their parts.
template <typename T, typename Read>
Result<T> within_memory(const std::string& name, Read&& read) {
  try {
    return read();
  } catch (const std::bad_alloc&) {
    return bad(name, "its contents unfold into more memory than the host has");
  }
}

}  // namespace

std::vector<std::byte> serialise(const Package& package) {
  TESSERA_CHECK(package.graph != nullptr, "a package without its graph");
  fb::PackageT table;
  std::vector<std::byte> section = package.weights;
  for (const graph::TensorInfo& tensor : package.graph->tensors) {
    if (tensor.constant == nullptr) continue;
    append_constant(tensor.name, *tensor.constant, section, table.constants);
  }
  // The weight region comes first, so its size is where the first constant may begin.
  auto weights = std::make_unique<fb::ConstantT>();
  weights->format = static_cast<std::uint8_t>(Format::kU8);
  weights->dims = {static_cast<std::int64_t>(package.weights.size())};
  weights->bytes = package.weights.size();
  table.constants.push_back(std::move(weights));
  table.chip_name = package.chip_name;
  table.graph_text = graph::dump(*package.graph);
  for (const Frame& frame : package.frames) table.frames.push_back(to_fb(frame));
  for (const HostStep& step : package.host_steps) table.host_steps.push_back(to_fb(step));
  table.segments = package.segments;
  table.workspace_bytes = package.workspace_bytes;
  table.input_bytes = package.input_bytes;
  table.output_bytes = package.output_bytes;
  table.inputs = to_fb(package.inputs);
  table.outputs = to_fb(package.outputs);
  table.hints = to_fb(package.hints);
  table.transpositions = to_fb(package.transpositions);
  for (const PlacementRecord& record : package.placements) {
    auto entry = std::make_unique<fb::PlacementT>();
    entry->name = record.name;
    entry->in_state_buffer = record.in_state_buffer;
    entry->offset = record.offset;
    entry->bytes = record.bytes;
    entry->first_use = record.first_use;
    entry->last_use = record.last_use;
    table.placements.push_back(std::move(entry));
  }
  table.state_buffer_peak_bytes = package.state_buffer_peak_bytes;
  table.dependencies_dropped = package.dependencies_dropped;
  return pack(kPackageMagic, package.chip_fingerprint, table, section, is_extended(package));
}

std::vector<std::byte> serialise(const Program& program) {
  fb::ProgramT table;
  std::vector<std::byte> section = program.weights;
  table.weight_bytes = static_cast<std::int64_t>(program.weights.size());
  table.chip_name = program.chip_name;
  const auto* stream = reinterpret_cast<const std::uint8_t*>(program.stream.data());
  table.stream.assign(stream, stream + program.stream.size());
  for (const Segment& segment : program.segments) {
    auto entry = std::make_unique<fb::SegmentT>();
    entry->task_first = segment.task_first;
    entry->task_last = segment.task_last;
    for (const HostStep& step : segment.host_steps) {
      entry->host_steps.push_back(to_fb(step, section));
    }
    table.segments.push_back(std::move(entry));
  }
  table.workspace_bytes = program.workspace_bytes;
  table.input_bytes = program.input_bytes;
  table.output_bytes = program.output_bytes;
  table.inputs = to_fb(program.inputs);
  table.outputs = to_fb(program.outputs);
  table.hints = to_fb(program.hints);
  table.dependencies_dropped = program.dependencies_dropped;
  if (std::any_of(program.pieces.begin(), program.pieces.end(),
                  [](const PieceHint& piece) { return piece.known; })) {
    for (const PieceHint& piece : program.pieces) table.pieces.push_back(to_fb(piece));
  }
  if (program.region) {
    const isa::CoreRegion& region = *program.region;
    table.region =
        std::make_unique<fb::Region>(region.state_buffer.first, region.state_buffer.bytes,
                                     region.kernel_memory.first, region.kernel_memory.bytes);
  }
  return pack(kProgramMagic, program.chip_fingerprint, table, section, is_extended(program));
}

Result<Package> parse_package(std::span<const std::byte> bytes, const std::string& name) {
  return within_memory<Package>(name, [&] { return read_package(bytes, name); });
}

Result<Program> parse_program(std::span<const std::byte> bytes, const std::string& name) {
  return within_memory<Program>(name, [&] { return read_program(bytes, name); });
}

Result<Package> load_package(const std::string& path) {
  TESSERA_TRY(const std::vector<std::byte> bytes, read_container(kPackageMagic, path));
  return parse_package(bytes, path);
}

Result<Program> load_program(const std::string& path) {
  TESSERA_TRY(const std::vector<std::byte> bytes, read_container(kProgramMagic, path));
  return parse_program(bytes, path);
}

FileKind file_kind(std::span<const std::byte> head) {
  if (head.size() < 8) return FileKind::kOther;
  if (std::memcmp(head.data(), kPackageMagic, 8) == 0) return FileKind::kPackage;
  if (std::memcmp(head.data(), kProgramMagic, 8) == 0) return FileKind::kProgram;
  return FileKind::kOther;
}

FileKind kind_of_file(const std::string& path) {
  std::byte head[8];
  const auto file = InputFile::open(path);
  return file.ok() && file->read_at(0, head).ok() ? file_kind(head) : FileKind::kOther;
}

}  // namespace tessera::package
