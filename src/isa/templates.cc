#include "isa/templates.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace tessera::isa {
namespace {

// Of all cores together: 1 GiB. A small file may name large templates many times.
constexpr std::uint64_t kFilledWordsMax = std::uint64_t{1} << 28;

Error bad(std::string message) { return {ErrorCode::kInvalidModel, std::move(message)}; }

// Ascending, and below `words`.
bool in_order(std::span<const std::uint32_t> list, std::uint32_t words) {
  return std::ranges::adjacent_find(list, std::greater_equal()) == list.end() &&
         (list.empty() || list.back() < words);
}

Status check_text(const std::vector<WordTemplate>& templates, const TemplateText& text,
                  std::uint64_t words, std::uint64_t tasks, const std::string& what) {
  std::uint64_t its_words = 0, its_tasks = 0, places = 0;
  for (const std::uint32_t one : text.templates) {
    if (one >= templates.size()) {
      return bad(fmt::format("{}: template {}, there are {}", what, one, templates.size()));
    }
    its_words += templates[one].words;
    its_tasks += templates[one].tasks;
    places += templates[one].places;
  }
  if (its_words != words || its_tasks != tasks || places != text.values.size()) {
    return bad(
        fmt::format("{}: {} words of {} tasks and {} values, its templates have {}, {} and {}",
                    what, words, tasks, text.values.size(), its_words, its_tasks, places));
  }
  return {};
}

}  // namespace

std::uint64_t Templates::bytes() const {
  std::uint64_t words = 0;
  for (const TemplatePage& page : pages) {
    words += page.words.size() + page.numbers.size() + page.places.size();
  }
  return 4 * words;
}

Status check_page(const std::vector<WordTemplate>& templates, const TemplatePage& page) {
  if (page.first > page.last || page.last > templates.size()) {
    return bad(fmt::format("a page of the templates {} to {}, there are {}", page.first, page.last,
                           templates.size()));
  }
  std::uint64_t words = 0, numbers = 0, places = 0;
  for (std::uint32_t i = page.first; i < page.last; ++i) {
    const WordTemplate& one = templates[i];
    if (one.words > page.words.size() - words || one.numbers > page.numbers.size() - numbers ||
        one.places > page.places.size() - places ||
        !in_order(page.numbers.subspan(numbers, one.numbers), one.words) ||
        !in_order(page.places.subspan(places, one.places), one.words)) {
      return bad(fmt::format("template {}: words, numbers or places that are not there", i));
    }
    words += one.words;
    numbers += one.numbers;
    places += one.places;
  }
  return {};
}

Status check_cores(const std::vector<WordTemplate>& templates, const PreparedCores& prepared) {
  std::uint64_t words = 0;
  for (const CoreTemplates& core : prepared.cores) {
    words += std::uint64_t{core.stream.words} + core.pieces.words;
  }
  if (words > kFilledWordsMax) {
    return bad(
        fmt::format("{} words when it is filled in, allowed up to {}", words, kFilledWordsMax));
  }
  for (std::size_t i = 0; i < prepared.cores.size(); ++i) {
    const CoreTemplates& core = prepared.cores[i];
    TESSERA_RETURN_IF_ERROR(check_text(templates, core.stream, core.stream.words, core.tasks,
                                       fmt::format("core {}", i)));
    if (core.pieces.words == 0 && core.pieces.templates.empty()) continue;
    TESSERA_RETURN_IF_ERROR(check_text(templates, core.pieces,
                                       std::uint64_t{core.tasks} * isa::kPieceWords, 0,
                                       fmt::format("core {}, pieces", i)));
    if (core.pieces.words != std::uint64_t{core.tasks} * isa::kPieceWords) {
      return bad(
          fmt::format("core {}: {} words of pieces of {} tasks", i, core.pieces.words, core.tasks));
    }
  }
  return {};
}

}  // namespace tessera::isa
