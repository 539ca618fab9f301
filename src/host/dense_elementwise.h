// Element-wise work over dense tensors that broadcast against each other, as few and as long runs
// as their shapes allow:
//
//   [1,64,56,56] + [1,64,56,56]   one run of 200,704 elements
//   [1,64,56,56] * [1,64,1,1]     64 runs of 3,136, b is one element for all
//   [197,192] + [192]             197 runs of 192
//   [4420,2] - [4420,1]           5 runs: 4,420 would be short, so b is repeated into a buffer first
//
// Steps that follow each other on the same elements go together, a piece at a time:
//
//   x ──► [ * scale ] ──► 4,096 elements in the cache ──► [ + shift ] ──► y
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "arith/kernels/planar/planar.h"
#include "arith/tensor.h"
#include "arith/value_extent.h"
#include "host/thread_pool.h"

namespace tessera::host {

// `reach` becomes what is further; by any number of threads.
void reach_to(std::atomic<std::uint8_t>& reach, ValueExtent extent);

class DenseElementwise {
 public:
  static constexpr std::size_t kOperandsMax = 3;

  // Operand dimensions as numpy broadcasts them to `output`; one operand, two, or the
  // three of gain and bias.
  DenseElementwise(std::span<const Shape> operands, const Shape& output);

  struct Buffer {
    Format format = Format::kF16;
    std::byte* data = nullptr;
  };
  // Operands in the order of the constructor's, behind them the output.
  struct Step {
    const DenseElementwise* shape = nullptr;
    ElementwiseConfig config;
    std::array<Buffer, kOperandsMax + 1> buffers = {};
    std::atomic<std::uint8_t>* reach =
        nullptr;  // where to say how far the results reach; null: nowhere
    arith::HiddenEnds hidden = {};
  };
  // Steps whose outputs have the same dimensions, one after the other for a piece that stays in the
  // first-level cache. A buffer without data is the output of the step before.
  static void run(std::span<const Step> steps, ThreadPool& pool);

 private:
  // Where a step's operands and output lie, and the element that each begins with.
  struct Placed {
    std::array<Buffer, kOperandsMax + 1> buffers = {};
    std::array<std::int64_t, kOperandsMax + 1> first = {};
  };
  // Elements [first, last) of the output.
  void run_part(const ElementwiseConfig& config, const Placed& placed, std::int64_t first,
                std::int64_t last) const;
  void run_repeated(const ElementwiseConfig& config, const Placed& placed, std::int64_t first,
                    std::int64_t last) const;
  // Where each operand and the output are at the begin of a run, in elements.
  using Offsets = std::array<std::int64_t, kOperandsMax + 1>;
  Offsets offsets_of_run(std::int64_t run) const;
  // What elements [first, last) of the output read from `operand`, one behind the other.
  void repeat(std::size_t operand, const Placed& placed, std::int64_t first, std::int64_t last,
              std::byte* target) const;
  // How far the piece just made reaches, while it is in the cache.
  static void look_at(const Step& step, const Placed& placed, std::int64_t begin, std::int64_t end);
  std::int64_t elements() const { return runs_ * run_.extent; }
  static void run_pieces(std::span<const Step> steps, std::int64_t first, std::int64_t last);

  struct Axis {
    std::int64_t extent = 1;
    std::int64_t strides[kOperandsMax + 1] = {};  // operands, output, in elements; 0: repeated
  };
  std::vector<Axis> outer_;  // outermost first
  Axis run_;                 // the innermost; strides 0 or 1
  std::int64_t runs_ = 1;
  std::size_t operands_ = 1;
  enum class Reading : std::uint8_t {
    kDense,
    kSingle,
    kRepeated
  };  // as the output lies; one element; else
  std::array<Reading, kOperandsMax> readings_ = {};
};

}  // namespace tessera::host
