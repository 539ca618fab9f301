#include "soak_faults.h"

#include <chrono>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <thread>

#include "scripted_runtime.h"

namespace {

std::atomic<std::uint64_t> failing_one_of{0}, allocations{0};
std::atomic<std::int64_t> failed{0};
thread_local bool spared = false;

bool fails() {
  const std::uint64_t one_of = failing_one_of.load(std::memory_order_relaxed);
  if (one_of == 0 || spared) return false;
  const std::uint64_t number = allocations.fetch_add(1, std::memory_order_relaxed);
  if ((tessera::scripted::result_of(number) >> 20U) % one_of != 0) return false;
  failed.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void* allocate(std::size_t bytes) {
  return fails() ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}

void* allocate_aligned(std::size_t bytes, std::align_val_t alignment) {
  const auto multiple = static_cast<std::size_t>(alignment);
  const std::size_t rounded = (bytes + multiple - 1) / multiple * multiple;
  return fails() ? nullptr : std::aligned_alloc(multiple, rounded == 0 ? multiple : rounded);
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return or_throw(allocate(bytes)); }
void* operator new[](std::size_t bytes) { return or_throw(allocate(bytes)); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return or_throw(allocate_aligned(bytes, alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return or_throw(allocate_aligned(bytes, alignment));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

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

Status DeviceTrouble::interfere(const device::Observer::Run& run) {
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
