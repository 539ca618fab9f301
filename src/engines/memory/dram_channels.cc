#include "engines/memory/dram_channels.h"

#include <algorithm>

#include "arch/dram_config.h"
#include "base/check.h"

namespace tessera::engines {
namespace {

const DramDevice& device_of(const ChipConfig& chip) {
  const DramDevice* device = dram_device(chip);
  TESSERA_CHECK(device != nullptr, "memory kind {} is no device",
                static_cast<int>(chip.dram.device));
  return *device;
}

}  // namespace

DramChannels::DramChannels(const ChipConfig& chip, const std::vector<DramPort*>& ports)
    : device_(device_of(chip)),
      settings_(dram_channel_settings(chip.dram)),
      clocks_(chip.clock_hertz, device_.clock_ps),
      request_cycles_(ControllerWay(chip).request),
      response_cycles_(ControllerWay(chip).response),
      stripes_(chip) {
  std::size_t services = 0;
  for (DramPort* port : ports) {
    port->wake_cycles = request_cycles_ + lag_cycles();
    sides_.emplace_back(port, port->completions.capacity());
    services += port->completions.capacity();
  }
  services_.resize(services);
  free_.reserve(services);
  channels_.reserve(static_cast<std::size_t>(chip.dram.channels));
  reset();
}

void DramChannels::reset() {
  channels_.clear();
  for (std::int64_t i = 0; i < stripes_.channels(); ++i) {
    channels_.emplace_back(device_, settings_);
  }
  for (Side& side : sides_) {
    side.order.clear();
    side.last = 0;
  }
  free_.clear();
  for (std::size_t i = services_.size(); i > 0; --i) {
    free_.push_back(static_cast<std::uint32_t>(i - 1));
  }
  in_service_ = 0;
  next_ = kDramNever;
  last_issue_ = 0;
}

Cycles DramChannels::advance(Cycles at, Waiting waiting, Cycles now) {
  const DramCycles until = clocks_.dram(at);
  if (!waiting.read && !waiting.write) {
    if (next_ <= until) run_all(until, now);
    return at;
  }
  while (next_ <= until) {
    const DramCycles reached = next_;
    run_all(reached, now);
    if (!(waiting.read && room(false)) && !(waiting.write && room(true))) continue;
    // What is in the same core cycle goes with it.
    const Cycles cycle = clocks_.core(reached);
    run_all(clocks_.dram(cycle), now);
    return cycle;
  }
  return at;
}

void DramChannels::run_all(DramCycles until, Cycles now) {
  next_ = kDramNever;
  for (DramChannelModel& channel : channels_) {
    if (channel.next() <= until) run(channel, until, now);
    next_ = std::min(next_, channel.next());
  }
}

void DramChannels::run(DramChannelModel& channel, DramCycles until, Cycles now) {
  while (channel.next() <= until) {
    const DramCycles at = channel.next();
    const auto transfer = channel.step();
    if (!transfer) continue;
    last_issue_ = std::max(last_issue_, at);
    Service& service = services_[transfer->request];
    service.done_at = std::max(service.done_at, transfer->done_at);
    service.bursts_left -= transfer->bursts;
    if (service.bursts_left == 0) complete(sides_[service.port], now);
  }
}

// Whatever is complete, but for what is behind a request of the port that is not.
void DramChannels::complete(Side& side, Cycles now) {
  while (!side.order.empty()) {
    const std::uint32_t slot = side.order.front();
    const Service& service = services_[slot];
    if (service.bursts_left > 0) return;
    const Cycles done = std::max(clocks_.core(service.done_at), service.not_before);
    // Seen in a later cycle than this one, in whichever order boxes are stepped.
    side.last = std::max({side.last, done + response_cycles_, now + 1});
    side.port->completions.push(side.last);
    --side.port->in_service;
    side.port->wakes->wake(side.port->owner, side.last);
    side.order.pop();
    free_.push_back(slot);
    --in_service_;
  }
}

bool DramChannels::room(bool write) const {
  return std::ranges::all_of(
      channels_, [write](const DramChannelModel& channel) { return channel.room(write); });
}

std::int64_t DramChannels::accept(std::size_t port, const DramRequest& request, Cycles now,
                                  Cycles not_before) {
  TESSERA_CHECK(!free_.empty(), "more requests than ports may have on their way");
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  Side& side = sides_[port];
  side.order.push(slot);
  ++side.port->in_service;
  ++in_service_;
  const DramCycles dram_now = clocks_.dram(now);
  const std::int64_t bytes = enter_request(stripes_, request, slot, dram_now, channels_);
  services_[slot] = {.port = port,
                     .bursts_left = bytes / stripes_.burst_bytes(),
                     .done_at = 0,
                     .not_before = not_before};
  next_ = std::min(next_, dram_now + 1);
  return bytes;
}

Cycles DramChannels::next() const { return next_ == kDramNever ? kNever : clocks_.core(next_); }

std::int64_t DramChannels::row_misses() const {
  std::int64_t sum = 0;
  for (const DramChannelModel& channel : channels_) {
    sum += channel.counts().misses + channel.counts().conflicts;
  }
  return sum;
}

}  // namespace tessera::engines
