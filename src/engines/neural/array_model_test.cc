#include "engines/neural/array_model.h"

#include <gtest/gtest.h>

#include <random>

#include "arch/array_fold.h"
#include "arch/cost.h"

namespace tessera::engines {
namespace {

// A matrix product cut as the rasterizer cuts it: work units of a bank's columns, output-channel
// blocks of C, tiles of R along the sum.
struct Cut {
  std::vector<std::vector<std::int64_t>> weights, columns;
  std::vector<ArrayPass> passes;
};

struct Problem {
  ArrayModel::Shape shape;
  std::int64_t sum = 1, pixels = 1, outputs = 1;
  std::vector<std::int64_t> moving;      // [pixels][sum]
  std::vector<std::int64_t> stationary;  // [sum][outputs]
};

// The rule of arch/cost.h for a post-processor that takes more than a cycle: the next chain begins
// when its own earlier passes hide what is left of the bank's drain.
void hold_back(const Problem& problem, std::vector<ArrayPass>& passes) {
  const auto& shape = problem.shape;
  const std::int64_t earlier = ceil_div(problem.sum, shape.rows) - 1;
  const std::int64_t shortest = std::max(passes.back().column_count, shape.rows);
  const Cycles hidden = shape.banks > 1 ? earlier * shortest : 0;
  for (ArrayPass& pass : passes) {
    if (!pass.last_of_chain || shape.serial) continue;
    const std::int64_t n = pass.column_count;
    pass.hold =
        (shape.post_cycles - 1) * n + std::max(n, ceil_div(shape.columns, shape.banks)) - hidden;
  }
}

Cut cut(const Problem& problem) {
  Cut result;
  const auto& shape = problem.shape;
  std::int64_t chain = 0;
  for (std::int64_t p0 = 0; p0 < problem.pixels; p0 += shape.bank_columns) {
    const std::int64_t n = std::min(shape.bank_columns, problem.pixels - p0);
    for (std::int64_t o0 = 0; o0 < problem.outputs; o0 += shape.columns, ++chain) {
      for (std::int64_t k0 = 0; k0 < problem.sum; k0 += shape.rows) {
        std::vector<std::int64_t> w(static_cast<std::size_t>(shape.rows * shape.columns), 0);
        std::vector<std::int64_t> x(static_cast<std::size_t>(n * shape.rows), 0);
        for (std::int64_t r = 0; r < shape.rows && k0 + r < problem.sum; ++r) {
          for (std::int64_t c = 0; c < shape.columns && o0 + c < problem.outputs; ++c) {
            w[static_cast<std::size_t>(r * shape.columns + c)] =
                problem.stationary[static_cast<std::size_t>((k0 + r) * problem.outputs + o0 + c)];
          }
          for (std::int64_t j = 0; j < n; ++j) {
            x[static_cast<std::size_t>(j * shape.rows + r)] =
                problem.moving[static_cast<std::size_t>((p0 + j) * problem.sum + k0 + r)];
          }
        }
        result.weights.push_back(std::move(w));
        result.columns.push_back(std::move(x));
        ArrayPass pass;
        pass.column_count = n;
        pass.bank = chain % shape.banks;
        pass.first_of_chain = k0 == 0;
        pass.last_of_chain = k0 + shape.rows >= problem.sum;
        result.passes.push_back(pass);
      }
    }
  }
  hold_back(problem, result.passes);
  for (std::size_t i = 0; i < result.passes.size(); ++i) {
    result.passes[i].weights = result.weights[i].data();
    result.passes[i].columns = result.columns[i].data();
  }
  return result;
}

// `part` = 2: products that take at most half of the array's columns, and half of its rows or some
// more than its rows.
Problem random_problem(std::mt19937& random, std::int64_t part = 0) {
  const auto pick = [&random](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  Problem problem;
  problem.shape = {pick(1, 8), pick(1, 8), pick(1, 4), pick(1, 12)};
  problem.shape.post_cycles = pick(1, 4);
  problem.shape.serial = pick(0, 2) == 0;
  problem.sum = pick(1, 24);
  problem.pixels = pick(1, 30);
  problem.outputs = pick(1, 20);
  if (part != 0) {
    const std::int64_t whole = pick(0, 2) * pick(0, 1) * problem.shape.rows;
    problem.sum = whole + pick(1, std::max<std::int64_t>(1, problem.shape.rows / part));
    problem.outputs = pick(1, std::max<std::int64_t>(1, problem.shape.columns / part));
  }
  for (std::int64_t i = 0; i < problem.pixels * problem.sum; ++i) {
    problem.moving.push_back(pick(-9, 9));
  }
  for (std::int64_t i = 0; i < problem.sum * problem.outputs; ++i) {
    problem.stationary.push_back(pick(-9, 9));
  }
  return problem;
}

NeuralEngineConfig config_of(const Problem& problem) {
  NeuralEngineConfig config;
  config.rows = static_cast<std::int32_t>(problem.shape.rows);
  config.columns = static_cast<std::int32_t>(problem.shape.columns);
  config.psum_banks = static_cast<std::int32_t>(problem.shape.banks);
  config.psum_bank_columns = static_cast<std::int32_t>(problem.shape.bank_columns);
  config.post_processor_latency_cycles = 0;
  config.task_start_cycles = 0;
  config.folds = problem.shape.serial ? Folds::kSerial : Folds::kOverlapped;
  config.fold_pixels_max = 1;
  return config;
}

ProductWork work_of(const Problem& problem) {
  ProductWork work;
  work.channels = problem.sum;
  work.output_channels = problem.outputs;
  work.columns = problem.pixels;
  work.post_cycles = problem.shape.post_cycles;
  return work;
}

Cycles closed_formula(const Problem& problem) {
  return neural_task_cycles(config_of(problem), work_of(problem), {});
}

TEST(ArrayModel, ClosedFormulaGivesTheRegisterLevelCyclesOnRandomShapes) {
  constexpr unsigned kSeed = 20240611;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  for (int i = 0; i < 2500; ++i) {
    const Problem problem = random_problem(random);
    const Cut passes = cut(problem);
    ArrayModel array(problem.shape);
    array.run(passes.passes);
    ASSERT_EQ(array.cycles(), closed_formula(problem)) << "problem " << i;
    ASSERT_EQ(array.lost(), 0) << "problem " << i;
  }
}

TEST(ArrayModel, ProductsAreExactOnRandomShapes) {
  constexpr unsigned kSeed = 7;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  for (int i = 0; i < 2000; ++i) {
    const Problem problem = random_problem(random);
    const Cut passes = cut(problem);
    ArrayModel array(problem.shape);
    array.run(passes.passes);
    std::size_t at = 0;
    const auto& shape = problem.shape;
    for (std::int64_t p0 = 0; p0 < problem.pixels; p0 += shape.bank_columns) {
      for (std::int64_t o0 = 0; o0 < problem.outputs; o0 += shape.columns) {
        const std::int64_t end = std::min(problem.pixels, p0 + shape.bank_columns);
        for (std::int64_t p = p0; p < end; ++p) {
          for (std::int64_t c = 0; c < shape.columns; ++c, ++at) {
            if (o0 + c >= problem.outputs) continue;
            std::int64_t expected = 0;
            for (std::int64_t k = 0; k < problem.sum; ++k) {
              expected +=
                  problem.moving[static_cast<std::size_t>(p * problem.sum + k)] *
                  problem.stationary[static_cast<std::size_t>(k * problem.outputs + o0 + c)];
            }
            ASSERT_EQ(array.results()[at], expected) << "problem " << i;
          }
        }
      }
    }
    ASSERT_EQ(at, array.results().size());
  }
}

// Pixels side by side: a moving column is `pixels` pixels, each with its own columns of the array.
// Whole tiles of a sum pass once for each of them, what is left of all their sums lies along the
// diagonal.
Problem fold_problem(const Problem& problem, std::int64_t pixels) {
  const std::int64_t whole = (problem.sum - 1) / problem.shape.rows * problem.shape.rows;
  const std::int64_t rest = problem.sum - whole;
  Problem folded{.shape = problem.shape,
                 .sum = problem.sum * pixels,
                 .pixels = ceil_div(problem.pixels, pixels),
                 .outputs = problem.outputs * pixels,
                 .moving = {},
                 .stationary = {}};
  folded.moving.resize(static_cast<std::size_t>(folded.pixels * folded.sum), 0);
  folded.stationary.resize(static_cast<std::size_t>(folded.sum * folded.outputs), 0);
  for (std::int64_t copy = 0; copy < pixels; ++copy) {
    for (std::int64_t k = 0; k < problem.sum; ++k) {
      const std::int64_t tile = k / problem.shape.rows * problem.shape.rows;
      const std::int64_t row = k < whole ? tile * pixels + copy * problem.shape.rows + k - tile
                                         : whole * pixels + copy * rest + k - whole;
      for (std::int64_t o = 0; o < problem.outputs; ++o) {
        folded.stationary[static_cast<std::size_t>(row * folded.outputs + copy * problem.outputs +
                                                   o)] =
            problem.stationary[static_cast<std::size_t>(k * problem.outputs + o)];
      }
      for (std::int64_t p = copy; p < problem.pixels; p += pixels) {
        folded.moving[static_cast<std::size_t>(p / pixels * folded.sum + row)] =
            problem.moving[static_cast<std::size_t>(p * problem.sum + k)];
      }
    }
  }
  return folded;
}

TEST(ArrayModel, FoldedPixelsGiveTheClosedFormulasCyclesAndTheSameSums) {
  constexpr unsigned kSeed = 31;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  std::int64_t folds = 0, long_folds = 0;
  for (int i = 0; i < 2000; ++i) {
    const Problem problem = random_problem(random, 2);
    NeuralEngineConfig config = config_of(problem);
    config.fold_pixels_max = 8;
    const ProductWork work = work_of(problem);
    const std::int64_t pixels = array_fold(config, work, 1).pixels;
    folds += pixels > 1;
    long_folds += pixels > 1 && problem.sum > problem.shape.rows;
    const Problem folded = fold_problem(problem, pixels);
    const Cut passes = cut(folded);
    ArrayModel array(problem.shape);
    array.run(passes.passes);
    ASSERT_EQ(array.cycles(), neural_task_cycles(config, work, {})) << "problem " << i;
    if (pixels == 1) continue;
    for (std::int64_t p = 0; p < problem.pixels; ++p) {
      for (std::int64_t o = 0; o < problem.outputs; ++o) {
        std::int64_t expected = 0;
        for (std::int64_t k = 0; k < problem.sum; ++k) {
          expected += problem.moving[static_cast<std::size_t>(p * problem.sum + k)] *
                      problem.stationary[static_cast<std::size_t>(k * problem.outputs + o)];
        }
        const std::int64_t column = p % pixels * problem.outputs + o;
        ASSERT_EQ(
            array.results()[static_cast<std::size_t>(p / pixels * problem.shape.columns + column)],
            expected)
            << "problem " << i;
      }
    }
  }
  EXPECT_GT(folds, 300);
  EXPECT_GT(long_folds, 50);
}

// One output row of a channel-wise product.
struct ChannelWiseProblem {
  ArrayModel::Shape shape;
  ProductWork work;
  std::int64_t width = 0;             // of the input
  std::vector<std::int64_t> inputs;   // [channels][kernel_h][width]
  std::vector<std::int64_t> weights;  // [channels][kernel_h][kernel_w]

  std::int64_t input(std::int64_t channel, std::int64_t ky, std::int64_t x) const {
    if (channel >= work.groups || x >= width) return 0;
    return inputs[static_cast<std::size_t>((channel * work.kernel_h + ky) * width + x)];
  }
  std::int64_t weight(std::int64_t channel, std::int64_t ky, std::int64_t kx) const {
    if (channel >= work.groups) return 0;
    return weights[static_cast<std::size_t>((channel * work.kernel_h + ky) * work.kernel_w + kx)];
  }
};

ChannelWiseProblem random_channel_wise(std::mt19937& random) {
  const auto pick = [&random](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  ChannelWiseProblem problem;
  // As wide as the array or wider, so that a tile's load, R rows here, hides behind a pass.
  problem.shape = {pick(4, 12), pick(4, 12), pick(1, 4), 256};
  ProductWork& work = problem.work;
  work.channel_wise = true;
  work.groups = pick(1, 12);
  work.kernel_h = pick(1, 3);
  work.kernel_w = pick(2, 4);
  work.stride_w = pick(1, 2);
  work.columns = pick(96, 160);
  problem.width = (work.columns - 1) * work.stride_w + work.kernel_w;
  for (std::int64_t i = 0; i < work.groups * work.kernel_h * problem.width; ++i) {
    problem.inputs.push_back(pick(-9, 9));
  }
  for (std::int64_t i = 0; i < work.groups * work.kernel_h * work.kernel_w; ++i) {
    problem.weights.push_back(pick(-9, 9));
  }
  return problem;
}

// A chain for each block of channels, a pass for each kernel row: its weights in a band.
Cut cut_into_bands(const ChannelWiseProblem& problem, const PixelBand& band) {
  Cut result;
  const auto& shape = problem.shape;
  const ProductWork& work = problem.work;
  const std::int64_t n = ceil_div(work.columns, band.outputs);
  std::int64_t chain = 0;
  for (std::int64_t c0 = 0; c0 < work.groups; c0 += band.channels, ++chain) {
    for (std::int64_t ky = 0; ky < work.kernel_h; ++ky) {
      std::vector<std::int64_t> w(static_cast<std::size_t>(shape.rows * shape.columns), 0);
      std::vector<std::int64_t> x(static_cast<std::size_t>(n * shape.rows), 0);
      for (std::int64_t c = 0; c < band.channels; ++c) {
        for (std::int64_t o = 0; o < band.outputs; ++o) {
          for (std::int64_t kx = 0; kx < work.kernel_w; ++kx) {
            const std::int64_t row = c * band.slots + o * work.stride_w + kx;
            w[static_cast<std::size_t>(row * shape.columns + c * band.outputs + o)] =
                problem.weight(c0 + c, ky, kx);
          }
        }
        for (std::int64_t j = 0; j < n; ++j) {
          for (std::int64_t t = 0; t < band.slots; ++t) {
            x[static_cast<std::size_t>(j * shape.rows + c * band.slots + t)] =
                problem.input(c0 + c, ky, j * band.outputs * work.stride_w + t);
          }
        }
      }
      result.weights.push_back(std::move(w));
      result.columns.push_back(std::move(x));
      result.passes.push_back({.column_count = n,
                               .bank = chain % shape.banks,
                               .first_of_chain = ky == 0,
                               .last_of_chain = ky + 1 == work.kernel_h});
    }
  }
  for (std::size_t i = 0; i < result.passes.size(); ++i) {
    result.passes[i].weights = result.weights[i].data();
    result.passes[i].columns = result.columns[i].data();
  }
  return result;
}

void expect_channel_wise_sums(const ChannelWiseProblem& problem, const PixelBand& band,
                              const ArrayModel& array) {
  const ProductWork& work = problem.work;
  const std::int64_t n = ceil_div(work.columns, band.outputs);
  for (std::int64_t c = 0; c < work.groups; ++c) {
    for (std::int64_t x = 0; x < work.columns; ++x) {
      std::int64_t expected = 0;
      for (std::int64_t ky = 0; ky < work.kernel_h; ++ky) {
        for (std::int64_t kx = 0; kx < work.kernel_w; ++kx) {
          expected += problem.input(c, ky, x * work.stride_w + kx) * problem.weight(c, ky, kx);
        }
      }
      const std::int64_t row = c / band.channels * n + x / band.outputs;
      const std::int64_t column = c % band.channels * band.outputs + x % band.outputs;
      ASSERT_EQ(array.results()[static_cast<std::size_t>(row * problem.shape.columns + column)],
                expected)
          << "channel " << c << ", pixel " << x;
    }
  }
}

TEST(ArrayModel, BandsOfTapsGiveTheClosedFormulasCyclesAndTheSameSums) {
  constexpr unsigned kSeed = 53;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  std::int64_t bands = 0;
  for (int i = 0; i < 200; ++i) {
    const ChannelWiseProblem problem = random_channel_wise(random);
    const NeuralEngineConfig config =
        config_of({.shape = problem.shape, .moving = {}, .stationary = {}});
    const auto band = pixel_band(config, problem.work);
    if (!band || ceil_div(problem.work.columns, band->outputs) <
                     std::max(problem.shape.rows, problem.shape.columns)) {
      continue;
    }
    ++bands;
    const Cut passes = cut_into_bands(problem, *band);
    ArrayModel array(problem.shape);
    array.run(passes.passes);
    ASSERT_EQ(array.lost(), 0) << "problem " << i;
    // The first tile's load and the way through the array lie around the step.
    const Cycles step =
        neural_step_cycles(config, problem.work, {0, 1, false}, NeuralSharing::kBroadcast);
    ASSERT_EQ(array.cycles(),
              problem.shape.rows + step + problem.shape.rows + problem.shape.columns - 1)
        << "problem " << i;
    expect_channel_wise_sums(problem, *band, array);
  }
  EXPECT_GT(bands, 50);
}

// Figure 3 of the transposition document: the 4 x 4 matrix 1..16 is the stationary operand, the
// identity streams in, the column whose first element is 1 (the document's column 3) first. The
// document counts cycles from the first sum in PSUM on; that is register cycle 2R.
TEST(ArrayModel, ReproducesFigure3OfTheTranspositionDocument) {
  std::vector<std::int64_t> matrix(16), identity(16, 0);
  for (std::size_t i = 0; i < 16; ++i) matrix[i] = static_cast<std::int64_t>(i) + 1;
  for (std::size_t i = 0; i < 4; ++i) identity[i * 4 + i] = 1;
  ArrayModel array({.rows = 4, .columns = 4, .banks = 1, .bank_columns = 4});
  array.run({{.weights = matrix.data(), .columns = identity.data(), .column_count = 4}});

  struct Expected {
    std::int64_t cycle, partition, row, value;
  };
  const std::vector<Expected> expected = {
      {1, 0, 0, 1},                                              // first cycle
      {2, 0, 1, 5},  {2, 1, 0, 2},                               // second
      {3, 0, 2, 9},  {3, 1, 1, 6},  {3, 2, 0, 3},                // third
      {4, 0, 3, 13}, {4, 1, 2, 10}, {4, 2, 1, 7}, {4, 3, 0, 4},  // fourth
      {5, 1, 3, 14}, {5, 2, 2, 11}, {5, 3, 1, 8}, {6, 2, 3, 15}, {6, 3, 2, 12}, {7, 3, 3, 16}};
  ASSERT_EQ(array.arrivals().size(), expected.size());
  constexpr Cycles kFirst = 4 + 4;  // weight load, then R registers down
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const PsumArrival& arrival = array.arrivals()[i];
    EXPECT_EQ(arrival.cycle - kFirst + 1, expected[i].cycle) << "arrival " << i;
    EXPECT_EQ(arrival.partition, expected[i].partition) << "arrival " << i;
    EXPECT_EQ(arrival.row, expected[i].row) << "arrival " << i;
    EXPECT_EQ(arrival.sum, expected[i].value) << "arrival " << i;
  }
  // PSUM partition c holds column c of the matrix: the rows of its transpose.
  EXPECT_EQ(array.results(), matrix);
}

// An m x n matrix in the order of the transposition's nest: blocks of n by C, parts of m by R, the
// part as weights, an identity column for each of its channels.
TEST(ArrayModel, TransposesInTheCyclesOfTheClosedFormula) {
  constexpr unsigned kSeed = 17;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  const auto pick = [&random](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int i = 0; i < 200; ++i) {
    NeuralEngineConfig config;
    config.rows = static_cast<std::int32_t>(pick(1, 8));
    config.columns = static_cast<std::int32_t>(pick(1, config.rows));
    config.psum_banks = static_cast<std::int32_t>(pick(1, 4));
    config.psum_bank_columns = config.rows;
    config.post_processor_latency_cycles = config.task_start_cycles = 0;
    const std::int64_t partitions = config.rows * pick(1, 2);
    const std::int64_t m = pick(1, 20), n = pick(1, 20);
    std::vector<std::vector<std::int64_t>> weights, identities;
    std::vector<ArrayPass> passes;
    for (std::int64_t b = 0; b < n; b += partitions) {
      for (std::int64_t x0 = b; x0 < std::min(n, b + partitions); x0 += config.columns) {
        for (std::int64_t c0 = 0; c0 < m; c0 += config.rows) {
          const std::int64_t count = std::min<std::int64_t>(config.rows, m - c0);
          std::vector<std::int64_t> w(static_cast<std::size_t>(config.rows * config.columns), 0);
          std::vector<std::int64_t> x(static_cast<std::size_t>(count * config.rows), 0);
          for (std::int64_t r = 0; r < count; ++r) {
            x[static_cast<std::size_t>(r * config.rows + r)] = 1;
            for (std::int64_t c = 0; c < config.columns && x0 + c < n; ++c) {
              w[static_cast<std::size_t>(r * config.columns + c)] = (c0 + r) * n + x0 + c + 1;
            }
          }
          weights.push_back(std::move(w));
          identities.push_back(std::move(x));
          passes.push_back({.column_count = count,
                            .bank = static_cast<std::int64_t>(passes.size()) % config.psum_banks});
        }
      }
    }
    for (std::size_t p = 0; p < passes.size(); ++p) {
      passes[p].weights = weights[p].data();
      passes[p].columns = identities[p].data();
      // As in hold_back(): one pass a chain, nothing hides the drain.
      passes[p].hold =
          std::max<Cycles>(passes[p].column_count, ceil_div(config.columns, config.psum_banks));
    }
    const TransposeBlocks blocks =
        transpose_blocks({m, n}, {partitions, config.rows, config.columns});
    ASSERT_EQ(static_cast<std::int64_t>(passes.size()), blocks.passes);
    ArrayModel array({config.rows, config.columns, config.psum_banks, config.psum_bank_columns});
    array.run(passes);
    EXPECT_EQ(array.lost(), 0);
    ProductWork work;
    work.transpose = true;
    work.channels = m;
    work.output_channels = n;
    work.partitions = partitions;
    const Cycles closed = neural_task_cycles(config, work, {1, 1, 1});
    ASSERT_EQ(array.cycles(), closed) << "case " << i << ": " << m << " x " << n << " on "
                                      << config.rows << " x " << config.columns;
    // Results leave in the order of the passes: a column of the part for each identity column.
    std::size_t at = 0;
    for (std::size_t p = 0; p < passes.size(); ++p) {
      for (std::int64_t r = 0; r < passes[p].column_count; ++r) {
        for (std::int64_t c = 0; c < config.columns; ++c) {
          ASSERT_EQ(array.results()[at++],
                    weights[p][static_cast<std::size_t>(r * config.columns + c)]);
        }
      }
    }
  }
}

TEST(ArrayModel, OneBankWaitsForThePostProcessorAndLosesNothing) {
  // One row, eight columns, one bank: the second chain may begin only when the bank is free.
  const std::vector<std::int64_t> weights(8, 1), column(1, 1);
  ArrayModel array({.rows = 1, .columns = 8, .banks = 1, .bank_columns = 1});
  const ArrayPass pass{.weights = weights.data(), .columns = column.data(), .column_count = 1};
  array.run({pass, pass});
  EXPECT_EQ(array.lost(), 0);
  EXPECT_EQ(array.cycles(), 1 + 8 + 1 + (1 + 8 - 1));
}

}  // namespace
}  // namespace tessera::engines
