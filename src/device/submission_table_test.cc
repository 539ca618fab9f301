#include "device/submission_table.h"

#include <gtest/gtest.h>

#include <set>

namespace tessera::device {
namespace {

SequenceNumber sequence(std::uint64_t number) { return SequenceNumber{number}; }

TEST(SubmissionTable, TakesNoMemoryForTasksThatPassOneThatStays) {
  SubmissionTable table;
  PendingSubmission& stays = table.add(sequence(0));
  const std::size_t slots = table.slots();
  for (std::uint64_t number = 1; number < 100'000; ++number) {
    PendingSubmission& passes = table.add(sequence(number));
    ASSERT_EQ(table.find(sequence(number)), &passes);
    ASSERT_EQ(table.find(sequence(0)), &stays);
    table.remove(passes);
    ASSERT_EQ(table.find(sequence(number)), nullptr);
  }
  EXPECT_EQ(table.slots(), slots);
  EXPECT_EQ(table.size(), 1U);
}

TEST(SubmissionTable, FindsAndVisitsAllHoweverTheirNumbersMeet) {
  SubmissionTable table;
  std::set<std::uint64_t> inside;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    for (const std::uint64_t number : {i, (i + 1) << 20U}) {
      table.add(sequence(number));
      inside.insert(number);
    }
  }
  EXPECT_EQ(table.size(), inside.size());
  for (const std::uint64_t number : inside) {
    ASSERT_NE(table.find(sequence(number)), nullptr);
    EXPECT_EQ(table.find(sequence(number))->number(), number);
  }
  table.for_each([&](PendingSubmission& pending) {
    EXPECT_EQ(inside.erase(pending.number()), 1U);
    if (pending.number() % 2 == 0) table.remove(pending);
  });
  EXPECT_TRUE(inside.empty());
  EXPECT_EQ(table.find(sequence(4)), nullptr);
  EXPECT_NE(table.find(sequence(5)), nullptr);
  EXPECT_EQ(table.size(), 500U);
}

}  // namespace
}  // namespace tessera::device
