// The DRAM channel: takes requests of its ports in turn, opens rows, moves bursts.
//
//   load ───┐
//   store ──┤ round ┌──────────────┐  bank b: row open? else activate (row_miss_cycles), which may
//   kernel ─┤ robin │ 2 accepted   │          hide behind another bank's transfer
//   tasks ──┘ ────► │ requests     │─► bus: bursts in order ─► + latency ─► completion at the port
//                   └──────────────┘
//
// Two requests are accepted at a time: one moves data, the next opens its rows. A request is a
// number of contiguous runs; its cost is a closed form per run and row, never per byte.
//
// Where the DMA engines have queues (dma.queues), a load or store is spread over all of them: each
// descriptor takes its share of a queue's time, and the channel moves no faster than the queues.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "engines/fifo.h"
#include "engines/time_account.h"
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

// One requester's side of the channel. Completions are times, in order.
struct DramPort {
  // Room for as many requests as the owner may have on their way.
  DramPort(Box box, std::size_t outstanding)
      : owner(box), requests(outstanding), completions(outstanding) {}

  Box owner;
  const bool* channel_full = nullptr;  // then it wakes by itself and needs no waking
  Fifo<DramRequest> requests;
  Ring<Cycles> completions;      // of accepted requests; due at the time they hold
  bool wants_accept = false;     // wake the owner when a request is accepted
  std::size_t accepted_now = 0;  // requests accepted in cycle accepted_at
  Cycles accepted_at = -1;
  // Requests accepted before `now` whose completion was not yet taken.
  std::size_t seen(Cycles now) const {
    return completions.size() - (accepted_at == now ? accepted_now : 0);
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

 private:
  std::int64_t divisor_;
  int shift_;
};

// What the queues of the data DMA do with a request.
struct QueuePace {
  std::int64_t queues = 0;  // 0: nothing
  std::int64_t core_megahertz = 1;
  std::int64_t megabytes_per_second = 1;
  std::int64_t descriptor_bytes = 1;
  std::int64_t descriptor_nanoseconds = 0;

  static QueuePace of(const ChipConfig& chip);
  // Core cycles, summed over the queues.
  Cycles cycles(const DramRequest& request) const;
};

class DramChannel {
 public:
  // Ports and wake table outlive the channel.
  DramChannel(const DramConfig& config, std::vector<DramPort*> ports, WakeTable& wakes,
              const QueuePace& queues = {});

  void reset();
  Cycles step(Cycles now);

  TimeAccount& account() { return account_; }
  std::int64_t row_misses() const { return row_misses_; }
  std::string describe() const;

 private:
  static constexpr std::size_t kAccepted = 2;
  struct Bank {
    std::int64_t open_row = -1;
    Cycles busy_until = 0;
  };
  // The port whose request is next; null where none has one.
  DramPort* choose_port(Cycles now);
  void accept(DramPort& port, Cycles now);
  // Moves the bursts that hold bytes [first, last); returns how many.
  std::int64_t move(std::int64_t first, std::int64_t last, Cycles now);
  // How many of `runs` runs, `pitch` bytes apart, lie alike in their bursts, share none, and end in
  // the first one's row; at least 1.
  std::int64_t runs_of_row(std::int64_t address, std::int64_t bytes, std::int64_t pitch,
                           std::int64_t runs) const;
  // move() for `runs` of them at once.
  std::int64_t move_alike(std::int64_t address, std::int64_t bytes, std::int64_t runs, Cycles now);
  void serve(const DramRequest& request, Cycles now, std::int64_t& bursts);
  void wait_for_queues(const DramPort& port, const DramRequest& request, Cycles now);

  const DramConfig config_;
  const QueuePace queues_;
  const Divider burst_, row_, banks_of_, width_;
  std::vector<DramPort*> ports_;
  WakeTable& wakes_;
  std::vector<Bank> banks_;
  bool full_ = false;      // accepted_ is, since the last step
  Ring<Cycles> accepted_;  // ends of the transfers of accepted requests
  std::size_t next_port_ = 0;
  Cycles bus_free_ = 0;
  std::int64_t queue_time_ = 0;  // the queues are free from here on, in cycles x queues
  std::int64_t last_burst_ = -1;
  std::int64_t row_misses_ = 0;
  TimeAccount account_;
};

}  // namespace tessera::engines
