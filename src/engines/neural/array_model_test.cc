#include "engines/neural/array_model.h"

#include <gtest/gtest.h>

#include <random>
#include <span>

#include "arch/array_fold.h"
#include "arch/cost.h"

namespace tessera::engines {
namespace {

// A matrix product cut as the rasterizer cuts it: work units of a bank's columns, output-channel
// blocks of C, tiles of R along the sum.
struct Cut {
  std::vector<std::vector<std::int64_t>> weights, columns;
  std::vector<ArrayPass> passes;

  void connect() {
    for (std::size_t i = 0; i < passes.size(); ++i) {
      passes[i].weights = weights[i].data();
      passes[i].columns = columns[i].data();
    }
  }
};

struct Problem {
  ArrayModel::Shape shape;
  std::int64_t sum = 1, pixels = 1, outputs = 1;
  std::vector<std::int64_t> moving;      // [pixels][sum]
  std::vector<std::int64_t> stationary;  // [sum][outputs]
};

// The moving columns in equal parts, as few as the banks allow; longer parts first.
struct BankPart {
  std::int64_t first = 0, count = 0;
};
std::vector<BankPart> bank_parts(std::int64_t columns, std::int64_t bank_columns) {
  const std::int64_t parts = ceil_div(columns, bank_columns);
  std::vector<BankPart> result;
  std::int64_t first = 0;
  for (std::int64_t i = 0; i < parts; ++i) {
    const std::int64_t count = columns / parts + (i < columns % parts ? 1 : 0);
    result.push_back({first, count});
    first += count;
  }
  return result;
}

// The rule of arch/cost.h for a post-processor that takes more than a cycle: the next chain begins
// when its own earlier passes hide what is left of the bank's drain.
void hold_back(const Problem& problem, std::vector<ArrayPass>& passes) {
  const auto& shape = problem.shape;
  std::int64_t earlier = 0;
  while (!passes[static_cast<std::size_t>(earlier)].last_of_chain) ++earlier;
  const std::int64_t shortest = std::max(passes.back().column_count, shape.rows);
  const Cycles hidden = shape.banks > 1 ? earlier * shortest : 0;
  for (ArrayPass& pass : passes) {
    if (!pass.last_of_chain || shape.serial) continue;
    const std::int64_t n = pass.column_count;
    pass.hold =
        (shape.post_cycles - 1) * n + std::max(n, ceil_div(shape.columns, shape.banks)) - hidden;
  }
}

Cut cut(const Problem& problem, std::int64_t first_bank = 0) {
  Cut result;
  const auto& shape = problem.shape;
  std::int64_t chain = first_bank;
  for (const BankPart& part : bank_parts(problem.pixels, shape.bank_columns)) {
    for (std::int64_t o0 = 0; o0 < problem.outputs; o0 += shape.columns, ++chain) {
      for (std::int64_t k0 = 0; k0 < problem.sum; k0 += shape.rows) {
        std::vector<std::int64_t> w(static_cast<std::size_t>(shape.rows * shape.columns), 0);
        std::vector<std::int64_t> x(static_cast<std::size_t>(part.count * shape.rows), 0);
        for (std::int64_t r = 0; r < shape.rows && k0 + r < problem.sum; ++r) {
          for (std::int64_t c = 0; c < shape.columns && o0 + c < problem.outputs; ++c) {
            w[static_cast<std::size_t>(r * shape.columns + c)] =
                problem.stationary[static_cast<std::size_t>((k0 + r) * problem.outputs + o0 + c)];
          }
          for (std::int64_t j = 0; j < part.count; ++j) {
            x[static_cast<std::size_t>(j * shape.rows + r)] =
                problem.moving[static_cast<std::size_t>((part.first + j) * problem.sum + k0 + r)];
          }
        }
        result.weights.push_back(std::move(w));
        result.columns.push_back(std::move(x));
        result.passes.push_back({.column_count = part.count,
                                 .bank = chain % shape.banks,
                                 .first_of_chain = k0 == 0,
                                 .last_of_chain = k0 + shape.rows >= problem.sum});
      }
    }
  }
  hold_back(problem, result.passes);
  result.connect();
  return result;
}

// `part` = 2: products that take at most half of the array's columns.
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
    for (const BankPart& part : bank_parts(problem.pixels, shape.bank_columns)) {
      for (std::int64_t o0 = 0; o0 < problem.outputs; o0 += shape.columns) {
        for (std::int64_t p = part.first; p < part.first + part.count; ++p) {
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

// Pixels side by side, `places` of them, each with columns of its own. Sum elements that fill all
// rows pass once for each place; what is left passes for as many places as there are rows for.
Cut fold_cut(const Problem& problem, std::int64_t places) {
  Cut result;
  const auto& shape = problem.shape;
  std::int64_t chain = 0;
  for (const BankPart& part : bank_parts(ceil_div(problem.pixels, places), shape.bank_columns)) {
    const std::size_t begin = result.passes.size();
    for (std::int64_t k0 = 0; k0 < problem.sum; k0 += shape.rows) {
      const std::int64_t rows = std::min(shape.rows, problem.sum - k0);
      const std::int64_t at_once = std::min(places, shape.rows / rows);
      for (std::int64_t first = 0; first < places; first += at_once) {
        std::vector<std::int64_t> w(static_cast<std::size_t>(shape.rows * shape.columns), 0);
        std::vector<std::int64_t> x(static_cast<std::size_t>(part.count * shape.rows), 0);
        for (std::int64_t place = first; place < std::min(places, first + at_once); ++place) {
          for (std::int64_t k = 0; k < rows; ++k) {
            const std::int64_t row = (place - first) * rows + k;
            for (std::int64_t o = 0; o < problem.outputs; ++o) {
              w[static_cast<std::size_t>(row * shape.columns + place * problem.outputs + o)] =
                  problem.stationary[static_cast<std::size_t>((k0 + k) * problem.outputs + o)];
            }
            for (std::int64_t j = 0; j < part.count; ++j) {
              const std::int64_t pixel = (part.first + j) * places + place;
              if (pixel >= problem.pixels) continue;
              x[static_cast<std::size_t>(j * shape.rows + row)] =
                  problem.moving[static_cast<std::size_t>(pixel * problem.sum + k0 + k)];
            }
          }
        }
        result.weights.push_back(std::move(w));
        result.columns.push_back(std::move(x));
        result.passes.push_back({.column_count = part.count,
                                 .bank = chain % shape.banks,
                                 .first_of_chain = result.passes.size() == begin,
                                 .last_of_chain = false});
      }
    }
    result.passes.back().last_of_chain = true;
    ++chain;
  }
  hold_back(problem, result.passes);
  result.connect();
  return result;
}

TEST(ArrayModel, FoldedPixelsGiveTheClosedFormulasCyclesAndTheSameSums) {
  constexpr unsigned kSeed = 31;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  std::int64_t folds = 0, mixed = 0;
  for (int i = 0; i < 4000; ++i) {
    Problem problem = random_problem(random, 2);
    problem.shape.serial = false;
    NeuralEngineConfig config = config_of(problem);
    config.fold_pixels_max = 8;
    ProductWork work = work_of(problem);
    work.sums_in_parts = true;  // whole pixels alone
    const ArrayFold fold =
        array_fold(config, work, {.rows = 1, .output_channels = problem.outputs}, 1);
    const std::int64_t places = fold.tile_w;
    ASSERT_EQ(fold.tile_h, 1);
    const Cut passes = fold_cut(problem, places);
    ArrayModel array(problem.shape);
    array.run(passes.passes);
    ASSERT_EQ(array.cycles(), neural_task_cycles(config, work, {})) << "problem " << i;
    ASSERT_EQ(array.lost(), 0) << "problem " << i;
    if (places == 1) continue;
    ++folds;
    mixed += fold.full.count != 0 && fold.rest.count != 0;
    for (std::int64_t p = 0; p < problem.pixels; ++p) {
      for (std::int64_t o = 0; o < problem.outputs; ++o) {
        std::int64_t expected = 0;
        for (std::int64_t k = 0; k < problem.sum; ++k) {
          expected += problem.moving[static_cast<std::size_t>(p * problem.sum + k)] *
                      problem.stationary[static_cast<std::size_t>(k * problem.outputs + o)];
        }
        const std::int64_t column = p % places * problem.outputs + o;
        ASSERT_EQ(
            array.results()[static_cast<std::size_t>(p / places * problem.shape.columns + column)],
            expected)
            << "problem " << i;
      }
    }
  }
  EXPECT_GT(folds, 500);
  EXPECT_GT(mixed, 100);
}

// A convolution whose few output channels leave columns for the pixels of a tile: they share the rows
// of each input pixel that they read, which passes once for all of them.
struct SharedProblem {
  ArrayModel::Shape shape;
  std::int64_t channels = 1, outputs = 1;
  std::int64_t kernel_h = 1, kernel_w = 1, stride = 1;
  std::int64_t rows = 1, columns = 1;  // of the output
  std::vector<std::int64_t> image;     // [channels][image_rows()][image_columns()]
  std::vector<std::int64_t> kernel;    // [outputs][channels][kernel_h][kernel_w]

  std::int64_t image_rows() const { return (rows - 1) * stride + kernel_h; }
  std::int64_t image_columns() const { return (columns - 1) * stride + kernel_w; }
  std::int64_t pixel(std::int64_t channel, std::int64_t y, std::int64_t x) const {
    if (y >= image_rows() || x >= image_columns()) return 0;
    return image[static_cast<std::size_t>((channel * image_rows() + y) * image_columns() + x)];
  }
  std::int64_t weight(std::int64_t output, std::int64_t channel, std::int64_t y,
                      std::int64_t x) const {
    if (y < 0 || y >= kernel_h || x < 0 || x >= kernel_w) return 0;
    return kernel[static_cast<std::size_t>(
        ((output * channels + channel) * kernel_h + y) * kernel_w + x)];
  }
};

SharedProblem random_shared_problem(std::mt19937& random) {
  const auto pick = [&random](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  SharedProblem problem;
  problem.shape = {pick(1, 9), pick(2, 12), pick(1, 4), pick(4, 40)};
  problem.shape.post_cycles = pick(1, 2);
  problem.channels = pick(1, problem.shape.rows / 2 + 1);
  problem.outputs = pick(1, problem.shape.columns / 2);
  problem.kernel_h = pick(1, 3);
  problem.kernel_w = pick(1, 4);
  problem.stride = pick(1, 2);
  problem.rows = pick(1, 9);
  problem.columns = pick(1, 12);
  const std::int64_t pixels = problem.channels * problem.image_rows() * problem.image_columns();
  for (std::int64_t i = 0; i < pixels; ++i) problem.image.push_back(pick(-9, 9));
  const std::int64_t weights =
      problem.outputs * problem.channels * problem.kernel_h * problem.kernel_w;
  for (std::int64_t i = 0; i < weights; ++i) problem.kernel.push_back(pick(-9, 9));
  return problem;
}

// An input pixel of a tile.
struct TilePixel {
  std::int64_t y = 0, x = 0;
};

// A channel of it, in a row of the array.
struct TileRow {
  TilePixel pixel;
  std::int64_t channel = 0;
};

// The weights of the pass of these rows, and their pixels of each tile.
void add_shared_pass(const SharedProblem& problem, const ArrayFold& fold,
                     std::span<const TileRow> rows, const BankPart& part, Cut& cut) {
  const auto& shape = problem.shape;
  std::vector<std::int64_t> weights(static_cast<std::size_t>(shape.rows * shape.columns), 0);
  std::vector<std::int64_t> columns(static_cast<std::size_t>(part.count * shape.rows), 0);
  const std::int64_t tiles = ceil_div(problem.columns, fold.tile_w);
  const auto add_row = [&](const TilePixel& pixel, std::int64_t channel, std::int64_t row) {
    for (std::int64_t place = 0; place < fold.tile_h * fold.tile_w; ++place) {
      for (std::int64_t output = 0; output < problem.outputs; ++output) {
        weights[static_cast<std::size_t>(row * shape.columns + place * problem.outputs + output)] =
            problem.weight(output, channel, pixel.y - place / fold.tile_w * problem.stride,
                           pixel.x - place % fold.tile_w * problem.stride);
      }
    }
    for (std::int64_t j = 0; j < part.count; ++j) {
      const std::int64_t tile = part.first + j;
      columns[static_cast<std::size_t>(j * shape.rows + row)] =
          problem.pixel(channel, tile / tiles * fold.tile_h * problem.stride + pixel.y,
                        tile % tiles * fold.tile_w * problem.stride + pixel.x);
    }
  };
  std::int64_t row = 0;
  for (const TileRow& of : rows) add_row(of.pixel, of.channel, row++);
  cut.weights.push_back(std::move(weights));
  cut.columns.push_back(std::move(columns));
  cut.passes.push_back(
      {.column_count = part.count, .first_of_chain = false, .last_of_chain = false});
}

// Input rows (columns) of a tile that some output pixel of it reads.
std::vector<std::int64_t> read_of_tile(std::int64_t outputs, std::int64_t kernel,
                                       std::int64_t stride) {
  std::vector<std::int64_t> read;
  for (std::int64_t at = 0; at < (outputs - 1) * stride + kernel; ++at) {
    if (at % stride < kernel || at >= (outputs - 1) * stride) read.push_back(at);
  }
  return read;
}

Cut shared_cut(const SharedProblem& problem, const ArrayFold& fold) {
  Cut result;
  const auto& shape = problem.shape;
  const std::int64_t tiles =
      ceil_div(problem.rows, fold.tile_h) * ceil_div(problem.columns, fold.tile_w);
  std::int64_t chain = 0;
  const auto parts = bank_parts(tiles, shape.bank_columns);
  const Cycles load = shape.rows * std::max(fold.full.loads, fold.rest.loads);
  std::vector<TileRow> read;
  for (const std::int64_t y : read_of_tile(fold.tile_h, problem.kernel_h, problem.stride)) {
    for (const std::int64_t x : read_of_tile(fold.tile_w, problem.kernel_w, problem.stride)) {
      for (std::int64_t c = 0; c < problem.channels; ++c) read.push_back({{y, x}, c});
    }
  }
  const ChainPasses& passes = fold.rest.count != 0 ? fold.rest : fold.full;
  const auto rows = static_cast<std::size_t>(
      passes.filled_rows != 0 ? passes.filled_rows : passes.stacked * problem.channels);
  for (const BankPart& part : parts) {
    const std::size_t begin = result.passes.size();
    for (std::size_t i = 0; i < read.size(); i += rows) {
      const std::size_t count = std::min(rows, read.size() - i);
      add_shared_pass(problem, fold, std::span(read).subspan(i, count), part, result);
    }
    const auto earlier = static_cast<std::int64_t>(result.passes.size() - begin) - 1;
    const Cycles hidden = shape.banks > 1 ? earlier * std::max(parts.back().count, load) : 0;
    result.passes[begin].first_of_chain = result.passes.back().last_of_chain = true;
    for (std::size_t i = begin; i < result.passes.size(); ++i) {
      result.passes[i].bank = chain % shape.banks;
      result.passes[i].hold = load;  // of the next pass's weights
    }
    const Cycles drain = (shape.post_cycles - 1) * part.count +
                         std::max(part.count, ceil_div(shape.columns, shape.banks));
    result.passes.back().hold = std::max(load, drain - hidden);
    ++chain;
  }
  result.connect();
  return result;
}

void expect_convolution(const SharedProblem& problem, const ArrayFold& fold,
                        const std::vector<std::int64_t>& results) {
  const std::int64_t tiles = ceil_div(problem.columns, fold.tile_w);
  for (std::int64_t y = 0; y < problem.rows; ++y) {
    for (std::int64_t x = 0; x < problem.columns; ++x) {
      const std::int64_t tile = y / fold.tile_h * tiles + x / fold.tile_w;
      const std::int64_t place = y % fold.tile_h * fold.tile_w + x % fold.tile_w;
      for (std::int64_t o = 0; o < problem.outputs; ++o) {
        std::int64_t expected = 0;
        for (std::int64_t c = 0; c < problem.channels; ++c) {
          for (std::int64_t ky = 0; ky < problem.kernel_h; ++ky) {
            for (std::int64_t kx = 0; kx < problem.kernel_w; ++kx) {
              expected += problem.weight(o, c, ky, kx) *
                          problem.pixel(c, y * problem.stride + ky, x * problem.stride + kx);
            }
          }
        }
        const std::int64_t at = tile * problem.shape.columns + place * problem.outputs + o;
        ASSERT_EQ(results[static_cast<std::size_t>(at)], expected);
      }
    }
  }
}

TEST(ArrayModel, PixelsThatShareTheirInputGiveTheClosedFormulasCyclesAndTheSameSums) {
  constexpr unsigned kSeed = 61;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  std::int64_t tall = 0, wide = 0, stacked = 0, filled = 0;
  for (int i = 0; i < 3000; ++i) {
    SharedProblem problem = random_shared_problem(random);
    Problem of_shape;
    of_shape.shape = problem.shape;
    NeuralEngineConfig config = config_of(of_shape);
    config.fold_pixels_max = 8;
    ProductWork work;
    work.channels = problem.channels;
    work.output_channels = problem.outputs;
    work.kernel_h = problem.kernel_h;
    work.kernel_w = problem.kernel_w;
    work.stride_h = work.stride_w = problem.stride;
    work.columns = problem.columns;
    work.post_cycles = problem.shape.post_cycles;
    work.sums_in_parts = true;  // tiles of outputs alone
    const ArrayFold fold =
        array_fold(config, work, {.rows = problem.rows, .output_channels = problem.outputs},
                   problem.kernel_h * problem.kernel_w);
    // Pixels side by side are those of the test above.
    if (std::max(fold.full.side_by_side, fold.rest.side_by_side) > 1) continue;
    problem.shape.post_cycles = std::max(problem.shape.post_cycles, fold.result_cycles);
    const Cut passes = shared_cut(problem, fold);
    ArrayModel array(problem.shape);
    array.run(passes.passes);
    const TaskBands bands{.rows = problem.rows, .rows_per_step = problem.rows};
    ASSERT_EQ(array.cycles(), neural_task_cycles(config, work, bands)) << "problem " << i;
    ASSERT_EQ(array.lost(), 0) << "problem " << i;
    expect_convolution(problem, fold, array.results());
    tall += fold.tile_h > 1;
    wide += fold.tile_w > 1;
    stacked += fold.rest.stacked > 1;
    filled += fold.rest.filled_rows != 0;
  }
  EXPECT_GT(tall, 300);
  EXPECT_GT(wide, 300);
  EXPECT_GT(stacked, 300);
  EXPECT_GT(filled, 100);
}

// A task behind a task: its first weights come down behind the last pass of the one before.
TEST(ArrayModel, TheNextTaskLoadsItsWeightsBehindTheLastPass) {
  constexpr unsigned kSeed = 43;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  for (int i = 0; i < 1500; ++i) {
    Problem first = random_problem(random);
    Problem second = random_problem(random);
    first.shape.serial = false;
    second.shape = first.shape;
    second.sum = std::min(second.sum, std::int64_t{24});
    Cut before = cut(first);
    const NeuralEngineConfig config = config_of(first);
    const StepRows step{.row_first = 0, .rows = 1, .last_of_task = true};
    const auto cycles = [&](const Problem& problem) {
      return neural_step_cycles(config, work_of(problem), step, NeuralSharing::kBroadcast);
    };
    const LastPass last = neural_last_pass(config, work_of(first), step, NeuralSharing::kBroadcast);
    const Cycles load = neural_first_load_cycles(config, work_of(second));
    before.passes.back().hold = std::max(last.cycles, last.spacing);
    const Cut behind = cut(second, before.passes.back().bank + 1);
    std::vector<ArrayPass> passes = before.passes;
    passes.insert(passes.end(), behind.passes.begin(), behind.passes.end());
    ArrayModel array(first.shape);
    array.run(passes);
    EXPECT_EQ(array.lost(), 0) << "pair " << i;
    const Cycles between = std::max({last.cycles, load, last.spacing}) - last.cycles;
    ASSERT_EQ(array.cycles(), load + cycles(first) + between + cycles(second) +
                                  neural_drain_cycles(config, work_of(second)))
        << "pair " << i;
  }
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
