// Constants in their short forms, and those that have none.
#include <gtest/gtest.h>

#include <functional>

#include "concord/interpret.h"
#include "concord/steps.h"

namespace tessera::concord {
namespace {

constexpr std::int64_t kCount = 20'003;  // no whole number of bytes of marks

template <typename T>
Tensor line(Format format, const std::function<T(std::int64_t)>& rule) {
  Tensor tensor = Tensor::zeros(format, {1, kCount});
  std::int64_t i = 0;
  for (T& element : tensor.as<T>()) element = rule(i++);
  return tensor;
}

// Bytes of the constants that it takes, where its steps give its bits.
std::size_t bytes_written(const Tensor& tensor) {
  Software software;
  Steps steps(software);
  software.outputs.push_back({steps.short_constant(tensor), "y"});
  const auto result = interpret(software, {});
  EXPECT_TRUE(result.ok() && (*result)[0] == tensor);
  std::size_t bytes = 0;
  for (const Value& value : software.values) {
    if (value.constant != nullptr) bytes += value.constant->bytes.size();
  }
  return bytes;
}

TEST(ShortForm, RunsOfAnyBitsAreWrittenOnce) {
  const auto zeros = [](std::int64_t i) { return i / 1000 % 2 == 0 ? 0.0f : -0.0f; };
  EXPECT_LT(bytes_written(line<float>(Format::kF32, zeros)), 3'000u);
}

TEST(ShortForm, SlopesOfIndicesAreWrittenOnce) {
  const auto reflected = [](std::int64_t i) { return i < 5 ? 5 - i : 3 * i - 15; };
  EXPECT_LT(bytes_written(line<std::int64_t>(Format::kI64, reflected)), 3'000u);
}

TEST(ShortForm, WhatChangesEverywhereStaysAsItIs) {
  const auto squares = [](std::int64_t i) { return i * i % 9'973; };
  const Tensor tensor = line<std::int64_t>(Format::kI64, squares);
  EXPECT_EQ(bytes_written(tensor), tensor.bytes.size());
}

TEST(ShortForm, SumsBeyondBinary64StayAsTheyAre) {
  const auto large = [](std::int64_t i) { return (std::int64_t{1} << 60) + i; };
  const Tensor tensor = line<std::int64_t>(Format::kI64, large);
  EXPECT_EQ(bytes_written(tensor), tensor.bytes.size());
}

}  // namespace
}  // namespace tessera::concord
