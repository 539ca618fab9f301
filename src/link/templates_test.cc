// Programs for several cores come back out of their templates word by word, and templates that lie are refused.
#include "link/templates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "isa/encoding.h"

namespace tessera::link {
namespace {

using isa::CardProgram;
using isa::CoreTemplates;
using isa::PreparedCores;
using isa::Program;
using isa::TemplatePage;
using isa::Templates;
using isa::WordTemplate;

std::uint32_t below(std::mt19937& random, std::uint32_t end) {
  return static_cast<std::uint32_t>(random() % end);
}

// Layers of tasks with dependencies on their own core, some on others; now and then a task has other extents, or
// an extended header.
Program random_core(std::mt19937& random, int cores) {
  Program program;
  std::uint32_t tasks = 0;
  for (std::uint32_t layer = 0; layer < 6; ++layer) {
    const std::uint32_t of_layer = below(random, 5);
    for (std::uint32_t i = 0; i < of_layer; ++i, ++tasks) {
      isa::TaskDescriptor task;
      task.id = tasks;
      task.layer = layer;
      task.engine = isa::EngineKind::kPlanar;
      isa::PlanarTask config;
      config.output.offset = 64 * below(random, 3);
      task.config = config;
      task.bands.rows = 1 + below(random, 2);
      if (tasks > 0) task.dependencies.push_back({.task = below(random, tasks), .numerator = 1});
      if (random() % 4 == 0) {
        task.remote.push_back({.core = below(random, static_cast<std::uint32_t>(cores)),
                               .on = {.task = below(random, 30), .numerator = 1}});
      }
      if (random() % 5 == 0) task.header.tag = static_cast<std::uint16_t>(1 + random() % 9);
      program.tasks.push_back(task);
      program.pieces.push_back({.known = random() % 3 != 0, .row = below(random, 4)});
    }
  }
  const std::uint32_t half = tasks / 2;
  program.segments = {{0, half, {}}, {half, tasks, {}}};
  program.dependencies_dropped = static_cast<std::int64_t>(random() % 100);
  isa::encode_stream(program);
  return program;
}

CardProgram random_program(std::mt19937& random) {
  CardProgram card;
  const int cores = 1 + static_cast<int>(random() % 5);
  for (int core = 0; core < cores; ++core) {
    card.cores.push_back(random() % 4 == 0 && core > 0 ? card.cores.back()
                                                       : random_core(random, cores));
  }
  if (random() % 4 == 0) {  // with nothing to do
    card.cores.emplace_back();
    card.cores.back().segments = {{}, {}};
  }
  return card;
}

PreparedCores prepared_of(const CardProgram& card, std::vector<CoreTemplates> cores) {
  PreparedCores prepared;
  prepared.key.cores = static_cast<int>(card.cores.size());
  prepared.cores = std::move(cores);
  prepared.first.segments = card.cores.front().segments;
  return prepared;
}

std::vector<WordTemplate> templates_and_pages(const Templates& templates) {
  for (const TemplatePage& page : templates.pages) {
    const Status checked = isa::check_page(templates.templates, page);
    EXPECT_TRUE(checked.ok()) << checked.error().message;
  }
  return templates.templates;
}

TEST(Templates, RandomProgramsComeBack) {
  std::mt19937 random(5);
  std::size_t pages = 0;
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    std::vector<CardProgram> cards(1 + random() % 4);
    TemplateMaker maker;
    for (CardProgram& card : cards) {
      card = random_program(random);
      maker.add(card);
    }
    const TemplateMaker::Made made = maker.finish();
    const auto templates = templates_and_pages(made.templates);
    pages = std::max(pages, made.templates.pages.size());
    for (std::size_t i = 0; i < cards.size(); ++i) {
      const PreparedCores prepared = prepared_of(cards[i], made.cores[i]);
      const Status checked = isa::check_cores(templates, prepared);
      ASSERT_TRUE(checked.ok()) << checked.error().message;
      const auto back = program_of(made.templates, prepared);
      ASSERT_TRUE(back.ok()) << back.error().message;
      ASSERT_EQ(back->cores.size(), cards[i].cores.size());
      for (std::size_t core = 0; core < cards[i].cores.size(); ++core) {
        EXPECT_EQ(back->cores[core].stream, cards[i].cores[core].stream);
        EXPECT_EQ(back->cores[core].stream_offsets, cards[i].cores[core].stream_offsets);
        EXPECT_EQ(back->cores[core].segments, cards[i].cores[core].segments);
        EXPECT_EQ(back->cores[core].dependencies_dropped,
                  cards[i].cores[core].dependencies_dropped);
        EXPECT_EQ(back->cores[core].pieces, cards[i].cores[core].pieces);
      }
    }
  }
}

// Page by page, in any order, into words that were something else.
TEST(Templates, PagesFillInTheirPartOfEachText) {
  std::mt19937 random(6);
  std::vector<CardProgram> cards(40);
  TemplateMaker maker;
  for (CardProgram& card : cards) {
    card = random_program(random);
    maker.add(card);
  }
  TemplateMaker::Made made = maker.finish();
  // Cut as if it were larger.
  std::vector<TemplatePage> pages;
  for (const TemplatePage& page : made.templates.pages) {
    TemplatePage rest = page;
    for (std::uint32_t i = page.first; i < page.last; ++i) {
      const WordTemplate& one = made.templates.templates[i];
      TemplatePage own = rest;
      own.first = i;
      own.last = i + 1;
      pages.push_back(own);
      rest.words = rest.words.subspan(one.words);
      rest.numbers = rest.numbers.subspan(one.numbers);
      rest.places = rest.places.subspan(one.places);
    }
  }
  ASSERT_GT(pages.size(), 20u);
  std::shuffle(pages.begin(), pages.end(), random);
  for (std::size_t i = 0; i < cards.size(); ++i) {
    const PreparedCores prepared = prepared_of(cards[i], made.cores[i]);
    const FilledCores filled = fill_cores(made.templates, prepared);
    for (std::size_t core = 0; core < prepared.cores.size(); ++core) {
      const isa::TemplateText& text = prepared.cores[core].stream;
      std::vector<std::uint32_t> words(text.words, 0xDEAD);
      const TextPlace place{&text, words};
      for (const TemplatePage& page : pages) {
        const std::span places(&place, 1);
        if (uses_page(page, places)) fill_page(made.templates.templates, page, places);
      }
      EXPECT_TRUE(std::ranges::equal(words, filled.streams[core])) << i << ", core " << core;
    }
  }
}

TEST(Templates, WhatCoresHaveInCommonIsThereOnce) {
  std::mt19937 random(7);
  CardProgram card;
  card.cores.assign(16, random_core(random, 16));
  TemplateMaker maker;
  maker.add(card);
  maker.add(card);
  const TemplateMaker::Made made = maker.finish();
  EXPECT_LE(made.templates.bytes(),
            2 * card.cores[0].stream.size() + 8 * 4 * 2 * card.cores[0].tasks.size());
  const PreparedCores prepared = prepared_of(card, made.cores[1]);
  EXPECT_EQ(prepared.cores[3].stream.values.size(), 0u);
  EXPECT_EQ(prepared.stream_bytes(), 16 * card.cores[0].stream.size());
}

// What comes from a file.
struct Lie {
  std::vector<WordTemplate> templates = {{4, 1, 1, 1}, {2, 0, 0, 0}};
  std::vector<std::uint32_t> words = {1, 2, 3, 4, 5, 6}, numbers = {2}, places = {3};
  std::vector<std::uint32_t> of_stream = {0}, values = {9}, of_pieces = {1, 1, 1, 1};
  std::uint32_t first = 0, last = 2, stream_words = 4, piece_words = 8, tasks = 1;

  std::string page_error() const {
    TemplatePage page;
    page.first = first;
    page.last = last;
    page.words = words;
    page.numbers = numbers;
    page.places = places;
    const Status status = isa::check_page(templates, page);
    return status.ok() ? "" : status.error().message;
  }
  std::string cores_error() const {
    PreparedCores prepared;
    CoreTemplates& core = prepared.cores.emplace_back();
    core.tasks = tasks;
    core.stream = {of_stream, values, stream_words};
    core.pieces = {of_pieces, {}, piece_words};
    const Status status = isa::check_cores(templates, prepared);
    return status.ok() ? "" : status.error().message;
  }
};

TEST(TemplatesErrors, WhatIsNotThereIsNamed) {
  const auto page = [](const std::function<void(Lie&)>& change) {
    Lie lie;
    change(lie);
    return lie.page_error();
  };
  const auto cores = [](const std::function<void(Lie&)>& change) {
    Lie lie;
    change(lie);
    return lie.cores_error();
  };
  EXPECT_EQ(page([](Lie&) {}), "");
  EXPECT_EQ(cores([](Lie&) {}), "");
  EXPECT_EQ(page([](Lie& lie) { lie.last = 3; }), "a page of the templates 0 to 3, there are 2");
  EXPECT_EQ(page([](Lie& lie) { lie.first = 3; }), "a page of the templates 3 to 2, there are 2");
  const std::string not_there = "words, numbers or places that are not there";
  EXPECT_EQ(page([](Lie& lie) { lie.words.pop_back(); }), "template 1: " + not_there);
  EXPECT_EQ(page([](Lie& lie) { lie.numbers.clear(); }), "template 0: " + not_there);
  EXPECT_EQ(page([](Lie& lie) { lie.places = {4}; }), "template 0: " + not_there);
  EXPECT_EQ(page([](Lie& lie) {
              lie.templates[0].numbers = 2;
              lie.numbers = {2, 2};
            }),
            "template 0: " + not_there);
  EXPECT_EQ(page([](Lie& lie) { lie.templates[1].words = UINT32_MAX; }),
            "template 1: " + not_there);
  EXPECT_EQ(cores([](Lie& lie) { lie.of_stream = {2}; }), "core 0: template 2, there are 2");
  EXPECT_EQ(cores([](Lie& lie) { lie.stream_words = 5; }),
            "core 0: 5 words of 1 tasks and 1 values, its templates have 4, 1 and 1");
  EXPECT_EQ(cores([](Lie& lie) { lie.values.clear(); }),
            "core 0: 4 words of 1 tasks and 0 values, its templates have 4, 1 and 1");
  EXPECT_EQ(cores([](Lie& lie) { lie.of_stream = {0, 0}; }),
            "core 0: 4 words of 1 tasks and 1 values, its templates have 8, 2 and 2");
  EXPECT_EQ(cores([](Lie& lie) { lie.of_pieces = {1}; }),
            "core 0, pieces: 8 words of 0 tasks and 0 values, its templates have 2, 0 and 0");
  EXPECT_EQ(cores([](Lie& lie) { lie.piece_words = 0; }), "core 0: 0 words of pieces of 1 tasks");
  EXPECT_EQ(cores([](Lie& lie) { lie.stream_words = 1U << 31; }),
            "2147483656 words when it is filled in, allowed up to 268435456");
}

TEST(TemplatesErrors, WordsThatAreNoDescriptorsAreNamedWithTheirCore) {
  Templates templates;
  const std::vector<std::uint32_t> words = {1, 2, 3, 4};
  templates.templates = {{4, 1, 0, 0}};
  templates.pages.push_back({nullptr, 0, 1, words, {}, {}});
  const std::vector<std::uint32_t> text = {0};
  PreparedCores prepared;
  prepared.cores.resize(2);
  prepared.cores[1].tasks = 1;
  prepared.cores[1].stream = {text, {}, 4};
  const auto back = program_of(templates, prepared);
  ASSERT_FALSE(back.ok());
  EXPECT_THAT(back.error().message, ::testing::StartsWith("core 1: task descriptor: "));
}

}  // namespace
}  // namespace tessera::link
