// The vector unit's work at host speed: conversion, addition, quantisation into blocks.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "arith/vector_ops.h"

namespace tessera::arith {
namespace {

constexpr std::int64_t kElements = 1 << 16;

// Finite f16 values of all sizes; the same in every run.
std::vector<std::uint16_t> some_f16() {
  std::vector<std::uint16_t> values(kElements);
  std::uint32_t state = 1;
  for (std::uint16_t& value : values) {
    state = state * 1664525 + 1013904223;
    value = static_cast<std::uint16_t>((state >> 16) & 0xbbff);
  }
  return values;
}

void convert_f16_to_f32(benchmark::State& state) {
  const auto in = some_f16();
  std::vector<float> out(kElements);
  for (auto _ : state) {
    simd::convert({Format::kF16, in.data()}, {Format::kF32, out.data(), kElements});
    benchmark::DoNotOptimize(out.data());
  }
  state.SetItemsProcessed(state.iterations() * kElements);
}
BENCHMARK(convert_f16_to_f32);

void add_f16(benchmark::State& state) {
  const auto a = some_f16();
  std::vector<std::uint16_t> out(kElements);
  for (auto _ : state) {
    simd::binary(BinaryFunction::kAdd, {Format::kF16, a.data()}, {Format::kF16, a.data()},
                 {Format::kF16, out.data(), kElements});
    benchmark::DoNotOptimize(out.data());
  }
  state.SetItemsProcessed(state.iterations() * kElements);
}
BENCHMARK(add_f16);

void quantise_columns_f16(benchmark::State& state) {
  constexpr std::int64_t kRows = 128;
  constexpr std::int64_t kPixels = kElements / kRows;
  const auto in = some_f16();
  std::vector<const void*> rows;
  for (std::int64_t r = 0; r < kRows; ++r) rows.push_back(in.data() + r * kPixels);
  std::vector<std::uint8_t> exponents(kPixels);
  std::vector<std::int16_t> mantissas(kElements);
  const ColumnBlocks blocks{.format = Format::kF16,
                            .rows = rows.data(),
                            .row_count = kRows,
                            .pixels = kPixels,
                            .mantissa_bits = static_cast<int>(state.range(0)),
                            .exponents = exponents.data(),
                            .mantissas = mantissas.data(),
                            .pair_stride = 2 * kPixels};
  StickyFlags flags;
  for (auto _ : state) {
    simd::quantise_columns(blocks, flags);
    benchmark::DoNotOptimize(mantissas.data());
  }
  state.SetItemsProcessed(state.iterations() * kElements);
}
BENCHMARK(quantise_columns_f16)->Arg(7)->Arg(11);

}  // namespace
}  // namespace tessera::arith
