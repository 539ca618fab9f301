#include "arch/message_link.h"

#include <algorithm>

#include "arch/dram_config.h"
#include "base/check.h"

namespace tessera {
namespace {

__extension__ using Wide = unsigned __int128;

Cycles divided_up(Wide numerator, Wide denominator) {
  return static_cast<Cycles>((numerator + denominator - 1) / denominator);
}

}  // namespace

Cycles message_byte_cycles(const ChipConfig& chip, std::int64_t bytes) {
  constexpr std::int64_t kMost = std::int64_t{1} << 42;
  TESSERA_CHECK(bytes >= 0 && bytes <= kMost, "{} bytes of a message", bytes);
  const Wide rate = static_cast<Wide>(chip.message.megabytes_per_second) * 1'000'000;
  return divided_up(static_cast<Wide>(bytes) * static_cast<Wide>(chip.clock_hertz), rate);
}

Cycles message_latency(const ChipConfig& chip) {
  constexpr Wide kNanosecondsInSecond = 1'000'000'000;
  return divided_up(
      static_cast<Wide>(chip.message.nanoseconds) * static_cast<Wide>(chip.clock_hertz),
      kNanosecondsInSecond);
}

Cycles message_port_cycles(const ChipConfig& chip, std::int64_t messages, std::int64_t bytes) {
  return messages * (chip.message.header_cycles + message_byte_cycles(chip, bytes));
}

MessageLink::MessageLink(const ChipConfig& chip, std::int64_t ahead)
    : chip_(chip), ahead_(ahead), latency_(message_latency(chip)) {}

void MessageLink::reset() {
  link_free_ = 0;
  received_ = released_ = 0;
  releases_.clear();
}

void MessageLink::go_on(Cycles end) {
  link_free_ -= end;
  for (Release& release : releases_) release.at -= end;
}

std::int64_t MessageLink::room(Cycles at) const {
  std::int64_t bytes = released_;
  for (const Release& release : releases_) {
    if (release.at > at) break;
    bytes = release.bytes;
  }
  return bytes + ahead_;
}

Cycles MessageLink::next_room(Cycles at) const {
  for (const Release& release : releases_) {
    if (release.at > at) return release.at;
  }
  return kNever;
}

void MessageLink::receive(std::int64_t bytes, Cycles asked) {
  const std::int64_t last = received_ + bytes;
  // Without a buffer nothing comes before it is asked for.
  Cycles at = ahead_ == 0 ? std::max(link_free_, asked) : link_free_;
  at += chip_.message.header_cycles;
  while (received_ < last) {
    if (at >= asked) {
      at += message_byte_cycles(chip_, last - received_);
      received_ = last;
      break;
    }
    const std::int64_t limit = std::min(last, room(at));
    if (limit > received_) {
      at += message_byte_cycles(chip_, limit - received_);
      received_ = limit;
    } else {
      at = std::min(asked, next_room(at));
    }
  }
  link_free_ = at;
  while (!releases_.empty() && releases_.front().at <= at) {
    released_ = releases_.front().bytes;
    releases_.pop_front();
  }
}

MessageLink::Times MessageLink::take(Cycles now, std::int64_t messages, std::int64_t bytes) {
  for (std::int64_t i = 0; i < messages; ++i) receive(bytes, now);
  // What waited in the buffer leaves it through the port of a DMA engine.
  const Cycles moved = ceil_div(messages * bytes, chip_.dma.port_bytes);
  const Cycles taken = std::max({now + 1, now + moved, link_free_});
  releases_.push_back({taken, received_});
  return {.taken = taken, .done = std::max(taken, link_free_ + latency_)};
}

}  // namespace tessera
