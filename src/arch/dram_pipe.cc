#include "arch/dram_pipe.h"

#include <algorithm>

namespace tessera {

DramPipe::DramPipe(const ChipConfig& chip)
    : costs_(dram_costs(chip)),
      cycles_of_byte_(costs_.peak.inverse()),
      burst_(costs_.burst_bytes),
      row_(costs_.row_bytes),
      banks_of_(costs_.banks),
      flat_(chip.dram.device == DramKind::kFlat),
      banks_(static_cast<std::size_t>(costs_.banks)) {
  reset();
}

void DramPipe::reset() {
  std::fill(banks_.begin(), banks_.end(), Bank{.open_row = flat_ ? 0 : -1});
  bus_free_ = 0;
  last_burst_ = -1;
  row_misses_ = 0;
}

std::int64_t DramPipe::serve(const DramRequest& request, Cycles now) {
  std::int64_t bursts = 0;
  last_burst_ = -1;
  RunWalk walk(request);
  for (std::int64_t left = request.runs;;) {
    const std::int64_t address = walk.address();
    const std::int64_t alike =
        runs_of_row(address, request.bytes, walk.pitch(), std::min(left, walk.left_of_axis()));
    if (alike > 1) {
      bursts += move_alike(address, request.bytes, alike, now);
      walk.skip(alike - 1);
      last_burst_ = burst_.quotient(walk.address() + request.bytes - 1);
    } else {
      bursts += move(address, address + request.bytes, now);
    }
    left -= alike;
    if (left == 0) return bursts * costs_.burst_bytes;
    walk.next();
  }
}

std::int64_t DramPipe::runs_of_row(std::int64_t address, std::int64_t bytes, std::int64_t pitch,
                                   std::int64_t runs) const {
  const std::int64_t burst = burst_.quotient(address);
  const std::int64_t begin = burst * costs_.burst_bytes;
  const std::int64_t span = burst_.ceiling(address + bytes) * costs_.burst_bytes - begin;
  const bool alike = burst_.remainder(pitch) == 0 && pitch >= span && burst != last_burst_;
  if (!alike) return 1;
  const std::int64_t row_end = (row_.quotient(begin) + 1) * costs_.row_bytes;
  const std::int64_t room = row_end - begin - span;
  if (room < pitch) return 1;
  if (room >= (runs - 1) * pitch) return runs;
  // Both are at most a row: 32 bits divide faster.
  const auto more = static_cast<std::uint32_t>(room) / static_cast<std::uint32_t>(pitch);
  return std::min<std::int64_t>(runs, more + 1);
}

std::int64_t DramPipe::move_alike(std::int64_t address, std::int64_t bytes, std::int64_t runs,
                                  Cycles now) {
  const std::int64_t bursts = move(address, address + bytes, now);
  // The row is open now: the others only move their bursts.
  bus_free_ += (runs - 1) * cycles_of_byte_.ceil_of(bursts * costs_.burst_bytes);
  const std::int64_t row = row_.quotient(address);
  banks_[static_cast<std::size_t>(banks_of_.remainder(row))].busy_until = bus_free_;
  return runs * bursts;
}

std::int64_t DramPipe::move(std::int64_t first, std::int64_t last, Cycles now) {
  std::int64_t burst = burst_.quotient(first);
  const std::int64_t burst_end = burst_.ceiling(last);
  if (burst == last_burst_) ++burst;  // still in the burst buffer
  const std::int64_t count = std::max<std::int64_t>(0, burst_end - burst);
  while (burst < burst_end) {
    const std::int64_t row = row_.quotient(burst * costs_.burst_bytes);
    const std::int64_t row_end = std::max(burst + 1, burst_.quotient((row + 1) * costs_.row_bytes));
    const std::int64_t bursts = std::min(burst_end, row_end) - burst;
    Bank& bank = banks_[static_cast<std::size_t>(banks_of_.remainder(row))];
    Cycles ready = now;
    if (bank.open_row != row) {
      ready = std::max(now, bank.busy_until) + costs_.row_miss;
      bank.open_row = row;
      ++row_misses_;
    }
    bus_free_ = std::max(bus_free_, ready) + cycles_of_byte_.ceil_of(bursts * costs_.burst_bytes);
    bank.busy_until = bus_free_;
    burst += bursts;
  }
  if (count > 0) last_burst_ = burst_end - 1;
  bus_free_ = std::max(bus_free_, now);
  return count;
}

}  // namespace tessera
