#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <stdexcept>

#include "base/application_call.h"
#include "base/check.h"
#include "base/process_mark.h"
#include "base/quantity.h"
#include "base/result.h"
#include "base/table.h"
#include "base/utf8.h"

namespace tessera {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return Error{ErrorCode::kInvalidArgument, "found an odd number"};
  return n / 2;
}

Result<int> quarter(int n) {
  TESSERA_TRY(const int h, half(n));
  TESSERA_TRY(const int q, half(h));
  return q;
}

Status is_even(int n) {
  TESSERA_RETURN_IF_ERROR(half(n));
  return {};
}

TEST(Result, HoldsAValueOrAnError) {
  EXPECT_TRUE(half(4).ok());
  EXPECT_EQ(*half(4), 2);
  EXPECT_FALSE(half(3));
  EXPECT_EQ(half(3).error().code, ErrorCode::kInvalidArgument);
}

TEST(Result, TryReturnsTheFirstError) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(6).error().message, "found an odd number");
}

TEST(Result, ValuesThatOnlyMoveMoveOut) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  const std::unique_ptr<int> value = std::move(result).value();
  EXPECT_EQ(*value, 7);
}

TEST(Status, ReturnIfErrorPassesTheErrorOn) {
  EXPECT_TRUE(is_even(2).ok());
  EXPECT_EQ(is_even(1).error().message, "found an odd number");
}

TEST(Utf8, TextThatIsUtf8StaysAsItIs) {
  const std::string text = "plain \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80";
  EXPECT_EQ(as_utf8(text), text);
}

TEST(Utf8, EachByteThatIsNoneBecomesTheReplacementCharacter) {
  const std::string none = "\xEF\xBF\xBD";
  EXPECT_EQ(as_utf8("a\xFF"), "a" + none);
  EXPECT_EQ(as_utf8("\xE2\x82"), none + none) << "cut off";
  EXPECT_EQ(as_utf8("\xC0\x80"), none + none) << "an overlong form";
  EXPECT_EQ(as_utf8("\xED\xA0\x80"), none + none + none) << "a surrogate";
  EXPECT_EQ(as_utf8("\xF4\x90\x80\x80"), none + none + none + none) << "beyond U+10FFFF";
}

TEST(Error, TextEndsWithTheKind) {
  const Error error{ErrorCode::kDoesNotFit, "window is 9 rows"};
  EXPECT_EQ(error.to_string(), "window is 9 rows   [does not fit]");
  EXPECT_EQ(error.with_context("node 'pool1'").to_string(),
            "node 'pool1': window is 9 rows   [does not fit]");
}

TEST(Error, EachCodeHasAName) {
  EXPECT_STREQ(error_code_name(ErrorCode::kInvalidArgument), "invalid argument");
  EXPECT_STREQ(error_code_name(ErrorCode::kInvalidModel), "invalid model");
  EXPECT_STREQ(error_code_name(ErrorCode::kDoesNotFit), "does not fit");
  EXPECT_STREQ(error_code_name(ErrorCode::kUnsupported), "unsupported");
  EXPECT_STREQ(error_code_name(ErrorCode::kUnavailable), "unavailable");
  EXPECT_STREQ(error_code_name(ErrorCode::kInternal), "internal");
}

TEST(ApplicationCall, WhatIsThrownIsAnErrorThatNamesTheFunction) {
  EXPECT_TRUE(call_application("the log", [] {}).ok());
  EXPECT_EQ(call_application("the log", [] { throw std::runtime_error("full"); }).error().message,
            "the log threw: full");
  EXPECT_EQ(call_application("the log", [] { throw 1; }).error().message,
            "the log threw something that is no std::exception");
  EXPECT_EQ(call_application("it", []() -> Status { return Error{}; }).error().code,
            ErrorCode::kInternal);
}

TEST(ProgressReport, IsNotCalledAgainAfterItHasThrown) {
  int calls = 0;
  ProgressReport report([&](const std::string& stage, double) {
    ++calls;
    throw std::runtime_error(stage);
  });
  report.report("one", 0);
  report.report("two", 0);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(report.take_status().error().message, "the progress callback threw: one");
  EXPECT_TRUE(report.take_status().ok());
  report.report("three", 0);
  EXPECT_EQ(report.take_status().error().message, "the progress callback threw: three");
}

TEST(ProcessMark, TellsAChildFromItsParent) {
  const ProcessMark mark;
  EXPECT_TRUE(mark.here());
  EXPECT_TRUE(mark.check("session").ok());
  const pid_t child = fork();
  if (child == 0) {
    const bool told =
        mark.check("session").error().message ==
        "this process was forked after the session was opened; open it again in the child";
    _exit(told && ProcessMark().here() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(mark.here());
}

TEST(CheckDeathTest, AbortsWithTheConditionAndTheValues) {
  const int rows = 3;
  EXPECT_DEATH(TESSERA_CHECK(rows == 4, "rows is {}", rows),
               "base_test.cc:[0-9]+: broken invariant: rows == 4: rows is 3");
}

TEST(Quantity, BytesAddAndScale) {
  EXPECT_EQ((Bytes{3} + Bytes{4} * 2 - Bytes{1}).value, 10);
  EXPECT_LT(Bytes{3}, Bytes{4});
}

TEST(Quantity, CeilDivAndRoundUp) {
  EXPECT_EQ(ceil_div(0, 4), 0);
  EXPECT_EQ(ceil_div(4, 4), 1);
  EXPECT_EQ(ceil_div(5, 4), 2);
  EXPECT_EQ(round_up(5, 4), 8);
}

struct Name {
  std::int32_t value = 0;
};
enum class Colour : std::uint8_t { kRed, kGreen };

TEST(Table, IsIndexedByWhatNamesItsElements) {
  Table<Name, int> table = {10, 11, 12};
  table[Name{1}] += 5;
  EXPECT_EQ(table[Name{1}], 16);
  EXPECT_EQ(table[std::int64_t{2}], 12);  // a position
  EXPECT_EQ(table.size(), 3U);
  Table<Name, bool> flags(2, false);
  flags[Name{1}] = true;
  EXPECT_FALSE(flags[Name{0}]);
  EXPECT_TRUE(flags[Name{1}]);
  table = std::vector<int>{1};
  EXPECT_EQ(table[Name{0}], 1);
}

TEST(Table, OfFixedSizeIsIndexedByAnEnumerator) {
  constexpr FixedTable<Colour, int, 2> kTable = std::array{3, 4};
  static_assert(kTable[Colour::kGreen] == 4);
  const FixedTable<Colour, int, 2> zeros{};
  EXPECT_EQ(zeros[Colour::kRed], 0);
}

template <typename Container, typename Index>
concept CanIndex = requires(Container container, Index index) { container[index]; };
static_assert(CanIndex<Table<Name, int>, Name>);
static_assert(!CanIndex<Table<Name, int>, Colour>);
static_assert(!CanIndex<FixedTable<Colour, int, 2>, Name>);

}  // namespace
}  // namespace tessera
