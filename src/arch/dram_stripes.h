// How addresses are spread over the channels of a DRAM made of devices.
//
//   channel = (address / interleave) mod channels
//   address there = address / (interleave * channels) * interleave + address mod interleave
//
// Consecutive addresses are consecutive in each channel, so that a contiguous run is at most one
// request of a channel.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "arch/chip_config.h"
#include "arch/dram_channel_model.h"
#include "arch/dram_config.h"
#include "arch/dram_request.h"

namespace tessera {

class DramStripes {
 public:
  explicit DramStripes(const ChipConfig& chip)
      : interleave_(chip.dram.interleave_bytes),
        channels_(chip.dram.channels),
        burst_(dram_burst_bytes(chip)) {}

  std::int64_t channels() const { return channels_.value(); }
  std::int64_t burst_bytes() const { return burst_.value(); }

  // Calls enter(channel, address there, bytes), which returns bursts, for whole bursts that hold the
  // request's bytes; one that the run before ended in is left out. Returns the sum of the bursts in
  // bytes.
  template <typename Enter>
  std::int64_t cut(const DramRequest& request, Enter&& enter) const {
    std::int64_t bursts = 0;
    std::int64_t last_burst = -1;
    RunWalk walk(request);
    for (std::int64_t left = request.runs; left > 0; --left) {
      const std::int64_t end = burst_.quotient(walk.address() + request.bytes - 1) + 1;
      std::int64_t first = burst_.quotient(walk.address());
      if (first == last_burst) ++first;  // still in the burst buffer
      if (first < end) bursts += spread(first * burst_.value(), end * burst_.value(), enter);
      last_burst = end - 1;
      if (left > 1) walk.next();
    }
    return bursts * burst_.value();
  }

 private:
  // Bytes [first, last), whole bursts.
  template <typename Enter>
  std::int64_t spread(std::int64_t first, std::int64_t last, Enter&& enter) const {
    const std::int64_t block = interleave_.value();
    const std::int64_t first_block = interleave_.quotient(first);
    const std::int64_t last_block = interleave_.quotient(last - 1);
    std::int64_t bursts = 0;
    for (std::int64_t b = first_block; b <= std::min(last_block, first_block + channels() - 1);
         ++b) {
      const std::int64_t row = channels_.quotient(b);
      const std::int64_t last_row = row + channels_.quotient(last_block - b);
      const bool holds_last = b + (last_row - row) * channels() == last_block;
      const std::int64_t begin =
          row * block + (b == first_block ? interleave_.remainder(first) : 0);
      const std::int64_t end =
          last_row * block + (holds_last ? interleave_.remainder(last - 1) + 1 : block);
      bursts += enter(static_cast<std::size_t>(channels_.remainder(b)), begin, end - begin);
    }
    return bursts;
  }

  Divider interleave_, channels_, burst_;
};

// Enters a request, in `now` of the device, into its channels. Returns its bytes in bursts.
inline std::int64_t enter_request(const DramStripes& stripes, const DramRequest& request,
                                  std::uint32_t number, DramCycles now,
                                  std::vector<DramChannelModel>& channels) {
  const auto address_of = [](std::int64_t address) { return static_cast<std::uint64_t>(address); };
  if (request.runs == 1) {
    return stripes.cut(request, [&](std::size_t c, std::int64_t address, std::int64_t bytes) {
      return channels[c].push(number, address_of(address), bytes, request.write, now);
    });
  }
  const std::int64_t bytes =
      stripes.cut(request, [&](std::size_t c, std::int64_t address, std::int64_t length) {
        return channels[c].gather(number, address_of(address), length, request.write);
      });
  for (DramChannelModel& channel : channels) channel.enter_gathered(now);
  return bytes;
}

// The way between a DMA engine and a channel, in core cycles: to it, and back.
struct ControllerWay {
  Cycles request = 0, response = 0;
  explicit ControllerWay(const ChipConfig& chip) {
    constexpr std::int64_t kPicosecondsOfANanosecond = 1000;
    const Cycles both =
        core_cycles_of(chip.dram.controller_nanoseconds * kPicosecondsOfANanosecond, chip);
    request = both / 2;
    response = both - request;
  }
};

}  // namespace tessera
