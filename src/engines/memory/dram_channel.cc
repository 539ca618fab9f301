#include "engines/memory/dram_channel.h"

#include <fmt/format.h>

#include <algorithm>

#include "arch/dram_config.h"

namespace tessera::engines {

QueuePace QueuePace::of(const ChipConfig& chip) {
  return {.queues = chip.dma.queues,
          .core_megahertz = ceil_div(chip.clock_hertz, 1'000'000),
          .megabytes_per_second = chip.dma.queue_megabytes_per_second,
          .descriptor_bytes = chip.dma.descriptor_bytes,
          .descriptor_nanoseconds = chip.dma.descriptor_nanoseconds};
}

Cycles QueuePace::cycles(const DramRequest& request) const {
  const std::int64_t descriptors = request.runs * ceil_div(request.bytes, descriptor_bytes);
  return ceil_div(request.runs * request.bytes * core_megahertz, megabytes_per_second) +
         ceil_div(descriptors * descriptor_nanoseconds * core_megahertz, 1000);
}

DramChannel::DramChannel(const ChipConfig& chip, std::vector<DramPort*> ports, WakeTable& wakes)
    : arbitration_(chip.dram.arbitration),
      costs_(dram_costs(chip)),
      cycles_of_byte_(costs_.peak.inverse()),
      queues_(QueuePace::of(chip)),
      burst_(costs_.burst_bytes),
      row_(costs_.row_bytes),
      banks_of_(costs_.banks),
      ports_(std::move(ports)),
      wakes_(wakes),
      banks_(static_cast<std::size_t>(costs_.banks)),
      flat_(chip.dram.device == DramKind::kFlat),
      accepted_(kAccepted) {
  for (DramPort* port : ports_) port->channel_full = &full_;
  if (dram_device(chip.dram.device) != nullptr) channels_.emplace(chip, ports_);
}

void DramChannel::reset() {
  std::fill(banks_.begin(), banks_.end(), Bank{.open_row = flat_ ? 0 : -1});
  for (DramPort* port : ports_) {
    port->requests.clear();
    port->completions.clear();
    port->in_service = 0;
    port->wants_accept = false;
    port->accepted_at = -1;
    port->bytes_read = port->bytes_written = 0;
  }
  accepted_.clear();
  if (channels_) channels_->reset();
  full_ = false;
  next_port_ = 0;
  reached_ = 0;
  bus_free_ = 0;
  queue_time_ = 0;
  row_misses_ = 0;
  account_.reset();
}

Cycles DramChannel::step(Cycles now) {
  if (channels_) return step_channels(now);
  while (!accepted_.empty() && accepted_.front() <= now) accepted_.pop();
  while (!accepted_.full()) {
    const auto chosen = choose_port(now);
    if (!chosen) break;
    accept(*ports_[*chosen], now);
  }
  full_ = accepted_.full();
  account_.enter(now, accepted_.empty() ? Activity::kIdle : Activity::kBusy, nullptr);
  if (!full_) {
    // A request of this very cycle is seen in the next, whether or not its owner saw the room.
    for (const DramPort* port : ports_) {
      if (!port->requests.empty()) return now + 1;
    }
  }
  return accepted_.empty() ? kNever : accepted_.front();
}

// A request that is pushed in this cycle or later comes here after the way through the controller. So
// what happens until then is certain now, and is done at once, in the order of its times.
Cycles DramChannel::step_channels(Cycles now) {
  const Cycles certain = now + channels_->request_cycles();
  while (true) {
    const Arrivals arrivals = arrivals_after(reached_);
    const Cycles until = std::min(arrivals.next, certain);
    if (channels_->in_service() > 0) {
      reached_ = std::max(reached_, channels_->advance(until, arrivals.waits, now, wakes_));
      if (channels_->in_service() == 0) account_idle();
    } else {
      reached_ = std::max(reached_, until);
    }
    // Those that waited go when there is room, the others in the cycle in which they are here.
    if (arrivals.waits || reached_ == arrivals.next) accept_all(now);
    if (reached_ >= certain) break;
  }
  const Cycles next = std::min(channels_->next(), arrivals_after(reached_).next);
  return next == kNever ? kNever : std::max(next + channels_->lag_cycles(), now + 1);
}

// When the last command issued nothing was in service any more.
void DramChannel::account_idle() {
  if (account_.activity() != Activity::kIdle) {
    account_.enter(channels_->last_issue(), Activity::kIdle, nullptr);
  }
}

void DramChannel::accept_all(Cycles now) {
  while (const auto chosen = choose_port(reached_)) {
    if (channels_->in_service() == 0) account_.enter(reached_, Activity::kBusy, nullptr);
    accept_in_channels(*chosen, reached_, now);
  }
}

// Requests that are here by then and wait for room, which comes when the channels have issued
// something; and when the next one comes.
DramChannel::Arrivals DramChannel::arrivals_after(Cycles reached) const {
  Arrivals arrivals;
  for (const DramPort* port : ports_) {
    if (port->requests.empty()) continue;
    const Cycles here = port->requests.front_visible_at() + channels_->request_cycles();
    if (here <= reached) {
      arrivals.waits = true;
    } else {
      arrivals.next = std::min(arrivals.next, here);
    }
  }
  return arrivals;
}

bool DramChannel::ready(const DramPort& port, Cycles now) const {
  if (!port.requests.can_pop(channels_ ? now - channels_->request_cycles() : now)) return false;
  return !channels_ || channels_->room(port.requests.front().write);
}

std::optional<std::size_t> DramChannel::choose_port(Cycles now) {
  std::optional<std::size_t> late;  // takes what the others leave
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    const std::size_t at =
        next_port_ + i < ports_.size() ? next_port_ + i : next_port_ + i - ports_.size();
    if (!ready(*ports_[at], now)) continue;
    if (ports_[at]->owner == Box::kKernel && arbitration_ == Arbitration::kKernelsLast) {
      late = at;
      continue;
    }
    next_port_ = at + 1 == ports_.size() ? 0 : at + 1;
    return at;
  }
  return late;
}

void DramChannel::count_accepted(DramPort& port, Cycles now) {
  port.accepted_now = port.accepted_at == now ? port.accepted_now + 1 : 1;
  port.accepted_at = now;
}

void DramChannel::accept(DramPort& port, Cycles now) {
  const DramRequest request = port.requests.pop(now);
  std::int64_t bursts = 0;
  serve(request, now, bursts);
  bus_free_ = std::max(bus_free_, queues_done(port, request, now));
  const Cycles end = bus_free_;
  const Cycles completion = end + costs_.latency;
  accepted_.push(end);
  port.completions.push(completion);
  count_accepted(port, now);
  (request.write ? port.bytes_written : port.bytes_read) += bursts * costs_.burst_bytes;
  wakes_.wake(port.owner, port.wants_accept ? now + 1 : completion);
}

void DramChannel::accept_in_channels(std::size_t index, Cycles at, Cycles now) {
  DramPort& port = *ports_[index];
  const DramRequest request = port.requests.pop(now);
  const std::int64_t bytes = channels_->accept(index, request, at, queues_done(port, request, at));
  count_accepted(port, now);
  (request.write ? port.bytes_written : port.bytes_read) += bytes;
  if (port.wants_accept) wakes_.wake(port.owner, now + 1);
}

void DramChannel::serve(const DramRequest& request, Cycles now, std::int64_t& bursts) {
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
    if (left == 0) break;
    walk.next();
  }
}

Cycles DramChannel::queues_done(const DramPort& port, const DramRequest& request, Cycles now) {
  const bool data = port.owner == Box::kLoad || port.owner == Box::kStore;
  if (queues_.queues == 0 || !data) return 0;
  queue_time_ = std::max(queue_time_, now * queues_.queues) + queues_.cycles(request);
  return ceil_div(queue_time_, queues_.queues);
}

std::int64_t DramChannel::runs_of_row(std::int64_t address, std::int64_t bytes, std::int64_t pitch,
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

std::int64_t DramChannel::move_alike(std::int64_t address, std::int64_t bytes, std::int64_t runs,
                                     Cycles now) {
  const std::int64_t bursts = move(address, address + bytes, now);
  // The row is open now: the others only move their bursts.
  bus_free_ += (runs - 1) * cycles_of_byte_.ceil_of(bursts * costs_.burst_bytes);
  const std::int64_t row = row_.quotient(address);
  banks_[static_cast<std::size_t>(banks_of_.remainder(row))].busy_until = bus_free_;
  return runs * bursts;
}

std::int64_t DramChannel::move(std::int64_t first, std::int64_t last, Cycles now) {
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

std::string DramChannel::describe() const {
  std::string text = fmt::format("dram: {} requests accepted",
                                 channels_ ? channels_->in_service() : accepted_.size());
  for (const DramPort* port : ports_) {
    text += fmt::format(", {} waits with {}", box_name(port->owner), port->requests.size());
  }
  return text;
}

}  // namespace tessera::engines
