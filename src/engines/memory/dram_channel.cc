#include "engines/memory/dram_channel.h"

#include <fmt/format.h>

#include <algorithm>

#include "arch/dram_config.h"

namespace tessera::engines {

namespace {

std::vector<DramPort*> woken_by(const std::vector<DramPort*>& ports, WakeTable& wakes) {
  for (DramPort* port : ports) port->wakes = &wakes;
  return ports;
}

}  // namespace

DramChannel::DramChannel(const ChipConfig& chip, const std::vector<DramPort*>& ports,
                         WakeTable& wakes)
    : DramChannel(chip, woken_by(ports, wakes)) {}

DramChannel::DramChannel(const ChipConfig& chip, std::vector<DramPort*> ports)
    : arbitration_(chip.dram.arbitration),
      queues_(QueuePace::of(chip)),
      ports_(std::move(ports)),
      pipe_(chip),
      accepted_(DramPipe::kAccepted) {
  for (DramPort* port : ports_) port->channel_full = &full_;
  if (dram_device(chip) != nullptr) channels_.emplace(chip, ports_);
}

void DramChannel::reset() {
  pipe_.reset();
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
  queue_time_ = 0;
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
      reached_ = std::max(reached_, channels_->advance(until, arrivals.waiting, now));
      if (channels_->in_service() == 0) account_idle();
    } else {
      reached_ = std::max(reached_, until);
    }
    // Those that waited go when there is room, the others in the cycle in which they are here.
    const bool waits = arrivals.waiting.read || arrivals.waiting.write;
    if (waits || reached_ == arrivals.next) accept_all(now);
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
      const bool write = port->requests.front().write;
      (write ? arrivals.waiting.write : arrivals.waiting.read) = true;
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
  const std::int64_t bytes = pipe_.serve(request, now);
  const Cycles end = pipe_.hold(queues_done(port, request, now));
  const Cycles completion = end + pipe_.latency();
  accepted_.push(end);
  port.completions.push(completion);
  count_accepted(port, now);
  (request.write ? port.bytes_written : port.bytes_read) += bytes;
  port.wakes->wake(port.owner, port.wants_accept ? now + 1 : completion);
}

void DramChannel::accept_in_channels(std::size_t index, Cycles at, Cycles now) {
  DramPort& port = *ports_[index];
  const DramRequest request = port.requests.pop(now);
  const std::int64_t bytes = channels_->accept(index, request, at, queues_done(port, request, at));
  count_accepted(port, now);
  (request.write ? port.bytes_written : port.bytes_read) += bytes;
  if (port.wants_accept) port.wakes->wake(port.owner, now + 1);
}

Cycles DramChannel::queues_done(const DramPort& port, const DramRequest& request, Cycles now) {
  const bool data = port.owner == Box::kLoad || port.owner == Box::kStore;
  if (queues_.queues == 0 || !data) return 0;
  queue_time_ = std::max(queue_time_, now * queues_.queues) + queues_.cycles(request);
  return ceil_div(queue_time_, queues_.queues);
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
