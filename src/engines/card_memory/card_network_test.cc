#include "engines/card_memory/card_network.h"

#include <gtest/gtest.h>

#include <random>

namespace tessera::engines {
namespace {

// 100 Gb/s at 200 MHz: 62.5 bytes a cycle. Frames of 1024 bytes with a header of 16.
NetworkSizes three_cards() {
  return {.cards = 3,
          .cycles_of_byte = NetworkSizes::cycles_at(200'000'000, 100),
          .latency_cycles = 200,
          .frame = {.frame_bytes = 1024, .header_bytes = 16}};
}

struct NetworkBench {
  CardWakes wakes{3};
  CardNetwork network;
  explicit NetworkBench(const NetworkSizes& sizes = three_cards()) : network(sizes, 64, 0, wakes) {}
  void send(Cycles now, int from, int to, std::int64_t bytes, std::uint64_t tag = 0) {
    network.inject(from).push(now, {.from = from, .to = to, .bytes = bytes, .tag = tag});
  }
  Cycles next_at(int card) {
    EXPECT_FALSE(network.deliveries(card).empty());
    const Cycles at = network.deliveries(card).front().at;
    network.deliveries(card).pop();
    return at;
  }
};

TEST(CardNetwork, BytesASecondAreAnExactFractionOfCycles) {
  const Ratio cycles = NetworkSizes::cycles_at(200'000'000, 100);
  EXPECT_EQ(cycles.numerator(), 2);
  EXPECT_EQ(cycles.denominator(), 125);
}

TEST(CardNetwork, AMessageTakesItsWireBytesAndTheLatency) {
  NetworkBench bench;
  bench.send(9, 0, 2, 5000);
  EXPECT_EQ(bench.network.step(9), 10);  // not seen in the cycle in which it is sent
  EXPECT_EQ(bench.network.step(10), kNever);
  // Five frames, 5080 bytes on the wire: 81.28 cycles.
  EXPECT_EQ(three_cards().quiet_cycles(5000), 82 + 200);
  EXPECT_EQ(bench.wakes.earliest(), 10 + 282);
  EXPECT_EQ(bench.next_at(2), 10 + 282);
  EXPECT_EQ(bench.network.counters(0).sent.bytes, 5080);
  EXPECT_EQ(bench.network.counters(2).received.bytes, 5080);
  EXPECT_EQ(bench.network.busy_cycles(bench.network.counters(2).received), 82);
}

TEST(CardNetwork, MessagesBehindEachOtherLoseNoPartOfACycle) {
  NetworkBench bench;
  for (int i = 0; i < 10; ++i) bench.send(0, 0, 1, 100);
  bench.network.step(1);
  for (int i = 1; i <= 10; ++i) {
    EXPECT_EQ(bench.network.deliveries(1).front().waited_out, ceil_div((i - 1) * 116 * 2, 125));
    EXPECT_EQ(bench.network.deliveries(1).front().waited_in, 0);
    // 116 bytes on the wire, 1.856 cycles each.
    EXPECT_EQ(bench.next_at(1), 1 + ceil_div(i * 116 * 2, 125) + 200) << i;
  }
}

TEST(CardNetwork, SendsAndReceivesAtOnce) {
  NetworkBench bench;
  bench.send(0, 0, 1, 5000);
  bench.send(0, 1, 0, 5000);
  bench.network.step(1);
  EXPECT_EQ(bench.next_at(0), 1 + 282);
  EXPECT_EQ(bench.next_at(1), 1 + 282);
}

TEST(CardNetwork, TwoSendersToOneCardShareItsReceivingSide) {
  NetworkBench bench;
  bench.send(0, 1, 2, 5000, 1);
  bench.send(0, 0, 2, 5000, 2);
  bench.network.step(1);
  // The lower card first.
  EXPECT_EQ(bench.network.deliveries(2).front().message.tag, 2u);
  EXPECT_EQ(bench.network.deliveries(2).front().waited_in, 0);
  EXPECT_EQ(bench.next_at(2), 1 + 282);
  EXPECT_EQ(bench.network.deliveries(2).front().waited_out, 0);
  EXPECT_EQ(bench.network.deliveries(2).front().waited_in, 82);
  EXPECT_EQ(bench.next_at(2), 1 + ceil_div(2 * 5080 * 2, 125) + 200);
}

TEST(CardNetwork, AMessageWhoseReceiverIsTakenHoldsUpThoseBehindIt) {
  NetworkBench bench;
  bench.send(0, 0, 2, 5000);
  bench.send(0, 1, 2, 109);  // 125 bytes on the wire: 2 cycles, behind 81.28
  bench.send(0, 1, 0, 109);
  bench.network.step(1);
  EXPECT_EQ(bench.next_at(0), 1 + 86 + 200);  // 85.28
}

TEST(CardNetwork, RandomMessagesNeverMeetOnASideAndNoneIsLost) {
  constexpr unsigned kSeed = 6;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  const auto pick = [&random](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 50; ++round) {
    NetworkBench bench;
    std::int64_t sent = 0;
    Cycles now = 0;
    for (int i = 0; i < 60; ++i) {
      const int from = pick(0, 2);
      const int to = (from + pick(1, 2)) % 3;
      const int bytes = pick(1, 4000);
      sent += three_cards().frame.wire_bytes(bytes);
      bench.send(now, from, to, bytes, static_cast<std::uint64_t>(now));
      bench.network.step(now + 1);
      now += pick(1, 60);
    }
    std::int64_t received = 0;
    for (int card = 0; card < 3; ++card) {
      Cycles last = 0, until = 0;
      while (!bench.network.deliveries(card).empty()) {
        const auto& delivery = bench.network.deliveries(card).front();
        const std::int64_t wire = three_cards().frame.wire_bytes(delivery.message.bytes);
        received += wire;
        // Whole cycles that the message cannot do without, behind the one before and on a quiet network.
        ASSERT_GE(delivery.at - last, wire * 2 / 125);
        ASSERT_GE(delivery.at, static_cast<Cycles>(delivery.message.tag) + 1 +
                                   three_cards().quiet_cycles(delivery.message.bytes));
        ASSERT_GE(delivery.sent_from, until);
        ASSERT_GE(delivery.sent_until, delivery.sent_from);
        last = delivery.at;
        until = delivery.sent_until;
        bench.network.deliveries(card).pop();
      }
    }
    ASSERT_EQ(received, sent);
  }
}

}  // namespace
}  // namespace tessera::engines
