#include "device/function_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/guarded.h"
#include "device/kernel_thread.h"
#include "device/segment_use.h"
#include "device/tensor_places.h"

namespace tessera::device {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr std::int64_t kMemoryAlignment = 4096;

std::int64_t part_of(std::int64_t whole, int parts, std::int64_t alignment) {
  return whole / parts / alignment * alignment;
}

}  // namespace

// A turn from its arrival to its end.
struct FunctionCore::Entry {
  const Run& run;
  RunTurn& turn;
  RunOutcome outcome;
  TimePoint called{}, begin{};
};

// The core for the calling thread, which goes before the turns that wait.
class FunctionCore::Exclusive {
 public:
  explicit Exclusive(FunctionCore& core) : core_(core) {
    {
      const std::lock_guard lock(core_.mutex_);
      ++core_.loading_;
    }
    core_.core_mutex_.lock();
    core_.drop_removed();
  }
  ~Exclusive() {
    core_.core_mutex_.unlock();
    const std::lock_guard lock(core_.mutex_);
    --core_.loading_;
    core_.changed_.notify_all();
  }
  Exclusive(const Exclusive&) = delete;
  Exclusive& operator=(const Exclusive&) = delete;

 private:
  FunctionCore& core_;
};

Bytes function_memory(const ChipConfig& chip, int functions) {
  return Bytes{part_of(chip.dram.bytes, functions, kMemoryAlignment)};
}

FunctionCore::FunctionCore(const ChipConfig& chip, int functions,
                           const FunctionCoreOptions& options)
    : chip_(chip),
      functions_(functions),
      options_(options),
      tenants_(static_cast<std::size_t>(functions), 0) {}

Result<std::shared_ptr<FunctionCore>> FunctionCore::create(const ChipConfig& chip, int functions,
                                                           const FunctionCoreOptions& options) {
  std::shared_ptr<FunctionCore> core(new FunctionCore(chip, functions, options));
  TESSERA_TRY(core->core_, card::Core::create(chip));
  try {
    core->thread_ = std::thread([of = core.get()] { of->serve(); });
  } catch (const std::system_error& error) {
    return Error{
        ErrorCode::kUnavailable,
        fmt::format("the system has no thread for a core of {} virtual functions ({}); use "
                    "fewer kernels",
                    functions, error.what())};
  }
  return core;
}

FunctionCore::~FunctionCore() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

isa::CoreRegion FunctionCore::region(int function) const {
  const std::int64_t buffer =
      part_of(chip_.state_buffer.bytes_per_partition, functions_, isa::kRegionAlignment);
  const std::int64_t kernel =
      part_of(chip_.neural.kernel_bytes_per_partition, functions_, isa::kRegionAlignment);
  return {{function * buffer, buffer}, {function * kernel, kernel}};
}

// ---- programs ----

Result<FunctionCore::Placed> FunctionCore::add(int function, const isa::Program& program,
                                               std::span<const std::byte> weights) {
  const Exclusive exclusive(*this);
  const std::int64_t memory = function_memory(chip_, functions_).value;
  TESSERA_TRY(const std::size_t network, core_->add(program, weights, {function * memory, memory}));
  const std::lock_guard lock(mutex_);
  return Placed{network, next_tenant_++};
}

void FunctionCore::remove(const Placed& placed) {
  const std::lock_guard lock(mutex_);
  removed_.push_back(placed.network);
}

// With the core.
void FunctionCore::drop_removed() {
  const std::lock_guard lock(mutex_);
  for (const std::size_t network : removed_) core_->remove(network);
  removed_.clear();
}

// ---- runs ----

RunOutcome FunctionCore::run(const Run& run, RunTurn& turn) {
  Entry entry{run, turn, {}};
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(&entry);
    changed_.notify_all();
  }
  if (turn.wait()) return std::move(entry.outcome);
  {
    const std::lock_guard lock(mutex_);
    const auto place = std::find(waiting_.begin(), waiting_.end(), &entry);
    if (place != waiting_.end()) {
      waiting_.erase(place);
      entry.outcome.stopped = true;
      return std::move(entry.outcome);
    }
  }
  turn.wait_until_over();
  return std::move(entry.outcome);
}

int FunctionCore::waiting() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(waiting_.size());
}

// The core's thread.
void FunctionCore::serve() {
  become_thread_of_kernel();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || (!waiting_.empty() && loading_ == 0); });
    if (stop_) return;
    if (options_.pace.enabled && steady_clock::now() < free_at_) {
      changed_.wait_until(lock, free_at_);
      continue;
    }
    lock.unlock();
    {
      const std::lock_guard core(core_mutex_);
      drop_removed();
      std::vector<Entry*> entries;
      {
        const std::lock_guard again(mutex_);
        entries.swap(waiting_);
      }
      std::sort(entries.begin(), entries.end(),
                [](const Entry* a, const Entry* b) { return a->run.function < b->run.function; });
      const Status ran = guarded("", [&] { return run_together(entries); });
      for (Entry* const entry : entries) {
        if (entry == nullptr) continue;
        RunOutcome outcome;
        outcome.status = error_or_no_memory([&] { return ran.error(); });
        finish(*entry, std::move(outcome));
      }
    }
    lock.lock();
  }
}

// Those that are over are null behind it.
Status FunctionCore::run_together(std::vector<Entry*>& entries) {
  if (entries.empty()) return {};  // they were interrupted
  const TimePoint called = steady_clock::now();
  TimePoint begin = called;
  if (options_.pace.enabled) {
    begin = free_at_;
    for (const Entry* const entry : entries) begin = std::max(begin, entry->turn.enqueued);
  }
  for (Entry* const entry : entries) {
    entry->called = called;
    entry->begin = begin;
    entry->turn.begin(begin);
  }
  if (entries.size() > 1 || entries[0]->run.alone == nullptr) return simulate(entries);
  RunOutcome outcome;
  outcome.details = entries[0]->run.alone;
  outcome.timing_reused = true;
  const Cycles edges = edge_transfer_cycles(*entries[0]->run.program, chip_);
  outcome.end = outcome.details->cycles + outcome.details->host_cycles +
                outcome.details->transfer_cycles - edges;
  finish(*std::exchange(entries[0], nullptr), std::move(outcome));
  return {};
}

// After it the entry is not there any more.
void FunctionCore::finish(Entry& entry, RunOutcome outcome) {
  outcome.called = entry.called;
  outcome.begin = entry.begin;
  outcome.ready = steady_clock::now();
  if (outcome.details != nullptr) {
    outcome.cycles = outcome.details->cycles;
    outcome.clock_hertz = chip_.clock_hertz;
    outcome.status_flags = outcome.details->status_flags;
  }
  if (options_.pace.enabled) {
    const nanoseconds lasts = paced_time(options_.pace, outcome.end, chip_.clock_hertz);
    const std::lock_guard lock(mutex_);
    free_at_ = std::max(free_at_, entry.begin + lasts);
    if (outcome.ready - entry.called > lasts) free_at_ = std::max(free_at_, outcome.ready);
  }
  entry.outcome = std::move(outcome);
  entry.turn.over();
}

// What the function's region holds is the tenant's own.
Status FunctionCore::prepare(const Run& run) {
  std::uint64_t& tenant = tenants_[static_cast<std::size_t>(run.function)];
  if (tenant != run.placed.tenant && !options_.timing_only) {
    core_->clear_region(region(run.function));
  }
  tenant = run.placed.tenant;
  if (run.views == nullptr) return {};
  CoreDram dram(*core_, run.placed.network);
  TESSERA_RETURN_IF_ERROR(place_tensors(dram, run.program->inputs, run.views->inputs,
                                        run.inputs_in_place, TensorRole::kInput));
  return place_tensors(dram, run.program->outputs, run.views->outputs, run.outputs_in_place,
                       TensorRole::kOutput);
}

Result<Cycles> FunctionCore::take_host_steps(const Run& run, std::size_t segment,
                                             bool timing_only) {
  const std::vector<OpenStep>& steps = (*run.host_steps)[segment];
  if (!timing_only) {
    CoreDram dram(*core_, run.placed.network);
    for (const OpenStep& step : steps) TESSERA_RETURN_IF_ERROR(run_step(dram, step));
  }
  return host_time(steps, chip_).both();
}

card::NetworkRun FunctionCore::network_run(const Run& run, int priority, bool timing_only) {
  return {.network = run.placed.network,
          .priority = priority,
          .segments = run.program->segments.size(),
          .host_steps = [this, &run, timing_only](std::size_t segment) {
            return take_host_steps(run, segment, timing_only);
          }};
}

RunOutcome FunctionCore::outcome_of(const Run& run, const card::NetworkResult& network) const {
  RunOutcome outcome;
  outcome.status = network.status;
  if (!outcome.status.ok()) return outcome;
  RunResult result;
  result.clock_hertz = chip_.clock_hertz;
  add_hints(*run.program, result);
  add_tasks(*run.program, network.tasks, result);
  add_host_time(*run.program, *run.host_steps, chip_, result);
  const Cycles edges = edge_transfer_cycles(*run.program, chip_);
  result.cycles = network.end - (result.host_cycles + result.transfer_cycles - edges);
  outcome.end = network.end;
  outcome.details = std::make_shared<const RunResult>(std::move(result));
  if (run.views == nullptr || run.outputs_in_place) return outcome;
  for (std::size_t i = 0; i < run.program->outputs.size(); ++i) {
    outcome.status =
        core_->read(run.placed.network, run.program->outputs[i].address, run.views->outputs[i]);
    if (!outcome.status.ok()) break;
  }
  return outcome;
}

Status FunctionCore::simulate(std::vector<Entry*>& entries) {
  std::vector<card::NetworkRun> runs;
  for (Entry*& entry : entries) {
    const Status prepared = prepare(entry->run);
    if (prepared.ok()) {
      runs.push_back(network_run(entry->run, entry->turn.priority, options_.timing_only));
      continue;
    }
    RunOutcome outcome;
    outcome.status = prepared.error();
    finish(*std::exchange(entry, nullptr), std::move(outcome));
  }
  std::erase(entries, nullptr);
  if (entries.empty()) return {};
  const auto end = [&, joint = entries.size() > 1](std::size_t place,
                                                   const card::NetworkResult& network) {
    RunOutcome outcome = outcome_of(entries[place]->run, network);
    outcome.joint = joint;
    finish(*std::exchange(entries[place], nullptr), std::move(outcome));
  };
  for (std::size_t n = 0; n < runs.size(); ++n) {
    runs[n].ended = [&end, n](const card::NetworkResult& network) { end(n, network); };
  }
  TESSERA_TRY(const card::NetworksResult ran,
              core_->run_networks(runs, {.timing_only = options_.timing_only,
                                         .check_hazards = options_.check_hazards,
                                         .traps = options_.traps}));
  for (std::size_t n = 0; n < entries.size(); ++n) {
    if (entries[n] != nullptr) end(n, ran.networks[n]);  // it was stopped
  }
  return {};
}

Result<RunResult> FunctionCore::time_alone(const Run& run) {
  const Exclusive exclusive(*this);
  Run timed = run;
  timed.views = nullptr;
  const card::NetworkRun network = network_run(timed, 0, true);
  TESSERA_TRY(const card::NetworksResult ran,
              core_->run_networks({&network, 1}, {.timing_only = true}));
  RunOutcome outcome = outcome_of(timed, ran.networks[0]);
  TESSERA_RETURN_IF_ERROR(outcome.status);
  return *outcome.details;
}

}  // namespace tessera::device
