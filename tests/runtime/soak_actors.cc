#include "soak_actors.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <thread>

#include "base/guarded.h"

namespace tessera::soak {
void sleep_some(Random& random, std::uint64_t most_us) {
  std::this_thread::sleep_for(std::chrono::microseconds(random() % (most_us + 1)));
}

SubmitOptions some_options(Random& random, TaskRecord& record) {
  SubmitOptions options;
  if (once_in(random, 6)) options.deadline = std::chrono::microseconds(random() % 40'000);
  if (once_in(random, 50)) options.deadline = std::chrono::hours(24 * 365 * 400);
  record.deadline = options.deadline;
  if (once_in(random, 5)) options.priority = static_cast<int>(random() % 15) - 7;
  return options;
}

std::optional<Job> submitted(World& world, Lane& lane, TaskRecord& record,
                             const std::function<Result<Job>()>& submit) {
  auto job = guarded("", [&] {
    const Exposed exposed;
    return submit();
  });
  if (job.ok()) {
    ++lane.tally.submitted;
    return std::move(job).value();
  }
  world.ledger().refused(record, job.error());
  return std::nullopt;
}

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// A task on its way, and what it must come to.
struct Pending {
  Job job;
  std::shared_ptr<TaskRecord> record;
  std::shared_ptr<Orders> orders;
  std::uint64_t which = 0;
  bool calls_back = false;
};

void cancel(const Pending& pending) {
  pending.record->cancel_asked = true;
  const Exposed exposed;
  Job(pending.job).cancel();
}

class StreamActor {
 public:
  StreamActor(World& world, Lane& lane, const StreamOptions& options, std::uint64_t seed)
      : world_(world),
        lane_(lane),
        ordered_(options.order == StreamOrder::kSubmission),
        random_(seed),
        stream_(lane.pipeline.open_stream(options)) {}

  void act(const std::atomic<bool>& stop) {
    while (!stop) {
      submit_one();
      if (once_in(random_, 24)) cancel(pending_[random_() % pending_.size()]);
      if (once_in(random_, 40)) sleep_some(random_, 3000);
      if (once_in(random_, 100)) wait_for_any();
      while (pending_.size() > 1 + random_() % 24) finish_first();
    }
    while (!pending_.empty()) finish_first();
    stream_.wait_until_done();
  }

 private:
  std::shared_ptr<Orders> some_orders(TaskRecord& record, SubmitOptions& options) {
    auto orders = std::make_shared<Orders>();
    if (!lane_.has_own_stages) return orders;
    orders->skips_before = once_in(random_, 10);
    orders->skips_after = once_in(random_, 10);
    if (orders->skips_before) options.skipped_stages.emplace_back("before");
    if (orders->skips_after) options.skipped_stages.emplace_back("after");
    if (once_in(random_, 30)) options.skipped_stages.emplace_back("pre");
    if (once_in(random_, 40)) {
      const auto kind = static_cast<Orders::Kind>(1 + random_() % 3);
      (once_in(random_, 2) ? orders->before : orders->after) = kind;
    }
    record.stage_fails = (orders->before != Orders::Kind::kNothing && !orders->skips_before) ||
                         (orders->after != Orders::Kind::kNothing && !orders->skips_after);
    return orders;
  }

  void submit_one() {
    Pending pending;
    pending.record = world_.ledger().open();
    TaskRecord& record = *pending.record;
    SubmitOptions options = some_options(random_, record);
    pending.orders = some_orders(record, options);
    options.payload = pending.orders;
    pending.which = random_() >> 8U;
    const std::uint64_t runs = once_in(random_, 20) ? 1 + random_() % 12 : 1;
    std::vector<std::vector<Tensor>> inputs;
    for (std::uint64_t i = 0; i < runs; ++i) {
      inputs.push_back({lane_.work->input(pending.which + i)});
    }
    pending.calls_back = once_in(random_, 2);
    record.callback_throws = pending.calls_back && once_in(random_, 50);
    if (pending.calls_back) options.callback = callback_of(pending, runs);
    auto job = submitted(world_, lane_, record, [&] {
      return stream_.submit_runs_when_room(std::move(inputs), std::move(options));
    });
    if (!job) return;
    pending.job = std::move(*job);
    runs_.push_back(runs);
    pending_.push_back(std::move(pending));
  }

  std::function<void(TaskOutcome)> callback_of(const Pending& pending, std::uint64_t runs) {
    return [this, record = pending.record, orders = pending.orders, which = pending.which,
            runs](const TaskOutcome& outcome) {
      const Spared spared;
      check_order(outcome);
      world_.ledger().ended(*record, outcome, is_right(outcome, *orders, which, runs), lane_.name,
                            lane_.tally);
      if (!record->callback_throws) return;
      ++lane_.tally.callbacks_threw;
      throw std::runtime_error("a callback that throws");
    };
  }

  // Cancelled and late tasks are reported at once.
  void check_order(const TaskOutcome& outcome) {
    if (!outcome.ok() && (outcome.error().failure == TaskFailure::kCancelled ||
                          outcome.error().failure == TaskFailure::kDeadline)) {
      return;
    }
    const std::uint64_t sequence =
        outcome.ok() ? outcome.result().sequence : outcome.error().sequence;
    if (ordered_ && sequence < next_) {
      world_.ledger().unexplained(
          fmt::format("{} came after {} in a stream of '{}'", sequence, next_ - 1, lane_.name));
    }
    next_ = sequence + 1;
  }

  bool is_right(const TaskOutcome& outcome, const Orders& orders, std::uint64_t which,
                std::uint64_t runs) const {
    if (!outcome.ok()) return false;
    const TaskResult& result = outcome.result();
    const bool visited =
        !lane_.has_own_stages || (orders.before_visits == (orders.skips_before ? 0 : 1) &&
                                  orders.after_visits == (orders.skips_after ? 0 : 1));
    if (!visited || result.payload.get() != &orders || result.runs.size() != runs) return false;
    for (std::uint64_t i = 0; i < runs; ++i) {
      const std::vector<Tensor>& outputs = result.runs[i];
      if (outputs.size() != 1 || !lane_.work->is_after(which + i, lane_.depth, outputs[0].bytes)) {
        return false;
      }
    }
    return true;
  }

  void wait_for_any() {
    std::vector<Job> jobs;
    for (const Pending& pending : pending_) jobs.push_back(pending.job);
    const auto done = guarded("", [&]() -> Result<bool> {
      const Exposed exposed;
      return wait_any(jobs, milliseconds(5)).has_value();
    });
    (void)done;
  }

  void finish_first() {
    Pending pending = std::move(pending_.front());
    pending_.erase(pending_.begin());
    const std::uint64_t runs = runs_.front();
    runs_.erase(runs_.begin());
    if (once_in(random_, 10)) {
      (void)pending.job.done();
      if (pending.calls_back && once_in(random_, 2)) return;  // releases the handle
    }
    const TaskOutcome outcome = pending.job.wait();
    if (!pending.calls_back) {
      world_.ledger().ended(*pending.record, outcome,
                            is_right(outcome, *pending.orders, pending.which, runs), lane_.name,
                            lane_.tally);
    } else if (outcome.ok() || outcome.error().failure != TaskFailure::kError) {
      world_.ledger().unexplained("an outcome that a callback has had already");
    }
    if (pending.record->ended != 1) {
      world_.ledger().unexplained(
          fmt::format("a task that was waited for ended {} times", pending.record->ended.load()));
    }
  }

  World& world_;
  Lane& lane_;
  const bool ordered_;
  Random random_;
  Stream stream_;
  std::uint64_t next_ = 0;  // callbacks of a stream come one at a time
  std::vector<Pending> pending_;
  std::vector<std::uint64_t> runs_;
};

// ---- actors that come and go ----

// What one visit left behind: its tasks may end when everything else has gone.
struct Visit {
  std::atomic<std::int64_t> open{0};
  Tally tally;
};

void visit_once(World& world, Random& random, const std::shared_ptr<Visit>& visit) {
  LanePlan plan{.name = "visit", .work = &world.numbers(), .devices = {"quick", "spare"}};
  if (once_in(random, 2)) plan.devices.emplace_back("slow");
  plan.own_stages = once_in(random, 2);
  plan.options.handover = once_in(random, 4) ? Handover::kLockStep : Handover::kFreeFlow;
  plan.options.hint = once_in(random, 3) ? Hint::kLatency : Hint::kThroughput;
  plan.options.jobs_max = 1 + random() % 20;
  plan.options.tune = once_in(random, 4);
  const std::unique_ptr<Lane> lane = world.open(plan);
  if (lane == nullptr) return;
  Stream stream = lane->pipeline.open_stream(
      {.order = once_in(random, 2) ? StreamOrder::kSubmission : StreamOrder::kCompletion});
  std::vector<Pending> pending;
  for (std::uint64_t i = 0, count = random() % 60; i < count; ++i) {
    Pending task;
    task.record = world.ledger().open();
    SubmitOptions options = some_options(random, *task.record);
    task.which = random();
    options.callback = [&world, visit, record = task.record, which = task.which,
                        work = lane->work](const TaskOutcome& outcome) {
      const Spared spared;
      const bool right =
          outcome.ok() && work->is_after(which, 1, outcome.result().outputs()[0].bytes);
      world.ledger().ended(*record, outcome, right, "a visit", visit->tally);
      --visit->open;
    };
    std::vector<Tensor> inputs = {lane->work->input(task.which)};
    ++visit->open;
    auto job = submitted(world, *lane, *task.record, [&] {
      return stream.submit_when_room(std::move(inputs), std::move(options));
    });
    if (!job) {
      --visit->open;
      continue;
    }
    task.job = std::move(*job);
    pending.push_back(std::move(task));
    if (once_in(random, 30)) cancel(pending[random() % pending.size()]);
  }
  if (once_in(random, 3)) stream.wait_until_done();
}

// A runtime of its own, with a device of this machine.
void open_runtime(World& world, const Network& network, Random& random) {
  const std::int64_t failed = failed_allocations();
  const Status opened = guarded("", [&]() -> Status {
    RuntimeOptions options;
    options.devices = {{.kind = DeviceKind::kHost, .threads = 1}};
    const Exposed exposed;
    TESSERA_TRY(Runtime runtime, Runtime::open(options));
    TESSERA_TRY(const Model model, runtime.load(network));
    TESSERA_TRY(Pipeline pipeline, runtime.open_pipeline(model));
    Stream stream = pipeline.open_stream();
    for (int i = 0; i < 3; ++i) {
      TESSERA_TRY(Job job, stream.submit({Tensor::zeros(Format::kF16, network.inputs()[0].dims)}));
      if (once_in(random, 2)) (void)job.wait();
    }
    return {};
  });
  if (!opened.ok() && failed_allocations() == failed) {
    world.ledger().unexplained("a runtime was not opened: " + opened.error().to_string());
  }
}

void tinker(World& world, Random& random) {
  for (const auto& [name, lane] : world.lanes()) {
    const auto status =
        guarded("", [&]() -> Result<PipelineStatus> { return lane->pipeline.status(); });
    if (!status.ok()) continue;
    const StageStatus& stage = status->stages[random() % status->stages.size()];
    const Exposed exposed;
    if (once_in(random, 3)) {
      (void)lane->pipeline.set_threads(stage.name, 1 + static_cast<int>(random() % 5));
    }
    if (stage.kind == StageKind::kExecute && once_in(random, 3)) {
      (void)lane->pipeline.set_kernels(stage.name, 1 + static_cast<int>(random() % 6));
    }
    if (once_in(random, 20)) lane->pipeline.set_tuning(once_in(random, 2));
    if (name != "real" && name != "real chain") continue;
    if (!once_in(random, 4)) continue;
    lane->pipeline.set_debug({.mode = static_cast<DebugMode>(random() % 3),
                              .every = 1 + static_cast<std::int64_t>(random() % 4)});
  }
}

}  // namespace

Actor stream_actor(World& world, Lane& lane, StreamOptions options) {
  return {"stream of " + lane.name,
          [&world, &lane, options](const std::atomic<bool>& stop, std::uint64_t seed) {
            StreamActor(world, lane, options, seed).act(stop);
          }};
}

Actor visitor(World& world) {
  return {"visitor", [&world](const std::atomic<bool>& stop, std::uint64_t seed) {
            Random random(seed);
            std::vector<std::shared_ptr<Visit>> visits;
            while (!stop) {
              if (once_in(random, 20)) {
                open_runtime(world, world.lane("real").work->network(), random);
              }
              visits.push_back(std::make_shared<Visit>());
              visit_once(world, random, visits.back());
              std::erase_if(visits, [](const auto& visit) { return visit->open == 0; });
              sleep_some(random, 2000);
            }
            for (const auto& visit : visits) {
              while (visit->open > 0) std::this_thread::sleep_for(milliseconds(1));
            }
          }};
}

Actor tinkerer(World& world) {
  return {"tinkerer", [&world](const std::atomic<bool>& stop, std::uint64_t seed) {
            Random random(seed);
            while (!stop) {
              (void)guarded("", [&]() -> Status {
                tinker(world, random);
                return {};
              });
              for (DeviceTrouble& trouble : world.troubles()) {
                (void)guarded("", [&]() -> Status {
                  (void)world.entry(trouble.name()).status();
                  return {};
                });
              }
              sleep_some(random, 5000);
            }
          }};
}

}  // namespace tessera::soak
