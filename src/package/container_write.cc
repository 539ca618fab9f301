// Packages and programs as files: the way out. container.cc is the way back.
#include <flatbuffers/flatbuffers.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/guarded.h"
#include "base/output_file.h"
#include "container_generated.h"
#include "graph/graph_text.h"
#include "isa/encoding.h"
#include "package/container.h"
#include "package/container_file.h"
#include "package/sha256.h"

namespace tessera::package {
namespace {

using isa::CardProgram;
using isa::encode;
using isa::Frame;
using isa::FrameDependency;
using isa::FrameTask;
using isa::HostStep;
using isa::LayerHint;
using isa::PieceHint;
using isa::Program;
using isa::SectionPart;
using isa::Segment;
using isa::StepConstant;
using isa::TensorSlot;

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

std::vector<std::uint8_t> to_fb(const Sha256& digest) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(digest.data());
  return {data, data + digest.size()};
}

std::unique_ptr<fb::ConstantT> constant_entry(const std::string& name, Format format,
                                              const Shape& dims, const SectionPart& place) {
  auto entry = std::make_unique<fb::ConstantT>();
  entry->name = name;
  entry->format = static_cast<std::uint8_t>(format);
  entry->dims = dims;
  entry->offset = place.offset;
  entry->bytes = place.bytes;
  return entry;
}

// Adds the constant to the section; its entry for a list of constants.
std::unique_ptr<fb::ConstantT> add_constant(const std::string& name, const Tensor& value,
                                            SectionPieces& section) {
  const std::uint64_t offset = section.add(value.bytes);
  return constant_entry(name, value.format, value.dims, {offset, value.bytes.size(), {}});
}

std::unique_ptr<fb::ConstantT> elsewhere(const std::string& name, Format format, const Shape& dims,
                                         const SectionPart& place) {
  auto entry = constant_entry(name, format, dims, place);
  entry->sha256 = to_fb(place.digest);
  entry->elsewhere = true;
  return entry;
}

// A file that is ready to be written: what it holds is the caller's.
struct FileContents {
  std::vector<std::byte> front;
  SectionPieces section;
};

template <typename Table>
FileContents pack(const char* magic, std::uint64_t fingerprint, const Table& table,
                  SectionPieces section, std::uint32_t version) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(Table::TableType::Pack(builder, &table));
  const auto payload = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  FileContents contents;
  contents.front = container_front(magic, {fingerprint, payload, section.pieces()}, version);
  contents.section = std::move(section);
  return contents;
}

std::vector<std::byte> bytes_of(FileContents contents) {
  std::vector<std::byte> bytes = std::move(contents.front);
  bytes.reserve(bytes.size() + contents.section.size());
  for (const std::span<const std::byte> piece : contents.section.pieces()) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  }
  return bytes;
}

template <typename Make>
Status write_contents(const std::string& path, const Make& make_contents) {
  return guarded("writing a file", [&]() -> Status {
    const FileContents contents = make_contents();
    TESSERA_TRY(OutputFile file, OutputFile::create(path));
    TESSERA_RETURN_IF_ERROR(file.write(std::span(contents.front)));
    for (const std::span<const std::byte> piece : contents.section.pieces()) {
      TESSERA_RETURN_IF_ERROR(file.write(piece));
    }
    return file.commit();
  });
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

std::uint32_t version_of(const Package& package) {
  return is_extended(package) ? kContainerVersionExtended : kContainerVersion;
}
std::uint32_t version_of(const Program& program) {
  if (!program.weights_file.empty() && !program.weights.parts().empty()) {
    return kContainerVersionCores;
  }
  if (!program.weights_file.empty()) return kContainerVersionReferring;
  return is_extended(program) ? kContainerVersionExtended : kContainerVersion;
}

// Of a package: where the section has each of the graph's constants, which its host steps take too.
using PlacedConstants = std::map<const Tensor*, const fb::ConstantT*>;

// A constant with its digest, for those that read it alone.
std::unique_ptr<fb::ConstantT> add_proved(const std::string& name, const Tensor& value,
                                          SectionPieces& section) {
  auto entry = add_constant(name, value, section);
  entry->sha256 = to_fb(sha256(value.bytes));
  return entry;
}

// A package's step names its node of the graph; with its body and constants it can be linked without.
std::unique_ptr<fb::HostStepT> package_step(const HostStep& step, const PlacedConstants& placed,
                                            SectionPieces& section) {
  auto result = to_fb(step);
  result->graph_text = step.body;
  for (const StepConstant& constant : step.constants) {
    const auto found = placed.find(constant.value.get());
    if (found == placed.end()) {
      result->constants.push_back(add_proved(constant.name, *constant.value, section));
      continue;
    }
    result->constants.push_back(std::make_unique<fb::ConstantT>(*found->second));
    result->constants.back()->name = constant.name;
  }
  return result;
}

// A program's step, with its node and the constants that the node takes.
std::unique_ptr<fb::HostStepT> program_step(const HostStep& step, bool refers,
                                            SectionPieces& section) {
  auto result = to_fb(step);
  if (step.body.empty()) return result;
  result->graph_text = step.body;
  for (const StepConstant& constant : step.constants) {
    if (refers && constant.part) {
      const isa::TensorPart& part = *constant.part;
      result->constants.push_back(elsewhere(constant.name, part.format, part.dims, part.place));
      continue;
    }
    TESSERA_CHECK(constant.value != nullptr, "constant '{}' was not read", constant.name);
    result->constants.push_back(add_constant(constant.name, *constant.value, section));
  }
  return result;
}

FileContents contents_of(const Package& package) {
  TESSERA_CHECK(package.graph != nullptr, "a package without its graph");
  fb::PackageT table;
  SectionPieces section;
  section.add(package.weights);
  PlacedConstants placed;
  for (const graph::TensorInfo& tensor : package.graph->tensors) {
    if (tensor.constant == nullptr) continue;
    table.constants.push_back(add_proved(tensor.name, *tensor.constant, section));
    placed.emplace(tensor.constant.get(), table.constants.back().get());
  }
  for (const HostStep& step : package.host_steps) {
    table.host_steps.push_back(package_step(step, placed, section));
  }
  // The weight region comes first, so its size is where the first constant may begin.
  auto weights = std::make_unique<fb::ConstantT>();
  weights->format = static_cast<std::uint8_t>(Format::kU8);
  weights->dims = {static_cast<std::int64_t>(package.weights.size())};
  weights->bytes = package.weights.size();
  weights->sha256 = to_fb(sha256(package.weights));
  table.constants.push_back(std::move(weights));
  table.chip_name = package.chip_name;
  table.graph_text = graph::dump(*package.graph);
  for (const Frame& frame : package.frames) table.frames.push_back(to_fb(frame));
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
  return pack(kPackageMagic, package.chip_fingerprint, table, std::move(section),
              version_of(package));
}

void add_weights(const Program& program, SectionPieces& section, fb::ProgramT& table) {
  const auto size = static_cast<std::int64_t>(program.weights.size());
  const bool refers = !program.weights_file.empty();
  table.weights_file = program.weights_file;
  if (refers && program.weights.part()) {
    table.weights = elsewhere("", Format::kU8, {size}, *program.weights.part());
    table.weight_bytes = 0;
    return;
  }
  if (refers && !program.weights.parts().empty()) {
    for (const isa::RegionPart& part : program.weights.parts()) {
      auto entry = std::make_unique<fb::WeightPartT>();
      entry->at = part.at;
      entry->place =
          elsewhere("", Format::kU8, {static_cast<std::int64_t>(part.place.bytes)}, part.place);
      table.weight_parts.push_back(std::move(entry));
    }
    for (const auto piece : program.weights.between_parts()) section.add(piece);
    table.weight_bytes = size - static_cast<std::int64_t>(program.weights.bytes_of_parts());
    return;
  }
  section.add(program.weights);
  table.weight_bytes = size;
}

std::vector<std::uint8_t> to_fb(std::span<const std::byte> bytes) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return {data, data + bytes.size()};
}

// Nothing where no task has one.
std::vector<fb::Piece> to_fb(const std::vector<PieceHint>& pieces) {
  std::vector<fb::Piece> result;
  if (std::ranges::none_of(pieces, &PieceHint::known)) return result;
  for (const PieceHint& piece : pieces) result.push_back(to_fb(piece));
  return result;
}

// All of a program, which is written with what is added to the table.
void fill(const Program& program, fb::ProgramT& table, SectionPieces& section) {
  add_weights(program, section, table);
  table.chip_name = program.chip_name;
  table.stream = to_fb(std::span(program.stream));
  for (const Segment& segment : program.segments) {
    auto entry = std::make_unique<fb::SegmentT>();
    entry->task_first = segment.task_first;
    entry->task_last = segment.task_last;
    for (const HostStep& step : segment.host_steps) {
      entry->host_steps.push_back(program_step(step, !program.weights_file.empty(), section));
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
  table.pieces = to_fb(program.pieces);
  if (program.region) {
    const isa::CoreRegion& region = *program.region;
    table.region =
        std::make_unique<fb::Region>(region.state_buffer.first, region.state_buffer.bytes,
                                     region.kernel_memory.first, region.kernel_memory.bytes);
  }
}

FileContents contents_of(const Program& program) {
  fb::ProgramT table;
  SectionPieces section;
  fill(program, table, section);
  return pack(kProgramMagic, program.chip_fingerprint, table, std::move(section),
              version_of(program));
}

FileContents contents_of(const CardProgram& program) {
  TESSERA_CHECK(!program.cores.empty(), "a program for no core");
  const Program& first = program.cores.front();
  if (program.cores.size() == 1) return contents_of(first);
  fb::ProgramT table;
  SectionPieces section;
  fill(first, table, section);
  for (std::size_t core = 1; core < program.cores.size(); ++core) {
    const Program& its = program.cores[core];
    auto entry = std::make_unique<fb::CoreT>();
    entry->stream = to_fb(std::span(its.stream));
    for (const Segment& segment : its.segments) {
      entry->segments.emplace_back(segment.task_first, segment.task_last);
    }
    entry->pieces = to_fb(its.pieces);
    entry->dependencies_dropped = its.dependencies_dropped;
    table.cores.push_back(std::move(entry));
  }
  table.memory_of_core = program.memory_of_core;
  table.cards = program.cards;
  table.images = program.images;
  return pack(kProgramMagic, first.chip_fingerprint, table, std::move(section),
              kContainerVersionCores);
}

}  // namespace

std::vector<std::byte> serialise(const Package& package) { return bytes_of(contents_of(package)); }

std::vector<std::byte> serialise(const Program& program) { return bytes_of(contents_of(program)); }

std::vector<std::byte> serialise(const CardProgram& program) {
  return bytes_of(contents_of(program));
}

Status write_package(const std::string& path, const Package& package) {
  return write_contents(path, [&] { return contents_of(package); });
}

Status write_program(const std::string& path, const Program& program) {
  return write_contents(path, [&] { return contents_of(program); });
}

Status write_program(const std::string& path, const CardProgram& program) {
  return write_contents(path, [&] { return contents_of(program); });
}

}  // namespace tessera::package
