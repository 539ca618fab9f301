#include "arch/message_link.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

// 250 MHz and 1,000 MB/s: 4 bytes a cycle. A DMA engine's port takes 64.
ChipConfig chip_with(std::int32_t header_cycles, std::int32_t nanoseconds) {
  ChipConfig chip;
  chip.clock_hertz = 250'000'000;
  chip.dma.port_bytes = 64;
  chip.message = {.ports = 1,
                  .megabytes_per_second = 1'000,
                  .nanoseconds = nanoseconds,
                  .header_cycles = header_cycles,
                  .buffer_bytes = 0};
  return chip;
}

TEST(MessageLink, BytesAtTheRateAndNanosecondsAreRoundedUpToCycles) {
  const ChipConfig chip = chip_with(8, 500);
  EXPECT_EQ(message_byte_cycles(chip, 0), 0);
  EXPECT_EQ(message_byte_cycles(chip, 1), 1);
  EXPECT_EQ(message_byte_cycles(chip, 64), 16);
  EXPECT_EQ(message_byte_cycles(chip, 65), 17);
  EXPECT_EQ(message_latency(chip), 125);            // 500 ns of 4 ns each
  EXPECT_EQ(message_port_cycles(chip, 3, 64), 72);  // 3 * (8 + 16)
  ChipConfig odd = chip;
  odd.message.nanoseconds = 1;
  EXPECT_EQ(message_latency(odd), 1);
}

// Header 8 and 64 bytes in 16 cycles from 100 on; the last byte is there 125 cycles later.
TEST(MessageLink, WithoutABufferAMessageComesWhenItIsAskedFor) {
  MessageLink link(chip_with(8, 500), 0);
  const auto first = link.take(100, 1, 64);
  EXPECT_EQ(first.taken, 124);
  EXPECT_EQ(first.done, 249);
  // Asked for at 124, behind the first: the port is never idle, and the way behind it overlaps.
  const auto second = link.take(124, 1, 64);
  EXPECT_EQ(second.taken, 148);
  EXPECT_EQ(second.done, 273);
}

// At 100 all of it waits in the buffer, from cycle 8 + 16 = 24 on, in place from 24 + 50 = 74 on: it
// only moves through the port of 64 bytes a cycle, in 1 cycle.
TEST(MessageLink, WithABufferAMessageComesBeforeItIsAskedFor) {
  MessageLink link(chip_with(8, 200), 64);
  const auto first = link.take(100, 1, 64);
  EXPECT_EQ(first.taken, 101);
  EXPECT_EQ(first.done, 101);
  // The next one's header came meanwhile, and its bytes find room at 101: 16 cycles. Asked for at
  // 110 it is taken at 117 and there 50 cycles later.
  const auto second = link.take(110, 1, 64);
  EXPECT_EQ(second.taken, 117);
  EXPECT_EQ(second.done, 167);
}

// 64 bytes of 160 wait in the buffer; the other 96 take 24 cycles from 100 on.
TEST(MessageLink, OfAMessageLargerThanTheBufferTheBeginComesBefore) {
  MessageLink link(chip_with(8, 0), 64);
  const auto times = link.take(100, 1, 160);
  EXPECT_EQ(times.taken, 124);
  EXPECT_EQ(times.done, 124);
}

// Room for 3 of the messages of 32 bytes: by 1000 they are there, and one more behind each step that
// takes one. A step of three takes 96 bytes, 2 cycles of the port.
TEST(MessageLink, SeveralSmallMessagesWait) {
  MessageLink link(chip_with(2, 0), 96);
  EXPECT_EQ(link.take(1000, 1, 32).taken, 1001);
  EXPECT_EQ(link.take(1001, 1, 32).taken, 1002);
  EXPECT_EQ(link.take(1002, 1, 32).taken, 1003);
  // The fourth: its header has come, its bytes from 1001 on, in 8 cycles.
  EXPECT_EQ(link.take(1003, 1, 32).taken, 1009);
  // Another three have come by 2000.
  EXPECT_EQ(link.take(2000, 3, 32).taken, 2002);
}

// A run ends at 101, when the first message is taken; the second comes from then on, in 16 cycles, and
// waits when the next run asks for it in its cycle 30.
TEST(MessageLink, GoesOnFromRunToRun) {
  MessageLink link(chip_with(8, 0), 64);
  EXPECT_EQ(link.take(100, 1, 64).taken, 101);
  link.go_on(101);
  EXPECT_EQ(link.take(30, 1, 64).taken, 31);
  link.reset();
  EXPECT_EQ(link.take(0, 1, 64).taken, 24);
}

// What the link could have done while the buffer was full is lost: 1,000 messages asked for one by
// one, each as soon as the one before is taken, take the rate's time and no less.
TEST(MessageLink, AStreamTakesAtLeastItsBytesOverTheRate) {
  MessageLink link(chip_with(8, 500), 4096);
  Cycles now = 0;
  for (int i = 0; i < 1000; ++i) now = link.take(now, 1, 64).taken;
  EXPECT_EQ(now, 1000 * 24);
}

}  // namespace
}  // namespace tessera
