#include "package/container.h"

#include <flatbuffers/flatbuffers.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <new>

#include "base/check.h"
#include "base/input_file.h"
#include "graph/graph_text.h"
#include "graph/verify.h"
#include "isa/encoding.h"
#include "package/container_file.h"
#include "package/container_tables.h"
#include "package/elsewhere.h"
#include "package/host_step.h"
#include "package/package_check.h"
#include "package/prepared_file.h"
#include "package/section_file.h"
#include "package/sha256.h"

namespace tessera::package {
namespace {

using isa::BaseIndex;
using isa::CardProgram;
using isa::decode;
using isa::Frame;
using isa::FrameDependency;
using isa::FrameTask;
using isa::HostStep;
using isa::kBaseIndexCount;
using isa::LayerHint;
using isa::PieceHint;
using isa::Program;
using isa::RegionPart;
using isa::SectionPart;
using isa::Segment;
using isa::StepConstant;
using isa::TensorSlot;

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
  frame.tasks.reserve(entry.tasks.size());
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
    if (entry->elsewhere) continue;
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

Result<StepConstant> unread_constant(const fb::ConstantT& entry, std::uint64_t section_bytes,
                                     const std::string& name) {
  const std::string what = name + "' constant '" + entry.name;
  isa::TensorPart part;
  TESSERA_TRY(part.format, format_of(entry.format, what));
  part.dims = entry.dims;
  TESSERA_TRY(const std::int64_t bytes, dense_bytes(entry.dims, part.format, what));
  TESSERA_TRY(part.place, part_of(entry, section_bytes, what));
  if (static_cast<std::uint64_t>(bytes) != part.place.bytes) {
    return bad(what, fmt::format("{} bytes, the shape needs {}", part.place.bytes, bytes));
  }
  return StepConstant{entry.name, nullptr, std::move(part)};
}

// A program's step: its operands and its node fit each other. What lies elsewhere is not read, and the
// step settled when it is.
Result<HostStep> whole_host_step_of(const fb::HostStepT& entry, std::span<const std::byte> section,
                                    const std::string& name) {
  TESSERA_TRY(HostStep step, host_step_of(entry, name));
  TESSERA_TRY(const auto constants, constants_of(entry.constants, section, name));
  step.body = entry.graph_text;
  for (const auto& [tensor, value] : constants) step.constants.push_back({tensor, value});
  bool whole = true;
  for (const auto& constant : entry.constants) {
    if (!constant->elsewhere) continue;
    TESSERA_TRY(StepConstant unread, unread_constant(*constant, kRegionBytesMax, name));
    step.constants.push_back(std::move(unread));
    whole = false;
  }
  if (!whole) return step;
  const Status status = settle_host_step(step);
  if (!status.ok()) return bad(name, status.error().message);
  return step;
}

// All but the weights and the host steps. The table's frames are gone then.
Status fill_unlinked(fb::PackageT& table, const std::string& name, isa::Unlinked& unlinked) {
  unlinked.chip_name = table.chip_name;
  unlinked.frames.reserve(table.frames.size());
  for (auto& entry : table.frames) {
    if (!entry) return bad(name, "an empty frame");
    TESSERA_TRY(Frame frame, frame_of(*entry, name));
    unlinked.frames.push_back(std::move(frame));
    entry.reset();
  }
  unlinked.segments = table.segments;
  unlinked.workspace_bytes = table.workspace_bytes;
  unlinked.input_bytes = table.input_bytes;
  unlinked.output_bytes = table.output_bytes;
  TESSERA_TRY(unlinked.inputs, slots_of(table.inputs, name));
  TESSERA_TRY(unlinked.outputs, slots_of(table.outputs, name));
  unlinked.hints = hints_of(table.hints);
  TESSERA_TRY(unlinked.dependencies_dropped, count_of(table.dependencies_dropped, name));
  return {};
}

Status fill_package(fb::PackageT& table, std::span<const std::byte> section,
                    const std::string& name, Package& package) {
  TESSERA_TRY(const auto constants, constants_of(table.constants, section, name));
  const auto lookup = [&constants](const std::string& tensor) -> std::shared_ptr<const Tensor> {
    const auto found = constants.find(tensor);
    return found == constants.end() ? nullptr : found->second;
  };
  TESSERA_TRY(graph::Graph parsed, graph::parse(table.graph_text, lookup));
  TESSERA_RETURN_IF_ERROR(graph::verify(parsed));
  package.graph = std::make_shared<const graph::Graph>(std::move(parsed));
  TESSERA_RETURN_IF_ERROR(fill_unlinked(table, name, package));
  for (const auto& entry : table.host_steps) {
    if (!entry) return bad(name, "an empty host step");
    TESSERA_TRY(HostStep step, host_step_of(*entry, name));
    package.host_steps.push_back(std::move(step));
  }
  package.transpositions = transpositions_of(table.transpositions);
  for (const auto& entry : table.placements) {
    if (!entry) continue;
    package.placements.push_back({entry->name, entry->in_state_buffer, entry->offset, entry->bytes,
                                  entry->first_use, entry->last_use});
  }
  package.state_buffer_peak_bytes = table.state_buffer_peak_bytes;
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

Status fill_stream(std::span<const std::uint8_t> words, const std::string& name, Program& program) {
  const auto stream = std::as_bytes(words);
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

Status fill_pieces(const std::vector<fb::Piece>& pieces, const std::string& name,
                   Program& program) {
  if (!pieces.empty() && pieces.size() != program.tasks.size()) {
    return bad(name, fmt::format("{} pieces of {} tasks", pieces.size(), program.tasks.size()));
  }
  for (const fb::Piece& piece : pieces) program.pieces.push_back(piece_of(piece));
  return {};
}

// The last constant, without a name, is the weight region at the section's start.
Result<const fb::ConstantT*> weight_region(const fb::PackageT& table, std::uint64_t section_bytes,
                                           const std::string& name) {
  if (table.constants.empty() || !table.constants.back() ||
      table.constants.back()->bytes > section_bytes) {
    return bad(name, "the weight region is missing or larger than its section");
  }
  return table.constants.back().get();
}

// `unlinked` stays.
PackageOutline outline_of(const isa::Unlinked& unlinked, std::uint64_t section_bytes) {
  return {.chip_fingerprint = unlinked.chip_fingerprint,
          .chip_name = unlinked.chip_name,
          .section_bytes = section_bytes,
          .step = [&unlinked](std::int32_t node) -> const HostStep* {
            const auto found = std::ranges::find(unlinked.host_steps, node, &HostStep::node);
            return found == unlinked.host_steps.end() ? nullptr : &*found;
          }};
}

Result<Package> read_package(std::span<const std::byte> bytes, const std::string& name) {
  TESSERA_TRY(const ContainerFile file, open_container(kPackageMagic, bytes, name));
  TESSERA_TRY(fb::PackageT table, (unpack<fb::Package, fb::PackageT>(file.payload, name)));
  Package package;
  package.chip_fingerprint = file.chip_fingerprint;
  TESSERA_TRY(const fb::ConstantT* region, weight_region(table, file.section.size(), name));
  const auto weights = file.section.first(region->bytes);
  package.weights = std::vector<std::byte>(weights.begin(), weights.end());
  TESSERA_RETURN_IF_ERROR(fill_package(table, file.section, name, package));
  TESSERA_TRY(const fb::Package* root, root_of<fb::Package>(file.payload, name));
  TESSERA_TRY(package.prepared,
              read_prepared(*root, file.section, outline_of(package, file.section.size()), name));
  const Status prepared = check_prepared(package);
  if (!prepared.ok()) return bad(name, prepared.error().message);
  return package;
}

// Whether every part of the section that linking names has a digest of its own.
bool has_digests(const fb::PackageT& table) {
  if (table.constants.empty() || !table.constants.back()) return true;  // refused later
  if (table.constants.back()->sha256.empty()) return false;
  return std::ranges::all_of(table.host_steps, [](const auto& step) {
    return step && !step->graph_text.empty() &&
           std::ranges::all_of(step->constants, [](const auto& constant) {
             return constant && !constant->sha256.empty();
           });
  });
}

// Of a package, with its body; constants are left in the section.
Result<HostStep> unread_step(const fb::HostStepT& entry, std::uint64_t section_bytes,
                             const std::string& name) {
  TESSERA_TRY(HostStep step, host_step_of(entry, name));
  step.body = entry.graph_text;
  for (const auto& constant : entry.constants) {
    if (!constant) return bad(name, "an empty constant");
    TESSERA_TRY(StepConstant unread, unread_constant(*constant, section_bytes, name));
    step.constants.push_back(std::move(unread));
  }
  return step;
}

Result<isa::Unlinked> read_unlinked(fb::PackageT& table, std::uint64_t section_bytes,
                                    const std::string& name) {
  isa::Unlinked unlinked;
  TESSERA_TRY(const fb::ConstantT* region, weight_region(table, section_bytes, name));
  TESSERA_TRY(const SectionPart weights, part_of(*region, section_bytes, name));
  if (weights.bytes > 0) unlinked.weights = isa::Weights(weights);
  TESSERA_RETURN_IF_ERROR(fill_unlinked(table, name, unlinked));
  for (const auto& entry : table.host_steps) {
    if (!entry) return bad(name, "an empty host step");
    TESSERA_TRY(HostStep step, unread_step(*entry, section_bytes, name));
    unlinked.host_steps.push_back(std::move(step));
  }
  const Status status = check_unlinked(unlinked);
  if (!status.ok()) return bad(name, status.error().message);
  return unlinked;
}

// The weights of the whole package, which say where they lie in its file.
isa::Unlinked unlinked_of(Package package) {
  isa::Unlinked unlinked = std::move(static_cast<isa::Unlinked&>(package));
  if (!unlinked.weights.empty()) {
    unlinked.weights.also_at({0, unlinked.weights.size(), sha256(unlinked.weights)});
  }
  return unlinked;
}

// Weights at the section's start, or those that the table says are elsewhere.
Result<isa::Weights> weights_of(const fb::ProgramT& table, std::span<const std::byte> section,
                                const std::shared_ptr<const void>& owner, const std::string& name) {
  if (table.weights) {
    if (!table.weight_parts.empty()) return bad(name, "weights elsewhere as a whole and in parts");
    if (table.weights_file.empty()) return bad(name, "weights in another file without a name");
    TESSERA_TRY(const SectionPart part, part_of(*table.weights, kRegionBytesMax, name));
    return isa::Weights(part);
  }
  const auto section_bytes = static_cast<std::int64_t>(section.size());
  const std::int64_t weight_bytes = table.weight_bytes < 0 ? section_bytes : table.weight_bytes;
  if (weight_bytes > section_bytes) {
    return bad(name,
               fmt::format("{} bytes of weights in a section of {}", weight_bytes, section_bytes));
  }
  const auto bytes = section.first(static_cast<std::size_t>(weight_bytes));
  isa::Weights weights = owner != nullptr
                             ? isa::Weights(owner, bytes)
                             : isa::Weights(std::vector<std::byte>(bytes.begin(), bytes.end()));
  if (table.weight_parts.empty()) return weights;
  if (table.weights_file.empty()) return bad(name, "weights in another file without a name");
  TESSERA_TRY(std::vector<RegionPart> parts,
              weight_parts_of(table.weight_parts, bytes.size(), kRegionBytesMax, name));
  return isa::Weights(std::move(weights), std::move(parts));
}

// Of a one-core program, or of the first core.
Result<Program> program_of(const fb::ProgramT& table, const ContainerFile& file,
                           const std::shared_ptr<const void>& owner, const std::string& name) {
  Program program;
  program.chip_fingerprint = file.chip_fingerprint;
  program.chip_name = table.chip_name;
  program.weights_file = table.weights_file;
  TESSERA_RETURN_IF_ERROR(fill_stream(table.stream, name, program));
  TESSERA_TRY(program.weights, weights_of(table, file.section, owner, name));
  TESSERA_RETURN_IF_ERROR(fill_pieces(table.pieces, name, program));
  for (const auto& entry : table.segments) {
    if (!entry || entry->task_first > entry->task_last || entry->task_last > program.tasks.size()) {
      return bad(name, fmt::format("a segment outside the {} tasks", program.tasks.size()));
    }
    Segment segment{entry->task_first, entry->task_last, {}};
    for (const auto& step : entry->host_steps) {
      if (!step) return bad(name, "an empty host step");
      TESSERA_TRY(HostStep reference, whole_host_step_of(*step, file.section, name));
      if (table.weights_file.empty() && is_unread(reference)) {
        return bad(name, "constants in another file without a name");
      }
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
  return program;
}

// Of another core than the first.
Result<Program> core_of(const fb::CoreT& entry, const Program& first, const std::string& name) {
  Program program;
  program.chip_fingerprint = first.chip_fingerprint;
  program.chip_name = first.chip_name;
  TESSERA_RETURN_IF_ERROR(fill_stream(entry.stream, name, program));
  TESSERA_RETURN_IF_ERROR(fill_pieces(entry.pieces, name, program));
  for (const fb::TaskRange& range : entry.segments) {
    program.segments.push_back({range.first(), range.last(), {}});
  }
  program.workspace_bytes = first.workspace_bytes;
  program.input_bytes = first.input_bytes;
  program.output_bytes = first.output_bytes;
  TESSERA_TRY(program.dependencies_dropped, count_of(entry.dependencies_dropped, name));
  return program;
}

// `owner`: of `bytes`; null: they are copied. What lies elsewhere is not read.
Result<CardProgram> read_program(std::span<const std::byte> bytes,
                                 const std::shared_ptr<const void>& owner,
                                 const std::string& name) {
  TESSERA_TRY(const ContainerFile file, open_container(kProgramMagic, bytes, name));
  TESSERA_TRY(const fb::ProgramT table, (unpack<fb::Program, fb::ProgramT>(file.payload, name)));
  if (table.cores.size() >= isa::kSharingCoresMax) {
    return bad(name, fmt::format("a program for {} cores, allowed 1 to {}", 1 + table.cores.size(),
                                 isa::kSharingCoresMax));
  }
  CardProgram card;
  card.cores.resize(1);
  TESSERA_TRY(card.cores[0], program_of(table, file, owner, name));
  card.memory_of_core = table.memory_of_core;
  card.cards = table.cards;
  card.images = table.images;
  if (table.cores.empty()) {
    if (card.memory_of_core.empty() && card.cards == 1 && card.images == 1) return card;
    return bad(name, "memories, cards or images of a program for one core");
  }
  if (table.region) return bad(name, "a region of a core in a program for several");
  for (const auto& entry : table.cores) {
    if (!entry) return bad(name, "an empty core");
    const std::string whose = fmt::format("{}' core '{}", name, card.cores.size());
    TESSERA_TRY(Program core, core_of(*entry, card.cores[0], whose));
    card.cores.push_back(std::move(core));
  }
  const Status cores = isa::check_cores(card);
  if (!cores.ok()) return bad(name, cores.error().message);
  return card;
}

// For readers that know no cores.
Result<Program> of_one_core(Result<CardProgram> read, const std::string& name) {
  if (!read.ok()) return read.error();
  if (read->cores.size() == 1) return std::move(read->cores.front());
  return Error{
      ErrorCode::kUnsupported,
      fmt::format(
          "'{}' is a program for {} cores of a card, which 'tessera run', 'inspect', 'disasm' and "
          "'derive' take; here give a program of one core ('tessera link' without --cores), "
          "or the package or model",
          name, read->cores.size())};
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

Result<Package> parse_package(std::span<const std::byte> bytes, const std::string& name) {
  return within_memory<Package>(name, [&] { return read_package(bytes, name); });
}

Result<Package> load_package(const std::string& path) {
  TESSERA_TRY(const std::vector<std::byte> bytes, read_container(kPackageMagic, path));
  return parse_package(bytes, path);
}

Result<isa::Unlinked> parse_unlinked(std::span<const std::byte> bytes, const std::string& name) {
  return within_memory<isa::Unlinked>(name, [&]() -> Result<isa::Unlinked> {
    TESSERA_TRY(const ContainerFile file, open_container(kPackageMagic, bytes, name));
    TESSERA_TRY(fb::PackageT table, (unpack<fb::Package, fb::PackageT>(file.payload, name)));
    TESSERA_TRY(isa::Unlinked unlinked, read_unlinked(table, file.section.size(), name));
    unlinked.chip_fingerprint = file.chip_fingerprint;
    return unlinked;
  });
}

Result<isa::Unlinked> load_unlinked(const std::string& path) {
  TESSERA_TRY(const SectionFile file, SectionFile::open(path));
  if (file.is_package()) {
    TESSERA_TRY(auto front, file.front());
    if (front) {
      const std::uint64_t fingerprint = front->chip_fingerprint;
      TESSERA_TRY(fb::PackageT table, (unpack<fb::Package, fb::PackageT>(front->payload, path)));
      front.reset();  // all of it is in the table
      if (has_digests(table)) {
        TESSERA_TRY(isa::Unlinked unlinked, within_memory<isa::Unlinked>(path, [&] {
                      return read_unlinked(table, file.section_bytes(), path);
                    }));
        unlinked.chip_fingerprint = fingerprint;
        return unlinked;
      }
    }
  }
  TESSERA_TRY(Package package, load_package(path));
  return unlinked_of(std::move(package));
}

namespace {

// Where the section has what is prepared under the key; nothing: it has none.
Result<std::optional<SectionPart>> prepared_place(const fb::Package& table,
                                                  const isa::PreparedFor& key,
                                                  std::uint64_t section_bytes,
                                                  const std::string& name) {
  using Place = std::optional<SectionPart>;
  if (table.prepared() == nullptr) return Place();
  for (const fb::Prepared* entry : *table.prepared()) {
    fb::PreparedT object;
    entry->UnPackTo(&object);
    TESSERA_TRY(const isa::PreparedFor its, key_of(object, name));
    if (its != key) continue;
    TESSERA_TRY(const SectionPart place, part_of(*object.place, section_bytes, name));
    return Place(place);
  }
  return Place();
}

Result<SharedBytes> read_piece(const SectionFile& file, const SectionPart& part) {
  TESSERA_TRY(std::vector<std::byte> bytes, file.read(part));
  return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

// Of a program for several cores its host steps and its architecture.
Result<isa::Unlinked> around_cores(const fb::Package& table, const SectionFile& file,
                                   const SectionFile::Front& front) {
  isa::Unlinked around;
  around.chip_fingerprint = front.chip_fingerprint;
  if (table.chip_name() != nullptr) around.chip_name = table.chip_name()->str();
  if (table.host_steps() == nullptr) return around;
  for (const fb::HostStep* entry : *table.host_steps()) {
    fb::HostStepT object;
    entry->UnPackTo(&object);
    TESSERA_TRY(HostStep step, unread_step(object, file.section_bytes(), file.path()));
    around.host_steps.push_back(std::move(step));
  }
  return around;
}

}  // namespace

struct PreparedSource::Implementation {
  SectionFile file;
  isa::PreparedCores cores;
  std::vector<isa::WordTemplate> templates;
  std::vector<PlacedPage> pages;
};

PreparedSource::PreparedSource(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}
PreparedSource::PreparedSource(PreparedSource&&) noexcept = default;
PreparedSource& PreparedSource::operator=(PreparedSource&&) noexcept = default;
PreparedSource::~PreparedSource() = default;

const isa::PreparedCores& PreparedSource::cores() const { return implementation_->cores; }

const std::vector<isa::WordTemplate>& PreparedSource::templates() const {
  return implementation_->templates;
}

Status PreparedSource::for_each_page(
    const std::function<bool(const isa::TemplatePage& page)>& is_wanted,
    const std::function<void(const isa::TemplatePage& page)>& take) const {
  for (const PlacedPage& placed : implementation_->pages) {
    isa::TemplatePage page;
    page.first = placed.first;
    page.last = placed.last;
    if (!is_wanted(page)) continue;
    const SectionFile& file = implementation_->file;
    TESSERA_TRY(SharedBytes bytes, read_piece(file, placed.place));
    TESSERA_TRY(page, page_of(implementation_->templates, placed, std::move(bytes), file.path()));
    take(page);
  }
  return {};
}

Result<std::optional<PreparedSource>> load_prepared(const std::string& path,
                                                    const isa::PreparedFor& key) {
  using Source = std::optional<PreparedSource>;
  TESSERA_TRY(SectionFile file, SectionFile::open(path));
  if (!file.is_package()) return Source();
  TESSERA_TRY(const auto front, file.front());
  if (!front) return Source();
  return within_memory<Source>(path, [&]() -> Result<Source> {
    TESSERA_TRY(const fb::Package* table, root_of<fb::Package>(front->payload, path));
    TESSERA_TRY(const auto place, prepared_place(*table, key, file.section_bytes(), path));
    if (!place) return Source();
    TESSERA_TRY(const isa::Unlinked around, around_cores(*table, file, *front));
    TESSERA_TRY(SharedBytes bytes, read_piece(file, *place));
    TESSERA_TRY(isa::PreparedCores cores,
                prepared_of(std::move(bytes), key, outline_of(around, file.section_bytes()), path));
    std::vector<isa::WordTemplate> templates = templates_of(*table);
    TESSERA_TRY(std::vector<PlacedPage> pages, pages_of(*table, file.section_bytes(), path));
    const Status checked = isa::check_cores(templates, cores);
    if (!checked.ok()) return bad(path, checked.error().message);
    return Source(PreparedSource(
        std::make_unique<PreparedSource::Implementation>(PreparedSource::Implementation{
            std::move(file), std::move(cores), std::move(templates), std::move(pages)})));
  });
}

Result<std::string> chip_name_of(const std::string& path) {
  TESSERA_TRY(const SectionFile file, SectionFile::open(path));
  TESSERA_TRY(const auto front, file.front());
  if (file.is_package() && front) {
    TESSERA_TRY(const fb::Package* table, root_of<fb::Package>(front->payload, path));
    return table->chip_name() == nullptr ? std::string() : table->chip_name()->str();
  }
  TESSERA_TRY(const Package package, load_package(path));
  return package.chip_name;
}

Result<CardProgram> parse_card_program_alone(std::span<const std::byte> bytes,
                                             const std::string& name) {
  return within_memory<CardProgram>(name, [&] { return read_program(bytes, nullptr, name); });
}

Result<Program> parse_program_alone(std::span<const std::byte> bytes, const std::string& name) {
  return of_one_core(parse_card_program_alone(bytes, name), name);
}

Result<Program> parse_program(std::span<const std::byte> bytes, const std::string& name,
                              const WeightsPlaces& places) {
  TESSERA_TRY(Program program, parse_program_alone(bytes, name));
  TESSERA_TRY(const std::string file, find_elsewhere(program, name, places));
  (void)file;
  return program;
}

Result<CardProgram> load_card_program_alone(const std::string& path) {
  TESSERA_TRY(std::vector<std::byte> bytes, read_container(kProgramMagic, path));
  const auto held = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return within_memory<CardProgram>(path, [&] { return read_program(*held, held, path); });
}

Result<Program> load_program_alone(const std::string& path) {
  return of_one_core(load_card_program_alone(path), path);
}

Result<Program> load_program(const std::string& path, const WeightsPlaces& places) {
  TESSERA_TRY(Program program, load_program_alone(path));
  WeightsPlaces beside = places;
  if (!beside.folder) beside.folder = folder_of(path);
  TESSERA_TRY(const std::string file, find_elsewhere(program, path, beside));
  (void)file;
  return program;
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
