// The access patterns that DRAM channels are compared on: ordered lists of 64 B requests.
//
//   M = 2^26, b = floor(i / 64), j = i mod 64; R read, W write
//   1_seq_read              R 64 i
//   2_seq_write             W 64 i
//   3_copy_4k               b even: R 4096 (b/2) + 64 j;  b odd: W M + 4096 floor(b/2) + 64 j
//   4_add_4k                o = 4096 floor(b/3) + 64 j; b mod 3 = 0: R o, 1: R M + o, 2: W 2 M + o
//   5_runs_1408_pitch_32k   R 32768 floor(i/22) + 64 (i mod 22)
//   6_runs_256_pitch_4k     R 4096 floor(i/4) + 64 (i mod 4)
//   7_pitch_P               R (i P mod 2^28) + 64 floor(i P / 2^28); P a number, or one of KiB: 8k
//   8_random_read           R 64 x (the top 22 bits of output i of splitmix64 seeded with 1)
//   9_transpose             1024 x 1024 elements of 2 B; n = 64 floor(b/2) + j;
//                           b even: R 64 n;  b odd: W M + 2048 (n mod 1024) + 64 floor(n / 1024)
//   10_two_readers          R M (i mod 2) + 64 floor(i/2)
//   11_four_readers         R M (i mod 4) + 64 floor(i/4)
//   NAME_posted             the same; writes do not count as outstanding
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera::repro {

inline constexpr std::int64_t kDramRequestBytes = 64;

struct DramAccess {
  std::uint64_t address = 0;
  bool write = false;
  friend bool operator==(const DramAccess&, const DramAccess&) = default;
};

struct DramPattern {
  int number = 1;           // 1 to 11
  std::uint64_t pitch = 0;  // of number 7, bytes
  bool posted = false;

  // By name; nothing where there is no such pattern.
  static std::optional<DramPattern> find(std::string_view name);
  // Request i, from 0.
  DramAccess at(std::uint64_t i) const;
};

}  // namespace tessera::repro
