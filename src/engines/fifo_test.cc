#include "engines/fifo.h"

#include <gtest/gtest.h>

namespace tessera::engines {
namespace {

TEST(Fifo, WhatIsPushedInOneCycleIsSeenInTheNext) {
  Fifo<int> fifo(2);
  fifo.push(10, 7);
  EXPECT_FALSE(fifo.can_pop(10));
  EXPECT_TRUE(fifo.can_pop(11));
  EXPECT_EQ(fifo.pop(11), 7);
}

TEST(Fifo, RoomThatAPopMakesIsSeenInTheNextCycle) {
  Fifo<int> fifo(1);
  fifo.push(1, 7);
  EXPECT_FALSE(fifo.can_push(2));
  fifo.pop(2);
  EXPECT_FALSE(fifo.can_push(2));
  EXPECT_TRUE(fifo.has_room());
  EXPECT_TRUE(fifo.can_push(3));
}

TEST(Ring, KeepsOrderAcrossTheEndOfItsStorage) {
  Ring<int> ring(3);
  ring.push(1);
  ring.push(2);
  ring.pop();
  ring.push(3);
  ring.push(4);
  EXPECT_TRUE(ring.full());
  EXPECT_EQ(ring.back(), 4);
  for (int expected = 2; expected <= 4; ++expected) {
    EXPECT_EQ(ring.front(), expected);
    ring.pop();
  }
  EXPECT_TRUE(ring.empty());
}

}  // namespace
}  // namespace tessera::engines
