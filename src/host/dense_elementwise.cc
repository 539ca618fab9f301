#include "host/dense_elementwise.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/element_size.h"
#include "base/quantity.h"

namespace tessera::host {
namespace {

// Fewer elements than this are not worth another thread.
constexpr std::int64_t kElementsMin = 8192;
// Elements of a piece that passes from step to step.
constexpr std::int64_t kPassed = 4096;
// Runs that are shorter take longer to begin than to compute.
constexpr std::int64_t kShortRun = 48;
// Elements of operands that are repeated at a time, so that they stay in the cache.
constexpr std::int64_t kRepeatedAtOnce = 1024;

void run_array(const ElementwiseConfig& config, std::size_t count,
               const arith::Operand (&operands)[DenseElementwise::kOperandsMax],
               const arith::Output& out) {
  if (count == DenseElementwise::kOperandsMax) {
    gain_bias_run(config, operands, out);
  } else {
    elementwise_run(config, operands[0], &operands[1], out);
  }
}

}  // namespace

DenseElementwise::DenseElementwise(std::span<const Shape> operands, const Shape& output)
    : operands_(operands.size()) {
  TESSERA_CHECK(operands_ >= 1 && operands_ <= kOperandsMax, "{} operands", operands_);
  std::vector<Axis> axes;  // innermost first
  std::int64_t steps[kOperandsMax + 1] = {1, 1, 1, 1};
  for (std::size_t i = 0; i < output.size(); ++i) {
    const std::int64_t extent = output[output.size() - 1 - i];
    Axis axis = {.extent = extent, .strides = {}};
    for (std::size_t operand = 0; operand <= operands_; ++operand) {
      const Shape& dims = operand == operands_ ? output : operands[operand];
      const std::int64_t own = i < dims.size() ? dims[dims.size() - 1 - i] : 1;
      TESSERA_CHECK(own == extent || own == 1, "extent {} against {}", own, extent);
      axis.strides[operand] = own == 1 ? 0 : steps[operand];
      steps[operand] *= own;
    }
    if (extent == 1) continue;
    if (!axes.empty()) {
      Axis& inner = axes.back();
      bool joins = true;
      for (std::size_t j = 0; j <= operands_; ++j) {
        joins &= axis.strides[j] == inner.strides[j] * inner.extent;
      }
      if (joins) {
        inner.extent *= extent;
        continue;
      }
    }
    axes.push_back(axis);
  }
  if (axes.empty()) axes.push_back({.extent = 1, .strides = {1, 1, 1, 1}});
  run_ = axes.front();
  outer_.assign(axes.rbegin(), axes.rend() - 1);
  for (const Axis& axis : outer_) runs_ *= axis.extent;
  for (std::size_t i = 0; i < operands_; ++i) {
    const auto all = [&](const auto& holds) {
      return std::all_of(axes.begin(), axes.end(), holds);
    };
    readings_[i] = Reading::kRepeated;
    if (all([&](const Axis& axis) { return axis.strides[i] == 0; })) {
      readings_[i] = Reading::kSingle;
    } else if (all([&](const Axis& axis) { return axis.strides[i] == axis.strides[operands_]; })) {
      readings_[i] = Reading::kDense;
    }
  }
}

DenseElementwise::Offsets DenseElementwise::offsets_of_run(std::int64_t run) const {
  Offsets offsets = {};
  for (std::int64_t left = run, axis = std::ssize(outer_) - 1; axis >= 0; --axis) {
    const Axis& outer = outer_[static_cast<std::size_t>(axis)];
    const std::int64_t place = left % outer.extent;
    left /= outer.extent;
    for (std::size_t i = 0; i <= operands_; ++i) offsets[i] += place * outer.strides[i];
  }
  return offsets;
}

void DenseElementwise::run_part(const ElementwiseConfig& config, const Placed& placed,
                                std::int64_t first, std::int64_t last) const {
  if (run_.extent < kShortRun && last - first > run_.extent) {
    return run_repeated(config, placed, first, last);
  }
  const std::array<Buffer, kOperandsMax + 1>& buffers = placed.buffers;
  for (std::int64_t element = first; element < last;) {
    const std::int64_t begin = element % run_.extent;
    const std::int64_t count = std::min(last - element, run_.extent - begin);
    const Offsets offsets = offsets_of_run(element / run_.extent);
    const auto at = [&](std::size_t i) {
      const Buffer& buffer = buffers[i];
      return buffer.data +
             (offsets[i] + begin * run_.strides[i] - placed.first[i]) * format_bytes(buffer.format);
    };
    arith::Operand operands[kOperandsMax];
    for (std::size_t i = 0; i < operands_; ++i) {
      operands[i] = {buffers[i].format, at(i), run_.strides[i]};
    }
    const arith::Output out = {buffers[operands_].format, at(operands_), count};
    run_array(config, operands_, operands, out);
    element += count;
  }
}

void DenseElementwise::repeat(std::size_t operand, const Placed& placed, std::int64_t first,
                              std::int64_t last, std::byte* target) const {
  const Buffer& buffer = placed.buffers[operand];
  with_element(format_bytes(buffer.format), [&](auto zero) {
    using T = decltype(zero);
    constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));
    for (std::int64_t element = first; element < last;) {
      const std::int64_t begin = element % run_.extent;
      const std::int64_t count = std::min(last - element, run_.extent - begin);
      const std::int64_t stride = run_.strides[operand];
      const std::byte* const source =
          buffer.data + (offsets_of_run(element / run_.extent)[operand] + begin * stride -
                         placed.first[operand]) *
                            kBytes;
      for (std::int64_t i = 0; i < count; ++i) {
        std::memcpy(target + i * kBytes, source + i * stride * kBytes, sizeof(T));
      }
      target += count * kBytes;
      element += count;
    }
  });
}

// The same where runs are short: operands are repeated as they are broadcast, and the output is one run.
void DenseElementwise::run_repeated(const ElementwiseConfig& config, const Placed& placed,
                                    std::int64_t first, std::int64_t last) const {
  constexpr std::int64_t kBytesMax = 8;
  alignas(64) std::byte repeated[kOperandsMax][kRepeatedAtOnce * kBytesMax];
  for (std::int64_t begin = first; begin < last; begin += kRepeatedAtOnce) {
    const std::int64_t end = std::min(last, begin + kRepeatedAtOnce);
    const auto at = [&](std::size_t i, std::int64_t element) {
      const Buffer& buffer = placed.buffers[i];
      return buffer.data + (element - placed.first[i]) * format_bytes(buffer.format);
    };
    arith::Operand operands[kOperandsMax];
    for (std::size_t i = 0; i < operands_; ++i) {
      const Format format = placed.buffers[i].format;
      switch (readings_[i]) {
        case Reading::kSingle:
          operands[i] = {format, at(i, 0), 0};
          break;
        case Reading::kDense:
          operands[i] = {format, at(i, begin), 1};
          break;
        case Reading::kRepeated:
          repeat(i, placed, begin, end, repeated[i]);
          operands[i] = {format, repeated[i], 1};
      }
    }
    run_array(config, operands_, operands,
              {placed.buffers[operands_].format, at(operands_, begin), end - begin});
  }
}

namespace {

// What passes from a step to the next.
struct alignas(64) Passed {
  std::byte bytes[kPassed * 8];
};

}  // namespace

void DenseElementwise::look_at(const Step& step, const Placed& placed, std::int64_t begin,
                               std::int64_t end) {
  if (step.reach == nullptr) return;
  const std::size_t output = step.shape->operands_;
  const Buffer& made = placed.buffers[output];
  const std::byte* const from =
      made.data + (begin - placed.first[output]) * format_bytes(made.format);
  reach_to(*step.reach, arith::value_extent(made.format, from, end - begin, step.hidden));
}

void reach_to(std::atomic<std::uint8_t>& reach, ValueExtent extent) {
  std::uint8_t now = reach.load(std::memory_order_relaxed);
  while (now < static_cast<std::uint8_t>(extent) &&
         !reach.compare_exchange_weak(now, static_cast<std::uint8_t>(extent),
                                      std::memory_order_relaxed)) {
  }
}

void DenseElementwise::run_pieces(std::span<const Step> steps, std::int64_t first,
                                  std::int64_t last) {
  if (steps.size() == 1 && (steps[0].reach == nullptr || last - first <= kPassed)) {
    const Step& step = steps[0];
    const Placed placed = {step.buffers};
    step.shape->run_part(step.config, placed, first, last);
    return look_at(step, placed, first, last);
  }
  Passed passed[2];
  for (std::int64_t begin = first; begin < last; begin += kPassed) {
    const std::int64_t end = std::min(last, begin + kPassed);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const std::size_t output = steps[i].shape->operands_;
      Placed placed = {steps[i].buffers};
      for (std::size_t b = 0; b <= output; ++b) {
        if (placed.buffers[b].data != nullptr) continue;
        placed.buffers[b].data = passed[(i + (b == output ? 1 : 0)) % 2].bytes;
        placed.first[b] = begin;
      }
      steps[i].shape->run_part(steps[i].config, placed, begin, end);
      look_at(steps[i], placed, begin, end);
    }
  }
}

void DenseElementwise::run(std::span<const Step> steps, ThreadPool& pool) {
  const DenseElementwise& shape = *steps.back().shape;
  const std::int64_t elements = shape.elements();
  for (const Step& step : steps.first(steps.size() - 1)) {
    TESSERA_CHECK(step.shape->elements() == elements, "{} elements, then {}",
                  step.shape->elements(), elements);
  }
  if (elements == 0) return;
  const std::int64_t pieces =
      std::clamp<std::int64_t>(elements / kElementsMin, 1, 2 * std::int64_t{pool.threads()});
  if (pieces == 1) return run_pieces(steps, 0, elements);
  // Whole runs where there are enough of them.
  const std::int64_t unit = shape.runs_ >= pieces ? shape.run_.extent : 1;
  const std::int64_t units = elements / unit;
  pool.run(pieces, [&](std::int64_t piece, int) {
    run_pieces(steps, units * piece / pieces * unit, units * (piece + 1) / pieces * unit);
  });
}

}  // namespace tessera::host
