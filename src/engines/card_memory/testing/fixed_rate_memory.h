// A memory of a fixed rate, for tests: one request after the other, then a latency.
#pragma once

#include <algorithm>

#include "engines/card_memory/card_request.h"
#include "engines/card_memory/memory_port.h"
#include "engines/fifo.h"

namespace tessera::engines {

class FixedRateMemory final : public MemoryPort {
 public:
  FixedRateMemory(std::int64_t bytes_per_cycle, Cycles latency)
      : bytes_per_cycle_(bytes_per_cycle), latency_(latency), requests_(1), completions_(1024) {}

  void reset() override {
    requests_.clear();
    completions_.clear();
    free_at_ = bytes_ = reads_ = writes_ = 0;
  }
  bool room(bool /*write*/, Cycles now) const override { return requests_.can_push(now); }
  Cycles push(Cycles now, const DramRequest& request, std::uint32_t ticket) override {
    requests_.push(now, {request, ticket});
    return now + 1;
  }
  Cycles cost(const DramRequest& request) const override {
    return std::max<Cycles>(1, ceil_div(request.runs * request.bytes, bytes_per_cycle_));
  }
  Cycles latency() const override { return latency_; }
  const Completion* completion() const override {
    return completions_.empty() ? nullptr : &completions_.front();
  }
  void take_completion() override { completions_.pop(); }
  Cycles step(Cycles now) override {
    while (free_at_ <= now && requests_.can_pop(now)) {
      const Item item = requests_.pop(now);
      free_at_ = now + cost(item.request);
      bytes_ += item.request.runs * item.request.bytes;
      ++(item.request.write ? writes_ : reads_);
      completions_.push({free_at_ + latency_, item.ticket});
    }
    return requests_.empty() ? kNever : std::max(free_at_, now + 1);
  }

  std::int64_t bytes() const { return bytes_; }
  std::int64_t reads() const { return reads_; }
  std::int64_t writes() const { return writes_; }

 private:
  struct Item {
    DramRequest request;
    std::uint32_t ticket = 0;
  };
  const std::int64_t bytes_per_cycle_;
  const Cycles latency_;
  Fifo<Item> requests_;
  Ring<Completion> completions_;
  Cycles free_at_ = 0;
  std::int64_t bytes_ = 0, reads_ = 0, writes_ = 0;
};

}  // namespace tessera::engines
