// Vector registers as arrays of bytes, for the emulated instructions (tile/intrinsics.h). Lanes are
// numbered from the lowest bits of the register on, as they lie in memory.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tessera::kernels::emulated {

// `Kind` keeps registers of integers, floats, ... apart, as the compiler's own types are.
template <typename Kind, std::size_t kSize>
struct Register {
  std::array<std::byte, kSize> bytes;
};

namespace instructions {
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the processor's names.
using __m128i = Register<std::int64_t, 16>;
using __m256i = Register<std::int64_t, 32>;
using __m512i = Register<std::int64_t, 64>;
using __m256 = Register<float, 32>;
using __m512 = Register<float, 64>;
using __m512d = Register<double, 64>;
using __m128h = Register<struct Half, 16>;
using __m256h = Register<struct Half, 32>;
using __m512h = Register<struct Half, 64>;
using __mmask16 = std::uint16_t;
using __mmask32 = std::uint32_t;
using __mmask64 = std::uint64_t;
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
}  // namespace instructions

template <typename T, typename Register>
using Lanes = std::array<T, sizeof(Register) / sizeof(T)>;

template <typename T, typename Register>
Lanes<T, Register> lanes_of(const Register& from) {
  return std::bit_cast<Lanes<T, Register>>(from);
}

template <typename To, typename T>
To register_of(const Lanes<T, To>& lanes) {
  return std::bit_cast<To>(lanes);
}

// Lane i is function(i).
template <typename To, typename T, typename Function>
To generate(const Function& function) {
  Lanes<T, To> lanes;
  for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] = static_cast<T>(function(i));
  return register_of<To, T>(lanes);
}

// Lane i is function(lane i of a, ...), of lanes of `T`.
template <typename T, typename Register, typename Function>
Register each_lane(const Register& a, const Function& function) {
  const auto first = lanes_of<T>(a);
  return generate<Register, T>([&](std::size_t i) { return function(first[i]); });
}
template <typename T, typename Register, typename Function>
Register each_lane(const Register& a, const Register& b, const Function& function) {
  const auto first = lanes_of<T>(a), second = lanes_of<T>(b);
  return generate<Register, T>([&](std::size_t i) { return function(first[i], second[i]); });
}

// Lane i, a T, is that of `a` as a From, converted.
template <typename To, typename T, typename From, typename Source, typename Function>
To convert(const Source& a, const Function& function) {
  static_assert(sizeof(To) / sizeof(T) <= sizeof(Source) / sizeof(From));
  const auto from = lanes_of<From>(a);
  return generate<To, T>([&](std::size_t i) { return function(from[i]); });
}

// Bit i is predicate(lane i of a, lane i of b).
template <typename Mask, typename T, typename Register, typename Predicate>
Mask compare(const Register& a, const Register& b, const Predicate& predicate) {
  const auto first = lanes_of<T>(a), second = lanes_of<T>(b);
  static_assert(std::tuple_size_v<Lanes<T, Register>> == 8 * sizeof(Mask));
  Mask mask = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (predicate(first[i], second[i])) mask |= static_cast<Mask>(Mask{1} << i);
  }
  return mask;
}

// A register whose upper part is undefined: code that relies on it gets this.
inline constexpr std::byte kUndefined{0xA5};

template <typename To, typename From>
To widen(const From& low) {
  To wide;
  wide.bytes.fill(kUndefined);
  std::memcpy(wide.bytes.data(), low.bytes.data(), sizeof low);
  return wide;
}
template <typename To, typename From>
To reinterpret(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  return std::bit_cast<To>(from);
}
// The part of the size of To that lies `index` such parts from the lowest bits.
template <typename To, typename From>
To part(const From& from, int index) {
  To to;
  std::memcpy(to.bytes.data(), from.bytes.data() + static_cast<std::size_t>(index) * sizeof to,
              sizeof to);
  return to;
}

// ---- memory

template <typename Register>
Register load(const void* from) {
  Register to;
  std::memcpy(to.bytes.data(), from, sizeof to);
  return to;
}
template <typename Register>
void store(void* to, const Register& from) {
  std::memcpy(to, from.bytes.data(), sizeof from);
}

// What the processor asks of an address ends the program where it is not so.
void expect_aligned(const void* address, std::size_t alignment);

template <typename Register>
Register load_aligned(const void* from) {
  expect_aligned(from, sizeof(Register));
  return load<Register>(from);
}
template <typename Register>
void store_aligned(void* to, const Register& from) {
  expect_aligned(to, sizeof(Register));
  store(to, from);
}

// Lanes whose bit in `mask` is set come from memory, the others from `other`; memory of the others
// is not touched.
template <typename T, typename Register>
Register masked_load(const Register& other, std::uint64_t mask, const void* from) {
  Lanes<T, Register> lanes = lanes_of<T>(other);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if ((mask >> i & 1) == 0) continue;
    std::memcpy(&lanes[i], static_cast<const std::byte*>(from) + i * sizeof(T), sizeof(T));
  }
  return register_of<Register, T>(lanes);
}
template <typename T, typename Register>
void masked_store(void* to, std::uint64_t mask, const Register& from) {
  const auto lanes = lanes_of<T>(from);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if ((mask >> i & 1) == 0) continue;
    std::memcpy(static_cast<std::byte*>(to) + i * sizeof(T), &lanes[i], sizeof(T));
  }
}
// Lanes whose bit is not set come from `other`.
template <typename T, typename Register>
Register blend(const Register& other, std::uint64_t mask, const Register& from) {
  const auto zeros = lanes_of<T>(other), ones = lanes_of<T>(from);
  return generate<Register, T>(
      [&](std::size_t i) { return (mask >> i & 1) != 0 ? ones[i] : zeros[i]; });
}

}  // namespace tessera::kernels::emulated
