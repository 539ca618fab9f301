#include "host/dense_elementwise.h"

#include <algorithm>

#include "base/check.h"
#include "base/quantity.h"

namespace tessera::host {
namespace {

// Fewer elements than this are not worth another thread.
constexpr std::int64_t kElementsMin = 8192;

}  // namespace

DenseElementwise::DenseElementwise(std::span<const Shape> operands, const Shape& output)
    : operands_(operands.size()) {
  TESSERA_CHECK(operands_ == 1 || operands_ == 2, "{} operands", operands_);
  std::vector<Axis> axes;  // innermost first
  std::int64_t steps[3] = {1, 1, 1};
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
  if (axes.empty()) axes.push_back({.extent = 1, .strides = {1, 1, 1}});
  run_ = axes.front();
  outer_.assign(axes.rbegin(), axes.rend() - 1);
  for (const Axis& axis : outer_) runs_ *= axis.extent;
}

void DenseElementwise::run(const ElementwiseConfig& config, std::span<const Buffer> buffers,
                           ThreadPool& pool) const {
  TESSERA_CHECK(buffers.size() == operands_ + 1, "{} buffers", buffers.size());
  if (runs_ * run_.extent == 0) return;
  // Elements [first, last) of every run in [run_first, run_last).
  const auto work = [&](std::int64_t run_first, std::int64_t run_last, std::int64_t first,
                        std::int64_t last) {
    for (std::int64_t index = run_first; index < run_last; ++index) {
      std::int64_t offsets[3] = {};
      for (std::int64_t left = index, axis = std::ssize(outer_) - 1; axis >= 0; --axis) {
        const Axis& outer = outer_[static_cast<std::size_t>(axis)];
        const std::int64_t place = left % outer.extent;
        left /= outer.extent;
        for (std::size_t i = 0; i <= operands_; ++i) offsets[i] += place * outer.strides[i];
      }
      const auto at = [&](std::size_t i) {
        return buffers[i].data +
               (offsets[i] + first * run_.strides[i]) * format_bytes(buffers[i].format);
      };
      const arith::Operand a = {buffers[0].format, at(0), run_.strides[0]};
      arith::Operand b;
      if (operands_ == 2) b = {buffers[1].format, at(1), run_.strides[1]};
      elementwise_run(config, a, operands_ == 2 ? &b : nullptr,
                      {buffers.back().format, at(operands_), last - first});
    }
  };
  const std::int64_t pieces = std::clamp<std::int64_t>(runs_ * run_.extent / kElementsMin, 1,
                                                       2 * std::int64_t{pool.threads()});
  if (runs_ >= pieces) {
    pool.run(pieces, [&](std::int64_t piece, int) {
      work(runs_ * piece / pieces, runs_ * (piece + 1) / pieces, 0, run_.extent);
    });
    return;
  }
  pool.run(pieces, [&](std::int64_t piece, int) {
    work(0, runs_, run_.extent * piece / pieces, run_.extent * (piece + 1) / pieces);
  });
}

}  // namespace tessera::host
