#include "soak_faults.h"

#include <chrono>
#include <stdexcept>
#include <thread>

#include "scripted_runtime.h"

namespace {

std::atomic<std::uint64_t> failing_one_of{0}, allocations{0};
std::atomic<std::int64_t> failed{0};
thread_local bool spared = false;

struct OwnAllocations {
  static bool fails() {
    const std::uint64_t one_of = failing_one_of.load(std::memory_order_relaxed);
    if (one_of == 0 || spared) return false;
    const std::uint64_t number = allocations.fetch_add(1, std::memory_order_relaxed);
    if ((tessera::scripted::result_of(number) >> 20U) % one_of != 0) return false;
    failed.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  static void made(void* /*block*/) {}
  static void gone(void* /*block*/) {}
};

}  // namespace

#include "base/testing/own_allocations.h"

namespace tessera::soak {

using device::Fault;

void set_failing_allocations(std::uint64_t one_of) { failing_one_of = one_of; }
std::int64_t failed_allocations() { return failed; }

Spared::Spared() : before_(spared) { spared = true; }
Spared::~Spared() { spared = before_; }
Exposed::Exposed() : before_(spared) { spared = false; }
Exposed::~Exposed() { spared = before_; }

const char* trouble_name(Trouble trouble) {
  constexpr std::array<const char*, kTroubles> kNames = {"none",
                                                         "run fails",
                                                         "run hangs",
                                                         "completion lost",
                                                         "wrong completion",
                                                         "told twice",
                                                         "compute fails",
                                                         "compute throws",
                                                         "reset not answered",
                                                         "device pulled",
                                                         "reset by another"};
  return kNames[static_cast<std::size_t>(trouble)];
}

void DeviceTrouble::set(Trouble kind, std::uint64_t one_of) {
  kind_ = kind;
  one_of_ = one_of;
}

std::int64_t DeviceTrouble::counted() const {
  std::int64_t sum = 0;
  for (const auto& count : counts_) sum += count.load();
  return sum;
}

Trouble DeviceTrouble::draw(std::uint64_t number, bool in_compute) {
  const std::uint64_t one_of = one_of_.load();
  const std::uint64_t random = scripted::result_of(number * 31 + seed_) >> 13U;
  if (one_of == 0 || random % one_of != 0) return Trouble::kNone;
  Trouble kind = kind_.load();
  if (kind == Trouble::kNone) {
    constexpr auto kKinds = static_cast<std::uint64_t>(Trouble::kComputeThrows);
    kind = static_cast<Trouble>(1 + (random >> 17U) % kKinds);
  }
  if ((kind >= Trouble::kComputeError) != in_compute) return Trouble::kNone;
  count(kind);
  if (kind >= Trouble::kHang && kind <= Trouble::kWrongCompletion) stuck_ = true;
  return kind;
}

device::FaultPlan DeviceTrouble::plan() {
  device::FaultPlan plan;
  plan.fault = [this](const device::FaultPlace& place) {
    const Spared spared_here;
    return static_cast<Fault>(draw(static_cast<std::uint64_t>(place.sequence), false));
  };
  plan.reset_answers = [this] {
    if (!refuses_resets_) return true;
    count(Trouble::kNoReset);
    return false;
  };
  return plan;
}

Status DeviceTrouble::interfere(const device::ActivityObserver::Run& run) {
  const auto number = static_cast<std::uint64_t>(run.sequence);
  // Before it writes its outputs, so that they are written late.
  const std::uint64_t random = scripted::result_of(number + seed_) >> 9U;
  if (random % 97 == 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(random / 97 % 8000));
  }
  switch (draw(number, true)) {
    case Trouble::kComputeError:
      return Error{ErrorCode::kInvalidArgument, "injected: the computation failed"};
    case Trouble::kComputeThrows:
      throw std::runtime_error("injected: the computation threw");
    default:
      return {};
  }
}

}  // namespace tessera::soak
