// A requester's side of the DRAM: its requests, which are grids of runs, and their completions.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/quantity.h"
#include "engines/fifo.h"
#include "engines/wake_table.h"

namespace tessera::engines {

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

// One requester's side of the memory. Completions are times, in order.
struct DramPort {
  // Room for as many requests as the owner may have on their way.
  DramPort(Box box, std::size_t outstanding)
      : owner(box), requests(outstanding), completions(outstanding) {}

  Box owner;
  const bool* channel_full = nullptr;  // then it wakes by itself and needs no waking
  Fifo<DramRequest> requests;
  Ring<Cycles> completions;      // of accepted requests; due at the time they hold
  std::size_t in_service = 0;    // accepted, and their completions not known yet
  Cycles wake_cycles = 0;        // after a push is seen, within which the channel is woken
  bool wants_accept = false;     // wake the owner when a request is accepted
  std::size_t accepted_now = 0;  // requests accepted in cycle accepted_at
  Cycles accepted_at = -1;
  // Requests accepted before `now` whose completion was not yet taken.
  std::size_t seen(Cycles now) const {
    return completions.size() + in_service - (accepted_at == now ? accepted_now : 0);
  }
  std::int64_t bytes_read = 0, bytes_written = 0;  // whole bursts
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

}  // namespace tessera::engines
