#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "base/check.h"
#include "isa/encoding.h"
#include "link/templates.h"

namespace tessera::link {
namespace {

using isa::CoreTemplates;
using isa::PieceHint;
using isa::Program;
using isa::TemplateText;
using isa::WordTemplate;

// Of a template's words at most one in so many is a place; what differs in more has one of its own.
constexpr std::size_t kWordsOfPlace = 4;

// A page is what is read at a time.
constexpr std::size_t kPageWords = 16 << 10;

// What a core does of a layer: words, of which those that number tasks count from the first one.
struct Run {
  std::vector<std::uint32_t> words, numbers;
  std::uint32_t tasks = 0;
};

struct Kind {  // of runs that one template may be for
  std::size_t words = 0;
  std::uint32_t tasks = 0;
  std::vector<std::uint32_t> numbers;
  auto operator<=>(const Kind&) const = default;
};

struct Draft {
  Run run;                    // the first one
  std::vector<bool> differs;  // by word
  std::size_t places = 0;
};

struct TextDraft {
  std::vector<std::pair<std::uint32_t, Run>> runs;  // with their templates
};

struct CoreDraft {
  std::uint32_t tasks = 0;
  TextDraft stream, pieces;
  std::vector<isa::Segment> segments;
  std::int64_t dependencies_dropped = 0;
};

std::vector<std::uint32_t> words_of(std::span<const std::byte> bytes) {
  TESSERA_CHECK(bytes.size() % 4 == 0, "{} bytes of descriptors", bytes.size());
  std::vector<std::uint32_t> words(bytes.size() / 4);
  if (!words.empty()) std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

// Tasks [first, last) of a core, which are of one layer.
Run run_of(const Program& program, std::size_t first, std::size_t last) {
  Run run;
  run.tasks = static_cast<std::uint32_t>(last - first);
  const auto begin_of = [&](std::size_t task) {
    return task < program.stream_offsets.size() ? program.stream_offsets[task]
                                                : program.stream.size();
  };
  const std::size_t begin = begin_of(first);
  run.words = words_of(std::span(program.stream).subspan(begin, begin_of(last) - begin));
  for (std::size_t task = first; task < last; ++task) {
    const auto at = static_cast<std::uint32_t>((begin_of(task) - begin) / 4);
    const auto bytes =
        std::span(program.stream).subspan(begin_of(task), begin_of(task + 1) - begin_of(task));
    for (const std::uint32_t word : isa::task_number_words(bytes)) {
      run.numbers.push_back(at + word);
      run.words[at + word] -= static_cast<std::uint32_t>(first);
    }
  }
  return run;
}

Run pieces_of(const Program& program, std::size_t first, std::size_t last) {
  Run run;
  for (std::size_t task = first; task < last; ++task) {
    const PieceHint& piece = program.pieces[task];
    run.words.insert(run.words.end(),
                     {piece.known ? 1U : 0U, piece.image, piece.channel, piece.row, piece.column,
                      piece.input_channel, piece.window_row, piece.window_column});
  }
  return run;
}

// Words that grow and then stay.
struct HeldTemplates {
  std::vector<std::uint32_t> words, numbers, places;
};
struct HeldTexts {  // of all, which show parts of them
  std::vector<std::uint32_t> templates, values;
};

}  // namespace

class TemplateMaker::Implementation {
 public:
  void add(const isa::CardProgram& program) {
    std::vector<CoreDraft>& cores = programs_.emplace_back();
    for (const Program& core : program.cores) cores.push_back(draft_of(core));
  }

  Made finish() {
    auto held = std::make_shared<HeldTexts>();
    Made made;
    settle(made.templates);
    for (const auto& cores : programs_) {
      for (const CoreDraft& core : cores) {
        append(core.stream, *held);
        append(core.pieces, *held);
      }
    }
    std::size_t template_at = 0, value_at = 0;
    for (const auto& cores : programs_) {
      std::vector<CoreTemplates>& result = made.cores.emplace_back();
      for (const CoreDraft& core : cores) {
        CoreTemplates& its = result.emplace_back();
        its.tasks = core.tasks;
        its.segments = core.segments;
        its.dependencies_dropped = core.dependencies_dropped;
        its.stream = shown(core.stream, *held, template_at, value_at);
        its.pieces = shown(core.pieces, *held, template_at, value_at);
      }
    }
    made.owner = std::move(held);
    return made;
  }

 private:
  CoreDraft draft_of(const Program& core) {
    CoreDraft draft;
    draft.tasks = static_cast<std::uint32_t>(core.tasks.size());
    draft.dependencies_dropped = core.dependencies_dropped;
    for (const isa::Segment& segment : core.segments) {
      draft.segments.push_back({segment.task_first, segment.task_last, {}});
    }
    const bool hinted = std::ranges::any_of(core.pieces, &PieceHint::known);
    for (std::size_t first = 0, last = 0; first < core.tasks.size(); first = last) {
      while (last < core.tasks.size() && core.tasks[last].layer == core.tasks[first].layer) ++last;
      put(run_of(core, first, last), draft.stream);
      if (hinted) put(pieces_of(core, first, last), draft.pieces);
    }
    return draft;
  }

  void put(Run run, TextDraft& text) {
    const std::uint32_t its = template_for(run);
    text.runs.emplace_back(its, std::move(run));
  }

  // The one to which it adds the fewest places.
  std::uint32_t template_for(const Run& run) {
    std::vector<std::uint32_t>& candidates =
        by_kind_[Kind{run.words.size(), run.tasks, run.numbers}];
    std::optional<std::uint32_t> best;
    std::size_t least = run.words.size() + 1;
    for (const std::uint32_t candidate : candidates) {
      const Draft& draft = drafts_[candidate];
      const std::size_t room = draft.run.words.size() / kWordsOfPlace;
      const std::size_t more = places_more(draft, run, std::min(least, room - draft.places + 1));
      if (more >= least || draft.places + more > room) continue;
      best = candidate;
      least = more;
      if (least == 0) break;
    }
    if (!best) {
      best = static_cast<std::uint32_t>(drafts_.size());
      candidates.push_back(*best);
      drafts_.push_back({run, std::vector<bool>(run.words.size()), 0});
      return *best;
    }
    Draft& draft = drafts_[*best];
    for (std::size_t i = 0; i < run.words.size(); ++i) {
      if (run.words[i] != draft.run.words[i]) draft.differs[i] = true;
    }
    draft.places += least;
    return *best;
  }

  // Words in which the run differs and no other did; counting ends at `enough`.
  static std::size_t places_more(const Draft& draft, const Run& run, std::size_t enough) {
    std::size_t more = 0;
    for (std::size_t i = 0; i < run.words.size() && more < enough; ++i) {
      if (run.words[i] != draft.run.words[i] && !draft.differs[i]) ++more;
    }
    return more;
  }

  // Pages of about kPageWords.
  void settle(isa::Templates& templates) const {
    auto held = std::make_shared<HeldTemplates>();
    std::uint32_t first = 0;
    for (std::uint32_t i = 0; i < drafts_.size(); ++i) {
      templates.templates.push_back(settle(drafts_[i], *held));
      if (held->words.size() < kPageWords && i + 1 < drafts_.size()) continue;
      isa::TemplatePage& page = templates.pages.emplace_back();
      page.first = std::exchange(first, i + 1);
      page.last = i + 1;
      page.words = held->words;
      page.numbers = held->numbers;
      page.places = held->places;
      page.owner = std::exchange(held, std::make_shared<HeldTemplates>());
    }
  }

  static WordTemplate settle(const Draft& draft, HeldTemplates& held) {
    const Run& run = draft.run;
    held.words.insert(held.words.end(), run.words.begin(), run.words.end());
    WordTemplate result{.words = static_cast<std::uint32_t>(run.words.size()), .tasks = run.tasks};
    for (const std::uint32_t number : run.numbers) {  // a place has its whole value
      if (draft.differs[number]) continue;
      held.numbers.push_back(number);
      ++result.numbers;
    }
    for (std::uint32_t i = 0; i < result.words; ++i) {
      if (!draft.differs[i]) continue;
      held.places.push_back(i);
      ++result.places;
    }
    return result;
  }

  void append(const TextDraft& text, HeldTexts& held) const {
    std::uint32_t first = 0;  // task
    for (const auto& [its, run] : text.runs) {
      const Draft& draft = drafts_[its];
      held.templates.push_back(its);
      std::size_t number = 0;
      for (std::uint32_t i = 0; i < run.words.size(); ++i) {
        while (number < run.numbers.size() && run.numbers[number] < i) ++number;
        if (!draft.differs[i]) continue;
        const bool counts = number < run.numbers.size() && run.numbers[number] == i;
        held.values.push_back(run.words[i] + (counts ? first : 0));
      }
      first += run.tasks;
    }
  }

  TemplateText shown(const TextDraft& text, const HeldTexts& held, std::size_t& template_at,
                     std::size_t& value_at) const {
    std::size_t values = 0, words = 0;
    for (const auto& [its, run] : text.runs) {
      values += drafts_[its].places;
      words += run.words.size();
    }
    TemplateText result;
    result.templates = std::span(held.templates).subspan(template_at, text.runs.size());
    result.values = std::span(held.values).subspan(value_at, values);
    result.words = static_cast<std::uint32_t>(words);
    template_at += text.runs.size();
    value_at += values;
    return result;
  }

  std::vector<Draft> drafts_;
  std::map<Kind, std::vector<std::uint32_t>> by_kind_;
  std::vector<std::vector<CoreDraft>> programs_;
};

TemplateMaker::TemplateMaker() : implementation_(std::make_unique<Implementation>()) {}
TemplateMaker::TemplateMaker(TemplateMaker&&) noexcept = default;
TemplateMaker& TemplateMaker::operator=(TemplateMaker&&) noexcept = default;
TemplateMaker::~TemplateMaker() = default;

void TemplateMaker::add(const isa::CardProgram& program) { implementation_->add(program); }

TemplateMaker::Made TemplateMaker::finish() { return implementation_->finish(); }

}  // namespace tessera::link
