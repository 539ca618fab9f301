// Slots of the state buffer's ports: by hand, and what must hold of any load.
#include "arch/port_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace tessera {
namespace {

using Demands = std::vector<PortDemand>;

void expect_slot(const PortSlot& slot, Cycles begin, Cycles end) {
  EXPECT_EQ(slot.begin, begin);
  EXPECT_EQ(slot.end, end);
}

TEST(Ports, AStepAloneTakesWhatItTakesOrWhatItsPortNeeds) {
  PortSchedule ports(2, 1, 1);
  expect_slot(ports.reserve(10, 100, Demands{{0, 100, 0}}), 10, 110);
  // 250 cycles of a port that gives one a cycle.
  expect_slot(ports.reserve(200, 100, Demands{{0, 250, 0}}), 200, 450);
  // Two sources in one bank: 2 x 100 cycles of its port.
  expect_slot(ports.reserve(450, 100, Demands{{1, 100, 0}, {1, 100, 0}}), 450, 650);
  // The same with one in each bank.
  expect_slot(ports.reserve(650, 100, Demands{{0, 100, 0}, {1, 100, 0}}), 650, 750);
}

TEST(Ports, TwoReadersOfABankShareIt) {
  PortSchedule ports(2, 1, 1);
  // The array takes an eighth of the bank's port for 100 cycles.
  expect_slot(ports.reserve(0, 100, Demands{{0, 12, 0}}), 0, 100);
  EXPECT_EQ(ports.taken(0, false, 0), 7865);  // ceil(12 x 65,536 / 100)
  // The other wants all of it: 100 x 65,536 / (65,536 - 7,865) = 113.64.
  expect_slot(ports.reserve(0, 100, Demands{{0, 100, 0}}), 0, 114);
  EXPECT_EQ(ports.taken(0, false, 50), 7865 + 57488);  // ceil(100 x 65,536 / 114)
}

TEST(Ports, OtherBanksAndTheOtherDirectionAreFree) {
  PortSchedule ports(2, 1, 1);
  expect_slot(ports.reserve(0, 100, Demands{{0, 100, 0}}), 0, 100);
  expect_slot(ports.reserve(0, 100, Demands{{1, 100, 0}}), 0, 100);
  expect_slot(ports.reserve(0, 100, Demands{{0, 0, 100}}), 0, 100);
}

TEST(Ports, ASecondPortTakesASecondReader) {
  PortSchedule ports(1, 2, 1);
  expect_slot(ports.reserve(0, 100, Demands{{0, 100, 0}}), 0, 100);
  expect_slot(ports.reserve(0, 100, Demands{{0, 100, 0}}), 0, 100);
  expect_slot(ports.reserve(0, 100, Demands{{0, 100, 0}}), 100, 200);
}

TEST(Ports, AStepWaitsWhereThatEndsEarlier) {
  PortSchedule ports(1, 1, 1);
  // Nine tenths are gone until cycle 10; the rest would make 20 cycles into 201.
  expect_slot(ports.reserve(0, 10, Demands{{0, 9, 0}}), 0, 10);
  expect_slot(ports.reserve(0, 20, Demands{{0, 20, 0}}), 10, 30);
  // Half of it is gone until cycle 1,000: 20 cycles in half of the port end long before that.
  PortSchedule half(1, 1, 1);
  expect_slot(half.reserve(0, 1000, Demands{{0, 500, 0}}), 0, 1000);
  expect_slot(half.reserve(0, 20, Demands{{0, 20, 0}}), 0, 40);
}

TEST(Ports, AStepThatWantsNothingIsNeverHeldUp) {
  PortSchedule ports(1, 1, 1);
  expect_slot(ports.reserve(0, 1000, Demands{{0, 1000, 1000}}), 0, 1000);
  expect_slot(ports.reserve(5, 7, Demands{}), 5, 12);
  expect_slot(ports.reserve(5, 7, Demands{{0, 0, 0}}), 5, 12);
}

// On any load: no port gives more than it has in any cycle, each step gets the cycles that it wants,
// and none begins later than the last of those before it ends.
TEST(Ports, NoCycleOfAnyPortIsGivenTwice) {
  std::mt19937_64 random(7);
  const auto below = [&random](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (int round = 0; round < 200; ++round) {
    const auto banks = static_cast<std::int32_t>(1 + below(4));
    const auto read_ports = static_cast<std::int32_t>(1 + below(2));
    PortSchedule ports(banks, read_ports, 1);
    Cycles now = 0, last_end = 0;
    for (int step = 0; step < 60; ++step) {
      now += below(30);
      Demands demands;
      for (std::int64_t i = below(4); i > 0; --i) {
        demands.push_back({static_cast<std::int32_t>(below(banks)), below(60), below(60)});
      }
      const Cycles occupancy = 1 + below(50);
      const PortSlot slot = ports.reserve(now, occupancy, demands);
      EXPECT_GE(slot.begin, now);
      EXPECT_LE(slot.begin, std::max(now, last_end));
      EXPECT_GE(slot.end - slot.begin, occupancy);
      last_end = std::max(last_end, slot.end);
      for (std::int32_t bank = 0; bank < banks; ++bank) {
        Cycles reads = 0, writes = 0;
        for (const PortDemand& demand : demands) {
          if (demand.bank == bank) reads += demand.reads, writes += demand.writes;
        }
        EXPECT_GE((slot.end - slot.begin) * read_ports, reads);
        EXPECT_GE(slot.end - slot.begin, writes);
        for (Cycles at = now; at < last_end; ++at) {
          ASSERT_LE(ports.taken(bank, false, at), read_ports * PortSchedule::kWholePort);
          ASSERT_LE(ports.taken(bank, true, at), PortSchedule::kWholePort);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera
