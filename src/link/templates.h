// Programs for several cores into templates and back (isa/templates.h): made once, when a network is compiled;
// filled in for each tenant.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "isa/card_program.h"
#include "isa/templates.h"

namespace tessera::link {

// Takes programs one after the other, and then has the templates of them all.
class TemplateMaker {
 public:
  TemplateMaker();
  TemplateMaker(TemplateMaker&&) noexcept;
  TemplateMaker& operator=(TemplateMaker&&) noexcept;
  ~TemplateMaker();

  // Streams and pieces of its cores. The program need not stay.
  void add(const isa::CardProgram& program);

  struct Made {
    isa::Templates templates;
    // Of each program that was added, in that order: its cores. The second owns what they show.
    std::vector<std::vector<isa::CoreTemplates>> cores;
    std::shared_ptr<const void> owner;
  };
  Made finish();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// A text, and where its words go: as many as it has.
struct TextPlace {
  const isa::TemplateText* text = nullptr;
  std::span<std::uint32_t> words;
};

// Fills in what the texts have of the page's templates: they are whole when this was done with all pages that they
// name. Templates, page and texts have been checked (isa/templates.h).
void fill_page(const std::vector<isa::WordTemplate>& templates, const isa::TemplatePage& page,
               std::span<const TextPlace> texts);
// Whether a text names a template of the page.
bool uses_page(const isa::TemplatePage& page, std::span<const TextPlace> texts);

// Streams of all cores one behind the other, and behind them the pieces: what the linker makes of templates.
struct FilledCores {
  std::unique_ptr<std::uint32_t[]> words;
  std::vector<std::span<const std::uint32_t>> streams, pieces;  // by core
};
FilledCores fill_cores(const isa::Templates& templates, const isa::PreparedCores& prepared);

// The program, with its tasks decoded; its weights are elsewhere. An error where descriptors are none.
Result<isa::CardProgram> program_of(const isa::Templates& templates,
                                    const isa::PreparedCores& prepared);

}  // namespace tessera::link
