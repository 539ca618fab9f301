#include "base/copy_plane.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/huge_pages.h"

namespace tessera {
namespace {

// The plain loop.
template <typename Element>
void copy_each(std::int64_t rows, std::int64_t columns, const Element* from, PlaneStrides f,
               Element* to, PlaneStrides t) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      to[r * t.row + c * t.column] = from[r * f.row + c * f.column];
    }
  }
}

template <typename Element>
void expect_same(std::int64_t rows, std::int64_t columns, PlaneStrides f, PlaneStrides t,
                 std::size_t room) {
  std::vector<Element> from(room), to(room, Element{7}), expected(room, Element{7});
  for (std::size_t i = 0; i < room; ++i) from[i] = static_cast<Element>(i * 2654435761u);
  copy_each(rows, columns, from.data(), f, expected.data(), t);
  copy_plane(sizeof(Element), rows, columns, reinterpret_cast<const std::byte*>(from.data()), f,
             reinterpret_cast<std::byte*>(to.data()), t);
  EXPECT_EQ(to, expected) << rows << " x " << columns << " of " << sizeof(Element);
}

template <typename Element>
void check_all() {
  for (const std::int64_t rows : {1, 2, 31, 32, 33, 70}) {
    for (const std::int64_t columns : {1, 3, 32, 65}) {
      const auto room = static_cast<std::size_t>(4 * rows * columns);
      expect_same<Element>(rows, columns, {columns, 1}, {1, rows}, room);  // transposed
      expect_same<Element>(rows, columns, {1, rows}, {columns, 1}, room);
      expect_same<Element>(rows, columns, {columns, 1}, {2 * columns, 1}, room);   // rows
      expect_same<Element>(rows, columns, {2 * columns, 2}, {3, 3 * rows}, room);  // neither
      expect_same<Element>(rows, columns, {0, 1}, {columns, 1}, room);             // repeated
    }
  }
}

TEST(CopyPlane, IsThePlainLoopForElementsOfEverySize) {
  check_all<std::uint8_t>();
  check_all<std::uint16_t>();
  check_all<std::uint32_t>();
  check_all<std::uint64_t>();
}

TEST(CopyPlane, OfNothingTouchesNothing) {
  std::byte one{5};
  copy_plane(1, 0, 4, &one, {4, 1}, &one, {1, 0});
  copy_plane(1, 4, 0, &one, {0, 1}, &one, {1, 4});
  EXPECT_EQ(one, std::byte{5});
}

TEST(HugePages, AreZerosOfAnySize) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4096},
                                 (std::size_t{2} << 20) + 5, std::size_t{9} << 20}) {
    EXPECT_EQ(zeros_in_huge_pages(size), std::vector<std::byte>(size)) << size;
  }
}

}  // namespace
}  // namespace tessera
