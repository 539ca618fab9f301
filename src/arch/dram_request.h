// What is asked of a DRAM: grids of contiguous runs, and parts of them.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "arch/chip_config.h"
#include "base/quantity.h"

namespace tessera {

inline constexpr int kRunAxesMax = 8;

// Equal contiguous runs on a strided grid, in the order in which they are moved.
struct StridedRuns {
  std::int64_t address = 0;  // modelled address, bytes
  std::int64_t run_bytes = 0;
  int axes = 0;
  std::array<std::int64_t, kRunAxesMax> extents{};  // outermost first
  std::array<std::int64_t, kRunAxesMax> strides{};  // bytes

  std::int64_t runs() const {
    std::int64_t n = 1;
    for (int i = 0; i < axes; ++i) n *= extents[static_cast<std::size_t>(i)];
    return n;
  }
};

struct DramRequest {
  const StridedRuns* grid = nullptr;  // outlives the request's acceptance
  std::int64_t first_run = 0;
  std::int64_t runs = 1;
  std::int64_t skip = 0;   // bytes of each run to leave out at its start
  std::int64_t bytes = 0;  // of each run
  bool write = false;
  // On a card of several cores, as the descriptor says (isa/task_header.h): the memory, and the share
  // of a read with the cores that have it in common.
  static constexpr std::uint8_t kOwnMemory = 0xFF;
  std::uint8_t memory = kOwnMemory;
  std::uint32_t share = 0;  // 0: none
  std::uint64_t share_cores = 0;
  // Of which task of the core's run it is, for the timeline.
  static constexpr std::uint32_t kNoTask = 0xFFFF'FFFF;
  std::uint32_t task = kNoTask;
};

// Goes through the runs of a request, in order.
class RunWalk {
 public:
  explicit RunWalk(const DramRequest& request) : grid_(*request.grid) {
    address_ = grid_.address + request.skip;
    std::int64_t rest = request.first_run;
    for (int axis = grid_.axes - 1; axis >= 0 && rest != 0; --axis) {
      const auto a = static_cast<std::size_t>(axis);
      index_[a] = rest % grid_.extents[a];
      rest /= grid_.extents[a];
      address_ += index_[a] * grid_.strides[a];
    }
  }

  std::int64_t address() const { return address_; }
  // Runs from here on that lie pitch() apart; 1 where there are no axes.
  std::int64_t left_of_axis() const {
    return grid_.axes == 0 ? 1 : grid_.extents[inner()] - index_[inner()];
  }
  std::int64_t pitch() const { return grid_.axes == 0 ? 0 : grid_.strides[inner()]; }
  // `runs` on, fewer than left_of_axis().
  void skip(std::int64_t runs) {
    if (runs == 0) return;
    address_ += runs * pitch();
    index_[inner()] += runs;
  }
  // To the next run; the request has one.
  void next() {
    for (int axis = grid_.axes - 1; axis >= 0; --axis) {
      const auto a = static_cast<std::size_t>(axis);
      address_ += grid_.strides[a];
      if (++index_[a] < grid_.extents[a]) return;
      address_ -= grid_.strides[a] * grid_.extents[a];
      index_[a] = 0;
    }
  }

 private:
  std::size_t inner() const { return static_cast<std::size_t>(grid_.axes - 1); }

  const StridedRuns& grid_;
  std::array<std::int64_t, kRunAxesMax> index_{};
  std::int64_t address_ = 0;
};

// What the queues of the data DMA do with a request.
struct QueuePace {
  std::int64_t queues = 0;  // 0: nothing
  std::int64_t core_megahertz = 1;
  std::int64_t megabytes_per_second = 1;
  std::int64_t descriptor_bytes = 1;
  std::int64_t descriptor_nanoseconds = 0;

  static QueuePace of(const ChipConfig& chip) {
    return {.queues = chip.dma.queues,
            .core_megahertz = ceil_div(chip.clock_hertz, 1'000'000),
            .megabytes_per_second = chip.dma.queue_megabytes_per_second,
            .descriptor_bytes = chip.dma.descriptor_bytes,
            .descriptor_nanoseconds = chip.dma.descriptor_nanoseconds};
  }
  // Core cycles, summed over the queues.
  Cycles cycles(const DramRequest& request) const {
    const std::int64_t descriptors = request.runs * ceil_div(request.bytes, descriptor_bytes);
    return ceil_div(request.runs * request.bytes * core_megahertz, megabytes_per_second) +
           ceil_div(descriptors * descriptor_nanoseconds * core_megahertz, 1000);
  }
};

// Division by a size that is nearly always a power of two.
class Divider {
 public:
  explicit Divider(std::int64_t divisor)
      : divisor_(divisor),
        shift_(std::has_single_bit(static_cast<std::uint64_t>(divisor))
                   ? std::countr_zero(static_cast<std::uint64_t>(divisor))
                   : -1) {}
  // For a >= 0.
  std::int64_t quotient(std::int64_t a) const { return shift_ >= 0 ? a >> shift_ : a / divisor_; }
  std::int64_t ceiling(std::int64_t a) const { return quotient(a + divisor_ - 1); }
  std::int64_t remainder(std::int64_t a) const { return a - quotient(a) * divisor_; }
  std::int64_t value() const { return divisor_; }

 private:
  std::int64_t divisor_;
  int shift_;
};

}  // namespace tessera
