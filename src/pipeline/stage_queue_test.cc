#include "pipeline/stage_queue.h"

#include <gtest/gtest.h>

#include <thread>

namespace tessera::pipeline {
namespace {

class Plain : public Packet {};

class StageQueueTest : public testing::Test {
 protected:
  PacketPtr packet(std::uint64_t id) {
    PacketPtr packet = pool_.take();
    packet->header.id = id;
    return packet;
  }
  PacketPool pool_{[] { return std::make_unique<Plain>(); }};
  const std::atomic<bool> stay_{false};
};

TEST_F(StageQueueTest, GivesPacketsOutInTheOrderTheyCameIn) {
  StageQueue queue(4);
  for (std::uint64_t round = 0; round < 3; ++round) {  // the ring wraps
    std::vector<PacketPtr> in;
    for (std::uint64_t i = 0; i < 3; ++i) in.push_back(packet(round * 3 + i));
    ASSERT_TRUE(queue.push(in));
    EXPECT_EQ(in[0], nullptr);
    std::vector<PacketPtr> out(2);
    ASSERT_EQ(queue.pop(out, stay_), 2U);
    EXPECT_EQ(out[0]->header.id, round * 3);
    EXPECT_EQ(out[1]->header.id, round * 3 + 1);
    std::vector<PacketPtr> last(2);
    ASSERT_EQ(queue.try_pop(last), 1U);
    EXPECT_EQ(last[0]->header.id, round * 3 + 2);
  }
}

TEST_F(StageQueueTest, FullQueueRefusesTryPushAndThePacketStays) {
  StageQueue queue(1);
  PacketPtr first = packet(1), second = packet(2);
  EXPECT_TRUE(queue.try_push(first));
  EXPECT_FALSE(queue.try_push(second));
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->header.id, 2U);
}

TEST_F(StageQueueTest, PushOfMoreThanFitsWaitsForRoom) {
  StageQueue queue(2);
  std::vector<PacketPtr> in;
  for (std::uint64_t i = 0; i < 9; ++i) in.push_back(packet(i));
  std::thread producer([&] { EXPECT_TRUE(queue.push(in)); });
  for (std::uint64_t i = 0; i < 9;) {
    std::vector<PacketPtr> out(4);
    const std::size_t count = queue.pop(out, stay_);
    EXPECT_LE(count, 2U);
    for (std::size_t k = 0; k < count; ++k) EXPECT_EQ(out[k]->header.id, i++);
  }
  producer.join();
  EXPECT_EQ(queue.size(), 0U);
}

TEST_F(StageQueueTest, WhatEntersFromOutsideNeitherWaitsNorTakesTheRoomOfTheStageBefore) {
  StageQueue queue(2);
  for (std::uint64_t i = 0; i < 100; ++i) queue.enter(packet(i));
  EXPECT_EQ(queue.size(), 100U);
  EXPECT_EQ(queue.room(), 2U);
  PacketPtr first = packet(100), second = packet(101), third = packet(102);
  EXPECT_TRUE(queue.try_push(first));
  EXPECT_TRUE(queue.try_push(second));
  EXPECT_FALSE(queue.try_push(third));
  std::vector<PacketPtr> out(101);
  ASSERT_EQ(queue.pop(out, stay_), 101U);
  for (std::uint64_t i = 0; i < 101; ++i) EXPECT_EQ(out[i]->header.id, i);
  EXPECT_EQ(queue.room(), 1U);
  EXPECT_TRUE(queue.try_push(third));
}

TEST_F(StageQueueTest, ClosedQueueGivesWhatIsInsideAndThenNothing) {
  StageQueue queue(4);
  PacketPtr one = packet(1), late = packet(2);
  ASSERT_TRUE(queue.try_push(one));
  queue.close();
  EXPECT_FALSE(queue.try_push(late));
  EXPECT_FALSE(queue.push({&late, 1}));
  std::vector<PacketPtr> out(4);
  EXPECT_EQ(queue.pop(out, stay_), 1U);
  EXPECT_EQ(queue.pop(out, stay_), 0U);
}

TEST_F(StageQueueTest, WhoIsToLeaveTakesNothing) {
  StageQueue queue(4);
  std::atomic<bool> leave{false};
  std::vector<PacketPtr> out(4);
  std::thread waiting([&] { EXPECT_EQ(queue.pop(out, leave), 0U); });
  leave = true;
  queue.wake();
  waiting.join();
  PacketPtr one = packet(1);
  ASSERT_TRUE(queue.try_push(one));
  EXPECT_EQ(queue.pop(out, leave), 0U);
  EXPECT_EQ(queue.size(), 1U);
}

TEST_F(StageQueueTest, PoolMakesNoMorePacketsThanAreOut) {
  for (int i = 0; i < 100; ++i) {
    const PacketPtr a = packet(1), b = packet(2);
  }
  EXPECT_EQ(pool_.made(), 2U);
}

}  // namespace
}  // namespace tessera::pipeline
