#include "engines/card_memory/group_ring.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>

namespace tessera::engines {
namespace {

constexpr std::size_t kRingTransfersMax = 64;

// Frames of 64 bytes with a header of 16 on links of 8 bytes a cycle: 10 cycles a whole frame.
RingSizes small_ring() {
  return {.groups = 4,
          .bytes_per_cycle = 8,
          .hop_cycles = 3,
          .frame = {.frame_bytes = 64, .header_bytes = 16}};
}

struct RingArrival {
  Cycles at = 0;
  std::uint32_t tag = 0;
  friend bool operator==(const RingArrival&, const RingArrival&) = default;
};

struct RingBench {
  CardWakes wakes{5};
  GroupRing ring;
  std::map<Cycles, std::vector<CardMessage>> sends;
  std::vector<std::vector<RingArrival>> arrived{4};
  bool every_cycle = false;  // step also when nothing is due

  explicit RingBench(const RingSizes& sizes = small_ring())
      : ring(sizes, kRingTransfersMax, 0, wakes) {}

  void send(Cycles at, int from, GroupSet to, std::int64_t bytes, std::uint32_t tag = 0) {
    CardMessage message{.from = from, .to = to, .bytes = bytes};
    message.tickets[0] = tag;
    sends[at].push_back(message);
  }
  void run(Cycles until = 100'000) {
    Cycles next = kNever;
    for (Cycles now = 0; now < until; ++now) {
      if (const auto due = sends.find(now); due != sends.end()) {
        for (const CardMessage& message : due->second) ring.inject(message.from).push(now, message);
        next = std::min(next, now + 1);
      }
      if (now >= next || every_cycle) next = ring.step(now);
      for (int g = 0; g < 4; ++g) {
        auto& deliveries = ring.deliveries(g);
        while (!deliveries.empty() && deliveries.front().at <= now) {
          EXPECT_EQ(deliveries.front().at, now);
          arrived[static_cast<std::size_t>(g)].push_back(
              {deliveries.front().at, deliveries.front().message.tickets[0]});
          deliveries.pop();
        }
      }
    }
  }
};

TEST(FrameSizes, BytesOnAWireAreDataAndAHeaderAFrame) {
  const FrameSizes sizes{.frame_bytes = 64, .header_bytes = 16};
  EXPECT_EQ(sizes.frames(1), 1);
  EXPECT_EQ(sizes.frames(64), 1);
  EXPECT_EQ(sizes.frames(65), 2);
  EXPECT_EQ(sizes.wire_bytes(65), 65 + 32);
  EXPECT_EQ(sizes.last_wire_bytes(65), 17);
  EXPECT_EQ(sizes.last_wire_bytes(64), 80);
}

TEST(FrameSizes, ARequestWithoutDataIsAHeader) {
  const FrameSizes sizes{.frame_bytes = 64, .header_bytes = 16};
  EXPECT_EQ(sizes.frames(0), 1);
  EXPECT_EQ(sizes.wire_bytes(0), 16);
  EXPECT_EQ(sizes.last_wire_bytes(0), 16);
}

TEST(GroupRing, OneTransferTakesItsFramesAndAHopALink) {
  RingBench bench;
  bench.send(0, 1, 1u << 3, 150);
  bench.run(200);
  // Two whole frames of 10 cycles and one of 22 data bytes, 5 cycles; two hops.
  EXPECT_EQ(bench.ring.sizes().quiet_cycles(150, 2), 25 + 6);
  ASSERT_EQ(bench.arrived[3].size(), 1u);
  EXPECT_EQ(bench.arrived[3][0].at, 1 + 31);
  for (const int g : {1, 2}) {
    EXPECT_EQ(bench.ring.counters(g).busy, 25);
    EXPECT_EQ(bench.ring.counters(g).bytes, 150 + 3 * 16);
    EXPECT_EQ(bench.ring.counters(g).frames, 3);
    EXPECT_EQ(bench.ring.counters(g).transfers, 1);
  }
  EXPECT_EQ(bench.ring.counters(0).bytes + bench.ring.counters(3).bytes, 0);
}

TEST(GroupRing, GoesOnFromTheLastGroupToTheFirst) {
  RingBench bench;
  bench.send(0, 3, 1u << 1, 64);
  bench.run(100);
  ASSERT_EQ(bench.arrived[1].size(), 1u);
  EXPECT_EQ(bench.arrived[1][0].at, 1 + 10 + 2 * 3);
  EXPECT_EQ(bench.ring.counters(2).bytes, 0);
  EXPECT_EQ(bench.ring.counters(3).bytes, 80);
  EXPECT_EQ(bench.ring.counters(0).bytes, 80);
}

TEST(GroupRing, ABroadcastCrossesEachLinkOnce) {
  RingBench bench;
  bench.send(0, 0, 0b1110, 128);
  bench.run(200);
  for (const int g : {1, 2, 3}) {
    ASSERT_EQ(bench.arrived[static_cast<std::size_t>(g)].size(), 1u);
    EXPECT_EQ(bench.arrived[static_cast<std::size_t>(g)][0].at, 1 + 20 + 3 * g);
    EXPECT_EQ(bench.ring.counters(g - 1).bytes, 128 + 32);
  }
  EXPECT_EQ(bench.ring.counters(3).bytes, 0);
}

TEST(GroupRing, TwoTransfersOfAGroupTakeTurnsFrameByFrame) {
  RingBench bench;
  bench.send(0, 0, 1u << 1, 192, 1);  // three frames
  bench.send(0, 0, 1u << 1, 128, 2);  // two
  bench.run(200);
  // 1 2 1 2 1
  EXPECT_EQ(bench.arrived[1], (std::vector<RingArrival>{{1 + 40 + 3, 2}, {1 + 50 + 3, 1}}));
}

TEST(GroupRing, WhatPassesAndWhatIsInjectedTakeTurns) {
  RingBench bench;
  bench.send(0, 0, 1u << 2, 192, 1);  // heads at link 1 in cycles 4, 14, 24
  bench.send(5, 1, 1u << 2, 128, 2);  // at link 1 in cycle 6
  bench.run(200);
  // Link 1: frame of 1 at 4, of 2 at 14 (it waited before the one that came at 14), 1 at 24, 2, 1.
  EXPECT_EQ(bench.arrived[2], (std::vector<RingArrival>{{4 + 40 + 3, 2}, {4 + 50 + 3, 1}}));
  EXPECT_EQ(bench.ring.counters(1).busy, 50);
}

// A transfer takes its quiet cycles and what it waits at links.
TEST(GroupRing, WaitsAreWhatTransfersTakeBeyondAQuietRing) {
  std::mt19937 random(7);
  RingBench bench;
  CardWaits waits;
  bench.ring.count_waits_in(waits);
  std::vector<Cycles> quiet_end;
  for (std::uint32_t tag = 0; tag < kRingTransfersMax; ++tag) {
    const int from = static_cast<int>(random() % 4), hops = 1 + static_cast<int>(random() % 3);
    const auto at = static_cast<Cycles>(random() % 400);
    const auto bytes = static_cast<std::int64_t>(random() % 300);
    bench.send(at, from, GroupSet{1} << (from + hops) % 4, bytes, tag);
    quiet_end.push_back(at + 1 + bench.ring.sizes().quiet_cycles(bytes, hops));
  }
  bench.run(20'000);
  Cycles beyond = 0, waited = 0;
  for (const auto& group : bench.arrived) {
    for (const RingArrival& arrival : group) beyond += arrival.at - quiet_end[arrival.tag];
  }
  for (const CardWait& wait : waits.take(0)) waited += wait.cycles;
  EXPECT_GT(waited, 1000);
  EXPECT_EQ(waited, beyond);
  EXPECT_TRUE(waits.take(0).empty());
}

TEST(GroupRing, WhatPassesGoesFirstOfThoseThatComeInACycle) {
  RingBench bench;
  bench.send(0, 0, 1u << 2, 64, 1);  // at link 1 in cycle 4
  bench.send(3, 1, 1u << 2, 64, 2);  // the same
  bench.run(200);
  EXPECT_EQ(bench.arrived[2], (std::vector<RingArrival>{{4 + 10 + 3, 1}, {4 + 20 + 3, 2}}));
}

TEST(GroupRing, EqualTransfersShareALinkEqually) {
  constexpr int kTransfers = 5, kFrames = 12;
  RingBench bench;
  for (std::uint32_t i = 0; i < kTransfers; ++i) bench.send(0, 2, 1u << 3, kFrames * 64, i);
  bench.run(2000);
  ASSERT_EQ(bench.arrived[3].size(), kTransfers);
  // In the last round, one after the other.
  for (std::uint32_t i = 0; i < kTransfers; ++i) {
    EXPECT_EQ(bench.arrived[3][i],
              (RingArrival{1 + 10 * ((kFrames - 1) * kTransfers + i + 1) + 3, i}));
  }
}

// The ring in plain loops: every link, every cycle, frame by frame.
class PlainRing {
 public:
  explicit PlainRing(const RingSizes& sizes) : sizes_(sizes), links_(4), arrived(4) {}
  void step(Cycles now, const std::vector<CardMessage>& seen) {
    for (int g = 0; g < 4; ++g) {
      Link& link = links_[static_cast<std::size_t>(g)];
      while (!link.coming.empty() && link.coming.front().head == now) {
        queue(link, link.coming.front());
        link.coming.pop_front();
      }
      for (const CardMessage& message : seen) {
        if (message.from != g) continue;
        const int number = transfers_++;
        const std::int64_t frames = (message.bytes + 63) / 64;
        for (std::int64_t f = 0; f < frames; ++f) {
          const std::int64_t data = std::min<std::int64_t>(64, message.bytes - 64 * f);
          queue(link, {now, number, f + 1 == frames, data + 16, message});
        }
      }
    }
    for (int g = 0; g < 4; ++g) {
      Link& link = links_[static_cast<std::size_t>(g)];
      if (link.busy_until > now || link.waiting.empty()) continue;
      std::deque<Frame>& turn = link.waiting.front().second;
      Frame frame = turn.front();
      turn.pop_front();
      link.waiting.push_back(link.waiting.front());
      link.waiting.pop_front();
      if (link.waiting.back().second.empty()) link.waiting.pop_back();
      link.busy_until = now + (frame.wire_bytes + 7) / 8;
      const int next = (g + 1) % 4;
      if (frame.last && (frame.message.to >> next & 1) != 0) {
        arrived[static_cast<std::size_t>(next)].push_back(
            {link.busy_until + sizes_.hop_cycles, frame.message.tickets[0]});
      }
      frame.message.to &= ~(frame.last ? 1u << next : 0u);
      bool goes_on = false;
      for (int to = next + 1; to < next + 4; ++to) {
        if (to % 4 == frame.message.from) break;
        goes_on = goes_on || (frame.message.to >> (to % 4) & 1) != 0;
      }
      frame.head = now + sizes_.hop_cycles;
      if (goes_on && next != frame.message.from) {
        links_[static_cast<std::size_t>(next)].coming.push_back(frame);
      }
    }
  }

 private:
  struct Frame {
    Cycles head = 0;
    int transfer = 0;
    bool last = false;
    std::int64_t wire_bytes = 0;
    CardMessage message;
  };
  struct Link {
    std::deque<std::pair<int, std::deque<Frame>>> waiting;  // by transfer, in turn
    std::deque<Frame> coming;
    Cycles busy_until = 0;
  };
  static void queue(Link& link, const Frame& frame) {
    for (auto& [transfer, frames] : link.waiting) {
      if (transfer == frame.transfer) return frames.push_back(frame);
    }
    link.waiting.push_back({frame.transfer, {frame}});
  }

  RingSizes sizes_;
  std::vector<Link> links_;
  int transfers_ = 0;

 public:
  std::vector<std::vector<RingArrival>> arrived;
};

TEST(GroupRing, RandomTransfersArriveAsInPlainLoopsAndNoByteIsLost) {
  constexpr unsigned kSeed = 5;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  const auto pick = [&random](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 40; ++round) {
    RingBench due, always;
    always.every_cycle = true;
    PlainRing plain(small_ring());
    std::vector<std::int64_t> bytes(4);
    std::size_t expected = 0;
    for (std::uint32_t i = 0; i < 40; ++i) {
      const Cycles at = pick(0, 600);
      const int from = pick(0, 3);
      const auto to = static_cast<GroupSet>(pick(1, 15)) & ~(1u << from);
      const int size = pick(1, 300);
      if (to == 0) continue;
      due.send(at, from, to, size, i);
      int hops = 0;
      for (int g = 0; g < 4; ++g) {
        if ((to >> g & 1) == 0) continue;
        hops = std::max(hops, small_ring().hops(from, g));
        ++expected;
      }
      for (int h = 0; h < hops; ++h) {
        bytes[static_cast<std::size_t>((from + h) % 4)] += small_ring().frame.wire_bytes(size);
      }
    }
    always.sends = due.sends;
    due.run(5000);
    always.run(5000);
    for (Cycles now = 0; now < 5000; ++now) {
      plain.step(now,
                 due.sends.count(now - 1) != 0 ? due.sends[now - 1] : std::vector<CardMessage>{});
    }
    std::size_t arrivals = 0;
    for (std::size_t g = 0; g < 4; ++g) {
      ASSERT_EQ(due.arrived[g], plain.arrived[g]) << "round " << round << ", group " << g;
      ASSERT_EQ(due.arrived[g], always.arrived[g]) << "round " << round << ", group " << g;
      ASSERT_EQ(due.ring.counters(static_cast<int>(g)).bytes, bytes[g]) << "round " << round;
      arrivals += due.arrived[g].size();
    }
    ASSERT_EQ(arrivals, expected) << "round " << round;
    ASSERT_EQ(due.ring.step(5000), kNever);
  }
}

}  // namespace
}  // namespace tessera::engines
