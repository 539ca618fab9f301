// Tenants of one virtual card through the public interface: each has the bits of one core whatever the
// others do and whichever cores it has, and what goes wrong with one is its own.
#include "device/virtual_card.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <random>
#include <thread>

#include "arch/architecture_file.h"
#include "card_models.h"
#include "network/prepared_cores.h"
#include "tessera/runtime.h"
#include "tessera/session.h"
#include "tessera/virtual_card.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using Cores = std::vector<int>;

using testing::error_of;
using testing::network_with_host_step;
using testing::open;
using testing::residual_network;
using testing::Sample;
using testing::take;

TEST(VirtualCard, TenantsHaveTheBitsOfOneCoreEachWithItsOwnModel) {
  const std::vector<Sample> models = {Sample(residual_network(1, 24), 1),
                                      Sample(residual_network(2, 40), 2),
                                      Sample(network_with_host_step(), 3)};
  std::vector<std::int64_t> before;
  for (int round = 0; round < 2; ++round) {
    const VirtualCard card = VirtualCard::open().value();
    // The first two share group 0.
    std::vector<Session> sessions;
    sessions.push_back(open(models[0], take(card, {.core_numbers = {0, 1, 4}})));
    sessions.push_back(open(models[1], take(card, {.core_numbers = {2, 3}, .weight = 2})));
    sessions.push_back(open(models[2], take(card, {.cores = 2})));
    std::vector<TogetherRuns> runs;
    for (std::size_t i = 0; i < models.size(); ++i) {
      runs.push_back({.session = &sessions[i], .inputs = models[i].inputs, .times = 2});
    }
    const auto together = run_together(runs);
    ASSERT_TRUE(together.ok()) << together.error().to_string();
    std::vector<std::int64_t> cycles;
    for (std::size_t i = 0; i < models.size(); ++i) {
      const TogetherResult& of = (*together)[i];
      ASSERT_TRUE(of.status.ok()) << of.status.error().to_string();
      EXPECT_TRUE(of.last.outputs == models[i].outputs) << i;
      ASSERT_EQ(of.cycles.size(), 2u);
      cycles.insert(cycles.end(), of.cycles.begin(), of.cycles.end());
    }
    // Whatever the threads did.
    if (round > 0) {
      EXPECT_EQ(cycles, before);
    }
    before = cycles;
  }
}

TEST(VirtualCard, ATenantAloneHasTheCyclesOfACardOfItsOwn) {
  // A card of one group: of a ring a tenant has as much as of the cores.
  const Sample model(residual_network(1, 24, *load_chip_config("tessera128x4")));
  const VirtualCard card = VirtualCard::open("tessera128x4").value();
  Session session = open(model, take(card, {.cores = 4}));
  const RunResult shared = session.run(model.inputs).value();
  const RunResult own = Session::open(model.network, {.cores = 4})->run(model.inputs).value();
  EXPECT_EQ(shared.cycles, own.cycles);
  EXPECT_TRUE(shared.outputs == own.outputs);
  EXPECT_EQ(shared.card_end - shared.card_begin, card.status().processors[0].last_run_cycles);
}

// Twenty runs on eight cores, by one thread, by four side by side, and by five.
TEST(VirtualCard, TwentyRunsTakeTheSameCyclesWhicheverThreadsSimulateThem) {
  const Sample model(residual_network(1, 24), 1);
  const std::int64_t expected =
      Session::open(model.network, {.timing_only = true, .cores = 8})->run(model.inputs)->cycles;
  ASSERT_GT(expected, 0);
  for (const int threads : {1, 4, 5}) {
    std::vector<std::vector<std::int64_t>> cycles(static_cast<std::size_t>(threads));
    std::vector<std::jthread> running;
    for (std::vector<std::int64_t>& of_thread : cycles) {
      running.emplace_back([&model, &of_thread, threads] {
        Session session = Session::open(model.network, {.timing_only = true, .cores = 8}).value();
        for (int i = 0; i < 20 / threads; ++i) {
          of_thread.push_back(session.run(model.inputs).value().cycles);
        }
      });
    }
    running.clear();
    for (const auto& of_thread : cycles) {
      EXPECT_EQ(of_thread,
                std::vector<std::int64_t>(static_cast<std::size_t>(20 / threads), expected));
    }
  }
}

// Cycles of three runs on the first cores, beside a neighbour where one is given.
std::vector<std::int64_t> cycles_beside(const Sample& model, const VirtualProcessorOptions& own,
                                        const Sample* other = nullptr,
                                        const VirtualProcessorOptions& others = {}) {
  const VirtualCard card = VirtualCard::open().value();
  std::vector<Session> sessions;
  sessions.push_back(open(model, take(card, own), {.timing_only = true}));
  if (other != nullptr) {
    sessions.push_back(open(*other, take(card, others), {.timing_only = true}));
  }
  std::vector<TogetherRuns> runs = {
      {.session = sessions.data(), .inputs = model.inputs, .times = 3}};
  if (other != nullptr) runs.push_back({.session = &sessions[1], .inputs = other->inputs});
  return run_together(runs).value()[0].cycles;
}

TEST(VirtualCard, NeighboursTakeNothingInOtherGroupsAndTheirShareInTheSame) {
  const Sample model(residual_network(1, 32)), other(residual_network(2, 64));
  const std::int64_t alone = cycles_beside(model, {.core_numbers = {0, 1}})[0];
  // In other groups: the first run is the same to the cycle; later ones meet refreshes elsewhere.
  const auto apart = cycles_beside(model, {.core_numbers = {0, 1}}, &other,
                                   {.core_numbers = {4, 8, 12, 5, 9, 13}, .weight = 16});
  EXPECT_EQ(apart[0], alone);
  for (const std::int64_t cycles : apart) EXPECT_LT(std::abs(cycles - alone) * 100, alone);
  // In the same group: its share of the channel at the worst, and the bus's turns.
  for (const auto& [weight, others] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {1, 4}, {4, 1}}) {
    const auto beside = cycles_beside(model, {.core_numbers = {0, 1}, .weight = weight}, &other,
                                      {.core_numbers = {2, 3}, .weight = others});
    for (const std::int64_t cycles : beside) {
      EXPECT_LE(100 * cycles * weight, 105 * alone * (weight + others)) << weight << " " << others;
    }
  }
}

TEST(VirtualCard, ATenantGetsOtherCoresWhileItAndOthersRun) {
  const Sample model(residual_network(3, 20)), other(residual_network(4, 12));
  const VirtualCard card = VirtualCard::open().value();
  const VirtualProcessor a = take(card, {.name = "a", .cores = 1}),
                         b = take(card, {.name = "b", .cores = 2});
  std::atomic<bool> enough = false;
  std::atomic<int> wrong = 0, runs = 0;
  const auto serve = [&](const Sample& of, const VirtualProcessor& on) {
    Session session = open(of, on);
    while (!enough) {
      const auto run = session.run(of.inputs);
      if (!run.ok() || run->outputs != of.outputs) ++wrong;
      ++runs;
    }
  };
  {
    const std::jthread first([&] { serve(model, a); }), second([&] { serve(other, b); });
    for (const int cores : {4, 6, 2, 12, 1, 3}) {
      const Status changed = a.resize(cores);
      EXPECT_TRUE(changed.ok()) << changed.error().to_string();
      EXPECT_EQ(std::ssize(a.status().cores), cores);
      const int seen = runs;
      while (runs < seen + 3) std::this_thread::yield();
    }
    EXPECT_TRUE(b.move({14, 15}).ok());
    enough = true;
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(b.status().cores, (Cores{14, 15}));
  EXPECT_EQ(a.status().changes, 6);
  EXPECT_EQ(a.status().failures, 0);
}

// Everyone runs while two owners give and take cores at random; no core is ever two tenants'.
TEST(VirtualCard, TenantsThatAllChangeAtOnceKeepTheirBitsAndShareNoCore) {
  std::vector<Sample> models;
  for (unsigned i = 0; i < 4; ++i) models.emplace_back(residual_network(i + 1, 8 + 4 * i), i);
  const VirtualCard card = VirtualCard::open().value();
  std::vector<VirtualProcessor> processors;
  std::vector<Session> sessions;
  for (const Sample& model : models) {
    processors.push_back(take(card, {.cores = 2}));
    sessions.push_back(open(model, processors.back()));
  }
  std::atomic<bool> enough = false;
  std::atomic<int> wrong = 0, shared = 0;
  const auto serve = [&](std::size_t i) {
    while (!enough) {
      const auto run = sessions[i].run(models[i].inputs);
      if (run.ok() ? run->outputs != models[i].outputs
                   : run.error().code != ErrorCode::kUnavailable) {
        ++wrong;
      }
    }
  };
  const auto look = [&] {
    std::vector<int> owners(16);
    for (const ProcessorStatus& one : card.status().processors) {
      for (const int core : one.cores) ++owners[static_cast<std::size_t>(core)];
      for (const int core : one.reserved) ++owners[static_cast<std::size_t>(core)];
    }
    if (std::ranges::max(owners) > 1) ++shared;
  };
  const auto change = [&](unsigned seed) {
    std::minstd_rand random(seed);
    for (int i = 0; i < 30; ++i) {
      const auto which = random() % processors.size();
      // Where there are not as many it has what it had.
      (void)processors[which].resize(static_cast<int>(random() % 7));
      look();
    }
  };
  {
    std::vector<std::jthread> serving;
    for (std::size_t i = 0; i < models.size(); ++i) serving.emplace_back([&, i] { serve(i); });
    {
      const std::jthread first([&] { change(1); }), second([&] { change(2); });
    }
    enough = true;
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(shared, 0);
  for (std::size_t i = 0; i < models.size(); ++i) EXPECT_TRUE(processors[i].resize(1).ok());
}

Sample prepared_sample() {
  const Network network = residual_network(1, 24);
  const std::vector<network::CoreCount> counts = {{2, 1}, {4, 1}, {8, 1}};
  return Sample(network::prepare_cores(network, counts).value());
}

TEST(VirtualCard, ChangesThatAreMadeReadyFindTheirProgramsAndHaveTheSameBitsAndCycles) {
  const Sample model = prepared_sample();
  std::vector<std::int64_t> before;
  for (const bool ready : {false, true}) {
    const VirtualCard card = VirtualCard::open().value();
    const VirtualProcessor processor = take(card, {.cores = 4});
    device::VirtualProcessor& beneath = *processor.state();
    if (ready) beneath.prepare_changes();
    Session session = open(model, processor);
    ASSERT_TRUE(beneath.wait_until_prepared(std::chrono::minutes(5)));
    const auto prepared = beneath.prepared_changes();
    EXPECT_EQ(prepared.programs, ready ? 2 : 0);
    EXPECT_GE(prepared.clearings, ready ? 1 : 0);
    std::vector<std::int64_t> cycles;
    for (const int cores : {8, 2, 4, 8}) {
      ASSERT_TRUE(processor.resize(cores).ok()) << cores;
      const auto link = beneath.last_link();
      EXPECT_EQ(link.compiled, 0);
      EXPECT_EQ(link.kept + link.filled_in, 1);
      if (ready) {
        EXPECT_EQ(link.kept, 1) << cores;
      }
      const auto run = session.run(model.inputs);
      ASSERT_TRUE(run.ok()) << run.error().to_string();
      EXPECT_TRUE(run->outputs == model.outputs) << cores;
      cycles.push_back(run->cycles);
      cycles.push_back(card.status().processors[0].cleared_cycles);
    }
    if (ready) {
      EXPECT_EQ(cycles, before);
    }
    before = cycles;
  }
}

TEST(VirtualCard, NothingIsMadeReadyBeyondItsBytes) {
  const Sample model = prepared_sample();
  const VirtualCard card = VirtualCard::open().value();
  const VirtualProcessor processor = take(card, {.cores = 4});
  device::VirtualProcessor& beneath = *processor.state();
  beneath.prepare_changes(1);
  Session session = open(model, processor);
  ASSERT_TRUE(beneath.wait_until_prepared(std::chrono::minutes(5)));
  EXPECT_EQ(beneath.prepared_changes().programs, 0);
  ASSERT_TRUE(processor.resize(8).ok());
  EXPECT_EQ(beneath.last_link().kept, 0);
  EXPECT_EQ(beneath.last_link().filled_in, 1);
  EXPECT_TRUE(session.run(model.inputs).value().outputs == model.outputs);
}

// Whoever changes, runs or leaves meanwhile.
TEST(VirtualCard, WhatIsMadeReadyEndsWithItsNetworkAndItsTenant) {
  const Sample model = prepared_sample();
  const VirtualCard card = VirtualCard::open().value();
  std::optional<VirtualProcessor> processor = take(card, {.cores = 4});
  processor->state()->prepare_changes();
  for (int i = 0; i < 3; ++i) {
    Session session = open(model, *processor);
    ASSERT_TRUE(processor->resize(i == 1 ? 8 : 2).ok());
    EXPECT_TRUE(session.run(model.inputs).value().outputs == model.outputs);
  }
  EXPECT_TRUE(processor->status().networks.empty());
  const Session last = open(model, *processor);
  processor.reset();
  EXPECT_EQ(card.status().processors.size(), 1u);  // the session has it
}

TEST(VirtualCard, WhatATenantGivesUpIsZeroForTheNext) {
  const Sample model(residual_network(1, 24));
  const VirtualCard card = VirtualCard::open().value();
  card::SharedCard& beneath = card.state()->shared_card();
  constexpr std::int64_t kMemory = 4 << 20;
  const auto memory_is_zero = [&] {
    return std::ranges::all_of(beneath.dram(0, {0, kMemory}),
                               [](std::byte b) { return b == std::byte{0}; });
  };
  std::optional<VirtualProcessor> processor = take(card, {.cores = 2, .memory_bytes = kMemory});
  {
    Session session = open(model, *processor);
    ASSERT_TRUE(session.run(model.inputs).ok());
    EXPECT_FALSE(memory_is_zero());
    EXPECT_FALSE(beneath.core_is_zero(0));
    ASSERT_TRUE(processor->resize(1).ok());  // gives up core 1, and its own is clear as well
    EXPECT_TRUE(beneath.core_is_zero(0));
    EXPECT_TRUE(beneath.core_is_zero(1));
    const ProcessorStatus status = processor->status();
    EXPECT_GT(status.cleared_bytes, 0);  // what the network had of it
    EXPECT_LT(status.cleared_bytes, kMemory);
    EXPECT_GT(status.cleared_cycles, 0);
    EXPECT_FALSE(status.clearing);
    ASSERT_TRUE(session.run(model.inputs).ok());
    EXPECT_FALSE(memory_is_zero());
    processor.reset();
    EXPECT_EQ(card.status().processors.size(), 1u);  // the session has it
  }
  EXPECT_EQ(card.status().processors.size(), 0u);
  EXPECT_TRUE(memory_is_zero());
  EXPECT_TRUE(beneath.core_is_zero(0));
}

TEST(VirtualCard, TenantsAreOnSeveralCards) {
  const Sample model(residual_network(1, 24));
  const VirtualCard cards = VirtualCard::open("cloud16", 2).value();
  EXPECT_EQ(cards.status().cards, 2);
  EXPECT_EQ(cards.status().groups, 8);
  const VirtualProcessor on_one = take(cards, {.cores = 12});
  const VirtualProcessor on_next = take(cards, {.cores = 12});  // the first card has no room for it
  const VirtualProcessor on_both = take(cards, {.core_numbers = {12, 13, 28, 29}});
  EXPECT_THAT(on_one.status().cores, ::testing::Each(::testing::Lt(16)));
  EXPECT_THAT(on_next.status().cores, ::testing::Each(::testing::Ge(16)));
  std::vector<Session> sessions;
  for (const VirtualProcessor& processor : {on_one, on_next, on_both}) {
    sessions.push_back(open(model, processor));
  }
  std::vector<TogetherRuns> runs;
  for (Session& session : sessions) runs.push_back({.session = &session, .inputs = model.inputs});
  const auto together = run_together(runs);
  ASSERT_TRUE(together.ok()) << together.error().to_string();
  for (const TogetherResult& of : *together) {
    ASSERT_TRUE(of.status.ok()) << of.status.error().to_string();
    EXPECT_TRUE(of.last.outputs == model.outputs);
  }
  // From two cards to one, and back over both.
  for (const int cores : {2, 1, 6}) {
    ASSERT_TRUE(on_both.resize(cores).ok()) << cores;
    const auto run = sessions[2].run(model.inputs);
    ASSERT_TRUE(run.ok()) << run.error().to_string();
    EXPECT_TRUE(run->outputs == model.outputs) << cores;
  }
  EXPECT_EQ(error_of(on_both.resize(33)),
            "tenant 'tenant2': 33 cores; 2 cards of 'cloud16' have 32, allowed 0 (none) to 32");
  EXPECT_FALSE(VirtualCard::open("cloud16", 0).ok());
}

const CardPart& part(const CardStatus& status, const std::string& kind, int index) {
  const auto found = std::ranges::find_if(
      status.parts, [&](const CardPart& one) { return one.kind == kind && one.index == index; });
  EXPECT_NE(found, status.parts.end()) << kind << " " << index;
  return *found;
}

// Also over the moments in which the card is quiet, and its clock begins anew.
TEST(VirtualCard, SaysWhatCoresChannelsRingsAndNetworkPortsOfEachCardHaveDone) {
  const Sample model(residual_network(1, 24));
  const VirtualCard cards = VirtualCard::open("cloud16", 2).value();
  const std::vector<int> numbers = {0, 4, 16, 20};
  EXPECT_EQ(cards.status().parts.size(), 32u + 3 * 8 + 2 * 2);  // nobody is there
  const VirtualProcessor processor = take(cards, {.core_numbers = numbers});
  Session session = open(model, processor, {.split = CoreSplit::kRows});
  const CardStatus before = cards.status();
  ASSERT_EQ(before.parts.size(), 32u + 3 * 8 + 2 * 2);
  for (const CardPart& one : before.parts) EXPECT_EQ(one.busy_cycles + one.bytes, 0) << one.kind;
  EXPECT_EQ(part(before, "core", 20).card, 1);
  EXPECT_EQ(part(before, "ring", 3).card, 0);
  EXPECT_EQ(part(before, "network_in", 1).card, 1);
  const RunResult run = session.run(model.inputs).value();
  const CardStatus once = cards.status();
  for (const EngineUse& engine : run.engines) {
    if (engine.kind != "neural" || engine.index > 0) continue;
    const int number = numbers.at(static_cast<std::size_t>(engine.core));
    EXPECT_GT(engine.busy, 0);
    EXPECT_EQ(part(once, "core", number).busy_cycles, engine.busy);
  }
  EXPECT_EQ(part(once, "core", 1).busy_cycles, 0);
  for (const int group : {0, 1, 4, 5}) EXPECT_GT(part(once, "dram", group).bytes, 0);
  EXPECT_EQ(part(once, "dram", 2).bytes, 0);
  EXPECT_GT(part(once, "ring", 0).bytes, 0);
  EXPECT_GT(part(once, "network_out", 0).bytes, 0);
  EXPECT_EQ(part(once, "network_out", 0).bytes, part(once, "network_in", 1).bytes);
  EXPECT_EQ(part(once, "network_out", 1).bytes, part(once, "network_in", 0).bytes);
  ASSERT_TRUE(session.run(model.inputs).ok());
  const CardStatus twice = cards.status();
  for (std::size_t i = 0; i < twice.parts.size(); ++i) {
    const CardPart& of = once.parts[i];
    EXPECT_EQ(twice.parts[i].bytes, 2 * of.bytes) << of.kind << " " << of.index;
    EXPECT_LE(twice.parts[i].busy_cycles, twice.cycles) << of.kind << " " << of.index;
  }
}

// Teams of a virtual processor: their number stays, and they get larger or smaller.
TEST(VirtualCard, TeamsOfATenantHaveAnImageEach) {
  const Sample first(residual_network(1, 24), 1), second(residual_network(1, 24), 2);
  std::vector<Tensor> both = first.inputs;
  both.insert(both.end(), second.inputs.begin(), second.inputs.end());
  std::vector<Tensor> expected = first.outputs;
  expected.insert(expected.end(), second.outputs.begin(), second.outputs.end());
  const VirtualCard card = VirtualCard::open().value();
  const VirtualProcessor processor = take(card, {.cores = 4});
  Session session = open(first, processor, {.cores_per_image = 2});
  for (const int cores : {4, 2, 8}) {
    ASSERT_TRUE(processor.resize(cores).ok());
    const auto run = session.run(both);
    ASSERT_TRUE(run.ok()) << run.error().to_string();
    EXPECT_TRUE(run->outputs == expected) << cores;
    EXPECT_EQ(processor.status().last_run_images, 2);
  }
  EXPECT_THAT(error_of(processor.resize(3)), HasSubstr("allowed are multiples of 2"));
  ASSERT_TRUE(session.run(both).ok());
}

TEST(VirtualCard, ATenantThatFailsEndsAlone) {
  const Sample model(residual_network(1, 24)), other(residual_network(2, 40));
  const VirtualCard card = VirtualCard::open().value();
  const VirtualProcessor bad = take(card, {.name = "bad", .core_numbers = {0, 1}});
  Session wrong = open(model, bad), good = open(other, take(card, {.core_numbers = {2, 3}}));
  // Its memory has moved away from under it: tenant 0 of the card is the first that was taken.
  ASSERT_TRUE(card.state()->shared_card().set_range(0, {8LL << 30, 4096}).ok());
  const std::vector<TogetherRuns> runs = {{.session = &wrong, .inputs = model.inputs, .times = 1},
                                          {.session = &good, .inputs = other.inputs, .times = 2}};
  const auto together = run_together(runs);
  ASSERT_TRUE(together.ok());
  EXPECT_THAT(error_of((*together)[0].status), HasSubstr("tenant 'bad': core 0 reads bytes 0x"));
  ASSERT_TRUE((*together)[1].status.ok());
  EXPECT_TRUE((*together)[1].last.outputs == other.outputs);
  EXPECT_EQ(bad.status().failures, 1);
  // With memory of its own again it is as before.
  ASSERT_TRUE(bad.move({0, 5}).ok());
  EXPECT_TRUE(wrong.run(model.inputs)->outputs == model.outputs);
}

TEST(VirtualCard, ATrapIsAnErrorOfItsOwnRun) {
  Sample model(residual_network(1, 24));
  const VirtualCard card = VirtualCard::open().value();
  Session trapped = open(model, take(card, {.name = "a", .cores = 2}), {.traps = kTrapNan});
  EXPECT_TRUE(trapped.run(model.inputs)->outputs == model.outputs);
  std::vector<Tensor> bad = model.inputs;
  for (std::uint16_t& bits : bad[0].as<std::uint16_t>()) bits = 0x7E00;
  EXPECT_THAT(error_of(trapped.run(bad)), HasSubstr("tenant 'a': "));
  EXPECT_TRUE(trapped.run(model.inputs)->outputs == model.outputs);
}

TEST(VirtualCard, WithoutCoresRunsAreRefusedUntilThereAreSome) {
  const Sample model(residual_network(1, 24));
  const VirtualCard card = VirtualCard::open().value();
  const VirtualProcessor a = take(card, {.name = "a", .cores = 1});
  Session session = open(model, a);
  ASSERT_TRUE(a.resize(0).ok());
  EXPECT_EQ(
      error_of(session.run(model.inputs)),
      "device 'a', kernel 0, task 1 ('test', tag 0): tenant 'a' has no cores at present; give "
      "it some, or wait until others leave");
  EXPECT_EQ(a.status().cores, Cores());
  const VirtualProcessor all = take(card, {.cores = 16});
  EXPECT_EQ(error_of(a.resize(1)),
            "tenant 'a': 1 cores are wanted; others have 16 of the 16 of 'cloud16', allowed is up "
            "to 0");
  ASSERT_TRUE(all.resize(14).ok());
  ASSERT_TRUE(a.resize(2).ok());
  EXPECT_TRUE(session.run(model.inputs)->outputs == model.outputs);
}

TEST(VirtualCard, WhatDoesNotFitIsAnErrorAndItHasWhatItHad) {
  const Sample model(residual_network(1, 24));
  const VirtualCard card = VirtualCard::open().value();
  const VirtualProcessor tiny = take(card, {.name = "a", .memory_bytes = 4096});
  const auto refused = Session::open(model.network, {.processor = tiny});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kDoesNotFit);
  EXPECT_EQ(refused.error().message,
            "tenant 'a': 'test' does not fit the 4096 bytes of memory that it has of each group; "
            "take more");
  // As much as one core needs, to the page: two need more.
  for (std::int64_t pages = 8;; ++pages) {
    ASSERT_LT(pages, 1024);
    const VirtualProcessor b = take(card, {.name = "b", .memory_bytes = pages * 4096});
    auto session = Session::open(model.network, {.processor = b});
    if (!session.ok()) continue;
    const Status more = b.resize(16 - 1);
    ASSERT_FALSE(more.ok());
    EXPECT_EQ(more.error().code, ErrorCode::kDoesNotFit);
    EXPECT_EQ(b.status().cores.size(), 1u);
    EXPECT_EQ(b.status().reserved, Cores());
    EXPECT_TRUE(session->run(model.inputs)->outputs == model.outputs);
    break;
  }
}

TEST(VirtualCard, DevicesOfARuntimeAreItsTenants) {
  const Sample model(residual_network(1, 24)), other(residual_network(2, 40));
  const VirtualCard card = VirtualCard::open().value();
  const VirtualProcessor a = take(card, {.name = "a", .cores = 2}), b = take(card, {.cores = 3});
  Runtime runtime =
      Runtime::open({.devices = {{.kind = DeviceKind::kSim, .name = "a", .processor = a},
                                 {.kind = DeviceKind::kSim, .name = "b", .processor = b}}})
          .value();
  const auto stream_of = [&](const Sample& of, const char* device) {
    const auto loaded = runtime.load(of.network, {device});
    EXPECT_TRUE(loaded.ok()) << loaded.error().to_string();
    return runtime.open_pipeline(*loaded)->open_stream();
  };
  Stream first = stream_of(model, "a"), second = stream_of(other, "b");
  std::vector<Job> jobs;
  for (int i = 0; i < 4; ++i) {
    jobs.push_back(first.submit(model.inputs).value());
    jobs.push_back(second.submit(other.inputs).value());
    if (i == 1) {
      EXPECT_TRUE(a.resize(4).ok());
    }
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const TaskOutcome outcome = jobs[i].wait();
    ASSERT_TRUE(outcome.ok()) << outcome.error().error.to_string();
    EXPECT_TRUE(outcome.result().outputs() == (i % 2 == 0 ? model : other).outputs);
  }
  EXPECT_EQ(a.status().runs + b.status().runs, 8);
}

TEST(VirtualCard, WhatSomebodyHasOrNobodyCanHaveIsRefused) {
  const VirtualCard card = VirtualCard::open().value();
  const VirtualProcessor a = take(card, {.name = "a", .core_numbers = {1, 2}});
  const auto refused = [&](const VirtualProcessorOptions& options) {
    return error_of(card.take(options));
  };
  EXPECT_EQ(refused({.name = "a"}), "tenant 'a': there are two of this name; allowed is one");
  EXPECT_EQ(refused({.core_numbers = {2, 3}}),
            "tenant 'tenant0': core 2 of 'cloud16' is that of tenant 'a'; take others, or wait "
            "until it is given up");
  EXPECT_EQ(refused({.core_numbers = {16}}),
            "tenant 'tenant0': core 16 of 'cloud16', allowed 0 to 15, each once");
  EXPECT_EQ(refused({.cores = 17}),
            "tenant 'tenant0': 17 cores; 'cloud16' has 16, allowed 0 (none yet) to 16");
  EXPECT_EQ(refused({.cores = 15}),
            "tenant 'tenant0': 15 cores are wanted; others have 2 of the 16 of 'cloud16', allowed "
            "is up to 14");
  EXPECT_EQ(refused({.memory_bytes = -1}),
            "tenant 'tenant0': -1 bytes of memory; a group of 'cloud16' has 17179869184, allowed 0 "
            "(its part of a core) to 17179869184");
  EXPECT_EQ(refused({.core_numbers = {0}, .memory_bytes = 16LL << 30}),
            "tenant 'tenant0': 17179869184 bytes of memory in each of the groups 0; each of "
            "'cloud16' has 17179869184, and no gap between others is as large; take less, or cores "
            "of other groups");
  EXPECT_EQ(refused({.weight = 0}), "tenant 'tenant0': a weight of 0, allowed 1 to 16");
  EXPECT_EQ(card.status().processors.size(), 1u);  // nothing is left of those that were refused
  EXPECT_EQ(error_of(VirtualProcessor().resize(1)),
            "an empty virtual processor; take one of a virtual card (VirtualCard::take)");
}

TEST(VirtualCard, OptionsThatItCannotFollowAreRefused) {
  const Sample model(residual_network(1, 24));
  const VirtualCard card = VirtualCard::open().value();
  const VirtualProcessor a = take(card, {.name = "a"});
  const auto refused = [&](SessionOptions options) {
    options.processor = a;
    return error_of(Session::open(model.network, options));
  };
  const std::string text =
      " with the virtual processor 'a', which is of the device sim and has its own cores; leave "
      "one "
      "of them out";
  EXPECT_EQ(refused({.cores = 4}), "a number of cores or cards" + text);
  EXPECT_EQ(refused({.device = DeviceKind::kHost}), "another kind of device than 'sim'" + text);
  EXPECT_EQ(refused({.serial = true}), "one task at a time" + text);
  const VirtualCard small = VirtualCard::open("tessera128x4").value();
  const std::string other = error_of(Session::open(model.network, {.processor = take(small, {})}));
  EXPECT_THAT(other, HasSubstr("'test' is for 'cloud16' (fingerprint "));
  EXPECT_THAT(other, HasSubstr("the virtual card is 'tessera128x4'"));
  Session session = open(model, a), again = open(model, a), plain = open(model, {});
  const auto together = [](std::vector<TogetherRuns> runs) { return error_of(run_together(runs)); };
  EXPECT_EQ(together({{.session = &plain, .inputs = model.inputs, .times = 1}}),
            "run 0 of several: its session is on no virtual processor (SessionOptions::processor)");
  EXPECT_EQ(together({{.session = &session, .inputs = {}, .times = 1},
                      {.session = &again, .inputs = {}, .times = 1}}),
            "run 1 of several: its virtual processor has another one; give each one of its own");
  EXPECT_EQ(together({{.session = &session, .inputs = {}, .times = 0}}),
            "run 0 of several: it is to be made less than once");
}

}  // namespace
}  // namespace tessera
