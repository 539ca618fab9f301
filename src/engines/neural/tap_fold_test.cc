// Taps and parts of pixels in columns of the array (arch/array_fold.h) against the array register by
// register.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "arch/array_fold.h"
#include "arch/cost.h"
#include "engines/neural/array_model.h"

namespace tessera::engines {
namespace {

struct TapProblem {
  ArrayModel::Shape shape;
  ProductWork work;
  TaskBands bands;
  std::vector<std::int64_t> image;   // [channels][rows][columns], what the outputs read
  std::vector<std::int64_t> kernel;  // [outputs][channels][kernel_h][kernel_w]

  std::int64_t image_rows() const { return (bands.rows - 1) * work.stride_h + work.kernel_h; }
  std::int64_t image_columns() const { return (work.columns - 1) * work.stride_w + work.kernel_w; }
  std::int64_t pixel(std::int64_t channel, std::int64_t y, std::int64_t x) const {
    if (y < 0 || y >= image_rows() || x < 0 || x >= image_columns()) return 0;
    return image[static_cast<std::size_t>((channel * image_rows() + y) * image_columns() + x)];
  }
  std::int64_t weight(std::int64_t output, std::int64_t channel, std::int64_t y,
                      std::int64_t x) const {
    if (y < 0 || y >= work.kernel_h || x < 0 || x >= work.kernel_w) return 0;
    return kernel[static_cast<std::size_t>(
        ((output * work.channels + channel) * work.kernel_h + y) * work.kernel_w + x)];
  }
  NeuralEngineConfig config() const {
    NeuralEngineConfig config;
    config.rows = static_cast<std::int32_t>(shape.rows);
    config.columns = static_cast<std::int32_t>(shape.columns);
    config.psum_banks = static_cast<std::int32_t>(shape.banks);
    config.psum_bank_columns = static_cast<std::int32_t>(shape.bank_columns);
    config.post_processor_latency_cycles = 0;
    config.task_start_cycles = 0;
    config.fold_pixels_max = 8;
    return config;
  }
};

std::int64_t random_between(std::mt19937& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

void fill_tap_problem(std::mt19937& random, TapProblem& problem) {
  const ProductWork& work = problem.work;
  const std::int64_t pixels = work.channels * problem.image_rows() * problem.image_columns();
  for (std::int64_t i = 0; i < pixels; ++i) {
    problem.image.push_back(random_between(random, -9, 9));
  }
  const std::int64_t taps = work.kernel_h * work.kernel_w;
  for (std::int64_t i = 0; i < work.output_channels * work.channels * taps; ++i) {
    problem.kernel.push_back(random_between(random, -9, 9));
  }
}

TapProblem random_tap_problem(std::mt19937& random) {
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return random_between(random, low, high);
  };
  TapProblem problem;
  problem.shape = {pick(2, 9), pick(4, 20), pick(3, 6), pick(16, 40)};
  ProductWork& work = problem.work;
  work.channels = pick(1, problem.shape.rows + 3);
  work.output_channels = pick(1, problem.shape.columns / 4);
  work.kernel_h = pick(1, 4);
  work.kernel_w = pick(1, 4);
  work.stride_h = work.stride_w = pick(1, 2);
  work.columns = pick(1, 14);
  problem.bands = {.images = 1, .rows = pick(1, 12), .rows_per_step = 1};
  problem.bands.rows_per_step = pick(1, problem.bands.rows);
  fill_tap_problem(random, problem);
  return problem;
}

std::int64_t ceiling(std::int64_t a, std::int64_t b) {
  return a >= 0 ? (a + b - 1) / b : -(-a / b);
}

// Tiles of input pixels along an axis, which begin where they reach the fewest outputs.
struct TileAxis {
  std::int64_t tile, kernel, stride;
  std::int64_t begin = 0, reached = 0;

  TileAxis(std::int64_t tile_pixels, std::int64_t taps, std::int64_t step)
      : tile(tile_pixels), kernel(taps), stride(step) {
    for (std::int64_t at = 0; at > -stride; --at) {
      const std::int64_t count = (at + stride + tile - 1) / stride - first_output(at + stride) + 1;
      if (reached != 0 && count >= reached) continue;
      reached = count;
      begin = at;
    }
  }
  std::int64_t first_output(std::int64_t input) const {
    return ceiling(input - kernel + 1, stride);
  }
  std::int64_t start(std::int64_t index) const { return begin + index * tile; }
};

// Passes of a task, and what each of its sums belongs to.
struct TapCut {
  std::vector<std::vector<std::int64_t>> weights, columns;
  std::vector<ArrayPass> passes;
  struct Target {
    std::int64_t y = 0, x = 0, output = -1;  // output -1: of none
  };
  std::vector<std::vector<Target>> targets;  // of a pass, [column_count][C]

  void connect() {
    for (std::size_t i = 0; i < passes.size(); ++i) {
      passes[i].weights = weights[i].data();
      passes[i].columns = columns[i].data();
    }
  }
};

struct MovingColumn {
  std::int64_t tile_y = 0, tile_x = 0;  // of a grid of tiles
};

// Channels [first, first + count) of each pixel of the tiles, and the positions of a block.
struct TapPass {
  std::int64_t first_channel = 0, channels = 0, block = 0;
};

void add_tap_pass(const TapProblem& problem, const ArrayFold& fold,
                  const std::vector<MovingColumn>& moving, const TapPass& pass, TapCut& cut) {
  const auto& [shape, work, bands, image, kernel] = problem;
  const TileAxis rows(fold.tile_h, work.kernel_h, work.stride_h);
  const TileAxis across(fold.tile_w, work.kernel_w, work.stride_w);
  const std::int64_t per_block = shape.columns / work.output_channels;
  std::vector<std::int64_t> weights(static_cast<std::size_t>(shape.rows * shape.columns), 0);
  std::vector<std::int64_t> columns(moving.size() * static_cast<std::size_t>(shape.rows), 0);
  std::vector<TapCut::Target> targets(moving.size() * static_cast<std::size_t>(shape.columns));
  const auto position = [&](std::int64_t g) { return pass.block * per_block + g; };
  const auto output_of = [&](std::int64_t g, const MovingColumn& of) {
    return TapCut::Target{
        rows.first_output(rows.start(of.tile_y)) + position(g) / across.reached,
        across.first_output(across.start(of.tile_x)) + position(g) % across.reached};
  };
  for (std::int64_t g = 0; g < per_block && position(g) < rows.reached * across.reached; ++g) {
    for (std::int64_t o = 0; o < work.output_channels; ++o) {
      const std::int64_t column = g * work.output_channels + o;
      for (std::size_t j = 0; j < moving.size(); ++j) {
        auto& target =
            targets[j * static_cast<std::size_t>(shape.columns) + static_cast<std::size_t>(column)];
        target = output_of(g, moving[j]);
        target.output = o;
      }
      for (std::int64_t p = 0; p < fold.tile_h * fold.tile_w; ++p) {
        const TapCut::Target reached = output_of(g, {0, 0});
        const std::int64_t ky = rows.start(0) + p / fold.tile_w - reached.y * work.stride_h;
        const std::int64_t kx = across.start(0) + p % fold.tile_w - reached.x * work.stride_w;
        for (std::int64_t c = 0; c < pass.channels; ++c) {
          weights[static_cast<std::size_t>((p * pass.channels + c) * shape.columns + column)] =
              problem.weight(o, pass.first_channel + c, ky, kx);
        }
      }
    }
  }
  for (std::size_t j = 0; j < moving.size(); ++j) {
    for (std::int64_t p = 0; p < fold.tile_h * fold.tile_w; ++p) {
      for (std::int64_t c = 0; c < pass.channels; ++c) {
        columns[j * static_cast<std::size_t>(shape.rows) +
                static_cast<std::size_t>(p * pass.channels + c)] =
            problem.pixel(pass.first_channel + c, rows.start(moving[j].tile_y) + p / fold.tile_w,
                          across.start(moving[j].tile_x) + p % fold.tile_w);
      }
    }
  }
  cut.weights.push_back(std::move(weights));
  cut.columns.push_back(std::move(columns));
  cut.targets.push_back(std::move(targets));
  cut.passes.push_back({.column_count = static_cast<std::int64_t>(moving.size()),
                        .first_of_chain = false,
                        .last_of_chain = false});
}

// Passes over parts of the moving columns of a step; the last part has no chain behind it that hides its drain.
void add_tap_step(const TapProblem& problem, const TapFold& taps,
                  const std::vector<MovingColumn>& moving, std::int64_t& chain, TapCut& cut) {
  const auto& [shape, work, bands, image, kernel] = problem;
  const ArrayFold& fold = taps.fold;
  const TileAxis rows(fold.tile_h, work.kernel_h, work.stride_h);
  const TileAxis across(fold.tile_w, work.kernel_w, work.stride_w);
  const std::int64_t per_block = shape.columns / work.output_channels;
  const std::int64_t blocks = ceil_div(rows.reached * across.reached, per_block);
  const auto all = static_cast<std::int64_t>(moving.size());
  const std::int64_t parts = ceil_div(all, taps.at_once);
  const Cycles load = shape.rows * std::max(fold.full.loads, fold.rest.loads);
  std::int64_t first = 0;
  for (std::int64_t i = 0; i < parts; ++i, ++chain) {
    const std::int64_t count = all / parts + (i < all % parts ? 1 : 0);
    const std::vector<MovingColumn> part(moving.begin() + first, moving.begin() + first + count);
    first += count;
    const std::size_t begin = cut.passes.size();
    for (std::int64_t c = 0; c < work.channels; c += shape.rows) {
      for (std::int64_t block = 0; block < blocks; ++block) {
        const TapPass pass{c, std::min(shape.rows, work.channels - c), block};
        add_tap_pass(problem, fold, part, pass, cut);
      }
    }
    const auto earlier = static_cast<std::int64_t>(cut.passes.size() - begin) - 1;
    const Cycles hidden = i + 1 < parts ? earlier * std::max(all / parts, load) : 0;
    for (std::size_t p = begin; p < cut.passes.size(); ++p) {
      cut.passes[p].bank = chain % shape.banks;
      cut.passes[p].hold = load;
    }
    cut.passes[begin].first_of_chain = cut.passes.back().last_of_chain = true;
    const Cycles drain =
        (shape.post_cycles - 1) * count + std::max(count, ceil_div(shape.columns, shape.banks));
    cut.passes.back().hold = std::max(load, drain - hidden);
  }
}

TapCut tap_cut(const TapProblem& problem, const TapFold& taps) {
  TapCut cut;
  std::int64_t chain = 0, next = 0;
  for (std::int64_t row = 0; row < problem.bands.rows; row += problem.bands.rows_per_step) {
    const std::int64_t rows = std::min(problem.bands.rows_per_step, problem.bands.rows - row);
    const std::int64_t count = taps.columns(problem.work, row, rows) / taps.across;
    std::vector<MovingColumn> moving;
    for (std::int64_t y = 0; y < count; ++y) {
      for (std::int64_t x = 0; x < taps.across; ++x) moving.push_back({next + y, x});
    }
    next += count;
    add_tap_step(problem, taps, moving, chain, cut);
  }
  cut.connect();
  return cut;
}

// Each output is the sum of what columns made for it.
void expect_sums_meet(const TapProblem& problem, const TapCut& cut, const ArrayModel& array) {
  const auto& [shape, work, bands, image, kernel] = problem;
  std::vector<std::int64_t> sums(
      static_cast<std::size_t>(bands.rows * work.columns * work.output_channels), 0);
  const auto at = [&](std::int64_t y, std::int64_t x, std::int64_t o) -> std::int64_t& {
    return sums[static_cast<std::size_t>((y * work.columns + x) * work.output_channels + o)];
  };
  std::vector<std::size_t> pass(static_cast<std::size_t>(shape.columns), 0);
  for (const PsumArrival& arrival : array.arrivals()) {
    std::size_t& of = pass[static_cast<std::size_t>(arrival.partition)];
    const auto& target =
        cut.targets[of][static_cast<std::size_t>(arrival.row * shape.columns + arrival.partition)];
    if (arrival.row + 1 == cut.passes[of].column_count) ++of;
    const bool within = target.output >= 0 && target.y >= 0 && target.y < bands.rows &&
                        target.x >= 0 && target.x < work.columns;
    if (within) at(target.y, target.x, target.output) += arrival.sum;
  }
  for (std::int64_t y = 0; y < bands.rows; ++y) {
    for (std::int64_t x = 0; x < work.columns; ++x) {
      for (std::int64_t o = 0; o < work.output_channels; ++o) {
        std::int64_t expected = 0;
        for (std::int64_t c = 0; c < work.channels; ++c) {
          for (std::int64_t ky = 0; ky < work.kernel_h; ++ky) {
            for (std::int64_t kx = 0; kx < work.kernel_w; ++kx) {
              expected += problem.weight(o, c, ky, kx) *
                          problem.pixel(c, y * work.stride_h + ky, x * work.stride_w + kx);
            }
          }
        }
        ASSERT_EQ(at(y, x, o), expected) << y << " " << x << " " << o;
      }
    }
  }
}

// Whether the cost is that of `work` in columns, and not of what tiles of outputs take.
bool takes_columns(const TapProblem& problem) {
  const NeuralEngineConfig config = problem.config();
  ProductWork tiles = problem.work;
  tiles.sums_in_parts = true;
  return neural_task_cycles(config, problem.work, problem.bands) <
         neural_task_cycles(config, tiles, problem.bands) + micro_tree_cycles(config, problem.work);
}

TEST(ArrayModel, TapsInColumnsGiveTheClosedFormulasCyclesAndTheSameSums) {
  constexpr unsigned kSeed = 71;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  std::int64_t taken = 0, tiles = 0, steps = 0, blocks = 0, strided = 0;
  for (int i = 0; i < 6000; ++i) {
    TapProblem problem = random_tap_problem(random);
    const NeuralEngineConfig config = problem.config();
    const ProductWork& work = problem.work;
    const auto taps = tap_fold(config, work, {problem.bands.rows, work.output_channels});
    if (!taps || !takes_columns(problem)) continue;
    problem.shape.post_cycles = taps->fold.result_cycles;
    const TapCut cut = tap_cut(problem, *taps);
    ArrayModel array(problem.shape);
    array.run(cut.passes);
    // The tree behind the columns is no part of the array.
    ASSERT_EQ(array.cycles() + micro_tree_cycles(config, work),
              neural_task_cycles(config, work, problem.bands))
        << "problem " << i;
    ASSERT_EQ(array.lost(), 0) << "problem " << i;
    expect_sums_meet(problem, cut, array);
    ++taken;
    tiles += taps->fold.tile_h * taps->fold.tile_w > work.stride_h * work.stride_w;
    steps += problem.bands.rows > problem.bands.rows_per_step;
    blocks += taps->fold.rest.count > 1;
    strided += work.stride_h > 1;
  }
  EXPECT_GT(taken, 500);
  EXPECT_GT(tiles, 100);
  EXPECT_GT(steps, 200);
  EXPECT_GT(blocks, 100);
  EXPECT_GT(strided, 20);
}

// One block of columns after the other, each with its outputs of the pixels that it touches.
TapCut pixel_cut(const TapProblem& problem, const CutFold& fold) {
  const auto& [shape, work, bands, image, kernel] = problem;
  TapCut cut;
  const std::int64_t pixels = fold.fold.tile_w, across = ceil_div(work.columns, pixels);
  const std::int64_t all = bands.rows * across;
  const std::int64_t parts = ceil_div(all, shape.bank_columns);
  for (std::int64_t block = 0; block < fold.blocks; ++block) {
    std::int64_t first = 0;
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t count = all / parts + (part < all % parts ? 1 : 0);
      std::vector<std::int64_t> weights(static_cast<std::size_t>(shape.rows * shape.columns), 0);
      std::vector<std::int64_t> columns(static_cast<std::size_t>(count * shape.rows), 0);
      std::vector<TapCut::Target> targets(static_cast<std::size_t>(count * shape.columns));
      const std::int64_t begin = block * shape.columns / work.output_channels;
      for (std::int64_t column = 0; column < shape.columns; ++column) {
        const std::int64_t at = block * shape.columns + column;
        const std::int64_t pixel = at / work.output_channels, o = at % work.output_channels;
        if (pixel >= pixels) break;
        for (std::int64_t c = 0; c < work.channels; ++c) {
          const std::int64_t row = (pixel - begin) * work.channels + c;
          weights[static_cast<std::size_t>(row * shape.columns + column)] =
              problem.weight(o, c, 0, 0);
          for (std::int64_t j = 0; j < count; ++j) {
            const std::int64_t y = (first + j) / across;
            const std::int64_t x = (first + j) % across * pixels + pixel;
            columns[static_cast<std::size_t>(j * shape.rows + row)] = problem.pixel(c, y, x);
            targets[static_cast<std::size_t>(j * shape.columns + column)] = {y, x, o};
          }
        }
      }
      first += count;
      cut.weights.push_back(std::move(weights));
      cut.columns.push_back(std::move(columns));
      cut.targets.push_back(std::move(targets));
      const Cycles drain =
          (shape.post_cycles - 1) * count + std::max(count, ceil_div(shape.columns, shape.banks));
      cut.passes.push_back({.column_count = count,
                            .bank = std::ssize(cut.passes) % shape.banks,
                            .hold = std::max<Cycles>(shape.rows, drain)});
    }
  }
  cut.connect();
  return cut;
}

TEST(ArrayModel, PixelsCutBetweenBlocksOfColumnsGiveTheClosedFormulasCyclesAndTheSameSums) {
  constexpr unsigned kSeed = 73;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  std::int64_t taken = 0, wide = 0;
  for (int i = 0; i < 4000; ++i) {
    TapProblem problem;
    problem.shape = {random_between(random, 2, 9), random_between(random, 3, 12),
                     random_between(random, 1, 4), random_between(random, 4, 40)};
    problem.shape.post_cycles = random_between(random, 1, 2);
    ProductWork& work = problem.work;
    work.channels = random_between(random, 1, problem.shape.rows);
    work.output_channels = random_between(random, 1, 2 * problem.shape.columns);
    work.columns = random_between(random, 1, 30);
    work.post_cycles = problem.shape.post_cycles;
    const std::int64_t rows = random_between(random, 1, 4);
    problem.bands = {.images = 1, .rows = rows, .rows_per_step = rows};
    fill_tap_problem(random, problem);
    const NeuralEngineConfig config = problem.config();
    const auto fold = cut_fold(config, work, {rows, work.output_channels});
    if (!fold || !takes_columns(problem)) continue;
    const TapCut cut = pixel_cut(problem, *fold);
    ArrayModel array(problem.shape);
    array.run(cut.passes);
    ASSERT_EQ(array.cycles(), neural_task_cycles(config, work, problem.bands)) << "problem " << i;
    ASSERT_EQ(array.lost(), 0) << "problem " << i;
    expect_sums_meet(problem, cut, array);
    ++taken;
    wide += work.output_channels > problem.shape.columns;
  }
  EXPECT_GT(taken, 300);
  EXPECT_GT(wide, 50);
}

}  // namespace
}  // namespace tessera::engines
