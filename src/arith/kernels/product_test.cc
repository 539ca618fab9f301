// Fast products against the obvious ones, bit for bit, over random work.

#include "arith/kernels/product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "arith/kernels/make_product.h"
#include "arith/kernels/product_parts.h"
#include "arith/kernels/testing/reference_product.h"
#include "arith/kernels/testing/surface.h"
#include "arith/rounding.h"
#include "arith/test_targets.h"
#include "arith/wide_sum.h"
#include "base/test_volume.h"

namespace tessera {
namespace {

using testing::OwnedSurface;

constexpr unsigned kSeed = 20240611;

// A product with everything it needs.
struct Work {
  ProductConfig config;
  ProductVectors vectors;
  std::vector<std::byte> oihw;
  Format moving = Format::kF16;
  std::int64_t channels = 1, rows = 1, columns = 1;  // of the input
  std::int64_t output_rows = 1, output_columns = 1;
  double spread = 3;      // of the exponents
  bool specials = false;  // NaN, infinities
  std::string describe() const;
};

std::string Work::describe() const {
  const ProductConfig& c = config;
  const auto text = [](const char* name, auto value) {
    return std::string(" ") + name + "=" + std::to_string(value);
  };
  return "kind" + text("matrix", static_cast<int>(c.matrix.kind)) +
         text("N", c.matrix.native_dimension) + text("mx", c.matrix.mantissa_bits_moving) +
         text("mw", c.matrix.mantissa_bits_stationary) +
         text("long", static_cast<int>(c.matrix.long_format)) +
         text("ex", static_cast<int>(c.matrix.element_moving)) +
         text("ew", static_cast<int>(c.matrix.element_stationary)) +
         text("scale", static_cast<int>(c.matrix.micro_scale)) +
         text("channel_wise", c.image.channel_wise) + text("cut", static_cast<int>(c.image.cut)) +
         text("groups", c.image.groups) + text("channels", c.image.channels) +
         text("outputs", c.image.output_channels) + text("kh", c.kernel_h) +
         text("kw", c.kernel_w) + text("sh", c.stride_h) + text("sw", c.stride_w) +
         text("pt", c.pad_top) + text("pl", c.pad_left) + text("dh", c.dilation_h) +
         text("dw", c.dilation_w) + text("ih", c.input_dilation_h) +
         text("iw", c.input_dilation_w) + text("rows", rows) + text("columns", columns) +
         text("out_rows", output_rows) + text("out_columns", output_columns) +
         text("moving", static_cast<int>(moving)) + text("spread", spread);
}

class WorkMaker {
 public:
  explicit WorkMaker(unsigned seed) : random_(seed) {}
  std::mt19937& random() { return random_; }
  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  bool one_in(std::int64_t n) { return pick(1, n) == 1; }

  Work make(MatrixKind kind, bool channel_wise) {
    Work work;
    ProductConfig& c = work.config;
    c.matrix.kind = kind;
    geometry(work, channel_wise);
    if (kind == MatrixKind::kInteger) {
      integers(work);
    } else {
      floats(work);
    }
    fill_operands(work);
    return work;
  }

  // 8-bit weights as networks have them: most near the zero point, few that are not.
  void narrow_weights(Work& work) {
    const KernelImageShape& image = work.config.image;
    const std::int64_t lowest = image.format == Format::kI8 ? -128 : 0;
    std::normal_distribution<double> normal(0.0, static_cast<double>(pick(4, 40)));
    for (std::int64_t i = 0; i < std::ssize(work.oihw); ++i) {
      const std::int64_t oc = i / (image.channels * image.taps);
      const std::int32_t zero_point =
          kernels::vector_element(work.vectors.stationary_zero_points, oc, 0);
      std::int64_t weight = zero_point + std::llround(normal(random_));
      if (one_in(40)) weight = pick(lowest, lowest + 255);
      if (one_in(200)) weight = one_in(2) ? lowest : lowest + 255;
      work.oihw[static_cast<std::size_t>(i)] =
          static_cast<std::byte>(std::clamp<std::int64_t>(weight, lowest, lowest + 255));
    }
  }

  void fill(Format format, double spread, bool specials, std::byte* elements, std::int64_t count) {
    std::normal_distribution<double> normal;
    for (std::int64_t i = 0; i < count; ++i) {
      double value = normal(random_) * std::exp2(normal(random_) * spread);
      if (one_in(4)) value = 0;
      if (format_is_integer(format)) {
        value =
            static_cast<double>(format_bytes(format) == 2 ? pick(-32768, 65535) : pick(-128, 255));
      }
      arith::write_element(format, value, elements + i * format_bytes(format));
      if (specials && one_in(50)) {
        const double special = one_in(2) ? NAN : INFINITY;
        std::uint64_t bits = arith::round_to(Format::kF32, special);
        if (format == Format::kF16) bits = std::isnan(special) ? 0xFE01 : 0xFC00;
        if (format == Format::kBf16) bits >>= 16;
        arith::write_bits(format, bits, elements + i * format_bytes(format));
      }
    }
  }

 private:
  void geometry(Work& work, bool channel_wise) {
    ProductConfig& c = work.config;
    c.kernel_h = one_in(3) ? 1 : pick(1, 4);
    c.kernel_w = one_in(3) ? 1 : pick(1, 5);
    if (one_in(4)) c.kernel_h = c.kernel_w = 1;
    c.stride_h = pick(1, 3);
    c.stride_w = pick(1, 3);
    c.dilation_h = one_in(4) ? 2 : 1;
    c.dilation_w = one_in(4) ? 3 : 1;
    if (one_in(5)) {
      c.input_dilation_h = pick(1, 4);
      c.input_dilation_w = pick(1, 5);
      c.stride_h = one_in(3) ? 2 : 1;
      c.stride_w = one_in(3) ? 2 : 1;
    }
    work.rows = pick(1, 9);
    work.columns = one_in(3) ? pick(1, 80) : pick(1, 20);
    c.pad_top = pick(-1, 3);
    c.pad_left = pick(-1, 4);
    const auto outputs = [&](std::int64_t extent, std::int64_t kernel, std::int64_t stride,
                             std::int64_t dilation, std::int64_t input_dilation, std::int64_t pad) {
      const std::int64_t padded = (extent - 1) * input_dilation + 1 + pad + pick(0, 3);
      return std::max<std::int64_t>(1, (padded - ((kernel - 1) * dilation + 1)) / stride + 1);
    };
    work.output_rows =
        outputs(work.rows, c.kernel_h, c.stride_h, c.dilation_h, c.input_dilation_h, c.pad_top);
    work.output_columns =
        outputs(work.columns, c.kernel_w, c.stride_w, c.dilation_w, c.input_dilation_w, c.pad_left);
    KernelImageShape& image = c.image;
    image.taps = c.kernel_h * c.kernel_w;
    image.channel_wise = channel_wise;
    image.cut = one_in(2) ? BlockCut::kChannel : BlockCut::kIm2col;
    image.groups = one_in(4) ? pick(2, 4) : 1;
    image.channels = one_in(4) ? pick(1, 150) : pick(1, 24);
    image.output_channels = one_in(4) ? pick(1, 30) : pick(1, 9);
    if (channel_wise) {
      image.groups = pick(1, 9);
      image.channels = 1;
      image.output_channels = one_in(4) ? 2 : 1;
    }
    image.rows = one_in(2) ? 128 : 8;
    image.columns = one_in(2) ? 64 : 4;
    work.channels = image.groups * image.channels;
  }

  void floats(Work& work) {
    ProductConfig& c = work.config;
    const Format formats[] = {Format::kF16, Format::kF16, Format::kBf16, Format::kF32};
    work.moving = c.image.format = c.output_format = c.bias_format = formats[pick(0, 3)];
    const int dimensions[] = {16, 32, 64, 128};
    c.matrix.native_dimension = dimensions[pick(0, 3)];
    c.matrix.mantissa_bits_moving = one_in(2) ? 11 : static_cast<int>(pick(2, 15));
    c.matrix.mantissa_bits_stationary = one_in(2) ? 11 : static_cast<int>(pick(2, 15));
    if (one_in(3)) c.matrix.long_format = LongFormat::kQ34_40;
    c.matrix.element_moving = static_cast<MicroElement>(pick(0, kMicroElementCount - 1));
    c.matrix.element_stationary = one_in(3)
                                      ? static_cast<MicroElement>(pick(0, kMicroElementCount - 1))
                                      : c.matrix.element_moving;
    c.matrix.micro_scale = static_cast<MicroScale>(pick(0, 2));
    c.has_bias = one_in(2);
    if (one_in(3)) c.activation.function = UnaryFunction::kRelu;
    if (one_in(6)) c.activation = {UnaryFunction::kHardSwish, 1.0f / 6, 0.5f};
    if (one_in(8)) work.spread = 12;
    work.specials = one_in(10);
  }

  void integers(Work& work) {
    ProductConfig& c = work.config;
    work.moving = one_in(2) ? Format::kI8 : Format::kU8;
    c.image.format = one_in(2) ? Format::kI8 : Format::kU8;
    c.has_bias = one_in(2);
    c.bias_format = Format::kI32;
    c.requantise = !one_in(4);
    c.output_format = Format::kI32;
    const std::int64_t outputs = c.image.groups * c.image.output_channels;
    if (c.requantise) {
      c.output_format = one_in(2) ? Format::kI8 : Format::kU8;
      c.output_zero_point = static_cast<std::int32_t>(pick(0, 100));
      if (one_in(2)) {
        c.clamp_low = 3;
        c.clamp_high = 90;
      }
      for (std::int64_t i = 0; i < (one_in(2) ? 1 : outputs); ++i) {
        work.vectors.multipliers.push_back(0.0001f * static_cast<float>(pick(1, 100)));
      }
      if (work.vectors.multipliers.size() > 1) {
        work.vectors.multipliers.resize(static_cast<std::size_t>(outputs), 0.001f);
      }
    }
    const bool is_signed = work.moving == Format::kI8;
    c.moving_zero_point = static_cast<std::int32_t>(is_signed ? pick(-128, 127) : pick(0, 255));
    const bool many = one_in(2);
    for (std::int64_t i = 0; i < (many ? outputs : 1); ++i) {
      work.vectors.stationary_zero_points.push_back(static_cast<std::int32_t>(
          c.image.format == Format::kI8 ? pick(-128, 127) : pick(0, 255)));
    }
  }

  void fill_operands(Work& work) {
    ProductConfig& c = work.config;
    const std::int64_t outputs = c.image.groups * c.image.output_channels;
    const std::int64_t count = outputs * c.image.channels * c.image.taps;
    work.oihw.resize(static_cast<std::size_t>(count * format_bytes(c.image.format)));
    fill(c.image.format, work.spread, work.specials, work.oihw.data(), count);
    if (c.has_bias) {
      work.vectors.bias.resize(static_cast<std::size_t>(outputs * format_bytes(c.bias_format)));
      fill(c.bias_format, work.spread, work.specials, work.vectors.bias.data(), outputs);
    }
  }

  std::mt19937 random_;
};

// Integers of 8 and 16 bits in all pairs but two of 8; sums wrap around.
Work in_halves(WorkMaker& maker) {
  Work work = maker.make(MatrixKind::kInteger, false);
  ProductConfig& c = work.config;
  const Format formats[] = {Format::kI8, Format::kU8, Format::kI16, Format::kU16};
  do {
    work.moving = c.moving_format = formats[maker.pick(0, 3)];
    c.image.format = formats[maker.pick(0, 3)];
  } while (format_bytes(work.moving) + format_bytes(c.image.format) == 2);
  const auto point = [&](Format format) {
    const bool is_signed = format == Format::kI8 || format == Format::kI16;
    const std::int32_t most = format_bytes(format) == 2 ? 65535 : 255;
    return static_cast<std::int32_t>(maker.pick(0, most)) - (is_signed ? (most + 1) / 2 : 0);
  };
  c.moving_zero_point = point(work.moving);
  for (std::int32_t& zero : work.vectors.stationary_zero_points) zero = point(c.image.format);
  if (c.requantise && maker.one_in(2)) {
    c.output_format = maker.one_in(2) ? Format::kI16 : Format::kU16;
  }
  work.oihw.resize(static_cast<std::size_t>(c.image.groups * c.image.output_channels *
                                            c.image.channels * c.image.taps *
                                            format_bytes(c.image.format)));
  maker.fill(c.image.format, 1, false, work.oihw.data(),
             std::ssize(work.oihw) / format_bytes(c.image.format));
  return work;
}

std::shared_ptr<const Product> prepare(const Work& work) {
  const std::vector<std::byte> image = make_kernel_image(work.config.image, work.oihw.data());
  return make_product(work.config, {image.data(), work.config.image.bytes_per_partition()},
                      work.vectors);
}

// Runs output rows in random pieces.
void run_in_pieces(const Product& product, const Surface& input, const Surface& output,
                   std::mt19937& random, ProductWorkspace& workspace) {
  for (std::int64_t first = 0; first < output.rows;) {
    const auto last =
        std::min<std::int64_t>(output.rows, first + 1 + static_cast<std::int64_t>(random() % 4));
    product.run(input, output, 0, {first, last}, workspace);
    first = last;
  }
}

// Returns how many elements took the wide accumulator.
std::int64_t check(const Work& work, WorkMaker& maker) {
  SCOPED_TRACE(work.describe());
  const std::int64_t outputs = work.config.image.groups * work.config.image.output_channels;
  OwnedSurface input = testing::dense_surface(work.moving, work.channels, work.rows, work.columns);
  maker.fill(work.moving, work.spread, work.specials, input.memory.data(),
             work.channels * work.rows * work.columns);
  const Format format = work.config.output_format;
  OwnedSurface expected =
      testing::dense_surface(format, outputs, work.output_rows, work.output_columns);
  arith::StickyFlags flags;
  reference_product(work.config, {work.oihw.data(), work.vectors}, input.surface, expected.surface,
                    flags);

  const auto product = prepare(work);
  const auto workspace = make_product_workspace();
  OwnedSurface dense =
      testing::dense_surface(format, outputs, work.output_rows, work.output_columns);
  product->run(input.surface, dense.surface, 0, {0, work.output_rows}, *workspace);
  EXPECT_EQ(testing::first_difference(expected.surface, dense.surface), "") << "whole";

  OwnedSurface ring =
      testing::ring_surface(work.moving, work.channels, work.rows, work.columns, maker.random());
  testing::copy_surface(input.surface, ring.surface);
  OwnedSurface ring_output =
      testing::ring_surface(format, outputs, work.output_rows, work.output_columns, maker.random());
  const bool pass = maker.one_in(2);
  if (pass) begin_row_pass(*workspace);
  run_in_pieces(*product, ring.surface, ring_output.surface, maker.random(), *workspace);
  if (pass) end_row_pass(*workspace);
  EXPECT_EQ(testing::first_difference(expected.surface, ring_output.surface), "") << "pieces";
  return take_wide_elements(*workspace);
}

void check_many(MatrixKind kind, bool channel_wise, int whole) {
  const int count = whole / visit_one_in(2, 12);
  WorkMaker maker(kSeed + static_cast<unsigned>(kind) * 2 + (channel_wise ? 1 : 0));
  for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", work " + std::to_string(i));
    check(maker.make(kind, channel_wise), maker);
  }
}

TEST(Product, BlockFloatEqualsTheObviousForm) { check_many(MatrixKind::kBlockFloat, false, 1200); }
TEST(Product, IntegersEqualTheObviousForm) { check_many(MatrixKind::kInteger, false, 500); }
TEST(Product, FloatsEqualTheObviousForm) { check_many(MatrixKind::kFloat, false, 500); }
TEST(Product, MicroscalingEqualsTheObviousForm) {
  check_many(MatrixKind::kMicroscaling, false, 900);
}
TEST(Product, ChannelWiseFloatsEqualTheObviousForm) {
  check_many(MatrixKind::kBlockFloat, true, 400);
}
TEST(Product, ChannelWiseIntegersEqualTheObviousForm) {
  check_many(MatrixKind::kInteger, true, 300);
}

// As in resizes by whole factors, on every instruction set.
TEST(Product, ChannelWiseSamplesThatLieApartEqualTheObviousForm) {
  arith::for_each_target([](const std::string& target) {
    WorkMaker maker(kSeed);
    for (int i = 0; i < 60 && !::testing::Test::HasFailure(); ++i) {
      SCOPED_TRACE(target + ", work " + std::to_string(i));
      Work work = maker.make(i % 3 == 0 ? MatrixKind::kInteger : MatrixKind::kBlockFloat, true);
      ProductConfig& c = work.config;
      c.stride_h = c.stride_w = 1;
      c.input_dilation_h = 1 + i % 4;
      c.input_dilation_w = 1 + i / 4 % 5;
      work.output_rows = work.rows * c.input_dilation_h;
      work.output_columns = work.columns * c.input_dilation_w;
      check(work, maker);
    }
  });
}

TEST(Product, HalvesOf16BitsAreMergedToTheSumOfTheWhole) {
  WorkMaker maker(kSeed);
  for (int i = 0; i < 150 && !::testing::Test::HasFailure(); ++i) check(in_halves(maker), maker);
}

// The energies by hand, element by element, from what the obvious product reads.
double energy(const Work& work, const Surface& x, std::int64_t group, std::int64_t row,
              std::int64_t column) {
  const ProductConfig& c = work.config;
  arith::ElementSum sum(x.format);
  for (std::int64_t ky = 0; ky < c.kernel_h; ++ky) {
    for (std::int64_t kx = 0; kx < c.kernel_w; ++kx) {
      const std::int64_t y = row * c.stride_h + ky * c.dilation_h - c.pad_top;
      const std::int64_t z = column * c.stride_w + kx * c.dilation_w - c.pad_left;
      if (y < 0 || z < 0 || y % c.input_dilation_h != 0 || z % c.input_dilation_w != 0) continue;
      if (y / c.input_dilation_h >= x.rows || z / c.input_dilation_w >= x.columns) continue;
      for (std::int64_t k = group * c.image.channels; k < (group + 1) * c.image.channels; ++k) {
        sum.add_square(
            arith::read_element(x.format, x.at(k, y / c.input_dilation_h, z / c.input_dilation_w)));
      }
    }
  }
  return sum.sum(Format::kF64);
}

double weight_energy(const Work& work, std::int64_t channel) {
  const KernelImageShape& image = work.config.image;
  const std::int64_t element = format_bytes(image.format);
  arith::ElementSum sum(image.format);
  for (std::int64_t tap = 0; tap < image.taps; ++tap) {
    for (std::int64_t k = 0; k < image.channels; ++k) {
      sum.add_square(arith::read_element(
          image.format,
          work.oihw.data() + ((channel * image.channels + k) * image.taps + tap) * element));
    }
  }
  return sum.sum(Format::kF64);
}

void check_correlation(Work work, WorkMaker& maker) {
  SCOPED_TRACE(work.describe());
  ProductConfig& c = work.config;
  c.has_bias = false;
  c.activation = {};
  work.vectors = {};
  const std::int64_t outputs = c.image.groups * c.image.output_channels;
  OwnedSurface input = testing::dense_surface(work.moving, work.channels, work.rows, work.columns);
  maker.fill(work.moving, work.spread, work.specials, input.memory.data(),
             work.channels * work.rows * work.columns);
  const auto surface = [&](Format format) {
    return testing::dense_surface(format, outputs, work.output_rows, work.output_columns);
  };
  ProductConfig plain = c;
  plain.output_format = Format::kF32;
  OwnedSurface sums = surface(Format::kF32);
  arith::StickyFlags flags;
  reference_product(plain, {work.oihw.data(), work.vectors}, input.surface, sums.surface, flags);
  OwnedSurface expected = surface(c.output_format);
  for (std::int64_t o = 0; o < outputs; ++o) {
    for (std::int64_t row = 0; row < work.output_rows; ++row) {
      for (std::int64_t column = 0; column < work.output_columns; ++column) {
        const double both = energy(work, input.surface, o / c.image.output_channels, row, column) *
                            weight_energy(work, o);
        const double sum = arith::read_element(Format::kF32, sums.surface.at(o, row, column));
        arith::write_element(c.output_format, both == 0 ? 0.0 : sum / std::sqrt(both),
                             expected.surface.at(o, row, column));
      }
    }
  }
  c.correlate = true;
  const auto workspace = make_product_workspace();
  OwnedSurface found = surface(c.output_format);
  run_in_pieces(*prepare(work), input.surface, found.surface, maker.random(), *workspace);
  EXPECT_EQ(testing::first_difference(expected.surface, found.surface), "");
}

TEST(Product, ACorrelationIsTheSumOverTheRootOfBothEnergies) {
  WorkMaker maker(kSeed);
  for (const MatrixKind kind :
       {MatrixKind::kBlockFloat, MatrixKind::kFloat, MatrixKind::kMicroscaling}) {
    for (int i = 0; i < 40 && !::testing::Test::HasFailure(); ++i) {
      check_correlation(maker.make(kind, false), maker);
    }
  }
}

TEST(Product, EveryInstructionSetGivesTheSameBits) {
  arith::for_each_target([](const std::string& target) {
    SCOPED_TRACE(target);
    check_many(MatrixKind::kBlockFloat, false, 120);
    check_many(MatrixKind::kInteger, false, 60);
    check_many(MatrixKind::kFloat, false, 60);
    check_many(MatrixKind::kMicroscaling, false, 60);
    check_many(MatrixKind::kBlockFloat, true, 60);
    check_many(MatrixKind::kInteger, true, 40);
  });
}

TEST(Product, IntegersOfWeightsNearTheZeroPointEqualTheObviousFormOnEveryInstructionSet) {
  arith::for_each_target([](const std::string& target) {
    SCOPED_TRACE(target);
    WorkMaker maker(kSeed + 79);
    const int count = 120 / visit_one_in(2, 10);
    for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
      SCOPED_TRACE("work " + std::to_string(i));
      Work work = maker.make(MatrixKind::kInteger, false);
      maker.narrow_weights(work);
      check(work, maker);
    }
  });
}

// The same work in one group of `channels` channels.
void set_channels(Work& work, std::int64_t channels, WorkMaker& maker) {
  KernelImageShape& image = work.config.image;
  image.channels = work.channels = channels;
  image.groups = 1;
  const std::int64_t count = image.output_channels * channels * image.taps;
  work.oihw.resize(static_cast<std::size_t>(count * format_bytes(image.format)));
  maker.fill(image.format, work.spread, false, work.oihw.data(), count);
  work.vectors.bias.resize(static_cast<std::size_t>(image.output_channels) * 4);
}

TEST(Product, FarApartExponentsTakeTheWideAccumulatorAndStayExact) {
  WorkMaker maker(kSeed);
  std::int64_t wide = 0;
  for (int i = 0; i < 60 && !::testing::Test::HasFailure(); ++i) {
    Work work = maker.make(MatrixKind::kBlockFloat, false);
    work.config.matrix.native_dimension = 16;
    work.spread = 20;
    set_channels(work, 70, maker);
    wide += check(work, maker);
  }
  EXPECT_GT(wide, 0);
}

// Longer than two steps of a matrix tile.
TEST(Product, LongNativeBlocksEqualTheObviousForm) {
  WorkMaker maker(kSeed);
  for (int i = 0; i < 24 && !::testing::Test::HasFailure(); ++i) {
    Work work = maker.make(MatrixKind::kBlockFloat, false);
    work.config.matrix.native_dimension = maker.one_in(2) ? 256 : 512;
    work.config.image.output_channels = maker.pick(8, 20);
    set_channels(work, maker.pick(130, 300), maker);
    check(work, maker);
  }
}

TEST(Product, IntegersOfInfiniteMultipliersEqualTheObviousForm) {
  WorkMaker maker(kSeed);
  for (int i = 0; i < 40 && !::testing::Test::HasFailure(); ++i) {
    Work work = maker.make(MatrixKind::kInteger, false);
    if (!work.config.requantise) continue;
    const KernelImageShape& image = work.config.image;
    work.vectors.multipliers.clear();
    for (std::int64_t c = 0; c < image.groups * image.output_channels; ++c) {
      const float multipliers[] = {INFINITY, -INFINITY, NAN, 1e38f, 0.01f};
      work.vectors.multipliers.push_back(multipliers[maker.pick(0, 4)]);
    }
    check(work, maker);
  }
}

// A sum of two blocks that are both below 2^-40, and one above it.
TEST(Product, TheLongFormatFloorsTheContributionOfEachBlock) {
  Work work;
  ProductConfig& c = work.config;
  c.matrix = {.native_dimension = 2,
              .mantissa_bits_moving = 15,
              .mantissa_bits_stationary = 15,
              .long_format = LongFormat::kQ34_40};
  c.image.channels = work.channels = 4;
  c.output_format = c.image.format = work.moving = Format::kF32;
  const float weights[4] = {0x1p-20f, 0x1p-20f, 0x1p-10f, 0.0f};
  work.oihw.resize(sizeof weights);
  std::memcpy(work.oihw.data(), weights, sizeof weights);
  OwnedSurface input = testing::dense_surface(Format::kF32, 4, 1, 1);
  const auto product_of = [&](float first, float second, float third) {
    const float x[4] = {first, second, third, 0};
    std::memcpy(input.memory.data(), x, sizeof x);
    OwnedSurface output = testing::dense_surface(Format::kF32, 1, 1, 1);
    prepare(work)->run(input.surface, output.surface, 0, {0, 1}, *make_product_workspace());
    float y = 0;
    std::memcpy(&y, output.memory.data(), sizeof y);
    return y;
  };
  EXPECT_EQ(product_of(0x1p-21f, 0x1p-21f, 0), 0x1p-40f);  // two halves of a unit in one block
  EXPECT_EQ(product_of(0x1p-21f, 0, 0x1p-31f), 0.0f);      // a half each in two blocks
  EXPECT_EQ(product_of(-0x1p-21f, 0, 0x1p-31f), -0x1p-40f);
  c.matrix.long_format = LongFormat::kExact;
  EXPECT_EQ(product_of(0x1p-21f, 0, 0x1p-31f), 0x1p-40f);
  EXPECT_EQ(product_of(-0x1p-21f, 0, 0x1p-31f), 0.0f);
}

TEST(Product, MicroscalingWithANanGivesNanWhereTheBlockTakesPart) {
  Work work;
  ProductConfig& c = work.config;
  c.matrix.kind = MatrixKind::kMicroscaling;
  c.kernel_w = c.image.taps = 3;
  c.pad_left = 1;
  c.image.channels = work.channels = 1;
  c.image.output_channels = 2;
  // The first channel's first tap is NaN; the last pixel of the input is, too.
  const std::uint16_t weights[6] = {0x7E00, 0x3C00, 0x3C00, 0x3C00, 0x3C00, 0x3C00};
  work.oihw.resize(sizeof weights);
  std::memcpy(work.oihw.data(), weights, sizeof weights);
  OwnedSurface input = testing::dense_surface(Format::kF16, 1, 1, 4);
  const std::uint16_t x[4] = {0x3C00, 0x3C00, 0x3C00, 0x7C00};
  std::memcpy(input.memory.data(), x, sizeof x);
  OwnedSurface output = testing::dense_surface(Format::kF16, 2, 1, 4);
  prepare(work)->run(input.surface, output.surface, 0, {0, 1}, *make_product_workspace());
  // There is no sample under the first tap of the first pixel.
  const std::uint16_t expected[8] = {0x4000, 0x7E00, 0x7E00, 0x7E00,
                                     0x4000, 0x4200, 0x7E00, 0x7E00};
  EXPECT_EQ(std::memcmp(output.memory.data(), expected, sizeof expected), 0);
}

TEST(Product, MatrixProductOfADynamicOperandEqualsTheConstantOne) {
  WorkMaker maker(kSeed);
  for (int i = 0; i < 60 && !::testing::Test::HasFailure(); ++i) {
    constexpr MatrixKind kKinds[] = {MatrixKind::kBlockFloat, MatrixKind::kFloat,
                                     MatrixKind::kMicroscaling};
    Work work = maker.make(kKinds[i % 3], false);
    ProductConfig& c = work.config;
    const auto inputs = maker.pick(1, 200);
    const MatrixFormat matrix = c.matrix;
    c = {};
    c.image.channels = inputs;
    c.image.output_channels = maker.pick(1, 40);
    c.image.format = c.output_format = work.moving;
    c.matrix = matrix;
    work.vectors = {};
    work.channels = inputs;
    work.rows = work.output_rows = maker.pick(1, 100);
    work.columns = work.output_columns = 1;
    OwnedSurface a = testing::matrix_surface(work.moving, inputs, work.rows);
    maker.fill(work.moving, 2, false, a.memory.data(), inputs * work.rows);
    work.oihw.resize(
        static_cast<std::size_t>(inputs * c.image.output_channels * format_bytes(work.moving)));
    maker.fill(work.moving, 2, false, work.oihw.data(), inputs * c.image.output_channels);
    OwnedSurface b = testing::dense_surface(work.moving, inputs, 1, c.image.output_channels);
    for (std::int64_t k = 0; k < inputs; ++k) {
      for (std::int64_t n = 0; n < c.image.output_channels; ++n) {
        std::memcpy(b.surface.at(k, 0, n),
                    work.oihw.data() + (n * inputs + k) * format_bytes(work.moving),
                    static_cast<std::size_t>(format_bytes(work.moving)));
      }
    }
    OwnedSurface expected =
        testing::matrix_surface(work.moving, c.image.output_channels, work.rows);
    OwnedSurface actual = testing::matrix_surface(work.moving, c.image.output_channels, work.rows);
    arith::StickyFlags flags;
    reference_product(c, {work.oihw.data(), work.vectors}, a.surface, expected.surface, flags);
    const auto workspace = make_product_workspace();
    make_product(c, b.surface, {})->run(a.surface, actual.surface, 0, {0, work.rows}, *workspace);
    EXPECT_EQ(testing::first_difference(expected.surface, actual.surface), "") << work.describe();
  }
}

// Weights that are zeros but near the diagonal, as of a matrix that interpolates.
void keep_band(Work& work, std::int64_t width) {
  const KernelImageShape& image = work.config.image;
  const std::int64_t size = format_bytes(image.format);
  for (std::int64_t n = 0; n < image.output_channels; ++n) {
    for (std::int64_t k = 0; k < image.channels; ++k) {
      const std::int64_t middle = n * image.channels / image.output_channels;
      if (std::abs(k - middle) <= width) continue;
      std::fill_n(work.oihw.data() + (n * image.channels + k) * size, size, std::byte{0});
    }
  }
}

// A matrix product whose channels lie side by side.
Work make_matrix_work(WorkMaker& maker) {
  Work work = maker.make(MatrixKind::kBlockFloat, false);
  ProductConfig& c = work.config;
  const ProductConfig made = c;
  c = {};
  c.channels_side_by_side = true;
  c.matrix = made.matrix;
  if (!maker.one_in(6)) c.matrix.long_format = LongFormat::kExact;
  if (!maker.one_in(6)) work.moving = Format::kF16;
  c.image.format = c.bias_format = c.output_format = work.moving;
  if (maker.one_in(3)) c.output_format = Format::kF32;
  c.activation = made.activation;
  if (maker.one_in(6)) c.activation = {UnaryFunction::kClip, 0.5f, 3.0f};
  c.has_bias = made.has_bias;
  c.image.channels = work.channels = maker.pick(1, maker.one_in(3) ? 300 : 70);
  c.image.output_channels = maker.pick(1, maker.one_in(3) ? 200 : 40);
  c.image.rows = c.matrix.native_dimension;
  c.image.columns = c.image.output_channels;
  work.rows = work.output_rows = maker.pick(1, maker.one_in(4) ? 300 : 40);
  work.columns = work.output_columns = 1;
  const std::int64_t count = c.image.channels * c.image.output_channels;
  work.oihw.resize(static_cast<std::size_t>(count * format_bytes(work.moving)));
  maker.fill(work.moving, work.spread, work.specials, work.oihw.data(), count);
  if (maker.one_in(4)) keep_band(work, maker.pick(0, 20));
  work.vectors = {};
  if (c.has_bias) {
    const std::int64_t outputs = c.image.output_channels;
    work.vectors.bias.resize(static_cast<std::size_t>(outputs * format_bytes(work.moving)));
    maker.fill(work.moving, work.spread, work.specials, work.vectors.bias.data(), outputs);
  }
  return work;
}

// Its rows as columns of one row.
Surface as_one_row(const Surface& surface) {
  Surface row = surface;
  row.columns = surface.rows;
  row.column_pitch = surface.row_pitch;
  row.rows = row.ring_rows = 1;
  return row;
}

Surface some_columns(const Surface& surface, std::int64_t first, std::int64_t last) {
  Surface some = surface;
  some.base += first * surface.column_pitch;
  some.columns = last - first;
  return some;
}

// [channels][output channels], as a dynamic operand lies.
OwnedSurface stationary_surface(const Work& work) {
  const KernelImageShape& image = work.config.image;
  const std::int64_t size = format_bytes(image.format);
  OwnedSurface b = testing::dense_surface(image.format, image.channels, 1, image.output_channels);
  for (std::int64_t k = 0; k < image.channels; ++k) {
    for (std::int64_t n = 0; n < image.output_channels; ++n) {
      std::memcpy(b.surface.at(k, 0, n), work.oihw.data() + (n * image.channels + k) * size,
                  static_cast<std::size_t>(size));
    }
  }
  return b;
}

// Whole, in ranges of one row, and from channels that lie apart. Returns how many elements took the
// wide accumulator.
std::int64_t check_rows(const Product& product, const Work& work, const Surface& input,
                        const Surface& expected, WorkMaker& maker) {
  const auto workspace = make_product_workspace();
  const std::int64_t outputs = work.config.image.output_channels;
  OwnedSurface whole = testing::matrix_surface(expected.format, outputs, work.rows);
  product.run(input, whole.surface, 0, {0, work.rows}, *workspace);
  EXPECT_EQ(testing::first_difference(expected, whole.surface), "") << "whole";
  const std::int64_t wide = take_wide_elements(*workspace);

  OwnedSurface ranges = testing::matrix_surface(expected.format, outputs, work.rows);
  const Surface from = as_one_row(input);
  const Surface to = as_one_row(ranges.surface);
  for (std::int64_t first = 0; first < work.rows;) {
    const std::int64_t last = std::min(work.rows, first + maker.pick(1, 70));
    product.run(some_columns(from, first, last), some_columns(to, first, last), 0, {0, 1},
                *workspace);
    first = last;
  }
  EXPECT_EQ(testing::first_difference(expected, ranges.surface), "") << "ranges";

  OwnedSurface apart = testing::dense_surface(input.format, work.channels, work.rows, 1);
  testing::copy_surface(input, apart.surface);
  OwnedSurface result = testing::dense_surface(expected.format, outputs, work.rows, 1);
  product.run(apart.surface, result.surface, 0, {0, work.rows}, *workspace);
  EXPECT_EQ(testing::first_difference(expected, result.surface), "") << "apart";
  return wide;
}

// Constant and dynamic products; the memory of a dynamic one is used twice.
std::int64_t check_matrix_products(int whole) {
  const int count = whole / visit_one_in(2, 10);
  WorkMaker maker(kSeed + 77);
  std::int64_t wide = 0;
  for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
    Work work = make_matrix_work(maker);
    SCOPED_TRACE("work " + std::to_string(i) + " " + work.describe());
    std::shared_ptr<DynamicProduct> dynamic;
    for (int turn = 0; turn < 2; ++turn) {
      OwnedSurface input = testing::matrix_surface(work.moving, work.channels, work.rows);
      maker.fill(work.moving, work.spread, work.specials, input.memory.data(),
                 work.channels * work.rows);
      OwnedSurface expected = testing::matrix_surface(work.config.output_format,
                                                      work.config.image.output_channels, work.rows);
      arith::StickyFlags flags;
      reference_product(work.config, {work.oihw.data(), work.vectors}, input.surface,
                        expected.surface, flags);
      wide += check_rows(*prepare(work), work, input.surface, expected.surface, maker);
      const OwnedSurface stationary = stationary_surface(work);
      if (!dynamic) dynamic = make_dynamic_product(work.config, work.vectors);
      const auto workspace = make_product_workspace();
      const std::int64_t pieces = dynamic->take(stationary.surface);
      for (std::int64_t piece = pieces; piece-- > 0;) dynamic->pack(piece, *workspace);
      dynamic->settle();
      check_rows(*dynamic, work, input.surface, expected.surface, maker);
      work.specials = turn == 0 && maker.one_in(4);
      maker.fill(work.moving, work.spread, work.specials, work.oihw.data(),
                 work.channels * work.config.image.output_channels);
    }
  }
  return wide;
}

TEST(Product, MatrixProductsOfRowsEqualTheObviousForm) { EXPECT_GT(check_matrix_products(250), 0); }

TEST(Product, MatrixProductsOfRowsEqualOnEveryInstructionSet) {
  arith::for_each_target([](const std::string& target) {
    SCOPED_TRACE(target);
    check_matrix_products(20);
  });
}

// The same of 8-bit integers.
Work make_byte_matrix_work(WorkMaker& maker) {
  Work work = maker.make(MatrixKind::kInteger, false);
  ProductConfig& c = work.config;
  c.channels_side_by_side = true;
  c.kernel_h = c.kernel_w = c.stride_h = c.stride_w = c.dilation_h = c.dilation_w = 1;
  c.input_dilation_h = c.input_dilation_w = 1;
  c.pad_top = c.pad_left = 0;
  c.moving_format = work.moving;
  c.image.groups = c.image.taps = 1;
  c.image.channels = work.channels = maker.pick(1, maker.one_in(3) ? 300 : 70);
  c.image.output_channels = c.image.columns = maker.pick(1, maker.one_in(3) ? 200 : 40);
  work.rows = work.output_rows = maker.pick(1, maker.one_in(4) ? 120 : 20);
  work.columns = work.output_columns = 1;
  const auto outputs = static_cast<std::size_t>(c.image.output_channels);
  if (work.vectors.multipliers.size() > 1) work.vectors.multipliers.resize(outputs, 0.002f);
  if (work.vectors.stationary_zero_points.size() > 1) {
    work.vectors.stationary_zero_points.resize(outputs, 7);
  }
  work.oihw.resize(outputs * static_cast<std::size_t>(c.image.channels));
  maker.fill(c.image.format, 1, false, work.oihw.data(), std::ssize(work.oihw));
  if (c.has_bias) {
    work.vectors.bias.resize(outputs * sizeof(std::int32_t));
    maker.fill(Format::kI32, 1, false, work.vectors.bias.data(), c.image.output_channels);
  }
  return work;
}

TEST(Product, MatrixProductsOfBytesEqualTheObviousFormOnEveryInstructionSet) {
  arith::for_each_target([](const std::string& target) {
    SCOPED_TRACE(target);
    WorkMaker maker(kSeed + 78);
    const int count = 80 / visit_one_in(2, 10);
    for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
      Work work = make_byte_matrix_work(maker);
      if (i % 2 == 1) maker.narrow_weights(work);
      SCOPED_TRACE("work " + std::to_string(i) + " " + work.describe());
      OwnedSurface input = testing::matrix_surface(work.moving, work.channels, work.rows);
      maker.fill(work.moving, 1, false, input.memory.data(), work.channels * work.rows);
      OwnedSurface expected = testing::matrix_surface(work.config.output_format,
                                                      work.config.image.output_channels, work.rows);
      arith::StickyFlags flags;
      reference_product(work.config, {work.oihw.data(), work.vectors}, input.surface,
                        expected.surface, flags);
      check_rows(*prepare(work), work, input.surface, expected.surface, maker);
    }
  });
}

TEST(Product, NanAndInfinityRaiseFlags) {
  Work work;
  work.config.image.channels = 4;
  work.channels = 4;
  work.oihw.resize(8);
  const std::uint16_t weights[4] = {0x3C00, 0x3C00, 0x3C00, 0x3C00};
  std::memcpy(work.oihw.data(), weights, 8);
  OwnedSurface input = testing::dense_surface(Format::kF16, 4, 1, 1);
  const std::uint16_t x[4] = {0x7E00, 0xFC00, 0x3C00, 0};
  std::memcpy(input.memory.data(), x, 8);
  OwnedSurface output = testing::dense_surface(Format::kF16, 1, 1, 1);
  const auto workspace = make_product_workspace();
  prepare(work)->run(input.surface, output.surface, 0, {0, 1}, *workspace);
  const arith::StickyFlags flags = take_flags(*workspace);
  EXPECT_TRUE(flags.nan);
  EXPECT_TRUE(flags.infinity);
  EXPECT_FALSE(flags.accumulator_range);
  EXPECT_EQ(take_flags(*workspace), arith::StickyFlags{});
}

TEST(Product, InputRowsNeededFollowsStrideAndPadding) {
  ProductConfig config;
  config.kernel_h = 3;
  config.image.taps = 3;
  config.stride_h = 2;
  config.pad_top = 1;
  const RowRange rows = input_rows_needed(config, 10, {1, 3});
  EXPECT_EQ(rows.first, 1);
  EXPECT_EQ(rows.last, 6);
}

}  // namespace
}  // namespace tessera
