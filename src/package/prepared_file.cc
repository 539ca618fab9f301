#include "package/prepared_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "package/container_tables.h"
#include "package/model_table.h"
#include "package/package_check.h"
#include "package/sha256.h"
#include "package/weight_pool.h"

namespace tessera::package {
namespace {

using isa::CoreTemplates;
using isa::HostStep;
using isa::PreparedCores;
using isa::PreparedFor;
using isa::PreparedLayer;
using isa::PreparedPrograms;
using isa::SectionPart;
using isa::Segment;
using isa::TemplatePage;
using isa::TemplateText;

using Builder = flatbuffers::FlatBufferBuilder;

std::unique_ptr<fb::ConstantT> add_piece(std::span<const std::byte> bytes, SectionPieces& section) {
  auto entry =
      constant_entry("", Format::kU8, {std::ssize(bytes)}, {section.add(bytes), bytes.size(), {}});
  entry->sha256 = to_fb(sha256(bytes));
  return entry;
}

template <typename Table>
std::vector<std::byte> finished(Builder& builder, flatbuffers::Offset<Table> root) {
  builder.Finish(root);
  const auto bytes = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  return {bytes.begin(), bytes.end()};
}

auto vector_of(Builder& builder, std::span<const std::uint32_t> words) {
  return builder.CreateVector(words.data(), words.size());
}

std::vector<std::byte> bytes_of(const TemplatePage& page) {
  Builder builder;
  const auto words = vector_of(builder, page.words);
  const auto numbers = vector_of(builder, page.numbers);
  const auto places = vector_of(builder, page.places);
  return finished(builder, fb::CreateTemplatePage(builder, words, numbers, places));
}

flatbuffers::Offset<fb::PreparedCore> pack_core(const CoreTemplates& core, Builder& builder) {
  std::vector<fb::TaskRange> ranges;
  for (const Segment& segment : core.segments) {
    ranges.emplace_back(segment.task_first, segment.task_last);
  }
  const auto stream = vector_of(builder, core.stream.templates);
  const auto stream_values = vector_of(builder, core.stream.values);
  const auto pieces = vector_of(builder, core.pieces.templates);
  const auto piece_values = vector_of(builder, core.pieces.values);
  const auto segments = builder.CreateVectorOfStructs(ranges);
  return fb::CreatePreparedCore(builder, core.tasks, stream, stream_values, core.stream.words,
                                pieces, piece_values, segments, core.dependencies_dropped);
}

fb::PreparedProgramT table_of(const PreparedCores& prepared) {
  const isa::Program& first = prepared.first;
  fb::PreparedProgramT table;
  for (std::size_t s = 0; s < first.segments.size(); ++s) {
    for (const HostStep& step : first.segments[s].host_steps) {
      table.host_steps.push_back(to_fb(step));
      table.host_steps.back()->segment = static_cast<std::uint32_t>(s);
    }
  }
  table.workspace_bytes = first.workspace_bytes;
  table.input_bytes = first.input_bytes;
  table.output_bytes = first.output_bytes;
  table.inputs = to_fb(first.inputs);
  table.outputs = to_fb(first.outputs);
  table.hints = to_fb(first.hints);
  for (const PreparedLayer& layer : prepared.layers) {
    auto entry = std::make_unique<fb::PreparedLayerT>();
    entry->node = layer.node;
    entry->way = layer.way;
    entry->cores = layer.cores;
    entry->reason = layer.reason;
    entry->bytes_read = layer.bytes_read;
    entry->bytes_written = layer.bytes_written;
    entry->hand_over = layer.hand_over;
    table.layers.push_back(std::move(entry));
  }
  table.weight_bytes = static_cast<std::int64_t>(first.weights.size());
  table.weight_parts = to_fb(first.weights.parts());
  table.dependencies = prepared.dependencies;
  table.remote_dependencies = prepared.remote_dependencies;
  table.load_shares = prepared.load_shares;
  return table;
}

std::vector<std::byte> bytes_of(const PreparedCores& prepared) {
  Builder builder;
  std::vector<flatbuffers::Offset<fb::PreparedCore>> list;
  for (const CoreTemplates& core : prepared.cores) list.push_back(pack_core(core, builder));
  const auto cores = builder.CreateVector(list);
  const fb::PreparedProgramT table = table_of(prepared);
  const auto program = fb::PreparedProgram::Pack(builder, &table);
  flatbuffers::Offset<fb::PerformanceModel> model;
  if (prepared.model != nullptr) {
    model = fb::PerformanceModel::Pack(builder, to_fb(*prepared.model).get());
  }
  return finished(builder, fb::CreatePreparedCores(builder, cores, program, model));
}

std::span<const std::uint32_t> words_of(const flatbuffers::Vector<std::uint32_t>* list) {
  static_assert(std::endian::native == std::endian::little);
  return list == nullptr ? std::span<const std::uint32_t>() : std::span(list->data(), list->size());
}

CoreTemplates core_of(const fb::PreparedCore& entry) {
  CoreTemplates core;
  core.tasks = entry.tasks();
  core.stream = {words_of(entry.stream()), words_of(entry.stream_values()), entry.stream_words()};
  core.pieces = {words_of(entry.pieces()), words_of(entry.piece_values()), 0};
  if (!core.pieces.templates.empty()) core.pieces.words = core.tasks * isa::kPieceWords;
  if (entry.segments() != nullptr) {
    for (const fb::TaskRange* range : *entry.segments()) {
      core.segments.push_back({range->first(), range->last(), {}});
    }
  }
  core.dependencies_dropped = entry.dependencies_dropped();
  return core;
}

Status fill_steps(const fb::PreparedProgramT& table, const PackageOutline& package,
                  const std::string& name, isa::Program& first) {
  for (const auto& entry : table.host_steps) {
    if (!entry) return bad(name, "an empty host step");
    TESSERA_TRY(HostStep step, host_step_of(*entry, name));
    const HostStep* known = package.step(step.node);
    if (known == nullptr || entry->segment >= first.segments.size()) {
      return bad(name, fmt::format("a host step of node {} behind segment {}, which is not there",
                                   step.node, entry->segment));
    }
    step.body = known->body;
    step.constants = known->constants;
    first.segments[entry->segment].host_steps.push_back(std::move(step));
  }
  return {};
}

Result<isa::Weights> weights_of(const fb::PreparedProgramT& table, const PackageOutline& package,
                                const std::string& name) {
  TESSERA_TRY(std::vector<isa::RegionPart> parts,
              weight_parts_of(table.weight_parts, 0, package.section_bytes, name));
  isa::Weights weights(isa::Weights(), std::move(parts));
  if (static_cast<std::int64_t>(weights.size()) == table.weight_bytes) return weights;
  return bad(name, fmt::format("{} bytes of weights, its parts have {}", table.weight_bytes,
                               weights.size()));
}

Status fill_program(const fb::PreparedProgramT& table, const PackageOutline& package,
                    const std::string& name, PreparedCores& prepared) {
  isa::Program& first = prepared.first;
  first.chip_fingerprint = package.chip_fingerprint;
  first.chip_name = package.chip_name;
  first.segments = prepared.cores.front().segments;
  TESSERA_RETURN_IF_ERROR(fill_steps(table, package, name, first));
  first.workspace_bytes = table.workspace_bytes;
  first.input_bytes = table.input_bytes;
  first.output_bytes = table.output_bytes;
  const Status regions =
      check_regions(first.workspace_bytes, first.input_bytes, first.output_bytes);
  if (!regions.ok()) return bad(name, regions.error().message);
  TESSERA_TRY(first.inputs, slots_of(table.inputs, name));
  TESSERA_TRY(first.outputs, slots_of(table.outputs, name));
  first.hints = hints_of(table.hints);
  TESSERA_TRY(first.weights, weights_of(table, package, name));
  for (const auto& entry : table.layers) {
    if (!entry) return bad(name, "an empty layer");
    prepared.layers.push_back({entry->node, entry->way, entry->cores, entry->reason,
                               entry->bytes_read, entry->bytes_written, entry->hand_over});
  }
  if (prepared.layers.size() != first.hints.size()) {
    return bad(name,
               fmt::format("{} layers and {} hints", prepared.layers.size(), first.hints.size()));
  }
  for (const std::int64_t count :
       {table.dependencies, table.remote_dependencies, table.load_shares}) {
    TESSERA_TRY(const std::int64_t checked, count_of(count, name));
    (void)checked;
  }
  prepared.dependencies = table.dependencies;
  prepared.remote_dependencies = table.remote_dependencies;
  prepared.load_shares = table.load_shares;
  return {};
}

SharedBytes bytes_at(const SectionPart& part, std::span<const std::byte> section) {
  const auto bytes = section.subspan(part.offset, part.bytes);
  return std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
}

template <typename Table>
Result<SectionPart> place_of(const Table* entry, std::uint64_t section_bytes,
                             const std::string& name) {
  if (entry == nullptr) return bad(name, "something prepared without its place");
  fb::ConstantT object;
  entry->UnPackTo(&object);
  return part_of(object, section_bytes, name);
}

// Bytes of its region are to be found without the file.
bool in_package(const PreparedCores& prepared, std::uint64_t weights, std::uint64_t kernels) {
  return std::ranges::all_of(prepared.first.weights.parts(), [&](const isa::RegionPart& part) {
    const std::uint64_t end = part.place.offset + part.place.bytes;
    return end <= weights ||
           (part.place.offset >= pool_begin(weights) && end <= pool_begin(weights) + kernels);
  });
}

}  // namespace

void add_kernels(const PreparedPrograms& prepared, SectionPieces& section, fb::PackageT& table) {
  table.kernels = add_piece(prepared.kernels.bytes(), section);
}

void add_prepared(const PreparedPrograms& prepared, SectionPieces& section, PreparedPieces& pieces,
                  fb::PackageT& table) {
  if (prepared.one_core != nullptr) table.one_core = to_fb(*prepared.one_core);
  pieces.tables.reserve(prepared.templates.pages.size() + prepared.programs.size());
  for (const isa::WordTemplate& one : prepared.templates.templates) {
    table.templates.emplace_back(one.words, one.tasks, one.numbers, one.places);
  }
  for (const TemplatePage& page : prepared.templates.pages) {
    auto entry = std::make_unique<fb::PlacedPageT>();
    entry->first = page.first;
    entry->last = page.last;
    entry->place = add_piece(pieces.tables.emplace_back(bytes_of(page)), section);
    table.pages.push_back(std::move(entry));
  }
  for (const auto& program : prepared.programs) {
    auto entry = std::make_unique<fb::PreparedT>();
    entry->cores = static_cast<std::uint32_t>(program->key.cores);
    entry->cards = static_cast<std::uint32_t>(program->key.cards);
    entry->split = program->key.split;
    entry->memory_of_core = program->key.memory_of_core;
    entry->card_fingerprint = program->key.card_fingerprint;
    entry->place = add_piece(pieces.tables.emplace_back(bytes_of(*program)), section);
    table.prepared.push_back(std::move(entry));
  }
}

std::vector<isa::WordTemplate> templates_of(const fb::Package& table) {
  std::vector<isa::WordTemplate> templates;
  if (table.templates() == nullptr) return templates;
  templates.reserve(table.templates()->size());
  for (const fb::Template* one : *table.templates()) {
    templates.push_back({one->words(), one->tasks(), one->numbers(), one->places()});
  }
  return templates;
}

Result<std::vector<PlacedPage>> pages_of(const fb::Package& table, std::uint64_t section_bytes,
                                         const std::string& name) {
  std::vector<PlacedPage> pages;
  std::uint32_t end = 0;
  if (table.pages() != nullptr) {
    for (const fb::PlacedPage* entry : *table.pages()) {
      if (entry->place() == nullptr || entry->first() != end || entry->last() < end) {
        return bad(name, fmt::format("a page of the templates {} to {}, the last one ends at {}",
                                     entry->first(), entry->last(), end));
      }
      fb::ConstantT place;
      entry->place()->UnPackTo(&place);
      TESSERA_TRY(const SectionPart part, part_of(place, section_bytes, name));
      pages.push_back({entry->first(), entry->last(), part});
      end = entry->last();
    }
  }
  const std::size_t templates = table.templates() == nullptr ? 0 : table.templates()->size();
  if (end == templates) return pages;
  return bad(name, fmt::format("pages of {} templates, there are {}", end, templates));
}

Result<TemplatePage> page_of(const std::vector<isa::WordTemplate>& templates,
                             const PlacedPage& placed, SharedBytes bytes, const std::string& name) {
  TESSERA_TRY(const fb::TemplatePage* table, root_of<fb::TemplatePage>(*bytes, name));
  TemplatePage page;
  page.first = placed.first;
  page.last = placed.last;
  page.words = words_of(table->words());
  page.numbers = words_of(table->numbers());
  page.places = words_of(table->places());
  page.owner = std::move(bytes);
  const Status checked = isa::check_page(templates, page);
  if (!checked.ok()) return bad(name, checked.error().message);
  return page;
}

Result<PreparedFor> key_of(const fb::PreparedT& entry, const std::string& name) {
  const bool fits = entry.cores >= 1 && entry.cores <= isa::kSharingCoresMax && entry.cards >= 1 &&
                    entry.cards <= entry.cores && entry.place != nullptr &&
                    (entry.memory_of_core.empty() || entry.memory_of_core.size() == entry.cores);
  if (!fits) {
    return bad(name, fmt::format("something prepared for {} cores of {} cards with {} memories, "
                                 "allowed are 1 to {} cores, each with one, and no more cards",
                                 entry.cores, entry.cards, entry.memory_of_core.size(),
                                 isa::kSharingCoresMax));
  }
  return PreparedFor{static_cast<int>(entry.cores), static_cast<int>(entry.cards), entry.split,
                     entry.memory_of_core, entry.card_fingerprint};
}

Result<PreparedCores> prepared_of(SharedBytes bytes, PreparedFor key, const PackageOutline& package,
                                  const std::string& name) {
  TESSERA_TRY(const fb::PreparedCores* table, root_of<fb::PreparedCores>(*bytes, name));
  PreparedCores prepared;
  prepared.key = std::move(key);
  if (table->cores() != nullptr) {
    for (const fb::PreparedCore* core : *table->cores()) prepared.cores.push_back(core_of(*core));
  }
  if (table->program() == nullptr || std::ssize(prepared.cores) != prepared.key.cores) {
    return bad(name, fmt::format("{} cores of {}", prepared.cores.size(), prepared.key.cores));
  }
  fb::PreparedProgramT program;
  table->program()->UnPackTo(&program);
  TESSERA_RETURN_IF_ERROR(fill_program(program, package, name, prepared));
  TESSERA_TRY(prepared.model, model_of(table->model(), name));
  prepared.owner = std::move(bytes);
  return prepared;
}

Result<std::shared_ptr<const PreparedPrograms>> read_prepared(const fb::Package& table,
                                                              std::span<const std::byte> section,
                                                              const PackageOutline& package,
                                                              const std::string& name) {
  if (table.prepared() == nullptr) return std::shared_ptr<const PreparedPrograms>();
  auto prepared = std::make_shared<PreparedPrograms>();
  TESSERA_TRY(prepared->one_core, model_of(table.one_core(), name));
  isa::Templates& templates = prepared->templates;
  templates.templates = templates_of(table);
  TESSERA_TRY(const auto pages, pages_of(table, section.size(), name));
  for (const PlacedPage& placed : pages) {
    TESSERA_TRY(TemplatePage page,
                page_of(templates.templates, placed, bytes_at(placed.place, section), name));
    templates.pages.push_back(std::move(page));
  }
  TESSERA_TRY(const SectionPart kernels, place_of(table.kernels(), section.size(), name));
  const auto its = section.subspan(kernels.offset, kernels.bytes);
  prepared->kernels = std::vector<std::byte>(its.begin(), its.end());
  const std::uint64_t weights = table.constants()->Get(table.constants()->size() - 1)->bytes();
  if (kernels.offset != pool_begin(weights)) {
    return bad(name, fmt::format("kernels at {} of the section, allowed is {}", kernels.offset,
                                 pool_begin(weights)));
  }
  for (const fb::Prepared* entry : *table.prepared()) {
    fb::PreparedT object;
    entry->UnPackTo(&object);
    TESSERA_TRY(PreparedFor key, key_of(object, name));
    TESSERA_TRY(const SectionPart place, part_of(*object.place, section.size(), name));
    TESSERA_TRY(PreparedCores cores,
                prepared_of(bytes_at(place, section), std::move(key), package, name));
    const Status checked = isa::check_cores(templates.templates, cores);
    if (!checked.ok()) return bad(name, checked.error().message);
    if (!in_package(cores, weights, kernels.bytes)) {
      return bad(name, "kernels that are neither weights nor prepared ones");
    }
    prepared->programs.push_back(std::make_shared<const PreparedCores>(std::move(cores)));
  }
  return std::shared_ptr<const PreparedPrograms>(std::move(prepared));
}

}  // namespace tessera::package
