#include "engines/card_memory/share_decoder.h"

#include <gtest/gtest.h>

namespace tessera::engines {
namespace {

using Came = ShareDecoder::Came;

struct SharedBytes {
  StridedRuns grid;
  CardRequest request;
  explicit SharedBytes(std::uint32_t share, std::uint32_t sequence = 0,
                       std::int64_t address = 0x1000, CoreSet members = 0b111) {
    grid.address = address;
    grid.run_bytes = 64;
    grid.axes = 1;
    grid.extents[0] = 4;
    grid.strides[0] = 0x100;
    request = {.dram = {.grid = &grid, .runs = 4, .bytes = 64},
               .home = 1,
               .share = {.number = share, .sequence = sequence, .members = members}};
  }
  SharedBytes(const SharedBytes&) = delete;
};

TEST(ShareDecoder, TheLastMemberCompletesTheRequest) {
  ShareDecoder decoder(2);
  const SharedBytes of_0(3), of_1(3), of_2(3);  // each member has runs of its own
  EXPECT_EQ(decoder.come(1, 0b111, of_1.request, 11, 100), Came::kWaits);
  EXPECT_EQ(decoder.come(0, 0b111, of_0.request, 10, 105), Came::kWaits);
  EXPECT_EQ(decoder.come(2, 0b111, of_2.request, 12, 130), Came::kComplete);
  EXPECT_EQ(decoder.completed().here, 0b111u);
  for (std::size_t member = 0; member < 3; ++member) {
    EXPECT_EQ(decoder.completed().tickets[member], 10 + member);
  }
  EXPECT_TRUE(decoder.entries().empty());
  EXPECT_EQ(decoder.completed().last, 2);
  EXPECT_EQ(decoder.completed().came[1], 100);
  EXPECT_EQ(decoder.completed().came[0], 105);
  EXPECT_EQ(decoder.completed().came[2], 130);
}

TEST(ShareDecoder, AMemberMayBeRequestsAhead) {
  ShareDecoder decoder(2);
  const SharedBytes first(3, 0), second(3, 1, 0x2000);
  EXPECT_EQ(decoder.come(0, 0b11, first.request, 0, 1), Came::kWaits);
  EXPECT_EQ(decoder.come(0, 0b11, second.request, 1, 2), Came::kWaits);
  EXPECT_EQ(decoder.come(1, 0b11, first.request, 2, 9), Came::kComplete);
  EXPECT_EQ(decoder.completed().tickets[0], 0u);
  EXPECT_EQ(decoder.come(1, 0b11, second.request, 3, 10), Came::kComplete);
  EXPECT_EQ(decoder.completed().tickets[0], 1u);
  EXPECT_EQ(decoder.completed().last, 1);
  EXPECT_EQ(decoder.completed().came[0], 2);
}

TEST(ShareDecoder, AShareOfOneMemberIsCompleteAtOnceWhateverIsInTheTable) {
  ShareDecoder decoder(1);
  const SharedBytes other(1), alone(2);
  EXPECT_EQ(decoder.come(0, 0b11, other.request, 0, 1), Came::kWaits);
  EXPECT_EQ(decoder.come(2, 0b100, alone.request, 5, 1), Came::kComplete);
  EXPECT_EQ(decoder.completed().tickets[2], 5u);
}

TEST(ShareDecoder, AFullTableTakesMembersOfItsEntriesAndNoOthers) {
  ShareDecoder decoder(1);
  const SharedBytes one(1), two(2);
  EXPECT_EQ(decoder.come(0, 0b11, one.request, 0, 1), Came::kWaits);
  EXPECT_TRUE(decoder.full());
  EXPECT_EQ(decoder.come(1, 0b11, two.request, 0, 2), Came::kNoRoom);
  EXPECT_EQ(decoder.come(1, 0b11, one.request, 0, 3), Came::kComplete);
  EXPECT_EQ(decoder.come(1, 0b11, two.request, 0, 4), Came::kWaits);
}

TEST(ShareDecoder, MembersWhoComeTogetherNeedNoEntry) {
  ShareDecoder decoder(1);
  const SharedBytes one(1), two(2);
  EXPECT_EQ(decoder.come(2, 0b101, one.request, 0, 1), Came::kWaits);
  decoder.begin_together(two.request, 0b11);
  EXPECT_EQ(decoder.come_together(0, two.request, 7, 4), Came::kWaits);
  EXPECT_EQ(decoder.come_together(1, two.request, 8, 20), Came::kComplete);
  EXPECT_EQ(decoder.completed().tickets[0], 7u);
  EXPECT_EQ(decoder.completed().last, 1);
  EXPECT_EQ(decoder.completed().came[0], 4);
  EXPECT_EQ(decoder.entries().size(), 1u);
}

TEST(ShareDecoder, OtherBytesThanTheOpenersAreAnErrorThatNamesBoth) {
  ShareDecoder decoder(2);
  const SharedBytes here(3, 7), there(3, 7, 0x1010);
  EXPECT_EQ(decoder.come(0, 0b101, here.request, 0, 1), Came::kWaits);
  EXPECT_EQ(decoder.come(2, 0b101, there.request, 0, 2), Came::kFault);
  ASSERT_TRUE(decoder.fault());
  EXPECT_EQ(decoder.fault()->message(),
            "share 3, request 7: core 0 asks for group 1, 0x1000 to 0x133f (4 x 64 bytes), core 2 "
            "for group 1, 0x1010 to 0x134f (4 x 64 bytes); members of a share ask for the same "
            "bytes in the same order, each once");
  EXPECT_EQ(decoder.entries()[0].here, 1u);
}

TEST(ShareDecoder, AMemberWhoComesTwiceIsAnError) {
  ShareDecoder decoder(2);
  const SharedBytes bytes(3);
  EXPECT_EQ(decoder.come(0, 0b11, bytes.request, 0, 1), Came::kWaits);
  EXPECT_EQ(decoder.come(0, 0b11, bytes.request, 0, 2), Came::kFault);
  ASSERT_TRUE(decoder.fault());
  EXPECT_EQ(decoder.fault()->other, 0);
}

TEST(ShareDecoder, OneWhoIsNoMemberIsAnError) {
  ShareDecoder decoder(2);
  const SharedBytes bytes(3);
  EXPECT_EQ(decoder.come(0, 0b11, bytes.request, 0, 1), Came::kWaits);
  EXPECT_EQ(decoder.come(5, 0b11, bytes.request, 0, 2), Came::kFault);
}

}  // namespace
}  // namespace tessera::engines
