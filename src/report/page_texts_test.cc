// Untrusted names in pages and traces.
#include "report/page_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "network/network.h"
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

}  // namespace
}  // namespace tessera::report
