// The emulated instructions of tile/intrinsics.h against those of the processor, where it has them:
// what tests on emulated instructions say of the code that takes them stands on this.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "arith/kernels/testing/tile_instructions.h"
#include "arith/kernels/tile/detection.h"
#include "arith/rounding.h"
#include "base/test_volume.h"

namespace tessera::kernels::testing {
namespace {

constexpr std::uint64_t kSeed = 20240611;
constexpr std::uint8_t kUntouched = 0x5A;

using Random = std::mt19937_64;

template <typename Number>
void put_number(Number number, std::byte* to) {
  std::memcpy(to, &number, sizeof number);
}

template <typename Float, typename Bits>
Float awkward_float(Random& random) {
  using Limits = std::numeric_limits<Float>;
  // Near the middle of two integers, two f16 or two f32, from the smallest f16 to beyond the
  // largest.
  const int digits = static_cast<int>(random() % 27);
  const double middle = static_cast<double>(random() % (1u << digits)) + 0.5;
  const auto near = static_cast<Float>(std::ldexp(middle, static_cast<int>(random() % 44) - 27));
  const Float sign = random() % 2 == 0 ? 1 : -1;
  switch (random() % 8) {
    case 0:
      return sign * near;
    case 1:
      return sign * std::nextafter(near, Limits::max());
    case 2:
      return sign * std::nextafter(near, Float{0});
    case 3:
      return sign * static_cast<Float>(random() % 4) * Limits::denorm_min();
    case 4:
      return sign * (random() % 2 == 0 ? Limits::infinity() : Limits::max());
    case 5: {  // the bounds of 32 bits and of f16, and their neighbours
      const auto bound = static_cast<Float>(random() % 2 == 0 ? 0x1p31 : 65520);
      const Float neighbours[] = {bound, std::nextafter(bound, Float{0}),
                                  std::nextafter(bound, Limits::max())};
      return sign * neighbours[random() % std::size(neighbours)];
    }
    case 6:  // a NaN, signalling or not
      return std::bit_cast<Float>(static_cast<Bits>(std::bit_cast<Bits>(sign * Limits::infinity()) |
                                                    (Bits{1} << random() % (Limits::digits - 1))));
    default:
      return std::bit_cast<Float>(static_cast<Bits>(random()));
  }
}

std::uint16_t awkward_half(Random& random) {
  constexpr std::uint16_t kPlaces[] = {0x0000, 0x0001, 0x03FF, 0x0400, 0x3800, 0x3C00, 0x4C00,
                                       0x7BFF, 0x7C00, 0x7C01, 0x7DFF, 0x7E00, 0x7E01, 0x7FFF};
  const std::uint16_t sign = random() % 2 == 0 ? 0x8000 : 0;
  return random() % 2 == 0 ? static_cast<std::uint16_t>(random())
                           : sign | kPlaces[random() % std::size(kPlaces)];
}

// Numbers of a width about zero, about their bounds, and any.
template <typename Integer>
Integer awkward_integer(Random& random) {
  const Integer places[] = {0, 1, static_cast<Integer>(255), std::numeric_limits<Integer>::max(),
                            std::numeric_limits<Integer>::min()};
  const Integer place = places[random() % std::size(places)];
  switch (random() % 3) {
    case 0:
      return static_cast<Integer>(random());
    case 1:
      return place;
    default:
      return static_cast<Integer>(static_cast<std::uint64_t>(place) + random() % 3 - 1);
  }
}

// Bytes that are numbers of one kind.
void fill(Random& random, std::byte* bytes, std::size_t count) {
  const auto each = [&](auto make) {
    for (std::size_t at = 0; at < count; at += sizeof make()) put_number(make(), bytes + at);
  };
  switch (random() % 7) {
    case 0:
      return each([&] { return awkward_float<double, std::uint64_t>(random); });
    case 1:
      return each([&] { return awkward_float<float, std::uint32_t>(random); });
    case 2:
      return each([&] { return awkward_half(random); });
    case 3:
      return each([&] { return awkward_integer<std::int8_t>(random); });
    case 4:
      return each([&] { return awkward_integer<std::int16_t>(random); });
    case 5:
      return each([&] { return awkward_integer<std::int32_t>(random); });
    default:
      return each([&] { return random(); });
  }
}

// NaNs of a Float become one.
template <typename Float>
void forget_payloads(Result& result) {
  for (std::size_t at = 0; at < kResultBytes; at += sizeof(Float)) {
    Float number;
    std::memcpy(&number, result.bytes + at, sizeof number);
    if (std::isnan(number)) put_number(std::numeric_limits<Float>::quiet_NaN(), result.bytes + at);
  }
}

Result run(const Instruction& instruction, const Operands& operands) {
  Result result;
  std::memset(result.bytes, kUntouched, sizeof result.bytes);
  instruction.run(operands, result);
  if (instruction.any_nan == AnyNan::kFloats) forget_payloads<float>(result);
  if (instruction.any_nan == AnyNan::kDoubles) forget_payloads<double>(result);
  return result;
}

std::string hexadecimal(const std::byte* bytes, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += kDigits[std::to_integer<int>(bytes[i]) / 16];
    text += kDigits[std::to_integer<int>(bytes[i]) % 16];
  }
  return text;
}

::testing::AssertionResult equal(const Instruction& processor, const Instruction& emulated,
                                 const Operands& operands) {
  const Result expected = run(processor, operands), actual = run(emulated, operands);
  const auto* const place =
      std::mismatch(std::begin(expected.bytes), std::end(expected.bytes), std::begin(actual.bytes))
          .first;
  if (place == std::end(expected.bytes)) return ::testing::AssertionSuccess();
  const std::ptrdiff_t at = (place - expected.bytes) / 8 * 8;
  const auto operand_at = static_cast<std::size_t>(at % 64);
  return ::testing::AssertionFailure()
         << processor.name << ": bytes " << at << " to " << at + 7 << " are "
         << hexadecimal(expected.bytes + at, 8) << " in the processor, emulated "
         << hexadecimal(actual.bytes + at, 8) << "; there a "
         << hexadecimal(operands.a + operand_at, 8) << ", b "
         << hexadecimal(operands.b + operand_at, 8) << ", c "
         << hexadecimal(operands.c + operand_at, 8) << ", mask " << operands.mask;
}

class TileInstructions : public ::testing::Test {
 protected:
  void SetUp() override {
    if (tiles::detect() != 0) return;
    GTEST_SKIP() << "this processor has no matrix tiles (AMX with AVX512-FP16): the instructions "
                    "that kernels_emulated_test emulates are not compared with real ones here";
  }

  // Of both lists.
  std::pair<Instruction, Instruction> find(std::string_view name) const {
    const auto same = [&](const Instruction& each) { return each.name == name; };
    const auto place = std::find_if(processor_.begin(), processor_.end(), same);
    EXPECT_NE(place, processor_.end()) << name;
    const auto index = static_cast<std::size_t>(place - processor_.begin());
    return {processor_[index], emulated_[index]};
  }

  const std::vector<Instruction> processor_ = processor_instructions();
  const std::vector<Instruction> emulated_ = emulated_instructions();
};

TEST_F(TileInstructions, EmulatedEqualThoseOfTheProcessor) {
  ASSERT_EQ(processor_.size(), emulated_.size());
  ASSERT_GT(processor_.size(), 100u);
  Random random(kSeed);
  const int rounds = 20000 / visit_one_in(5, 40);
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    Operands operands;
    fill(random, operands.a, sizeof operands.a);
    // Operands that equal each other are a case of their own.
    if (random() % 8 == 0) {
      std::memcpy(operands.b, operands.a, sizeof operands.b);
    } else {
      fill(random, operands.b, sizeof operands.b);
    }
    fill(random, operands.c, sizeof operands.c);
    fill(random, operands.memory, sizeof operands.memory);
    operands.mask = random() % 8 == 0 ? ~std::uint64_t{0} : random() & random();
    for (std::size_t i = 0; i < processor_.size(); ++i) {
      ASSERT_EQ(processor_[i].name, emulated_[i].name);
      EXPECT_TRUE(equal(processor_[i], emulated_[i], operands))
          << "round " << round << " seed " << kSeed;
    }
  }
}

// Powers of two, some that are no integers, infinities, NaNs and zeros.
std::vector<std::uint16_t> powers() {
  std::vector<std::uint16_t> list = {0x0000, 0x8000, 0x0001, 0x8001, 0x7C00, 0xFC00,
                                     0x7E00, 0xFE01, 0x7D00, 0xFD01, 0x7BFF, 0xFBFF};
  const int step = visit_one_in(8, 64);
  for (int halves = -90; halves <= 90; halves += step) {
    list.push_back(arith::f16_from_f64(0.5 * halves));
  }
  return list;
}

TEST_F(TileInstructions, EveryHalfIsScaledAndRoundedAsInTheProcessor) {
  const auto [scale, emulated_scale] = find("scalef_ph");
  const auto [narrow, emulated_narrow] = find("cvtph_epi16");
  constexpr std::uint32_t kLanes = 32;
  Operands operands = {};
  for (std::uint32_t first = 0; first < 0x10000 && !HasFailure(); first += kLanes) {
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      put_number(static_cast<std::uint16_t>(first + i), operands.a + 2 * i);
    }
    EXPECT_TRUE(equal(narrow, emulated_narrow, operands));
    for (const std::uint16_t power : powers()) {
      for (std::uint32_t i = 0; i < kLanes; ++i) put_number(power, operands.b + 2 * i);
      EXPECT_TRUE(equal(scale, emulated_scale, operands));
    }
  }
}

}  // namespace
}  // namespace tessera::kernels::testing
