#include "runtime/run_times.h"

#include <algorithm>
#include <cmath>

namespace tessera::runtime {
namespace {

using pipeline::Nanoseconds;

constexpr int kMemory = 8;  // runs that a mean looks back, about
// One run that takes far longer than those before says little about the next.
constexpr Nanoseconds kOutlier = 16;
// A mean has full weight for this long, and half of it after each further such time: a device that
// was slow once is tried again.
constexpr Nanoseconds kFullWeight = 10'000'000'000;

Nanoseconds faded(Nanoseconds value, Nanoseconds age) {
  const Nanoseconds old = age - kFullWeight - 4 * value;
  if (old <= 0) return value;
  const double halvings = static_cast<double>(old) / static_cast<double>(kFullWeight + value);
  return static_cast<Nanoseconds>(static_cast<double>(value) * std::exp2(-halvings));
}

}  // namespace

void RunTimes::Mean::add(Nanoseconds lasted) {
  if (count > 0) lasted = std::min(lasted, kOutlier * value + 1'000'000);
  count = std::min(count + 1, kMemory);
  value += (lasted - value) / count;
}

RunTimes::Program* RunTimes::program(device::LoadedId loaded) noexcept {
  const auto found = programs_.find(loaded);
  if (found != programs_.end()) return &found->second;
  try {
    Program made;
    made.kernels.resize(static_cast<std::size_t>(kernels_));
    return &programs_.emplace(loaded, std::move(made)).first->second;
  } catch (...) {
    return nullptr;
  }
}

void RunTimes::set_modelled(device::LoadedId loaded, Nanoseconds run) {
  const std::lock_guard lock(mutex_);
  if (Program* const of = program(loaded)) of->modelled = run;
}

void RunTimes::ran(device::LoadedId loaded, int kernel, Nanoseconds lasted, Nanoseconds now) {
  const std::lock_guard lock(mutex_);
  Program* const of = program(loaded);
  if (of == nullptr) return;
  for (Mean* const mean : {&of->kernels[kernel], &of->all}) {
    mean->add(lasted);
    mean->at = now;
  }
}

void RunTimes::moved(device::LoadedId loaded, bool to_device, Nanoseconds lasted) {
  const std::lock_guard lock(mutex_);
  if (Program* const of = program(loaded)) (to_device ? of->in : of->out).add(lasted);
}

RunTimes::Expected RunTimes::of(device::LoadedId loaded, int kernel, Nanoseconds now) const {
  const std::lock_guard lock(mutex_);
  const auto found = programs_.find(loaded);
  if (found == programs_.end()) return {};
  const Program& of = found->second;
  Expected expected{.in = of.in.value, .out = of.out.value};
  const Mean& own = of.kernels[kernel];
  const Mean& mean = own.count > 0 ? own : of.all;
  expected.measured = own.count > 0;
  expected.known = mean.count > 0 || of.modelled > 0;
  expected.run = mean.count > 0 ? faded(mean.value, now - mean.at) : of.modelled;
  return expected;
}

void RunTimes::forget(device::LoadedId loaded) {
  const std::lock_guard lock(mutex_);
  programs_.erase(loaded);
}

std::size_t RunTimes::programs() const {
  const std::lock_guard lock(mutex_);
  return programs_.size();
}

Nanoseconds expected_rest(Nanoseconds elapsed, Nanoseconds expected) {
  return elapsed < expected ? expected - elapsed : elapsed - expected;
}

}  // namespace tessera::runtime
