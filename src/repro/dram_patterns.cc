#include "repro/dram_patterns.h"

#include <array>
#include <charconv>

namespace tessera::repro {
namespace {

constexpr std::uint64_t kMatrix = std::uint64_t{1} << 26;
constexpr std::uint64_t kPitchSpan = std::uint64_t{1} << 28;
constexpr std::string_view kPosted = "_posted";
constexpr std::string_view kPitch = "7_pitch_";

struct PatternName {
  std::string_view name;
  int number;
};
constexpr std::array<PatternName, 10> kNames = {{{"1_seq_read", 1},
                                                 {"2_seq_write", 2},
                                                 {"3_copy_4k", 3},
                                                 {"4_add_4k", 4},
                                                 {"5_runs_1408_pitch_32k", 5},
                                                 {"6_runs_256_pitch_4k", 6},
                                                 {"8_random_read", 8},
                                                 {"9_transpose", 9},
                                                 {"10_two_readers", 10},
                                                 {"11_four_readers", 11}}};

// "512", "8k". 0 where it is no pitch.
std::uint64_t pitch_of(std::string_view text) {
  std::uint64_t scale = 1;
  if (text.ends_with('k')) {
    scale = 1024;
    text.remove_suffix(1);
  }
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size()) return 0;
  return value <= kPitchSpan / scale ? value * scale : 0;
}

// Output i of splitmix64 seeded with 1 (Steele, Lea, Flood: Fast splittable pseudorandom number
// generators, 2014).
std::uint64_t splitmix64(std::uint64_t i) {
  std::uint64_t z = 1 + (i + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

DramAccess copy(std::uint64_t b, std::uint64_t j) {
  const std::uint64_t address = 4096 * (b / 2) + 64 * j;
  return b % 2 == 0 ? DramAccess{address, false} : DramAccess{kMatrix + address, true};
}

DramAccess add(std::uint64_t b, std::uint64_t j) {
  const std::uint64_t address = 4096 * (b / 3) + 64 * j;
  return {kMatrix * (b % 3) + address, b % 3 == 2};
}

DramAccess transpose(std::uint64_t b, std::uint64_t j) {
  const std::uint64_t n = 64 * (b / 2) + j;
  if (b % 2 == 0) return {64 * n, false};
  return {kMatrix + 2048 * (n % 1024) + 64 * (n / 1024), true};
}

}  // namespace

std::optional<DramPattern> DramPattern::find(std::string_view name) {
  DramPattern pattern;
  if (name.ends_with(kPosted)) {
    pattern.posted = true;
    name.remove_suffix(kPosted.size());
  }
  if (name.starts_with(kPitch)) {
    pattern.number = 7;
    pattern.pitch = pitch_of(name.substr(kPitch.size()));
    if (pattern.pitch == 0) return std::nullopt;
    return pattern;
  }
  for (const PatternName& known : kNames) {
    if (known.name != name) continue;
    pattern.number = known.number;
    return pattern;
  }
  return std::nullopt;
}

DramAccess DramPattern::at(std::uint64_t i) const {
  const std::uint64_t b = i / 64;
  const std::uint64_t j = i % 64;
  switch (number) {
    case 1:
      return {64 * i, false};
    case 2:
      return {64 * i, true};
    case 3:
      return copy(b, j);
    case 4:
      return add(b, j);
    case 5:
      return {32768 * (i / 22) + 64 * (i % 22), false};
    case 6:
      return {4096 * (i / 4) + 64 * (i % 4), false};
    case 7:
      return {i * pitch % kPitchSpan + 64 * (i * pitch / kPitchSpan), false};
    case 8:
      return {64 * (splitmix64(i) >> 42), false};
    case 9:
      return transpose(b, j);
    case 10:
      return {kMatrix * (i % 2) + 64 * (i / 2), false};
    default:
      return {kMatrix * (i % 4) + 64 * (i / 4), false};
  }
}

}  // namespace tessera::repro
