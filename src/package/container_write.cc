// Packages and programs as files: the way out. container.cc is the way back.
#include <flatbuffers/flatbuffers.h>

#include <algorithm>
#include <future>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/guarded.h"
#include "base/output_file.h"
#include "graph/graph_text.h"
#include "isa/encoding.h"
#include "package/container.h"
#include "package/container_file.h"
#include "package/container_tables.h"
#include "package/prepared_file.h"
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
using package::to_fb;

fb::Piece to_fb(const PieceHint& piece) {
  return {piece.known,  piece.image,         piece.channel,    piece.row,
          piece.column, piece.input_channel, piece.window_row, piece.window_column};
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

// Adds the constant to the section; its entry for a list of constants.
std::unique_ptr<fb::ConstantT> add_constant(const std::string& name, const Tensor& value,
                                            SectionPieces& section) {
  const std::uint64_t offset = section.add(value.bytes);
  return constant_entry(name, value.format, value.dims, {offset, value.bytes.size(), {}});
}

// A file that is ready to be written: what its section holds is the caller's.
struct FileContents {
  std::vector<std::byte> head;
  flatbuffers::DetachedBuffer payload;
  SectionPieces section;
  PreparedPieces prepared;  // of the section

  // In order.
  std::vector<std::span<const std::byte>> pieces() const {
    std::vector<std::span<const std::byte>> all = {
        head, std::as_bytes(std::span(payload.data(), payload.size())),
        payload_padding(payload.size())};
    const auto behind = section.pieces();
    all.insert(all.end(), behind.begin(), behind.end());
    return all;
  }
};

FileContents pack(const char* magic, std::uint64_t fingerprint, flatbuffers::DetachedBuffer buffer,
                  SectionPieces section, std::uint32_t version) {
  FileContents contents;
  contents.payload = std::move(buffer);
  const auto payload = std::as_bytes(std::span(contents.payload.data(), contents.payload.size()));
  contents.head = container_head(magic, {fingerprint, payload, section.pieces()}, version);
  contents.section = std::move(section);
  return contents;
}

template <typename Table>
FileContents pack(const char* magic, std::uint64_t fingerprint, const Table& table,
                  SectionPieces section, std::uint32_t version) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(Table::TableType::Pack(builder, &table));
  return pack(magic, fingerprint, builder.Release(), std::move(section), version);
}

std::vector<std::byte> bytes_of(const FileContents& contents) {
  std::vector<std::byte> bytes;
  for (const std::span<const std::byte> piece : contents.pieces()) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  }
  return bytes;
}

template <typename Make>
Status write_contents(const std::string& path, const Make& make_contents) {
  return guarded("writing a file", [&]() -> Status {
    const FileContents contents = make_contents();
    TESSERA_TRY(OutputFile file, OutputFile::create(path));
    for (const std::span<const std::byte> piece : contents.pieces()) {
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
  PreparedPieces prepared;
  // Beside the digests of the constants, which are as large.
  std::future<Sha256> digest =
      std::async(std::launch::async, [&] { return sha256(package.weights); });
  section.add(package.weights);
  if (package.prepared != nullptr) add_kernels(*package.prepared, section, table);
  PlacedConstants placed;
  for (const graph::TensorInfo& tensor : package.graph->tensors) {
    if (tensor.constant == nullptr) continue;
    table.constants.push_back(add_proved(tensor.name, *tensor.constant, section));
    placed.emplace(tensor.constant.get(), table.constants.back().get());
  }
  for (const HostStep& step : package.host_steps) {
    table.host_steps.push_back(package_step(step, placed, section));
  }
  if (package.prepared != nullptr) add_prepared(*package.prepared, section, prepared, table);
  auto weights = std::make_unique<fb::ConstantT>();
  weights->format = static_cast<std::uint8_t>(Format::kU8);
  weights->dims = {static_cast<std::int64_t>(package.weights.size())};
  weights->bytes = package.weights.size();
  weights->sha256 = to_fb(digest.get());
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
  FileContents contents =
      pack(kPackageMagic, package.chip_fingerprint, table, std::move(section), version_of(package));
  contents.prepared = std::move(prepared);
  return contents;
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
    table.weight_parts = to_fb(program.weights.parts());
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

// All of a program but its tasks.
void fill_around(const Program& program, fb::ProgramT& table, SectionPieces& section) {
  add_weights(program, section, table);
  table.chip_name = program.chip_name;
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
  if (program.region) {
    const isa::CoreRegion& region = *program.region;
    table.region =
        std::make_unique<fb::Region>(region.state_buffer.first, region.state_buffer.bytes,
                                     region.kernel_memory.first, region.kernel_memory.bytes);
  }
}

// All of a program, which is written with what is added to the table.
void fill(const Program& program, fb::ProgramT& table, SectionPieces& section) {
  fill_around(program, table, section);
  table.stream = to_fb(std::span(program.stream));
  table.pieces = to_fb(program.pieces);
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

template <typename Table, typename Object>
auto pack_list(flatbuffers::FlatBufferBuilder& builder,
               const std::vector<std::unique_ptr<Object>>& list) {
  std::vector<flatbuffers::Offset<Table>> offsets;
  for (const auto& entry : list) offsets.push_back(Table::Pack(builder, entry.get()));
  return builder.CreateVector(offsets);
}

using WordOffset = flatbuffers::Offset<flatbuffers::Vector<std::uint8_t>>;
using PiecesOffset = flatbuffers::Offset<flatbuffers::Vector<const fb::Piece*>>;

// Not filled in yet.
WordOffset pack_stream(const isa::TemplateText& text, flatbuffers::FlatBufferBuilder& builder) {
  std::uint8_t* bytes = nullptr;
  return builder.CreateUninitializedVector(std::size_t{text.words} * 4, &bytes);
}
PiecesOffset pack_pieces(const isa::TemplateText& text, flatbuffers::FlatBufferBuilder& builder) {
  static_assert(sizeof(fb::Piece) == 4 * isa::kPieceWords);
  if (text.words == 0) return 0;
  fb::Piece* pieces = nullptr;
  return builder.CreateUninitializedVectorOfStructs(text.words / isa::kPieceWords, &pieces);
}

// Cores besides the first.
auto pack_cores(const isa::PreparedCores& prepared, flatbuffers::FlatBufferBuilder& builder) {
  std::vector<flatbuffers::Offset<fb::Core>> cores;
  for (std::size_t i = 1; i < prepared.cores.size(); ++i) {
    const isa::CoreTemplates& core = prepared.cores[i];
    std::vector<fb::TaskRange> ranges;
    for (const Segment& segment : core.segments) {
      ranges.emplace_back(segment.task_first, segment.task_last);
    }
    const auto stream = pack_stream(core.stream, builder);
    const auto pieces = pack_pieces(core.pieces, builder);
    const auto segments = builder.CreateVectorOfStructs(ranges);
    cores.push_back(fb::CreateCore(builder, stream, segments, pieces, core.dependencies_dropped));
  }
  return builder.CreateVector(cores);
}

using TextPlaces = std::vector<std::pair<const isa::TemplateText*, std::span<std::uint32_t>>>;

template <typename Vector>
void add_place(const isa::TemplateText& text, const Vector* list, TextPlaces& places) {
  if (list == nullptr) return;
  // The builder made them; nobody else has them yet.
  auto* const words =
      const_cast<std::uint32_t*>(reinterpret_cast<const std::uint32_t*>(list->Data()));
  places.emplace_back(&text, std::span(words, text.words));
}

// Where the words of all cores go in the payload.
TextPlaces places_in(const flatbuffers::DetachedBuffer& payload,
                     const isa::PreparedCores& prepared) {
  const auto* const program = flatbuffers::GetRoot<fb::Program>(payload.data());
  TextPlaces places;
  for (std::size_t i = 0; i < prepared.cores.size(); ++i) {
    const isa::CoreTemplates& core = prepared.cores[i];
    if (i == 0) {
      add_place(core.stream, program->stream(), places);
      add_place(core.pieces, program->pieces(), places);
      continue;
    }
    const auto* const its = program->cores()->Get(static_cast<flatbuffers::uoffset_t>(i - 1));
    add_place(core.stream, its->stream(), places);
    add_place(core.pieces, its->pieces(), places);
  }
  return places;
}

// Of the payload, or somewhat more: a builder that grows copies what it has.
std::size_t bytes_about(const isa::PreparedCores& prepared) {
  constexpr std::size_t kHint = 512, kPart = 192, kCore = 256, kRest = std::size_t{64} << 10;
  std::size_t words = 0;
  for (const isa::CoreTemplates& core : prepared.cores) {
    words += core.stream.words + core.pieces.words;
  }
  const isa::Program& first = prepared.first;
  return 4 * words + kCore * prepared.cores.size() + kHint * first.hints.size() +
         kPart * first.weights.parts().size() + kRest;
}

// All but the words, for which there is room.
flatbuffers::DetachedBuffer payload_of(const isa::PreparedCores& prepared,
                                       const std::string& weights_file, SectionPieces& section) {
  flatbuffers::FlatBufferBuilder builder(bytes_about(prepared));
  const isa::CoreTemplates& core = prepared.cores.front();
  Program first = prepared.first;
  first.weights_file = weights_file;
  first.dependencies_dropped = core.dependencies_dropped;
  fb::ProgramT table;
  fill_around(first, table, section);
  const auto stream = pack_stream(core.stream, builder);
  const auto pieces = pack_pieces(core.pieces, builder);
  const auto cores = pack_cores(prepared, builder);
  const auto segments = pack_list<fb::Segment>(builder, table.segments);
  const auto inputs = pack_list<fb::TensorSlot>(builder, table.inputs);
  const auto outputs = pack_list<fb::TensorSlot>(builder, table.outputs);
  const auto hints = pack_list<fb::Hint>(builder, table.hints);
  const auto parts = pack_list<fb::WeightPart>(builder, table.weight_parts);
  const auto chip_name = builder.CreateString(table.chip_name);
  const auto file = builder.CreateString(table.weights_file);
  const auto memories = builder.CreateVector(prepared.key.memory_of_core);
  fb::ProgramBuilder program(builder);
  program.add_chip_name(chip_name);
  program.add_stream(stream);
  program.add_segments(segments);
  program.add_workspace_bytes(table.workspace_bytes);
  program.add_input_bytes(table.input_bytes);
  program.add_output_bytes(table.output_bytes);
  program.add_inputs(inputs);
  program.add_outputs(outputs);
  program.add_hints(hints);
  program.add_dependencies_dropped(table.dependencies_dropped);
  program.add_pieces(pieces);
  program.add_weight_bytes(table.weight_bytes);
  program.add_weights_file(file);
  program.add_cores(cores);
  program.add_memory_of_core(memories);
  program.add_cards(prepared.key.cards);
  program.add_weight_parts(parts);
  builder.Finish(program.Finish());
  return builder.Release();
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

Status write_program(const std::string& path, const isa::PreparedCores& prepared,
                     const std::string& weights_file, const FillTexts& fill) {
  SectionPieces section;
  flatbuffers::DetachedBuffer payload = payload_of(prepared, weights_file, section);
  TESSERA_RETURN_IF_ERROR(fill(places_in(payload, prepared)));
  return write_contents(path, [&] {
    return pack(kProgramMagic, prepared.first.chip_fingerprint, std::move(payload),
                std::move(section), kContainerVersionCores);
  });
}

}  // namespace tessera::package
