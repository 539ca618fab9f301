#include "device/timed_backend.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "device/device_options.h"

namespace tessera::device {
namespace {

// The last bit is waited for awake: a thread that sleeps wakes up later than that.
void wait_until(TimePoint end) {
  constexpr std::chrono::microseconds kAwake{80};
  std::this_thread::sleep_until(end - kAwake);
  while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

class TimedBackend : public Backend {
 public:
  explicit TimedBackend(std::unique_ptr<Backend> behind)
      : behind_(std::move(behind)), properties_(behind_->properties()) {
    properties_.values = true;  // outputs have their size
  }

  const Properties& properties() const override { return properties_; }
  Result<LoadedSet> load(const std::shared_ptr<const NetworkState>& network) override {
    return behind_->load(network);
  }
  Result<LoadedSet> load_layers(const std::shared_ptr<const NetworkState>& network) override {
    return behind_->load_layers(network);
  }
  Status place(LoadedSet& set, std::span<const std::byte> region) override {
    return behind_->place(set, region);
  }

  RunOutcome run(const ActivityObserver::Run& run, Loaded& loaded, const RunViews& views,
                 RunTurn& turn) override {
    const auto known = outcomes_.find(&loaded);
    if (known == outcomes_.end()) {
      RunOutcome outcome = behind_->run(run, loaded, views, turn);
      if (outcome.status.ok()) outcomes_[&loaded] = outcome;
      return outcome;
    }
    RunOutcome outcome = known->second;
    outcome.timing_reused = true;
    const TimePoint begin = std::max(free_at_, turn.enqueued);
    free_at_ = begin + paced_time({.enabled = true}, outcome.cycles, outcome.clock_hertz);
    wait_until(free_at_);
    return outcome;
  }

 private:
  const std::unique_ptr<Backend> behind_;
  Properties properties_;
  std::map<const Loaded*, RunOutcome> outcomes_;
  TimePoint free_at_{};
};

}  // namespace

std::unique_ptr<Backend> make_timed_backend(std::unique_ptr<Backend> behind) {
  return std::make_unique<TimedBackend>(std::move(behind));
}

}  // namespace tessera::device
