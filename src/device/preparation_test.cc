#include "device/preparation.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>

namespace tessera::device {
namespace {

constexpr std::chrono::minutes kLimit{5};

TEST(Preparation, DoesPieceAfterPieceUntilThereIsNone) {
  std::atomic<int> left = 5, pieces = 0;
  Preparation preparation([&](const Preparation&) {
    ++pieces;
    return --left > 0;
  });
  EXPECT_TRUE(preparation.over());
  EXPECT_EQ(pieces, 0);
  preparation.wake();
  EXPECT_TRUE(preparation.wait_until_over(kLimit));
  EXPECT_EQ(pieces, 5);
  left = 2;
  preparation.wake();
  EXPECT_TRUE(preparation.wait_until_over(kLimit));
  EXPECT_EQ(pieces, 7);
}

TEST(Preparation, WhatWakesItDuringTheLastPieceIsNotLost) {
  std::promise<void> begun, woken;
  std::atomic<int> pieces = 0;
  Preparation preparation([&](const Preparation&) {
    if (++pieces > 1) return false;
    begun.set_value();
    woken.get_future().wait();
    return false;
  });
  preparation.wake();
  begun.get_future().wait();
  preparation.wake();
  woken.set_value();
  EXPECT_TRUE(preparation.wait_until_over(kLimit));
  EXPECT_EQ(pieces, 2);
}

TEST(Preparation, NoPieceBeginsWhileSomebodyPausesIt) {
  std::atomic<int> pieces = 0;
  std::atomic<bool> paused = false, wrong = false;
  Preparation preparation([&](const Preparation&) {
    wrong = wrong || paused;
    return ++pieces < 3;
  });
  {
    const Preparation::Pause pause(&preparation);
    paused = true;
    preparation.wake();
    EXPECT_FALSE(preparation.wait_until_over(std::chrono::milliseconds(20)));
    paused = false;
  }
  EXPECT_TRUE(preparation.wait_until_over(kLimit));
  EXPECT_FALSE(wrong);
  EXPECT_EQ(pieces, 3);
  const Preparation::Pause of_none(nullptr);
}

TEST(Preparation, EndsWithThePieceInHandWhichCanSeeThat) {
  std::promise<void> begun;
  std::atomic<int> pieces = 0;
  {
    Preparation preparation([&](const Preparation& by) {
      if (++pieces == 1) begun.set_value();
      while (!by.stops()) std::this_thread::yield();
      return true;
    });
    preparation.wake();
    begun.get_future().wait();
  }
  EXPECT_EQ(pieces, 1);
}

}  // namespace
}  // namespace tessera::device
