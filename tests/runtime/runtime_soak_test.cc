// The whole runtime under load while everything goes wrong that can: devices of unequal speed that
// fail, hang, lose and come back, memory that ends, cancels, deadlines, stages and callbacks that
// throw, threads that change, pipelines that come and go. In rounds:
//
//   storm: faults ─► settle: all tasks end, all devices come back ─► calm: no faults, no errors
//        ▲                                                             └─► nothing is left over
//        └─────────────────────────────────────────────────────────────────────┘
//
// Every task ends once, with the right bits or an error that something explains. It is a test of
// behaviour: nothing depends on how fast the machine is.
//
// TESSERA_SOAK_SECONDS sets how long (5; 3,600 in `make test-long`), TESSERA_SOAK_SEED what is
// random (printed).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <exception>
#include <thread>

#include "base/guarded.h"
#include "soak_actors.h"

namespace tessera::soak {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Aborts the program, and says where it stands, when nothing has ended for long.
class Watchdog {
 public:
  Watchdog(World& world, const Ledger& ledger, const std::vector<Actor>& actors)
      : world_(world), ledger_(ledger), actors_(actors), thread_([this] { watch(); }) {}
  ~Watchdog() {
    over_ = true;
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void set_place(const char* place) { place_ = place; }

 private:
  static constexpr seconds kPatience{120};

  void watch() {
    const Spared spared;
    std::int64_t seen = -1;
    Clock::time_point since = Clock::now();
    while (!over_) {
      std::this_thread::sleep_for(milliseconds(100));
      if (const std::int64_t now = ledger_.progress(); now != seen) {
        seen = now;
        since = Clock::now();
      }
      if (Clock::now() - since > kPatience) tell_and_abort();
    }
  }

  [[noreturn]] void tell_and_abort() {
    fmt::print(stderr, "HUNG in '{}'; {} tasks have ended\n", place_.load(), ledger_.total());
    for (const Actor& actor : actors_) {
      if (*actor.acting) fmt::print(stderr, "'{}' is not through\n", actor.name);
    }
    for (const auto& [name, lane] : world_.lanes()) {
      fmt::print(
          stderr, "'{}': {} submitted, {} ended\n", name, lane->tally.submitted.load(),
          lane->tally.succeeded + lane->tally.failed + lane->tally.cancelled + lane->tally.late);
    }
    for (DeviceTrouble& trouble : world_.troubles()) {
      device::Device& device = world_.entry(trouble.name()).device();
      const device::DeviceCounters counters = device.counters();
      fmt::print(stderr, "'{}': {}, {} ({}), {} bytes used, {} submissions, {} completions, {}\n",
                 trouble.name(), device.properties().kind,
                 device::health_state_name(device.health().state), device.health().reason,
                 counters.memory.used.value, counters.submissions, counters.completions,
                 device.queued(0));
    }
    for (const auto& [name, lane] : world_.lanes()) {
      const PipelineStatus status = lane->pipeline.status();
      fmt::print(stderr, "'{}': {} in flight\n", name, status.in_flight);
      for (const StageStatus& stage : status.stages) {
        fmt::print(stderr, "  {}: {} queued, {} threads, {} at work\n", stage.name, stage.queued,
                   stage.threads, stage.running);
      }
    }
    std::abort();
  }

  World& world_;
  const Ledger& ledger_;
  const std::vector<Actor>& actors_;
  std::atomic<const char*> place_{"start"};
  std::atomic<bool> over_{false};
  std::thread thread_;
};

std::vector<Actor> all_actors(World& world) {
  const StreamOptions ordered, unordered = {.order = StreamOrder::kCompletion, .priority = 3};
  Lane& mixed = world.lane("mixed");
  std::vector<Actor> actors = {stream_actor(world, mixed, ordered),
                               stream_actor(world, mixed, unordered),
                               stream_actor(world, mixed, {.priority = -5}),
                               stream_actor(world, world.lane("latency"), ordered),
                               stream_actor(world, world.lane("latency"), unordered),
                               stream_actor(world, world.lane("lock step"), ordered),
                               stream_actor(world, world.lane("three networks"), ordered),
                               stream_actor(world, world.lane("real"), ordered),
                               stream_actor(world, world.lane("real"), unordered),
                               layers_actor(world, "host"),
                               layers_actor(world, "sim"),
                               state_actor(world, "quick"),
                               state_actor(world, "spare"),
                               visitor(world),
                               tinkerer(world)};
  const std::vector<Lane*> chains = {&world.lane("chain one"), &world.lane("chain two")};
  for (const char* const device : {"quick", "middle", "slow", "spare"}) {
    actors.push_back(chain_actor(world, chains, device));
  }
  for (const char* const device : {"host", "sim"}) {
    actors.push_back(chain_actor(world, {&world.lane("real chain")}, device));
  }
  return actors;
}

class Soak {
 public:
  explicit Soak(std::uint64_t seed)
      : random_(seed),
        world_(seed, ledger_),
        actors_(all_actors(world_)),
        watchdog_(world_, ledger_, actors_) {}

  void round(seconds storm, milliseconds calm) {
    watchdog_.set_place("storm");
    const auto until = Clock::now() + storm;
    work_until([&] { return Clock::now() >= until; }, true);
    watchdog_.set_place("devices come back");
    for (DeviceTrouble& trouble : world_.troubles()) bring_back(trouble);
    settle();
    check_at_rest("after a storm");
    be_calm(calm);
    ++rounds_;
  }

  void print() {
    fmt::print("{} rounds\n{:<22}{:>12}\n", rounds_, "tasks", ledger_.total());
    for (std::size_t i = 0; i < kEnds; ++i) {
      const auto end = static_cast<End>(i);
      fmt::print("  {:<20}{:>12}\n", end_name(end), ledger_.count(end));
    }
    fmt::print("{:<22}{:>12}\n", "refused", ledger_.refusals());
    fmt::print("{:<22}{:>12}\n\n{:<22}", "unexplained", ledger_.problems(), "faults");
    for (DeviceTrouble& trouble : world_.troubles()) fmt::print("{:>10}", trouble.name());
    for (std::size_t i = 1; i < kTroubles; ++i) {
      const auto kind = static_cast<Trouble>(i);
      fmt::print("\n  {:<20}", trouble_name(kind));
      for (DeviceTrouble& trouble : world_.troubles()) fmt::print("{:>10}", trouble.counted(kind));
    }
    fmt::print("\n  {:<20}", "runs");
    for (DeviceTrouble& trouble : world_.troubles()) {
      fmt::print("{:>10}", world_.entry(trouble.name()).status().runs);
    }
    fmt::print("\n  {:<20}", "runs made again");
    for (DeviceTrouble& trouble : world_.troubles()) {
      fmt::print("{:>10}", world_.entry(trouble.name()).status().runs_made_again);
    }
    std::int64_t threw = 0;
    for (const auto& [name, lane] : world_.lanes()) threw += lane->tally.callbacks_threw;
    fmt::print("\n{:<22}{:>12}\n{:<22}{:>12}\n", "allocations failed", failed_allocations(),
               "callbacks that threw", threw);
  }

  const Ledger& ledger() const { return ledger_; }

 private:
  // Without faults all devices stay in order, and report each run that they were given.
  void be_calm(milliseconds calm) {
    watchdog_.set_place("calm");
    ledger_.set_calm(true);
    std::vector<device::DeviceCounters> before;
    for (DeviceTrouble& trouble : world_.troubles()) {
      before.push_back(world_.entry(trouble.name()).device().counters());
    }
    const auto until = Clock::now() + calm;
    work_until([&] { return Clock::now() >= until; }, false);
    settle();
    check_at_rest("after a calm");
    for (std::size_t i = 0; i < before.size(); ++i) {
      runtime::DeviceEntry& entry = world_.entry(world_.troubles()[i].name());
      const device::DeviceCounters now = entry.device().counters();
      if (now.resets > before[i].resets) continue;  // this machine stood still for seconds
      const std::int64_t given = now.submissions - before[i].submissions;
      const std::int64_t told = now.completions - before[i].completions;
      const std::int64_t withdrawn = now.withdrawn - before[i].withdrawn;
      if (entry.status().healthy && given == told + withdrawn) continue;
      ledger_.unexplained(fmt::format("'{}' after a calm: {} runs, {} told, {} withdrawn; {}",
                                      entry.name(), given, told, withdrawn, entry.status().fault));
    }
    ledger_.set_calm(false);
  }

  // All actors, in a storm or not, until it is time; and then until they have what they wait for.
  void work_until(const std::function<bool()>& time, bool storm) {
    std::atomic<bool> stop{false};
    std::atomic<std::size_t> acting{actors_.size()};
    std::vector<std::thread> threads;
    for (const Actor& actor : actors_) {
      threads.emplace_back([&actor, &stop, &acting, seed = random_()] {
        const Spared spared;
        *actor.acting = true;
        actor.act(stop, seed);
        *actor.acting = false;
        --acting;
      });
    }
    while (!time()) {
      if (storm) blow();
      std::this_thread::sleep_for(milliseconds(10));
    }
    subside();
    stop = true;
    if (storm) watchdog_.set_place("tasks end after a storm");
    while (acting > 0) {
      if (storm) free_stuck_kernels(true);
      std::this_thread::sleep_for(milliseconds(5));
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Turns a dial now and then.
  void blow() {
    free_stuck_kernels(false);
    if (!once_in(random_, 8)) return;
    set_failing_allocations(once_in(random_, 4) ? 100 + random_() % 5000 : 0);
    std::deque<DeviceTrouble>& all = world_.troubles();
    DeviceTrouble& trouble = all[random_() % all.size()];
    device::Device& device = world_.entry(trouble.name()).device();
    trouble.refuse_resets(false);
    switch (random_() % 8) {
      case 0:  // any kind, one after the other
        trouble.set(Trouble::kNone, 20 + random_() % 400);
        break;
      case 1:
      case 2:  // one kind
        trouble.set(static_cast<Trouble>(1 + random_() % 7), 4 + random_() % 200);
        break;
      case 3:  // whatever it is given
        trouble.set(static_cast<Trouble>(1 + random_() % 7), 1);
        break;
      case 4:
        trouble.refuse_resets(true);
        [[fallthrough]];
      case 5:
        trouble.count(Trouble::kPulled);
        device.fail("pulled");
        break;
      case 6:
        trouble.count(Trouble::kReset);
        (void)guarded("", [&] { return device.reset(Clock::now() + milliseconds(1)); });
        break;
      default:
        trouble.set(Trouble::kNone, 0);
        break;
    }
  }

  void subside() {
    set_failing_allocations(0);
    for (DeviceTrouble& trouble : world_.troubles()) {
      trouble.set(Trouble::kNone, 0);
      trouble.refuse_resets(false);
    }
  }

  // Where a run that hangs has no limit the application must find it out, in the end.
  void free_stuck_kernels(bool all) {
    if (!all && !once_in(random_, 20)) return;
    for (DeviceTrouble& trouble : world_.troubles()) {
      if (!trouble.take_stuck()) continue;
      trouble.count(Trouble::kPulled);
      world_.entry(trouble.name()).device().fail("a kernel does not come back");
    }
  }

  // Tasks that only this device can run.
  void bring_back(DeviceTrouble& trouble) {
    free_stuck_kernels(true);
    Lane& probe = world_.probe(trouble.name());
    Stream stream = probe.pipeline.open_stream({.order = StreamOrder::kCompletion});
    for (int good = 0; good < 3;) {
      TaskOutcome outcome = stream.submit_when_room({probe.work->input(7)}).value().wait();
      const bool right =
          outcome.ok() && probe.work->is_after(7, 1, outcome.result().outputs()[0].bytes);
      if (outcome.ok() && !right) ledger_.unexplained("a wrong result of a device that came back");
      good = right ? good + 1 : 0;
      if (!right) std::this_thread::sleep_for(milliseconds(2));
    }
    ledger_.progressed();
  }

  void settle() {
    for (const auto& [name, lane] : world_.lanes()) lane->pipeline.wait_until_done();
  }

  // Counters add up, and no device has unused memory.
  void check_at_rest(const char* when) {
    for (const auto& [name, lane] : world_.lanes()) {
      const PipelineStatus status = lane->pipeline.status();
      const Tally& tally = lane->tally;
      const bool same = status.in_flight == 0 && status.submitted == tally.submitted &&
                        status.succeeded == tally.succeeded && status.failed == tally.failed &&
                        status.cancelled == tally.cancelled && status.late == tally.late &&
                        status.callbacks_threw == tally.callbacks_threw && status.mismatches == 0;
      if (same) continue;
      ledger_.unexplained(fmt::format(
          "'{}' {}: it says {} submitted, {} succeeded, {} failed, {} cancelled, {} late, {} in "
          "flight, {} callbacks threw; they were {}, {}, {}, {}, {}, 0, {}",
          name, when, status.submitted, status.succeeded, status.failed, status.cancelled,
          status.late, status.in_flight, status.callbacks_threw, tally.submitted.load(),
          tally.succeeded.load(), tally.failed.load(), tally.cancelled.load(), tally.late.load(),
          tally.callbacks_threw.load()));
    }
    for (DeviceTrouble& trouble : world_.troubles()) {
      const Bytes at_rest = world_.memory_at_rest(trouble.name());
      device::Device& device = world_.entry(trouble.name()).device();
      // A run that was given up may be in its kernel for a moment yet.
      for (int i = 0; i < 5000 && device.counters().memory.used.value != at_rest.value; ++i) {
        std::this_thread::sleep_for(milliseconds(1));
      }
      const std::int64_t used = device.counters().memory.used.value;
      if (used == at_rest.value) continue;
      ledger_.unexplained(fmt::format("'{}' {}: {} bytes of its memory are used, {} at rest",
                                      trouble.name(), when, used, at_rest.value));
    }
  }

  Random random_;
  Ledger ledger_;
  World world_;
  const std::vector<Actor> actors_;
  Watchdog watchdog_;
  int rounds_ = 0;
};

void print(const char* when, const Footprint& now) {
  fmt::print("{:<22}{:>9} KiB resident, {:>8} KiB of heap, {:>3} threads, {:>3} descriptors\n",
             when, now.resident_kib, now.heap_kib, now.threads, now.descriptors);
}

// Threads end a moment after they were released.
Footprint footprint_after(const Footprint& before) {
  Footprint now = footprint();
  for (int i = 0; i < 5000 && now.threads > before.threads; ++i) {
    std::this_thread::sleep_for(milliseconds(1));
    now = footprint();
  }
  return now;
}

TEST(RuntimeSoak, EveryTaskEndsOnceWithTheRightBitsOrAnErrorThatIsExplained) {
  const Spared spared;
  std::set_terminate([] {
    fmt::print(stderr, "the program was ended by an exception; {} allocations had failed\n",
               failed_allocations());
    std::abort();
  });
  const bool whole = std::getenv("TESSERA_TEST_WHOLE") != nullptr;
  const seconds duration(number_from("TESSERA_SOAK_SECONDS", whole ? 3600 : 5));
  const std::uint64_t seed = number_from("TESSERA_SOAK_SEED", 1);
  fmt::print("{} s, seed {}\n", duration.count(), seed);
  const seconds storm(std::clamp<std::int64_t>(duration.count() / 6, 1, 15));
  const milliseconds calm = storm / 4;
  {
    Ledger ledger;
    World opened(seed, ledger);  // makes what is made once
  }
  const Footprint before = footprint();
  Footprint warm;
  {
    Soak soak(seed);
    const auto begin = Clock::now();
    for (int rounds = 0; Clock::now() < begin + duration; ++rounds) {
      soak.round(storm, calm);
      if (Clock::now() < begin + duration / 5 || warm.resident_kib == 0) warm = footprint();
      if (rounds % 10 == 9) {
        fmt::print("{} tasks, {} unexplained; ", soak.ledger().total(), soak.ledger().problems());
        print("", footprint());
        std::fflush(stdout);
      }
    }
    const Footprint end = footprint();
    soak.print();
    print("warm", warm);
    print("at the end", end);
    EXPECT_EQ(soak.ledger().problems(), 0);
    EXPECT_GT(soak.ledger().count(End::kRight), 0);
#if !defined(__SANITIZE_THREAD__) && !defined(TESSERA_SANITIZED)
    if (duration >= seconds(600)) {
      EXPECT_LT(end.resident_kib, warm.resident_kib + 32 * 1024);
      EXPECT_LT(end.heap_kib, warm.heap_kib + 8 * 1024);
    }
#endif
  }
  const Footprint after = footprint_after(before);
  print("before", before);
  print("after", after);
  EXPECT_EQ(after.threads, before.threads);
  EXPECT_EQ(after.descriptors, before.descriptors);
}

}  // namespace
}  // namespace tessera::soak
