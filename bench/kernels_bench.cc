// How fast the kernels of arith/kernels are, in multiply-accumulates (or elements) a second, on the
// shapes that convolutional networks are made of. One thread.

#include <benchmark/benchmark.h>

#include <random>

#include "arith/kernels/make_product.h"
#include "arith/kernels/planar/planar.h"
#include "arith/kernels/product.h"
#include "arith/rounding.h"

namespace tessera {
namespace {

constexpr Format kFormat = Format::kF16;

// A dense block [channels, rows, columns] of random numbers.
struct Block {
  std::vector<std::byte> memory;
  Surface surface;

  Block(std::int64_t channels, std::int64_t rows, std::int64_t columns) {
    const std::int64_t element = format_bytes(kFormat);
    const std::int64_t count = channels * rows * columns;
    memory.resize(static_cast<std::size_t>(count * element));
    std::mt19937 random(7);
    std::normal_distribution<double> normal;
    for (std::int64_t i = 0; i < count; ++i) {
      arith::write_element(kFormat, normal(random), memory.data() + i * element);
    }
    surface.base = memory.data();
    surface.format = kFormat;
    surface.channels = surface.partitions = channels;
    surface.rows = surface.ring_rows = rows;
    surface.columns = columns;
    surface.partition_pitch = rows * columns * element;
    surface.row_pitch = columns * element;
    surface.column_pitch = element;
  }
};

// Arguments: input channels, output channels, rows and columns, kernel, stride.
void convolution(benchmark::State& state, bool channel_wise, BlockCut cut) {
  const std::int64_t channels = state.range(0);
  const std::int64_t outputs = state.range(1);
  const std::int64_t size = state.range(2);
  ProductConfig config;
  config.kernel_h = config.kernel_w = state.range(3);
  config.stride_h = config.stride_w = state.range(4);
  config.pad_top = config.pad_left = config.kernel_h / 2;
  config.image.channel_wise = channel_wise;
  config.image.cut = cut;
  config.image.groups = channel_wise ? channels : 1;
  config.image.channels = channel_wise ? 1 : channels;
  config.image.output_channels = channel_wise ? 1 : outputs;
  config.image.taps = config.kernel_h * config.kernel_w;
  const std::int64_t output_size = (size - 1) / config.stride_h + 1;
  const Block weights(outputs, channel_wise ? 1 : channels, config.image.taps);
  const Block input(channels, size, size);
  const Block output(outputs, output_size, output_size);
  const std::vector<std::byte> image = make_kernel_image(config.image, weights.memory.data());
  const auto product = make_product(config, {image.data(), config.image.bytes_per_partition()}, {});
  const auto workspace = make_product_workspace();
  for (auto _ : state) {
    product->run(input.surface, output.surface, 0, {0, output_size}, *workspace);
  }
  const std::int64_t macs =
      output_size * output_size * outputs * config.image.taps * (channel_wise ? 1 : channels);
  state.counters["MAC/s"] =
      benchmark::Counter(static_cast<double>(macs), benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK_CAPTURE(convolution, pointwise, false, BlockCut::kChannel)
    ->Args({16, 32, 320, 1, 1})
    ->Args({96, 96, 80, 1, 1})
    ->Args({384, 384, 20, 1, 1});
BENCHMARK_CAPTURE(convolution, rolling, false, BlockCut::kChannel)
    ->Args({96, 24, 160, 3, 1})
    ->Args({64, 64, 56, 3, 1})
    ->Args({64, 128, 56, 3, 2});
BENCHMARK_CAPTURE(convolution, im2col, false, BlockCut::kIm2col)->Args({3, 16, 640, 3, 2});
BENCHMARK_CAPTURE(convolution, channel_wise, true, BlockCut::kChannel)
    ->Args({32, 32, 160, 3, 1})
    ->Args({48, 48, 160, 3, 2})
    ->Args({384, 384, 20, 5, 1});

void elements_done(benchmark::State& state, std::int64_t count) {
  state.counters["elements/s"] =
      benchmark::Counter(static_cast<double>(count), benchmark::Counter::kIsIterationInvariantRate);
}

void addition(benchmark::State& state) {
  const Block a(32, 160, 160);
  const Block b(32, 160, 160);
  const Block output(32, 160, 160);
  ElementwiseConfig config;
  config.binary = true;
  for (auto _ : state) {
    elementwise(config, a.surface, &b.surface, output.surface, {0, 32}, {0, 160});
  }
  elements_done(state, 32 * 160 * 160);
}
BENCHMARK(addition);

void pooling(benchmark::State& state, PoolFunction function) {
  const Block input(32, 160, 160);
  const Block output(32, 80, 80);
  PoolConfig config;
  config.function = function;
  config.window_h = config.window_w = 2;
  config.stride_h = config.stride_w = 2;
  for (auto _ : state) pool(config, input.surface, output.surface, {0, 32}, {0, 80});
  elements_done(state, 32 * 80 * 80);
}
BENCHMARK_CAPTURE(pooling, maximum, PoolFunction::kMaximum);
BENCHMARK_CAPTURE(pooling, average, PoolFunction::kAverage);

void global_mean(benchmark::State& state) {
  const Block input(96, 80, 80);
  const Block output(96, 1, 1);
  ReduceConfig config;
  config.function = ReduceFunction::kMean;
  config.over_rows = true;
  for (auto _ : state) reduce(config, input.surface, output.surface, {0, 96}, {0, 1});
  elements_done(state, 96 * 80 * 80);
}
BENCHMARK(global_mean);

}  // namespace
}  // namespace tessera
