#include "repro/card_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace tessera::repro {
namespace {

using ::testing::HasSubstr;

bool is_published(const CardCase& one) { return one.features.loads_beside_arithmetic == 0; }

// Ours takes 1,600 cycles over the cores of an image, the strong baseline twice that, the one as published
// four times; bytes likewise. With 16-bit data those of the first two take a quarter more.
CardRun run_of(const CardCase& one) {
  const int team = one.team == 0 ? one.cores : one.team;
  const CardFeatures& features = one.features;
  const int factor = is_published(one) ? 4 : features.merge == 0 && features.forward == 0 ? 2 : 1;
  CardRun run;
  run.cycles = factor * 1600 / team;
  if (!one.eight_bits && !is_published(one)) run.cycles += run.cycles / 4;
  run.images = one.cores / team;
  run.clock_hertz = 1000;
  run.dram_bytes = factor * 1'000'000 * run.images;
  run.network_bytes = one.cards == 1 ? 0 : factor * 1000;
  run.array_share = 0.5;
  run.dram_share = 0.75;
  run.dram_bytes_per_cycle = 10'000;
  run.arithmetic_cycles = 800.0 / team;
  return run;
}

struct Ran {
  std::vector<CardCase> cases;
  ExperimentResult result;
};
Ran tables_of(const std::vector<std::string>& networks) {
  Ran ran;
  const auto result = card_tables(networks, [&](std::span<const CardCase> cases) {
    ran.cases.assign(cases.begin(), cases.end());
    std::vector<CardRun> runs;
    for (const CardCase& one : cases) runs.push_back(run_of(one));
    return Result<std::vector<CardRun>>(std::move(runs));
  });
  EXPECT_TRUE(result.ok());
  if (result.ok()) ran.result = *result;
  return ran;
}

using Cells = std::map<std::string, FigureCell>;
std::vector<Cells> rows_of(const FigureTable& table, const std::string& first) {
  std::vector<Cells> found;
  for (const std::vector<FigureCell>& row : table.rows) {
    EXPECT_EQ(row.size(), table.columns.size());
    if (row.front() != FigureCell{first}) continue;
    Cells cells;
    for (std::size_t i = 0; i < row.size(); ++i) cells[table.columns[i]] = row[i];
    found.push_back(std::move(cells));
  }
  return found;
}

TEST(CardTables, EachCaseRunsOnce) {
  const Ran ran = tables_of(card_networks());
  std::set<std::string> keys;
  for (const CardCase& one : ran.cases) EXPECT_TRUE(keys.insert(one.key()).second) << one.key();
  // Eight networks on five numbers of cores, and three sides.
  EXPECT_GE(keys.size(), 8u * 5 * 3);
}

TEST(CardTables, RatiosAreOfTheBaselineToOurs) {
  const FigureTable rows = tables_of({"mobilenet_v1"}).result.figure_tables[0];
  const std::vector<Cells> latency = rows_of(rows, "latency");
  ASSERT_EQ(latency.size(), 5u);
  EXPECT_EQ(latency[0].at("published"), FigureCell{1.4});
  EXPECT_EQ(latency[1].at("published"), FigureCell{});
  EXPECT_EQ(latency[4].at("published"), FigureCell{4.9});
  EXPECT_EQ(latency[4].at("cycles"), FigureCell{std::int64_t{100}});
  EXPECT_EQ(latency[4].at("cycles_published"), FigureCell{std::int64_t{400}});
  EXPECT_EQ(latency[4].at("ours"), FigureCell{4.0});
  EXPECT_EQ(latency[4].at("ours_strong"), FigureCell{2.0});
  EXPECT_EQ(latency[4].at("of_bound"), FigureCell{0.5});
  EXPECT_EQ(latency[4].at("scaling"), FigureCell{1.0});
  EXPECT_EQ(latency[4].at("dram_bytes_strong"), FigureCell{std::int64_t{2'000'000}});
}

TEST(CardTables, AnExplanationIsMadeOfWhatBothSidesCounted) {
  const FigureTable rows = tables_of({"mobilenet_v1"}).result.figure_tables[0];
  const auto text = std::get<std::string>(rows_of(rows, "latency")[4].at("explanation"));
  EXPECT_EQ(
      text,
      "an image takes the baseline +300 cycles; it moves 4.00 MB of DRAM against 1.00; what is "
      "more of DRAM takes +300 cycles at the channels' full speed; baseline: arrays busy 50 %, "
      "planar engines 0 %, channels 75 %; ours: arrays busy 50 %, planar engines 0 %, channels "
      "75 %");
  // Four of sixteen cores have a fourth of the channels.
  EXPECT_THAT(
      std::get<std::string>(rows_of(rows, "latency")[2].at("explanation")),
      HasSubstr("; what is more of DRAM takes +300 cycles at the channels' full speed, +1200 "
                "at the baseline's part of it; baseline: "));
  const auto cards = std::get<std::string>(rows_of(rows, "cards")[1].at("explanation"));
  EXPECT_THAT(cards, HasSubstr("0.00 MB on the network against 0.00"));
}

TEST(CardTables, TheMeanIsComparedWhereAllEightNetworksRan) {
  const auto published = [](const std::vector<std::string>& networks) {
    const FigureTable rows = tables_of(networks).result.figure_tables[0];
    const std::vector<Cells> means = rows_of(rows, "latency_mean");
    EXPECT_EQ(means.size(), 5u);
    EXPECT_EQ(means[4].at("ours"), FigureCell{4.0});
    return means[4].at("published");
  };
  EXPECT_EQ(published(card_networks()), FigureCell{3.3});
  EXPECT_EQ(published({"resnet18", "resnet50"}), FigureCell{});
}

TEST(CardTables, ABoundThatTheBaselineKeepsWithAllCoresLeavesOursTeams) {
  const ExperimentResult result = tables_of({"ssd_vgg"}).result;
  // 400 cycles, which ours keeps with four cores: four images against one in the same time.
  const std::vector<Cells> rows = rows_of(result.figure_tables[0], "within_bound");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("published"), FigureCell{"2.98 to 3.75"});
  EXPECT_EQ(rows[0].at("ours"), FigureCell{4.0});
  EXPECT_EQ(rows[0].at("ours_strong"), FigureCell{2.0});
  EXPECT_THAT(
      std::get<std::string>(rows[0].at("explanation")),
      HasSubstr("the bound is 400 cycles, which the baseline keeps with 1 image(s) at a time "
                "and ours with 4"));
  EXPECT_EQ(result.figure_tables[2].rows.size(), 3u * 5);
}

TEST(CardTables, ThroughputOfSeveralCardsIsThatOfOneAsManyTimes) {
  const Ran ran = tables_of({"ssd_vgg"});
  const std::vector<Cells> rows = rows_of(ran.result.figure_tables[0], "throughput");
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].at("images"), FigureCell{std::int64_t{16}});
  EXPECT_EQ(rows[3].at("images"), FigureCell{std::int64_t{64}});
  EXPECT_EQ(rows[3].at("ours"), rows[0].at("ours"));
  for (const CardCase& one : ran.cases) EXPECT_TRUE(one.team == 0 || one.cards == 1);
}

TEST(CardTables, ChangesAreMadeOneByOne) {
  const ExperimentResult result = tables_of({"resnet18"}).result;
  const FigureTable& changes = result.figure_tables[1];
  ASSERT_EQ(changes.rows.size(), 13u);
  EXPECT_EQ(rows_of(changes, "merge = 0")[0].at("factor"), FigureCell{1.0});
  EXPECT_EQ(rows_of(changes, "needed_bytes_only = 0")[0].at("cores"), FigureCell{std::int64_t{32}});
  EXPECT_EQ(rows_of(changes, "all features: the strong baseline")[0].at("factor"), FigureCell{2.0});
  EXPECT_EQ(rows_of(changes, "all of these: the baseline as published")[0].at("factor"),
            FigureCell{2.0});
  const std::vector<Cells> of_16_bits = rows_of(changes, "16-bit data");
  ASSERT_EQ(of_16_bits.size(), 2u);  // of ours, and of the strong baseline
  EXPECT_EQ(of_16_bits[0].at("from"), FigureCell{"ours"});
  EXPECT_EQ(of_16_bits[0].at("factor"), FigureCell{1.25});
  // Nothing of several cards, nor teams, of a network that is not in those tables.
  EXPECT_TRUE(rows_of(result.figure_tables[0], "cards").empty());
  EXPECT_TRUE(result.figure_tables[2].rows.empty());
}

TEST(CardTables, OursIsScaledInBothNumbersOfBits) {
  const Ran ran = tables_of({"resnet18"});
  const FigureTable& scaling = ran.result.figure_tables[3];
  EXPECT_EQ(scaling.name, "scaling");
  // One to sixteen cores in 8 bits, sixteen with an image for four of them or each, one to sixteen in 16 bits.
  const std::vector<Cells> rows = rows_of(scaling, "resnet18");
  ASSERT_EQ(rows.size(), 5u + 2 + 5);
  EXPECT_EQ(rows[4].at("bits"), FigureCell{std::int64_t{8}});
  EXPECT_EQ(rows[4].at("cycles"), FigureCell{std::int64_t{100}});
  EXPECT_EQ(rows[4].at("scaling"), FigureCell{1.0});
  EXPECT_EQ(rows[4].at("of_bound"), FigureCell{0.5});
  EXPECT_EQ(rows[5].at("cores_of_image"), FigureCell{std::int64_t{4}});
  EXPECT_EQ(rows[5].at("images"), FigureCell{std::int64_t{4}});
  EXPECT_EQ(rows[6].at("images"), FigureCell{std::int64_t{16}});
  EXPECT_EQ(rows[11].at("bits"), FigureCell{std::int64_t{16}});
  EXPECT_EQ(rows[11].at("cycles"), FigureCell{std::int64_t{125}});
  EXPECT_EQ(rows[11].at("of_bound"), FigureCell{0.4});
}

TEST(CardTables, TheBaselineAsPublishedAloneHas16BitData) {
  for (const CardCase& one : tables_of({"mobilenet_v1"}).cases) {
    if (!one.through_memory) continue;
    EXPECT_FALSE(one.eight_bits) << one.key();
  }
  EXPECT_TRUE(our_case("mobilenet_v1", 4).eight_bits);
  EXPECT_TRUE(strong_case("mobilenet_v1", 4).eight_bits);
  EXPECT_FALSE(published_case("mobilenet_v1", 4).eight_bits);
}

TEST(CardTables, TheTablesOfTheManualAreWrittenInMarkdown) {
  const ExperimentResult result = tables_of({"mobilenet_v1", "resnet18"}).result;
  ASSERT_EQ(result.documents.size(), 1u);
  EXPECT_EQ(result.documents[0].first, "tables.md");
  const std::string& text = result.documents[0].second;
  EXPECT_THAT(text, HasSubstr("| cycles, 8-bit data | 1 core | 2 | 4 | 8 | 16 | of the ideal |\n"
                              "| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
                              "| mobilenet_v1 | 1,600 | 800 | 400 | 200 | 100 | 1.00 |\n"
                              "| resnet18 | 1,600 | 800 | 400 | 200 | 100 | 1.00 |\n"));
  EXPECT_THAT(text, HasSubstr("| of the bound, 16-bit data | 1 core | 2 | 4 | 8 | 16 |\n"));
  EXPECT_THAT(text,
              HasSubstr("| mobilenet_v1 | published | as published | strong | ours, cycles |\n"
                        "| --- | ---: | ---: | ---: | ---: |\n"
                        "| latency, 1 core | 1.4 | 4.00 | 2.00 | 1,600 |\n"
                        "| latency, 2 cores |  | 4.00 | 2.00 | 800 |\n"));
  EXPECT_THAT(text, HasSubstr("| throughput, an image a core | 1.07 to 1.36 | 4.00 | 2.00 | 1,600 "
                              "for 16 images |\n"));
  EXPECT_THAT(text, HasSubstr("| resnet18 | 4.00 | 2.00 | 0.50 | 1.0 | 4.0 | 2.0 |\n"
                              "| mean of 2 | 4.00 | 2.00 |  |  |  |  |\n"));
  EXPECT_THAT(text, HasSubstr("| change | cores | mobilenet_v1 |\n"));
  EXPECT_THAT(text, HasSubstr("| ours, merge = 0 | 16 | 1.00 |\n"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("| resnet18 | published |")));
}

TEST(CardTables, PlotsShowLatencyThroughputWithinBoundsAndCards) {
  const ExperimentResult result = tables_of({"ssd_vgg"}).result;
  ASSERT_EQ(result.plots.size(), 3u);
  EXPECT_EQ(result.plots[0].lines.size(), 3u);
  EXPECT_EQ(result.plots[0].lines[0].points.front(), (std::pair<double, double>(1, 1600)));
  // Ours and both baselines, at two speeds of the network.
  EXPECT_EQ(result.plots[2].lines.size(), 6u);
  EXPECT_EQ(result.plots[2].lines[3].name, "ours, 200 Gb/s");
}

TEST(CardTables, TheRunnersErrorIsTheResult) {
  const auto result = card_tables({"resnet18"}, [](std::span<const CardCase>) {
    return Result<std::vector<CardRun>>(Error{ErrorCode::kDoesNotFit, "too large"});
  });
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message, "too large");
}

}  // namespace
}  // namespace tessera::repro
