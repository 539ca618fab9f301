// Untrusted names in pages and traces.
#include "report/page_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "network/network.h"
#include "report/card_picture.h"
#include "report/format_page.h"

namespace tessera::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(PageTexts, ANameInAReportOpensNoElementAndNoComment) {
  const Network network(std::make_shared<NetworkState>());
  const std::string page = html_report_text("<!--<script></script>", network, {});
  EXPECT_THAT(page, HasSubstr(R"("\u003c!--\u003cscript>\u003c/script>")"));
  EXPECT_THAT(page, Not(HasSubstr("<!--<script>")));
}

TEST(PageTexts, ATimelineIsJsonWhateverTheNames) {
  RunResult run;
  run.engines.resize(1);
  run.engines[0].name = "a\xff";
  run.timeline.push_back({"a\xff", "layer\xfe", 0, 0, 1, 2});
  EXPECT_TRUE(nlohmann::json::accept(timeline_text(run)));
}

TEST(PageTexts, ResultsThatAreNoNumbersHaveARowAndNoPoint) {
  FormatStudy study;
  study.rows.resize(1);
  study.rows[0].format = "f\xff<b>";
  study.rows[0].accuracy.cosine = std::numeric_limits<double>::quiet_NaN();
  const std::string page = format_page_text("t", study);
  EXPECT_THAT(page, HasSubstr("<td class='name'>f\xEF\xBF\xBD&lt;b><td>nan"));
  EXPECT_THAT(page, Not(HasSubstr("<svg")));
}

// Two groups of a card; the second has no core of the run.
TEST(CardPicture, SaysBytesAndBusySharesOfCoresMemoriesAndLinks) {
  RunResult run;
  run.cycles = 1000;
  run.cores = {{0, 0, 0}};
  const auto row = [&run](const char* kind, int index, int core) -> EngineUse& {
    EngineUse& engine = run.engines.emplace_back();
    engine.kind = kind;
    engine.index = index;
    engine.core = core;
    return engine;
  };
  EngineUse& array = row("neural", 0, 0);
  array.busy = 400;
  array.blocked_dependency = 250;
  array.blocked_memory = 125;
  row("load", 0, 0).dram_bytes_read = 1500;
  EngineUse& memory = row("dram", 0, -1);
  memory.busy = 500;
  memory.dram_bytes_read = 2'000'000;
  EngineUse& link = row("ring", 1, -1);
  link.busy = 100;
  link.wire_bytes = 12'345;
  ChipConfig chip;
  chip.card.groups = 2;
  const std::string picture = card_picture(card_use(run, chip), run.cycles);
  EXPECT_THAT(picture, HasSubstr("<title>core 0: array 40.0 %, waits for data 25.0 %, for memory "
                                 "12.5 %, planar 0.0 %</title>"));
  EXPECT_THAT(picture, HasSubstr(">1.5 kB, array 40.0 %</text>"));
  EXPECT_THAT(picture, HasSubstr(">memory 0</text>"));
  EXPECT_THAT(picture, HasSubstr(">2.0 MB, 50.0 %</text>"));
  EXPECT_THAT(picture, HasSubstr(">group 1: no core of the run</text>"));
  EXPECT_THAT(picture, HasSubstr("stroke-width='1.9'><title>ring 1 to 0: 12.3 kB, 10.0 %</title>"));
  EXPECT_THAT(picture, HasSubstr("stroke-width='1.0'><title>ring 0 to 1: 0 B, 0.0 %</title>"));
  EXPECT_THAT(picture, Not(HasSubstr("network, card")));
}

TEST(CardUse, LayersAddUpToTheEndOfTheLast) {
  RunResult run;
  run.layers.resize(4);
  run.layers[0].end = 100;
  run.layers[1].end = 80;  // in the shadow of the first
  run.layers[2].end = 250;
  run.layers[3].end = 260;
  EXPECT_EQ(layer_advances(run), (std::vector<std::int64_t>{100, 0, 150, 10}));
}

}  // namespace
}  // namespace tessera::report
