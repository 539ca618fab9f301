// Fast planar work against the obvious forms, bit for bit, over random work.

#include "arith/kernels/planar/planar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "arith/kernels/planar/element.h"
#include "arith/kernels/testing/reference_planar.h"
#include "arith/kernels/testing/surface.h"
#include "arith/rounding.h"
#include "arith/test_targets.h"
#include "base/test_volume.h"

namespace tessera {
namespace {

using testing::OwnedSurface;

constexpr unsigned kSeed = 20240612;

class Maker {
 public:
  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  bool one_in(std::int64_t n) { return pick(1, n) == 1; }
  std::mt19937& random() { return random_; }

  Format float_format() {
    const Format formats[] = {Format::kF16, Format::kF16, Format::kBf16, Format::kF32};
    return formats[pick(0, 3)];
  }
  Format integer_format() { return one_in(2) ? Format::kI8 : Format::kU8; }
  // Elements without a scale: integers of every width, truth values, f64.
  Format plain_format() {
    const Format formats[] = {Format::kBool, Format::kU8,  Format::kI8,  Format::kI16,
                              Format::kU16,  Format::kI32, Format::kU32, Format::kI64,
                              Format::kU64,  Format::kF64};
    return formats[pick(0, 9)];
  }
  Activation converter() {
    const Activation functions[] = {{},
                                    {UnaryFunction::kRelu, 0, 0},
                                    {UnaryFunction::kAbs, 0, 0},
                                    {UnaryFunction::kClip, -0.5f, 1.5f},
                                    {UnaryFunction::kScale, 0.3f, 0}};
    return functions[pick(0, 4)];
  }
  Affine affine() {
    return {true, 0.01f * static_cast<float>(pick(1, 300)), static_cast<std::int32_t>(pick(0, 60))};
  }

  OwnedSurface surface(Format format, std::int64_t channels, std::int64_t rows,
                       std::int64_t columns) {
    OwnedSurface owned = one_in(2)
                             ? testing::dense_surface(format, channels, rows, columns)
                             : testing::ring_surface(format, channels, rows, columns, random_);
    fill(owned.surface);
    return owned;
  }

  void fill(const Surface& surface) {
    std::normal_distribution<double> normal;
    const bool specials = one_in(4);
    for (std::int64_t c = 0; c < surface.channels; ++c) {
      for (std::int64_t h = 0; h < surface.rows; ++h) {
        for (std::int64_t w = 0; w < surface.columns; ++w) {
          double value = normal(random_) * std::exp2(normal(random_) * 3);
          if (format_is_integer(surface.format)) value = static_cast<double>(pick(-128, 255));
          if (one_in(10)) value = one_in(2) ? 0.0 : -0.0;
          arith::write_element(surface.format, value, surface.at(c, h, w));
          if (specials && format_is_float(surface.format) && one_in(20)) special(surface, c, h, w);
        }
      }
    }
  }

 private:
  void special(const Surface& surface, std::int64_t c, std::int64_t h, std::int64_t w) {
    const std::uint32_t bits[] = {0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC10000};
    const std::uint16_t halves[] = {0x7C00, 0xFC00, 0x7E00, 0xFE01};
    const auto which = static_cast<std::size_t>(pick(0, 3));
    const std::uint64_t value = surface.format == Format::kF16    ? halves[which]
                                : surface.format == Format::kBf16 ? bits[which] >> 16
                                                                  : bits[which];
    arith::write_bits(surface.format, value, surface.at(c, h, w));
  }

  std::mt19937 random_{kSeed};
};

void check_pools(int whole) {
  const int count = whole / visit_one_in(2, 8);
  Maker maker;
  for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
    PoolConfig config;
    const PoolFunction functions[] = {PoolFunction::kMaximum, PoolFunction::kMinimum,
                                      PoolFunction::kAverage, PoolFunction::kMedian};
    config.function = functions[maker.pick(0, 3)];
    config.window_h = maker.pick(1, 4);
    config.window_w = maker.pick(1, 4);
    config.stride_h = maker.pick(1, 3);
    config.stride_w = maker.pick(1, 3);
    config.dilation_h = maker.one_in(4) ? 2 : 1;
    config.dilation_w = maker.one_in(4) ? 2 : 1;
    config.pad_top = maker.pick(0, 2);
    config.pad_left = maker.pick(0, 2);
    config.pad_bottom = maker.pick(0, 2);
    config.pad_right = maker.pick(0, 2);
    config.include_padding = maker.one_in(2);
    const std::int64_t rows = maker.pick(1, 9);
    const std::int64_t columns = maker.one_in(4) ? maker.pick(500, 600) : maker.pick(1, 30);
    const auto outputs = [](std::int64_t padded, std::int64_t reach, std::int64_t stride) {
      return std::max<std::int64_t>(1, (padded - reach + stride - 1) / stride + 1);
    };
    const std::int64_t output_rows =
        outputs(rows + config.pad_top + config.pad_bottom,
                (config.window_h - 1) * config.dilation_h + 1, config.stride_h);
    const std::int64_t output_columns =
        outputs(columns + config.pad_left + config.pad_right,
                (config.window_w - 1) * config.dilation_w + 1, config.stride_w);
    Format in = maker.float_format();
    Format out = maker.one_in(6) ? maker.float_format() : in;
    if (maker.one_in(3)) {
      in = out = maker.integer_format();
      config.input = config.output = maker.affine();
      if (maker.one_in(2)) config.output = maker.affine();
    }
    if (!config.input.enabled && maker.one_in(2)) {
      config.before = maker.converter();
      config.after = maker.converter();
    }
    const std::int64_t channels = maker.pick(1, 5);
    OwnedSurface input = maker.surface(in, channels, rows, columns);
    OwnedSurface expected = testing::dense_surface(out, channels, output_rows, output_columns);
    OwnedSurface actual =
        testing::ring_surface(out, channels, output_rows, output_columns, maker.random());
    reference_pool(config, input.surface, expected.surface);
    const std::int64_t cut = maker.pick(0, output_rows);
    pool(config, input.surface, actual.surface, {0, channels}, {0, cut});
    pool(config, input.surface, actual.surface, {0, channels}, {cut, output_rows});
    EXPECT_EQ(testing::first_difference(expected.surface, actual.surface), "")
        << "seed " << kSeed << ", work " << i << " function " << pool_function_name(config.function)
        << " formats " << format_name(in) << " " << format_name(out) << " rows " << rows
        << " columns " << columns;
  }
}

// Converters are an element-wise pass in front and one behind.
TEST(Pool, ConvertersHaveTheBitsOfPassesOfTheirOwn) {
  Maker maker;
  for (int i = 0; i < 60 && !HasFailure(); ++i) {
    PoolConfig config;
    config.function = static_cast<PoolFunction>(maker.pick(0, 3));
    config.window_h = config.window_w = 3;
    config.stride_h = config.stride_w = 2;
    config.pad_top = config.pad_left = 1;
    config.include_padding = maker.one_in(2);
    config.before = maker.converter();
    config.after = maker.converter();
    const Format format = maker.float_format();
    OwnedSurface input = maker.surface(format, 3, 9, 11);
    OwnedSurface first = testing::dense_surface(format, 3, 9, 11);
    OwnedSurface second = testing::dense_surface(format, 3, 4, 5);
    OwnedSurface expected = testing::dense_surface(format, 3, 4, 5);
    OwnedSurface actual = testing::dense_surface(format, 3, 4, 5);
    ElementwiseConfig before, after;
    before.activation = config.before;
    after.activation = config.after;
    PoolConfig bare = config;
    bare.before = bare.after = {};
    // The identity would round infinities; a converter that is none leaves elements as they are.
    const bool converts = config.before != Activation{};
    if (converts) elementwise(before, input.surface, nullptr, first.surface, {0, 3}, {0, 9});
    pool(bare, converts ? first.surface : input.surface, second.surface, {0, 3}, {0, 4});
    elementwise(after, second.surface, nullptr, expected.surface, {0, 3}, {0, 4});
    pool(config, input.surface, actual.surface, {0, 3}, {0, 1});
    pool(config, input.surface, actual.surface, {0, 3}, {1, 4});
    EXPECT_EQ(testing::first_difference(expected.surface, actual.surface), "")
        << "seed " << kSeed << ", work " << i << " " << pool_function_name(config.function) << " "
        << unary_function_name(config.before.function) << " "
        << unary_function_name(config.after.function) << " " << format_name(format);
  }
}

// A surface whose rows, columns or channels may be broadcast.
OwnedSurface broadcast(Maker& maker, Format format, const Surface& like) {
  const bool channels = maker.one_in(3);
  const bool rows = maker.one_in(3);
  const bool columns = maker.one_in(3);
  OwnedSurface owned = maker.surface(format, channels ? 1 : like.channels, rows ? 1 : like.rows,
                                     columns ? 1 : like.columns);
  Surface& s = owned.surface;
  if (channels) s.partition_pitch = s.block_pitch = 0;
  if (rows) {
    // One row for all: the ring turns in place.
    s.base += (s.row_origin % s.ring_rows) * s.row_pitch;
    s.row_pitch = 0;
    s.row_origin = 0;
    s.ring_rows = like.rows;
  }
  if (columns) s.column_pitch = 0;
  s.channels = like.channels;
  s.rows = like.rows;
  s.columns = like.columns;
  return owned;
}

TEST(Pool, EqualsTheObviousForm) { check_pools(800); }

double median_of(const std::vector<double>& elements) {
  PoolConfig config;
  config.function = PoolFunction::kMedian;
  config.window_w = std::ssize(elements);
  OwnedSurface input = testing::dense_surface(Format::kF16, 1, 1, std::ssize(elements));
  OwnedSurface output = testing::dense_surface(Format::kF16, 1, 1, 1);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    arith::write_element(Format::kF16, elements[i],
                         input.surface.at(0, 0, static_cast<std::int64_t>(i)));
  }
  pool(config, input.surface, output.surface, {0, 1}, {0, 1});
  return arith::read_element(Format::kF16, output.surface.at(0, 0, 0));
}

TEST(Pool, AMedianIsTheMiddleElement) {
  EXPECT_EQ(median_of({5, -1, 3}), 3);
  EXPECT_EQ(median_of({4, 1, 3, 2}), 2);  // the lower of 2 and 3
  EXPECT_EQ(median_of({7, 7, 1}), 7);
  EXPECT_TRUE(std::signbit(median_of({0.0, -0.0, 1, -1})));
  EXPECT_FALSE(std::signbit(median_of({0.0, -0.0, 0.0})));
  EXPECT_TRUE(std::isnan(median_of({1, NAN, 2})));
}

TEST(Pool, EveryInstructionSetGivesTheSameBits) {
  arith::for_each_target([](const std::string& target) {
    SCOPED_TRACE(target);
    check_pools(100);
  });
}

TEST(Elementwise, EqualsTheObviousForm) {
  Maker maker;
  const int count = 800 / visit_one_in(2, 8);
  for (int i = 0; i < count && !HasFailure(); ++i) {
    ElementwiseConfig config;
    config.binary = maker.one_in(2);
    config.function = static_cast<BinaryFunction>(maker.pick(0, kBinaryFunctionCount - 1));
    if (maker.one_in(2)) config.activation.function = UnaryFunction::kRelu;
    if (maker.one_in(3)) config.activation = {UnaryFunction::kHardSwish, 1.0f / 6, 0.5f};
    Format formats[3] = {maker.float_format(), maker.float_format(), maker.float_format()};
    if (maker.one_in(2)) formats[1] = formats[2] = formats[0];
    for (int operand = 0; operand < 2; ++operand) {
      if (!maker.one_in(3)) continue;
      formats[operand] = maker.integer_format();
      config.inputs[operand] = maker.affine();
    }
    if (maker.one_in(3)) {
      formats[2] = maker.integer_format();
      config.output = maker.affine();
    }
    for (int end = 0; end < 3; ++end) {
      if (format_is_vector(formats[end]) && maker.one_in(4)) formats[end] = maker.plain_format();
    }
    const std::int64_t channels = maker.pick(1, 6);
    const std::int64_t rows = maker.pick(1, 6);
    const std::int64_t columns = maker.one_in(4) ? maker.pick(1000, 1100) : maker.pick(1, 40);
    OwnedSurface expected = testing::dense_surface(formats[2], channels, rows, columns);
    OwnedSurface actual = maker.surface(formats[2], channels, rows, columns);
    OwnedSurface a = broadcast(maker, formats[0], expected.surface);
    OwnedSurface b = broadcast(maker, formats[1], expected.surface);
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t h = 0; h < rows; ++h) {
        for (std::int64_t w = 0; w < columns; ++w) {
          const auto read = [&](const Surface& s) {
            return ReferenceElement{arith::read_element(s.format, s.at(c, h, w)), s.format};
          };
          arith::write_element(
              formats[2],
              reference_elementwise(config, read(a.surface), read(b.surface), formats[2]),
              expected.surface.at(c, h, w));
        }
      }
    }
    const std::int64_t cut = maker.pick(0, rows);
    const Surface* second = config.binary ? &b.surface : nullptr;
    elementwise(config, a.surface, second, actual.surface, {0, channels}, {0, cut});
    elementwise(config, a.surface, second, actual.surface, {0, channels}, {cut, rows});
    EXPECT_EQ(testing::first_difference(expected.surface, actual.surface), "")
        << "seed " << kSeed << ", work " << i << " binary " << config.binary << " "
        << binary_function_name(config.function) << " "
        << unary_function_name(config.activation.function) << " " << format_name(formats[0]) << " "
        << format_name(formats[1]) << " " << format_name(formats[2]);
  }
}

// The product as a surface, then the sum and what follows it.
void in_two_passes(const ElementwiseConfig& config, const Surface (&operands)[3],
                   const Surface& output) {
  OwnedSurface product =
      testing::dense_surface(config.gain_format, output.channels, output.rows, output.columns);
  ElementwiseConfig scale, sum;
  scale.binary = sum.binary = true;
  scale.function = BinaryFunction::kMultiply;
  scale.inputs[0] = config.inputs[0];
  scale.inputs[1] = config.inputs[1];
  sum.activation = config.activation;
  sum.output = config.output;
  const ChannelRange channels{0, output.channels};
  elementwise(scale, operands[0], &operands[1], product.surface, channels, {0, output.rows});
  elementwise(sum, product.surface, &operands[2], output, channels, {0, output.rows});
}

TEST(GainBias, HasTheBitsOfAProductAndASum) {
  Maker maker;
  const int count = 400 / visit_one_in(2, 8);
  for (int i = 0; i < count && !HasFailure(); ++i) {
    ElementwiseConfig config;
    config.gain_format = maker.float_format();
    if (maker.one_in(2)) config.activation.function = UnaryFunction::kRelu;
    Format formats[4] = {maker.float_format(), maker.float_format(), maker.float_format(),
                         maker.float_format()};
    for (int operand = 0; operand < 2; ++operand) {
      if (!maker.one_in(4)) continue;
      formats[operand] = maker.integer_format();
      config.inputs[operand] = maker.affine();
    }
    if (maker.one_in(4)) {
      formats[3] = maker.integer_format();
      config.output = maker.affine();
    }
    const std::int64_t channels = maker.pick(1, 6);
    const std::int64_t rows = maker.pick(1, 6);
    const std::int64_t columns = maker.one_in(4) ? maker.pick(2040, 2060) : maker.pick(1, 40);
    OwnedSurface expected = testing::dense_surface(formats[3], channels, rows, columns);
    OwnedSurface actual = maker.surface(formats[3], channels, rows, columns);
    OwnedSurface x = maker.surface(formats[0], channels, rows, columns);
    OwnedSurface gain = broadcast(maker, formats[1], expected.surface);
    OwnedSurface bias = broadcast(maker, formats[2], expected.surface);
    const Surface operands[3] = {x.surface, gain.surface, bias.surface};
    in_two_passes(config, operands, expected.surface);
    const std::int64_t cut = maker.pick(0, rows);
    gain_bias(config, operands, actual.surface, {0, channels}, {0, cut});
    gain_bias(config, operands, actual.surface, {0, channels}, {cut, rows});
    EXPECT_EQ(testing::first_difference(expected.surface, actual.surface), "")
        << "seed " << kSeed << ", work " << i << " " << format_name(formats[0]) << " "
        << format_name(formats[1]) << " " << format_name(formats[2]) << " "
        << format_name(formats[3]) << " product " << format_name(config.gain_format);
  }
}

// 1 + 2^-10 squared is 1 + 2^-9 + 2^-20; f16 has no such number, so with -1 - 2^-9 behind it two
// roundings to f16 leave nothing, and a product in f32 leaves 2^-20.
TEST(GainBias, RoundsTheProductToo) {
  const double number = 1 + 0x1p-10;
  std::byte x[2], bias[2], y[2];
  arith::write_element(Format::kF16, number, x);
  arith::write_element(Format::kF16, -1.0 - 0x1p-9, bias);
  const arith::Operand operands[3] = {
      {Format::kF16, x, 1}, {Format::kF16, x, 1}, {Format::kF16, bias, 1}};
  gain_bias_run({}, operands, {.format = Format::kF16, .data = y, .count = 1});
  EXPECT_EQ(arith::read_element(Format::kF16, y), 0.0);
  ElementwiseConfig wide;
  wide.gain_format = Format::kF32;
  gain_bias_run(wide, operands, {.format = Format::kF16, .data = y, .count = 1});
  EXPECT_EQ(arith::read_element(Format::kF16, y), 0x1p-20);
}

// All pairs of 8-bit operands. Scales of which one is a half of another give quotients on ties.
void check_affine_pairs(const ElementwiseConfig& config, Format format) {
  constexpr std::int64_t kNumbers = 256;
  std::vector<std::byte> numbers(kNumbers), results(kNumbers);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::byte>(i);
  const auto step = static_cast<std::size_t>(visit_one_in(1, 17));
  for (std::size_t i = 0; i < numbers.size(); i += step) {
    const arith::Operand a = {.format = format, .data = numbers.data(), .stride = 1};
    const arith::Operand b = {.format = format, .data = &numbers[i], .stride = 0};
    elementwise_run(config, a, &b, {.format = format, .data = results.data(), .count = kNumbers});
    for (std::size_t j = 0; j < numbers.size(); ++j) {
      const double expected =
          reference_elementwise(config, {arith::read_element(format, &numbers[j]), format},
                                {arith::read_element(format, &numbers[i]), format}, format);
      ASSERT_EQ(arith::read_element(format, &results[j]), expected)
          << format_name(format) << " " << binary_function_name(config.function) << " " << j << " "
          << i << " scales " << config.inputs[0].scale << " " << config.inputs[1].scale << " "
          << config.output.scale;
    }
  }
}

void check_affine_functions() {
  const float scales[] = {0.25f, 0.5f, 0.0123f, 1.7f, 0x1p-30f};
  for (const BinaryFunction function :
       {BinaryFunction::kAdd, BinaryFunction::kSubtract, BinaryFunction::kMultiply}) {
    for (int i = 0; i < 5; ++i) {
      for (const Format format : {Format::kI8, Format::kU8}) {
        ElementwiseConfig config;
        config.binary = true;
        config.function = function;
        if (i % 2 == 0) config.activation.function = UnaryFunction::kRelu;
        config.inputs[0] = {true, scales[i], 7 * i};
        config.inputs[1] = {true, scales[(i + 1) % 5], -3 * i};
        config.output = {true, scales[(i + 2) % 5], 11 * i};
        check_affine_pairs(config, format);
        config.output.scale = config.inputs[1].scale;
        check_affine_pairs(config, format);
      }
    }
  }
}

TEST(Elementwise, AffinePairsEqualTheObviousFormOnEveryInstructionSet) {
  arith::for_each_target([](const std::string& target) {
    SCOPED_TRACE(target);
    check_affine_functions();
  });
}

void check_reductions(int whole) {
  const int count = whole / visit_one_in(2, 8);
  Maker maker;
  for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
    ReduceConfig config;
    config.function = static_cast<ReduceFunction>(maker.pick(0, kReduceFunctionCount - 1));
    config.over_rows = maker.one_in(2);
    config.over_columns = maker.one_in(2);
    if (maker.one_in(4)) config.activation.function = UnaryFunction::kSquareRoot;
    Format in = maker.float_format();
    Format out = maker.one_in(4) ? maker.float_format() : in;
    if (maker.one_in(4)) {
      in = maker.integer_format();
      config.input = maker.affine();
    }
    if (maker.one_in(4)) {
      out = maker.integer_format();
      config.output = maker.affine();
    }
    const std::int64_t channels = maker.pick(1, maker.one_in(4) ? 70 : 4);
    OwnedSurface input = maker.surface(in, channels, maker.pick(1, 8),
                                       maker.one_in(4) ? maker.pick(200, 300) : maker.pick(1, 20));
    const Surface& x = input.surface;
    OwnedSurface expected = testing::dense_surface(out, channels, config.over_rows ? 1 : x.rows,
                                                   config.over_columns ? 1 : x.columns);
    OwnedSurface actual = testing::ring_surface(out, channels, expected.surface.rows,
                                                expected.surface.columns, maker.random());
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t h = 0; h < expected.surface.rows; ++h) {
        for (std::int64_t w = 0; w < expected.surface.columns; ++w) {
          std::vector<double> elements;
          for (std::int64_t y = 0; y < x.rows; ++y) {
            for (std::int64_t z = 0; z < x.columns; ++z) {
              if (!config.over_rows && y != h) continue;
              if (!config.over_columns && z != w) continue;
              elements.push_back(arith::read_element(in, x.at(c, y, z)));
            }
          }
          arith::write_element(out, reduced_element(config, in, elements, out),
                               expected.surface.at(c, h, w));
        }
      }
    }
    reduce(config, x, actual.surface, {0, channels}, {0, expected.surface.rows});
    EXPECT_EQ(testing::first_difference(expected.surface, actual.surface), "")
        << "seed " << kSeed << ", work " << i << " " << reduce_function_name(config.function) << " "
        << format_name(in) << " " << format_name(out);
  }
}

TEST(Reduce, EqualsTheObviousForm) { check_reductions(800); }

// Results of a few elements each, as those of a softmax over few classes.
TEST(Reduce, FewElementsOfManyChannelsEqualTheObviousForm) {
  Maker maker;
  for (const Format format : {Format::kF16, Format::kF32}) {
    for (const ReduceFunction function :
         {ReduceFunction::kSum, ReduceFunction::kMaximum, ReduceFunction::kMinimum}) {
      for (std::int64_t count = 1; count <= 17; ++count) {
        ReduceConfig config;
        config.function = function;
        config.over_columns = true;
        if (count % 3 == 0) config.activation.function = UnaryFunction::kReciprocal;
        constexpr std::int64_t kChannels = 70;
        OwnedSurface input = testing::dense_surface(format, kChannels, 1, count);
        maker.fill(input.surface);
        OwnedSurface expected = testing::dense_surface(format, kChannels, 1, 1);
        OwnedSurface actual = testing::dense_surface(format, kChannels, 1, 1);
        for (std::int64_t c = 0; c < kChannels; ++c) {
          std::vector<double> elements;
          for (std::int64_t w = 0; w < count; ++w) {
            elements.push_back(arith::read_element(format, input.surface.at(c, 0, w)));
          }
          arith::write_element(format, reduced_element(config, format, elements, format),
                               expected.surface.at(c, 0, 0));
        }
        reduce(config, input.surface, actual.surface, {0, kChannels}, {0, 1});
        EXPECT_EQ(testing::first_difference(expected.surface, actual.surface), "")
            << reduce_function_name(function) << " of " << count << " " << format_name(format);
      }
    }
  }
}

TEST(Reduce, EveryInstructionSetGivesTheSameBits) {
  arith::for_each_target([](const std::string& target) {
    SCOPED_TRACE(target);
    check_reductions(200);
  });
}

}  // namespace
}  // namespace tessera
