// Boxes copied by runs equal boxes copied element by element.
#include "host/dense_move.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace tessera::host {
namespace {

constexpr unsigned kSeed = 4711;

using Bytes = std::vector<std::byte>;

void copy_plainly(const graph::CopyBox& box, std::int64_t size, const Bytes& source, Bytes& to) {
  const std::int64_t count = element_count(box.extents);
  for (std::int64_t element = 0; element < count; ++element) {
    std::int64_t from = box.input_offset, at = box.output_offset, left = element;
    for (std::size_t axis = box.extents.size(); axis-- > 0; left /= box.extents[axis]) {
      from += left % box.extents[axis] * box.input_strides[axis];
      at += left % box.extents[axis] * box.output_strides[axis];
    }
    std::memcpy(to.data() + at * size, source.data() + from * size, static_cast<std::size_t>(size));
  }
}

// Elements that a side of the box spans.
std::int64_t span_of(const Shape& extents, const std::vector<std::int64_t>& strides,
                     std::int64_t offset) {
  std::int64_t last = offset;
  for (std::size_t i = 0; i < extents.size(); ++i) last += (extents[i] - 1) * strides[i];
  return last + 1;
}

void expect_same(const graph::CopyBox& box, std::mt19937& random) {
  for (const std::int64_t size : {1, 2, 4, 8}) {
    Bytes source(
        static_cast<std::size_t>(span_of(box.extents, box.input_strides, box.input_offset) * size));
    for (std::byte& byte : source) byte = static_cast<std::byte>(random());
    Bytes expected(static_cast<std::size_t>(
        span_of(box.extents, box.output_strides, box.output_offset) * size));
    for (std::byte& byte : expected) byte = static_cast<std::byte>(random());
    const Bytes before = expected;
    copy_plainly(box, size, source, expected);
    for (const int threads : {1, 3}) {
      ThreadPool pool(threads);
      Bytes actual = before;
      BoxCopy(box, size).run(source.data(), actual.data(), pool);
      EXPECT_TRUE(actual == expected) << size << " bytes, " << threads << " threads";
    }
  }
}

TEST(CopyBox, LongRunsAreCut) {
  std::mt19937 random(kSeed);
  expect_same({.input_offset = 3,
               .output_offset = 5,
               .extents = {40'001},
               .input_strides = {1},
               .output_strides = {1}},
              random);
}

TEST(CopyBox, EveryOtherElement) {
  std::mt19937 random(kSeed);
  for (const std::int64_t columns : {1, 2, 31, 208}) {
    expect_same({.input_offset = 1,
                 .extents = {97, columns},
                 .input_strides = {2 * columns + 7, 2},
                 .output_strides = {columns, 1}},
                random);
  }
}

TEST(CopyBox, NearestNeighboursRepeated) {
  std::mt19937 random(kSeed);
  for (const std::int64_t times : {2, 3, 4, 8}) {
    const std::int64_t rows = 60, columns = 13;
    expect_same({.output_offset = 11,
                 .extents = {rows, times, columns, times},
                 .input_strides = {columns, 0, 1, 0},
                 .output_strides = {columns * times * times, columns * times, times, 1}},
                random);
  }
}

TEST(CopyBox, AxesExchanged) {
  std::mt19937 random(kSeed);
  for (const std::int64_t columns : {1, 2, 63, 65, 300}) {
    expect_same({.extents = {3, columns, 85},
                 .input_strides = {85 * columns, 1, columns},
                 .output_strides = {85 * columns, 85, 1}},
                random);
  }
}

// Few elements on the axis that is contiguous in the source; enough in all for several threads.
TEST(CopyBox, ColoursOfPixelsApart) {
  std::mt19937 random(kSeed);
  for (const std::int64_t colours : {2, 3, 16, 17}) {
    const std::int64_t pixels = 9'001;
    expect_same({.extents = {colours, pixels},
                 .input_strides = {1, colours},
                 .output_strides = {pixels, 1}},
                random);
  }
}

// Axes of the source in any order and with gaps, or repeated.
TEST(CopyBox, AnyBox) {
  std::mt19937 random(kSeed);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int round = 0; round < 200; ++round) {
    const auto axes = static_cast<std::size_t>(pick(1, 5));
    graph::CopyBox box;
    box.input_offset = pick(0, 3);
    box.output_offset = pick(0, 3);
    for (std::size_t i = 0; i < axes; ++i) box.extents.push_back(pick(1, 12));
    box.input_strides.assign(axes, 0);
    box.output_strides.assign(axes, 0);
    std::vector<std::size_t> order(axes);
    for (std::size_t i = 0; i < axes; ++i) order[i] = i;
    if (pick(0, 1) == 0) std::shuffle(order.begin(), order.end(), random);
    std::int64_t stride = pick(1, 2);
    for (std::size_t i = axes; i-- > 0;) {
      if (pick(0, 5) == 0) continue;
      box.input_strides[order[i]] = stride;
      stride *= box.extents[order[i]] + (pick(0, 3) == 0 ? 1 : 0);
    }
    stride = pick(0, 4) == 0 ? 2 : 1;
    for (std::size_t i = axes; i-- > 0;) {
      box.output_strides[i] = stride;
      stride *= box.extents[i] + (pick(0, 3) == 0 ? 1 : 0);
    }
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", round " + std::to_string(round));
    expect_same(box, random);
  }
}

}  // namespace
}  // namespace tessera::host
