// A card's memory with ports that a test pushes into, for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "engines/card_memory/card_memory.h"

namespace tessera::engines {

// Four groups of four cores. Frames of 64 bytes with a header of 16, unpacked in 2 cycles and packed in
// 3; 16 bytes a cycle to a core, 32 over the bus, 8 on the ring with 3 cycles a hop.
inline UnitSizes bench_units() {
  UnitSizes sizes;
  sizes.frame = {.frame_bytes = 64, .header_bytes = 16, .unpack_cycles = 2, .pack_cycles = 3};
  sizes.port_bytes = 16;
  sizes.broadcast_bytes = 32;
  sizes.share_entries = 4;
  sizes.bandwidth.weights.assign(16, 1);
  return sizes;
}

class CardBench {
 public:
  static constexpr int kGroups = 4, kCores = 4, kPorts = 2;
  static constexpr std::size_t kOutstanding = 4;

  template <typename Memory, typename... Args>
  static std::unique_ptr<CardBench> make(const UnitSizes& sizes, const Args&... args) {
    std::vector<std::unique_ptr<MemoryPort>> memories;
    for (int g = 0; g < kGroups; ++g) memories.push_back(std::make_unique<Memory>(args...));
    return std::make_unique<CardBench>(sizes, std::move(memories));
  }
  CardBench(const UnitSizes& sizes, std::vector<std::unique_ptr<MemoryPort>> its_memories)
      : memories(std::move(its_memories)) {
    std::vector<std::vector<CorePort>> by_group(kGroups);
    std::vector<MemoryPort*> of_groups;
    for (int core = 0; core < kGroups * kCores; ++core) {
      for (int port = 0; port < kPorts; ++port) {
        const Box owner = port == 0 ? Box::kLoad : Box::kStore;
        ports.push_back(std::make_unique<DramPort>(owner, kOutstanding));
        wakes.push_back(std::make_unique<WakeTable>());
        ports.back()->wakes = wakes.back().get();
        by_group[static_cast<std::size_t>(core / kCores)].push_back(
            {.port = ports.back().get(), .core = core % kCores});
      }
    }
    for (const auto& memory : memories) of_groups.push_back(memory.get());
    const NetworkSizes network{
        .cards = sizes.cards, .cycles_of_byte = {1, 4}, .latency_cycles = 50, .frame = sizes.frame};
    const RingSizes ring{.groups = kGroups / sizes.cards,
                         .bytes_per_cycle = 8,
                         .hop_cycles = 3,
                         .frame = sizes.frame};
    card = std::make_unique<CardMemory>(sizes, ring, network, by_group, of_groups);
    card->reset();
    planned.resize(ports.size());
    completed.resize(ports.size());
  }

  // Core `core` of the card asks for `bytes` of group `home` at `at`, or as soon after as its port has
  // room, behind what it asked for before at that port: reads at port 0, writes at port 1.
  void ask(Cycles at, int core, int home, std::int64_t bytes, bool write = false, Share share = {},
           std::int64_t address = 0) {
    grids.push_back({});
    StridedRuns& grid = grids.back();
    grid.address = address;
    grid.run_bytes = bytes;
    const std::size_t port = port_of(core) + (write ? 1 : 0);
    planned[port].push_back({at,
                             {.grid = &grid,
                              .bytes = bytes,
                              .write = write,
                              .memory = static_cast<std::uint8_t>(home),
                              .share = share.number,
                              .share_cores = share.members}});
  }
  // Until nothing happens any more. With a seed, boxes are stepped in another order every cycle.
  void run(unsigned seed = 0, Cycles until = 1'000'000) {
    std::mt19937 random(seed);
    std::vector<std::size_t> order(card->boxes());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    Cycles next = 0;
    bool waiting = true;
    for (Cycles now = 0; now < until && (waiting || next != kNever); ++now) {
      if (seed != 0) std::shuffle(order.begin(), order.end(), random);
      const bool owners_first = seed != 0 && random() % 2 == 0;
      if (owners_first) step_owners(now, next);
      if (next <= now) next = card->step(now, order);
      if (!owners_first) step_owners(now, next);
      waiting = owners_wait();
      last = now;
    }
  }
  // The completions of a core's reads, or writes.
  const std::vector<Cycles>& reads(int core) const { return completed[port_of(core)]; }
  const std::vector<Cycles>& writes(int core) const { return completed[port_of(core) + 1]; }
  bool all_done() const {
    for (const auto& rest : planned) {
      if (!rest.empty()) return false;
    }
    for (const auto& port : ports) {
      if (!port->requests.empty() || !port->completions.empty()) return false;
    }
    return true;
  }

  struct Planned {
    Cycles at = 0;
    DramRequest request{};
  };
  std::vector<std::unique_ptr<MemoryPort>> memories;
  std::vector<std::unique_ptr<DramPort>> ports;
  std::vector<std::unique_ptr<WakeTable>> wakes;  // of each port
  std::unique_ptr<CardMemory> card;
  std::deque<StridedRuns> grids;
  std::vector<std::deque<Planned>> planned;
  std::vector<std::vector<Cycles>> completed;
  Cycles last = 0;

 private:
  void step_owners(Cycles now, Cycles& next) {
    for (std::size_t p = 0; p < ports.size(); ++p) {
      DramPort& port = *ports[p];
      while (!port.completions.empty() && port.completions.front() <= now) {
        // It was woken for it, in time.
        EXPECT_EQ(port.completions.front(), now);
        EXPECT_LE(wakes[p]->earliest(), now);
        completed[p].push_back(now);
        port.completions.pop();
      }
      wakes[p]->take_due(now);
      if (!port.completions.empty()) wakes[p]->wake(port.owner, port.completions.front());
      const std::size_t on_way = asked(p) - completed[p].size();
      if (!planned[p].empty() && planned[p].front().at <= now && port.requests.can_push(now) &&
          on_way < kOutstanding) {
        port.requests.push(now, planned[p].front().request);
        planned[p].pop_front();
        ++pushed_[p];
        card->wake(static_cast<int>(p) / (kPorts * kCores), now + 1);
        next = std::min(next, now + 1);
      }
    }
  }
  // Whether an owner does something by itself.
  bool owners_wait() const {
    for (std::size_t p = 0; p < ports.size(); ++p) {
      if (!ports[p]->completions.empty()) return true;
      if (!planned[p].empty() && asked(p) - completed[p].size() < kOutstanding) return true;
    }
    return false;
  }
  // Of its reads.
  static std::size_t port_of(int core) { return static_cast<std::size_t>(core) * kPorts; }
  std::size_t asked(std::size_t port) const { return pushed_[port]; }

  std::vector<std::size_t> pushed_ = std::vector<std::size_t>(kGroups * kCores * kPorts);
};

}  // namespace tessera::engines
