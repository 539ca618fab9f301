#include "link/templates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "isa/encoding.h"

namespace tessera::link {
namespace {

using isa::CardProgram;
using isa::CoreTemplates;
using isa::PreparedCores;
using isa::Program;
using isa::Templates;
using isa::TemplateText;
using isa::WordTemplate;

Error bad(std::string message) { return {ErrorCode::kInvalidModel, std::move(message)}; }

// Where a template begins in its page.
struct Found {
  const std::uint32_t *words, *numbers, *places;
};
std::vector<Found> find_in(const std::vector<WordTemplate>& templates,
                           const isa::TemplatePage& page) {
  std::vector<Found> found;
  found.reserve(page.last - page.first);
  Found at{page.words.data(), page.numbers.data(), page.places.data()};
  for (std::uint32_t i = page.first; i < page.last; ++i) {
    found.push_back(at);
    at.words += templates[i].words;
    at.numbers += templates[i].numbers;
    at.places += templates[i].places;
  }
  return found;
}

// Those templates for which find(number) is not null.
template <typename Find>
void fill_text(const std::vector<WordTemplate>& templates, const TextPlace& place,
               const Find& find) {
  std::uint32_t* to = place.words.data();
  const std::uint32_t* value = place.text->values.data();
  std::uint32_t task = 0;
  for (const std::uint32_t its : place.text->templates) {
    const WordTemplate& one = templates[its];
    if (const Found* const from = find(its); from != nullptr && one.words > 0) {
      std::memcpy(to, from->words, std::size_t{one.words} * 4);
      for (std::uint32_t i = 0; i < one.numbers; ++i) to[from->numbers[i]] += task;
      for (std::uint32_t i = 0; i < one.places; ++i) to[from->places[i]] = value[i];
    }
    to += one.words;
    value += one.places;
    task += one.tasks;
  }
}

isa::PieceHint piece_of(std::span<const std::uint32_t> words) {
  return {.known = words[0] != 0,
          .image = words[1],
          .channel = words[2],
          .row = words[3],
          .column = words[4],
          .input_channel = words[5],
          .window_row = words[6],
          .window_column = words[7]};
}

Status decode_core(std::span<const std::uint32_t> stream, std::span<const std::uint32_t> pieces,
                   const CoreTemplates& core, Program& program) {
  const auto bytes = std::as_bytes(stream);
  program.stream.assign(bytes.begin(), bytes.end());
  program.tasks.reserve(core.tasks);
  program.stream_offsets.reserve(core.tasks);
  for (std::size_t offset = 0; offset < bytes.size();) {
    std::size_t consumed = 0;
    TESSERA_TRY(isa::TaskDescriptor task, isa::decode(bytes.subspan(offset), consumed));
    program.stream_offsets.push_back(static_cast<std::uint32_t>(offset));
    program.tasks.push_back(std::move(task));
    offset += consumed;
  }
  if (program.tasks.size() != core.tasks) {
    return bad(fmt::format("{} descriptors, {} tasks", program.tasks.size(), core.tasks));
  }
  if (pieces.empty()) program.pieces.resize(core.tasks);
  for (std::size_t at = 0; at < pieces.size(); at += isa::kPieceWords) {
    program.pieces.push_back(piece_of(pieces.subspan(at, isa::kPieceWords)));
  }
  program.dependencies_dropped = core.dependencies_dropped;
  return {};
}

}  // namespace

void fill_page(const std::vector<WordTemplate>& templates, const isa::TemplatePage& page,
               std::span<const TextPlace> texts) {
  const std::vector<Found> found = find_in(templates, page);
  for (const TextPlace& text : texts) {
    fill_text(templates, text, [&](std::uint32_t its) -> const Found* {
      return its >= page.first && its < page.last ? &found[its - page.first] : nullptr;
    });
  }
}

bool uses_page(const isa::TemplatePage& page, std::span<const TextPlace> texts) {
  return std::ranges::any_of(texts, [&](const TextPlace& text) {
    return std::ranges::any_of(text.text->templates, [&](std::uint32_t its) {
      return its >= page.first && its < page.last;
    });
  });
}

FilledCores fill_cores(const Templates& templates, const PreparedCores& prepared) {
  std::size_t all = 0;
  for (const CoreTemplates& core : prepared.cores) all += core.stream.words + core.pieces.words;
  FilledCores filled;
  filled.words = std::make_unique_for_overwrite<std::uint32_t[]>(all);
  std::vector<Found> found;
  found.reserve(templates.templates.size());
  for (const isa::TemplatePage& page : templates.pages) {
    for (const Found& one : find_in(templates.templates, page)) found.push_back(one);
  }
  std::span<std::uint32_t> left(filled.words.get(), all);
  const auto fill = [&](const TemplateText& text) {
    const std::span<std::uint32_t> words = left.first(text.words);
    left = left.subspan(text.words);
    fill_text(templates.templates, {&text, words},
              [&found](std::uint32_t its) { return &found[its]; });
    return words;
  };
  for (const CoreTemplates& core : prepared.cores) filled.streams.push_back(fill(core.stream));
  for (const CoreTemplates& core : prepared.cores) filled.pieces.push_back(fill(core.pieces));
  return filled;
}

Result<CardProgram> program_of(const Templates& templates, const PreparedCores& prepared) {
  const FilledCores filled = fill_cores(templates, prepared);
  CardProgram card;
  card.memory_of_core = prepared.key.memory_of_core;
  card.cards = prepared.key.cards;
  card.cores.resize(prepared.cores.size());
  for (std::size_t i = 0; i < prepared.cores.size(); ++i) {
    Program& program = card.cores[i];
    if (i == 0) {
      program = prepared.first;
    } else {
      program.chip_fingerprint = prepared.first.chip_fingerprint;
      program.chip_name = prepared.first.chip_name;
      program.segments = prepared.cores[i].segments;
      program.workspace_bytes = prepared.first.workspace_bytes;
      program.input_bytes = prepared.first.input_bytes;
      program.output_bytes = prepared.first.output_bytes;
    }
    const Status decoded =
        decode_core(filled.streams[i], filled.pieces[i], prepared.cores[i], program);
    if (!decoded.ok()) return decoded.error().with_context(fmt::format("core {}", i));
  }
  return card;
}

}  // namespace tessera::link
