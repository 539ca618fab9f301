// Programs for several numbers of cores as templates. What a core does of a layer is words (isa/encoding.h);
// cores, layers and numbers of cores differ in a few of them.
//
//   templates                words, and at which places they differ
//   a number of cores        core 0: templates 3 1 0 ..., and the values of their places
//                            core 1: templates 3 2 0 ...
//
// Filling them in gives the descriptors of each core bit by bit (link/templates.h). The same is done with the
// hints of tasks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "isa/card_program.h"
#include "isa/performance_model.h"

namespace tessera::isa {

// Places and numbers ascend, and count from the template's first word.
struct WordTemplate {
  std::uint32_t words = 0;
  std::uint32_t tasks = 0;    // whose descriptors they are; 0: they are no descriptors
  std::uint32_t numbers = 0;  // words that number a task: they count from the template's first task
  std::uint32_t places = 0;   // words that a value takes the place of
  friend bool operator==(const WordTemplate&, const WordTemplate&) = default;
};

// Of some templates in a row: the words of all of them one behind the other, and so numbers and places. A view;
// what it shows `owner` keeps.
struct TemplatePage {
  std::shared_ptr<const void> owner;
  std::uint32_t first = 0, last = 0;  // templates [first, last)
  std::span<const std::uint32_t> words, numbers, places;
};

struct Templates {
  std::vector<WordTemplate> templates;
  std::vector<TemplatePage> pages;  // of all templates, in their order

  std::uint64_t bytes() const;  // of words, numbers and places
};

// Templates one behind the other, and one value for each of their places.
struct TemplateText {
  std::span<const std::uint32_t> templates, values;
  std::uint32_t words = 0;  // when they are filled in
};

// Of a piece hint: known, image, channel, row, column, input channel, row and column of the window.
inline constexpr std::uint32_t kPieceWords = 8;

struct CoreTemplates {
  std::uint32_t tasks = 0;
  TemplateText stream;            // the descriptors
  TemplateText pieces;            // kPieceWords a task; or none
  std::vector<Segment> segments;  // of other cores than the first without host steps
  std::int64_t dependencies_dropped = 0;
};

// What was done with a layer, as compile::LayerShare has it.
struct PreparedLayer {
  std::int32_t node = -1;
  std::uint8_t way = 0;
  std::int32_t cores = 0;
  std::string reason;
  std::int64_t bytes_read = 0, bytes_written = 0;
  std::uint8_t hand_over = 0;
  friend bool operator==(const PreparedLayer&, const PreparedLayer&) = default;
};

// What a program was made for.
struct PreparedFor {
  int cores = 1, cards = 1;
  std::uint8_t split = 0;                    // tessera::CoreSplit by number
  std::vector<std::uint8_t> memory_of_core;  // as CardProgram's
  std::uint64_t card_fingerprint = 0;        // of the card around the cores
  friend bool operator==(const PreparedFor&, const PreparedFor&) = default;
};

// All of a program for several cores but the words, which are filled in. `owner` keeps what its texts show.
struct PreparedCores {
  PreparedFor key;
  std::shared_ptr<const void> owner;
  std::vector<CoreTemplates> cores;
  // Of the first core, without tasks, stream and pieces. Weights and constants are elsewhere, in the section of
  // the package.
  Program first;
  std::vector<PreparedLayer> layers;  // as first.hints
  std::shared_ptr<const ModelledCores>
      model;  // null: the splits were not chosen, or by an older Tessera
  std::int64_t dependencies = 0, remote_dependencies = 0, load_shares = 0;

  std::uint64_t tasks() const {
    std::uint64_t sum = 0;
    for (const CoreTemplates& core : cores) sum += core.tasks;
    return sum;
  }
  std::uint64_t stream_bytes() const {
    std::uint64_t words = 0;
    for (const CoreTemplates& core : cores) words += core.stream.words;
    return 4 * words;
  }
  // Of the numbers of templates and the values of their places.
  std::uint64_t value_bytes() const {
    std::uint64_t values = 0;
    for (const CoreTemplates& core : cores) {
      values += core.stream.templates.size() + core.stream.values.size() +
                core.pieces.templates.size() + core.pieces.values.size();
    }
    return 4 * values;
  }
};

// What a package has for several cores.
struct PreparedPrograms {
  Templates templates;
  // Kernels that are cut otherwise than those of the package's weights, which they lie behind in its section,
  // at the next multiple of kRegionPartAlignment.
  Weights kernels;
  std::vector<std::shared_ptr<const PreparedCores>> programs;
  std::shared_ptr<const ModelledCores>
      one_core;  // what the model says of it; null: it was not asked

  // Null: there is none.
  std::shared_ptr<const PreparedCores> find(const PreparedFor& key) const {
    for (const auto& program : programs) {
      if (program->key == key) return program;
    }
    return nullptr;
  }
};

// What comes from a file is looked at before it is filled in. The page is of templates that there are, and has
// what they say; texts name templates that there are, have a value for each of their places, and as many words and
// tasks as they say. The error names the template, or core and text.
Status check_page(const std::vector<WordTemplate>& templates, const TemplatePage& page);
Status check_cores(const std::vector<WordTemplate>& templates, const PreparedCores& prepared);

}  // namespace tessera::isa
