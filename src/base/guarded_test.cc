#include "base/guarded.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <system_error>
#include <vector>

namespace tessera {
namespace {

template <typename Thrown>
std::string text_of(const Thrown& thrown) {
  const Status status = guarded("drawing a line", [&]() -> Status { throw thrown; });
  return status.ok() ? "" : status.error().to_string();
}

TEST(Guarded, WhatReturnsIsPassedOn) {
  EXPECT_EQ(*guarded("counting", [] { return Result<int>(3); }), 3);
  const auto refused = guarded(
      "counting", []() -> Result<int> { return Error{ErrorCode::kUnsupported, "no numbers"}; });
  EXPECT_EQ(refused.error().to_string(), "no numbers   [unsupported]");
}

TEST(Guarded, MemoryThatEndsIsAnError) {
  EXPECT_EQ(text_of(std::bad_alloc()),
            "drawing a line: not enough memory; choose a smaller shape, or a machine with more   "
            "[does not fit]");
}

TEST(Guarded, SizeBeyondAllMemoryIsTheSameError) {
  const auto made = guarded("", []() -> Result<std::vector<int>> {
    const volatile std::size_t size = SIZE_MAX / 2;
    return std::vector<int>(size);
  });
  EXPECT_EQ(made.error().to_string(),
            "not enough memory; choose a smaller shape, or a machine with more   [does not fit]");
}

TEST(Guarded, ThreadThatIsNotGivenIsAnError) {
  EXPECT_EQ(
      text_of(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again))),
      "drawing a line: the system has no thread left; use fewer, or end other programs   "
      "[unavailable]");
}

TEST(Guarded, AnythingElseIsOurFault) {
  EXPECT_EQ(text_of(std::runtime_error("the pen broke")),
            "drawing a line: the pen broke   [internal]");
  EXPECT_EQ(text_of(7),
            "drawing a line: something that is no std::exception was thrown   [internal]");
}

}  // namespace
}  // namespace tessera
