// Devices that are slow or hang beside others, tasks that end before their turn, priorities: on
// scripted devices and gates, so that nothing depends on how fast this machine is.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "gate.h"
#include "scripted_runtime.h"

namespace tessera::scripted {
namespace {

using device::Fault;
using std::chrono::milliseconds;

// The tasks whose runs a device began, in that order.
class Begun {
 public:
  void add(std::uint64_t task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(task);
  }
  std::vector<std::uint64_t> tasks() const {
    const std::lock_guard lock(mutex_);
    return tasks_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::uint64_t> tasks_;
};

// A device whose runs note that they began; those of which `held` says so wait at the gate.
device::ScriptedOptions noting(const std::string& name, Begun& begun, Gate* gate = nullptr,
                               const std::function<bool(std::uint64_t)>& held = {}) {
  device::ScriptedOptions options{.name = name, .queue_depth = 16};
  options.run_time = [&begun, gate, held](const device::ActivityObserver::Run& run) {
    begun.add(run.tag);
    if (gate != nullptr && (!held || held(run.tag))) gate->pass();
    return std::chrono::nanoseconds(0);
  };
  return options;
}

StreamOptions unordered() { return {.order = StreamOrder::kCompletion}; }

std::int64_t withdrawn(ScriptedRuntime& runtime, std::size_t device) {
  return runtime.state().devices()[device]->device().counters().withdrawn;
}

TEST(RuntimeDevices, TaskGoesOnWhenItsOwnRunEndsWhateverOthersDo) {
  Gate gate;
  Begun begun;
  std::atomic<std::uint64_t> held{0};
  auto options = noting("card", begun, &gate, [&held](std::uint64_t task) {
    std::uint64_t none = 0;
    return held.compare_exchange_strong(none, task) || held == task;  // the first of all
  });
  options.kernels = 2;
  ScriptedRuntime runtime({options});
  Pipeline pipeline = runtime.open({});
  Stream stream = pipeline.open_stream(unordered());
  std::vector<Job> jobs;
  for (std::uint64_t i = 0; i < 16; ++i) jobs.push_back(*stream.submit({tensor_of(i)}));
  for (std::uint64_t i = 0; i < 15; ++i) {
    const auto done = wait_any(jobs);
    ASSERT_TRUE(done.has_value());
    EXPECT_TRUE(jobs[*done].wait().ok());
    jobs.erase(jobs.begin() + static_cast<std::ptrdiff_t>(*done));
  }
  EXPECT_FALSE(jobs[0].done());
  gate.open();
  EXPECT_TRUE(jobs[0].wait().ok());
}

// Two devices whose runs are known to be quick; then one hangs, wherever it is.
struct OneHangs {
  Gate gate;
  Begun one, other;
  std::atomic<bool> hangs{false};  // the next run
  ScriptedRuntime runtime;
  Pipeline pipeline = runtime.open({});

  explicit OneHangs(bool shared_memory = false)
      : runtime({device("one", one, shared_memory), device("other", other, shared_memory)}) {
    Stream stream = pipeline.open_stream(unordered());
    while (!both_measured()) (void)stream.submit({tensor_of(1)})->wait();
    hangs = true;
  }
  ~OneHangs() {
    gate.open();
    pipeline.wait_until_done();
  }
  device::ScriptedOptions device(const std::string& name, Begun& begun, bool shared_memory) {
    auto options =
        noting(name, begun, &gate, [this](std::uint64_t) { return hangs.exchange(false); });
    options.shared_memory = shared_memory;
    return options;
  }
  bool both_measured() const { return !one.tasks().empty() && !other.tasks().empty(); }
  std::int64_t made_again() {
    std::int64_t count = 0;
    for (const auto& entry : runtime.state().devices()) count += entry->status().runs_made_again;
    return count;
  }
  // A task that writes into `bytes` of the application's.
  static NetworkTask into(std::span<std::byte> bytes) {
    NetworkTask task;
    task.inputs.push_back(tensor_of(3));
    NetworkOutput output;
    output.view = TensorView{.format = Format::kU8, .dims = {8}, .bytes = bytes};
    task.outputs.push_back(output);
    return task;
  }
};

// Also of an ordered stream: what comes behind does not wait for the one that hangs.
void go_on_while_one_hangs(bool shared_memory) {
  OneHangs of(shared_memory);
  Stream stream = of.pipeline.open_stream();
  std::vector<Job> jobs;
  for (std::uint64_t i = 0; i < 60; ++i) jobs.push_back(*stream.submit({tensor_of(i)}));
  for (std::uint64_t i = 0; i < 60; ++i) {
    TaskOutcome outcome = jobs[i].wait();  // for ever, before
    ASSERT_TRUE(outcome.ok());
    EXPECT_EQ(value_of(outcome.result().outputs()[0]), result_of(i));
  }
  EXPECT_FALSE(of.gate.is_open());
  EXPECT_GE(of.made_again(), 1);
  of.gate.open();
  // The one that was given up ends, and its result is dropped.
  const auto late = [&of] {
    std::int64_t count = 0;
    for (const auto& entry : of.runtime.state().devices()) {
      count += entry->device().counters().late_completions;
    }
    return count;
  };
  while (late() < of.made_again()) std::this_thread::yield();
  EXPECT_EQ(of.pipeline.status().succeeded, of.pipeline.status().submitted);
}

TEST(RuntimeDevices, RunThatLastsFarTooLongIsMadeAgainElsewhere) { go_on_while_one_hangs(false); }

TEST(RuntimeDevices, RunOnMemoryOfTheHostIsMadeAgainElsewhereToo) { go_on_while_one_hangs(true); }

// One device after the other hangs with it: the third has it.
TEST(RuntimeDevices, RunThatHangsWhereItIsMadeAgainIsMadeOnceMore) {
  Gate gate;
  std::array<Begun, 3> begun;
  std::atomic<int> hanging{0};  // of the runs that begin
  const auto device = [&](std::size_t i) {
    return noting("device" + std::to_string(i), begun[i], &gate,
                  [&hanging](std::uint64_t) { return hanging.fetch_sub(1) > 0; });
  };
  ScriptedRuntime runtime({device(0), device(1), device(2)});
  Pipeline pipeline = runtime.open({});
  Stream stream = pipeline.open_stream();
  const auto measured = [](const Begun& device) { return !device.tasks().empty(); };
  while (!std::all_of(begun.begin(), begun.end(), measured)) {
    (void)stream.submit({tensor_of(1)})->wait();
    hanging = 0;
  }
  hanging = 2;
  const TaskOutcome outcome = stream.submit({tensor_of(2)})->wait();  // for ever, before
  EXPECT_FALSE(gate.is_open());
  gate.open();
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(value_of(outcome.result().outputs()[0]), result_of(2));
  pipeline.wait_until_done();
}

// A run that is not waited for any more, and lasts far longer than those before: the device is reset, but for one whose
// runs end by themselves, on another machine say.
TEST(RuntimeDevices, OneWhoseRunsEndByThemselvesIsNotResetForARunThatLasts) {
  for (const bool ends_runs : {false, true}) {
    SCOPED_TRACE(ends_runs);
    Gate gate;
    Begun begun;
    std::atomic<bool> holds{false};
    auto options = noting("one", begun, &gate, [&holds](std::uint64_t) { return holds.load(); });
    options.ends_runs = ends_runs;
    ScriptedRuntime runtime({options});
    Pipeline pipeline = runtime.open({});
    Stream stream = pipeline.open_stream(unordered());
    EXPECT_TRUE(stream.submit({tensor_of(1)})->wait().ok());
    holds = true;
    const auto late = SubmitOptions{.deadline = milliseconds(20)};
    Job lasts = *stream.submit({tensor_of(2)}, late);
    EXPECT_EQ(lasts.wait().error().failure, TaskFailure::kDeadline);
    std::this_thread::sleep_for(milliseconds(1200));  // a second is the least
    runtime.state().devices()[0]->look_after();
    EXPECT_EQ(runtime.state().devices()[0]->device().counters().resets, ends_runs ? 0 : 1);
    gate.open();
    const TaskOutcome next = stream.submit({tensor_of(3)})->wait();
    EXPECT_TRUE(next.ok() || !ends_runs);
    pipeline.wait_until_done();
  }
}

// A run that does nothing is short; on a machine that is busy one of many is measured so.
TEST(RuntimeDevices, AShortTaskMayBeDoneByTheThreadThatSubmitsIt) {
  ScriptedRuntime runtime({{.name = "one", .paced = false}});
  Pipeline pipeline =
      runtime.open({.stages = {{.kind = StageKind::kExecute, .model = runtime.model()}}});
  Stream stream = pipeline.open_stream();
  const auto is_done_here = [&](bool in_place) {
    std::thread::id by;
    SubmitOptions options;
    options.in_place = in_place;
    options.callback = [&by](const TaskOutcome& outcome) {
      EXPECT_TRUE(outcome.ok());
      by = std::this_thread::get_id();
    };
    EXPECT_TRUE(stream.submit({tensor_of(1)}, std::move(options)).ok());
    stream.wait_until_done();
    return by == std::this_thread::get_id();
  };
  EXPECT_FALSE(is_done_here(true));  // how long it takes is not known yet
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(is_done_here(false));
  int tasks = 0;
  while (tasks < 100'000 && !is_done_here(true)) ++tasks;
  EXPECT_LT(tasks, 100'000);
  EXPECT_EQ(pipeline.status().failed, 0);
}

// It may go on writing there for ever: who waits for it is told when it ends, or at a deadline.
TEST(RuntimeDevices, RunThatWritesTheApplicationsMemoryIsNotMadeAgain) {
  OneHangs of;
  std::array<std::byte, 8> bytes{};
  Stream stream = of.pipeline.open_stream(unordered());
  Job hung = *stream.submit_network(OneHangs::into(bytes));
  of.gate.wait_for(1);
  for (std::uint64_t i = 0; i < 20; ++i) {
    EXPECT_TRUE(stream.submit({tensor_of(i)})->wait().ok());
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_FALSE(hung.done());
  of.gate.open();
  EXPECT_TRUE(hung.wait().ok());
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  EXPECT_EQ(value, result_of(3));
}

// The one that hangs is not needed any more.
TEST(RuntimeDevices, TaskWhoseOtherRunFailedDoesNotWaitForTheOneThatHangs) {
  constexpr std::uint64_t kHangs = 1000, kFails = 1001;
  Gate gate;
  const auto device = [&gate](const char* name) {
    device::ScriptedOptions options{.name = name};
    options.compute = [&gate](const device::ActivityObserver::Run&,
                              std::span<const std::span<std::byte>> in,
                              std::span<const std::span<std::byte>> out) -> Status {
      std::uint64_t value = 0;
      std::memcpy(&value, in[0].data(), sizeof value);
      if (value == kFails) {
        gate.wait_for(1);
        return Error{ErrorCode::kInvalidArgument, "no such number"};
      }
      if (value == kHangs) gate.pass();
      value = result_of(value);
      std::memcpy(out[0].data(), &value, sizeof value);
      return {};
    };
    return options;
  };
  ScriptedRuntime runtime({device("one"), device("other")});
  Pipeline pipeline = runtime.open({});
  Stream stream = pipeline.open_stream();
  const auto all_right = [&] {
    std::vector<Job> jobs;
    for (std::uint64_t i = 0; i < 200; ++i) jobs.push_back(*stream.submit({tensor_of(i)}));
    for (std::uint64_t i = 0; i < 200; ++i) {
      const TaskOutcome outcome = jobs[i].wait();
      ASSERT_TRUE(outcome.ok()) << outcome.error().error.message;
      EXPECT_EQ(value_of(outcome.result().outputs()[0]), result_of(i));
    }
  };
  all_right();  // and both are known to be quick
  Job job = *stream.submit_runs({{tensor_of(kHangs)}, {tensor_of(kFails)}});
  const TaskOutcome outcome = job.wait();
  ASSERT_FALSE(outcome.ok());
  EXPECT_NE(outcome.error().error.message.find("no such number"), std::string::npos);
  EXPECT_FALSE(gate.is_open());
  all_right();  // what it left behind is dropped
  gate.open();
  pipeline.wait_until_done();
}

TEST(RuntimeDevices, CancelledTasksThatHaveNotBegunAreNeverSeenByTheDevice) {
  Gate gate;
  Begun begun;
  ScriptedRuntime runtime({noting("card", begun, &gate)});
  PipelineOptions options;
  options.jobs_max = 64;
  Pipeline pipeline = runtime.open(options);
  Stream stream = pipeline.open_stream();
  Job first = *stream.submit({tensor_of(1)});
  gate.wait_for(1);
  std::vector<Job> jobs;
  for (std::uint64_t i = 0; i < 63; ++i) jobs.push_back(*stream.submit({tensor_of(i)}));
  for (Job& job : jobs) job.cancel();
  for (Job& job : jobs) {
    ASSERT_TRUE(job.done());  // though the one before it is not
    EXPECT_EQ(job.wait().error().failure, TaskFailure::kCancelled);
  }
  EXPECT_TRUE(stream.wait_for_room());
  EXPECT_FALSE(first.done());
  Job last = *stream.submit({tensor_of(5)});
  gate.open();
  EXPECT_TRUE(first.wait().ok());
  EXPECT_TRUE(last.wait().ok());
  pipeline.wait_until_done();
  EXPECT_EQ(begun.tasks(), (std::vector{first.id(), last.id()}));
}

// Known to be quick, the kernel has runs in advance when one is held.
TEST(RuntimeDevices, CancelledRunThatWaitsOnTheKernelIsWithdrawn) {
  Gate gate;
  Begun begun;
  std::atomic<bool> held{false};
  ScriptedRuntime runtime(
      {noting("card", begun, &gate, [&](std::uint64_t) { return held.load(); })});
  Pipeline pipeline = runtime.open({});
  Stream stream = pipeline.open_stream();
  for (std::uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(stream.submit({tensor_of(i)})->wait().ok());
  held = true;
  Job first = *stream.submit({tensor_of(1)});
  gate.wait_for(1);
  Job second = *stream.submit({tensor_of(2)});
  while (runtime.state().devices()[0]->device().queued(0) < 2) std::this_thread::yield();
  second.cancel();
  EXPECT_EQ(withdrawn(runtime, 0), 1);
  gate.open();
  EXPECT_TRUE(first.wait().ok());
  pipeline.wait_until_done();
  EXPECT_EQ(begun.tasks().back(), first.id());
}

TEST(RuntimeDevices, DeadlineBehindARunThatHangsEndsItsTaskAtOnce) {
  Gate gate;
  Begun begun;
  ScriptedRuntime runtime({noting("card", begun, &gate)});
  Pipeline pipeline = runtime.open({});
  Stream stream = pipeline.open_stream();
  Job hung = *stream.submit({tensor_of(1)});
  gate.wait_for(1);
  SubmitOptions options;
  options.deadline = milliseconds(50);
  std::atomic<int> called{0};
  options.callback = [&called](const TaskOutcome& outcome) {
    EXPECT_EQ(outcome.error().failure, TaskFailure::kDeadline);
    ++called;
  };
  Job late = *stream.submit({tensor_of(2)}, options);
  late.wait();  // for ever, before
  EXPECT_EQ(called, 1);
  EXPECT_FALSE(hung.done());
  EXPECT_EQ(pipeline.status().in_flight, 1U);
  gate.open();
  EXPECT_TRUE(hung.wait().ok());
  EXPECT_EQ(begun.tasks(), std::vector{hung.id()});
}

// Two tasks of an ordered stream: the run of the first hangs, that of the second is over.
struct HeldBack {
  Gate gate;
  Begun begun;
  std::atomic<std::uint64_t> first{0};
  ScriptedRuntime runtime{{two_kernels()}};
  Pipeline pipeline = runtime.open({});
  Stream stream = pipeline.open_stream();
  Job hung = *stream.submit({tensor_of(1)});

  device::ScriptedOptions two_kernels() {
    auto options = noting("card", begun, &gate, [this](std::uint64_t task) {
      std::uint64_t none = 0;
      return first.compare_exchange_strong(none, task) || first == task;
    });
    options.kernels = 2;
    return options;
  }
  // Submits the second and waits until it has its result, which the first holds back.
  Job submit(const SubmitOptions& options) {
    gate.wait_for(1);
    Job job = *stream.submit({tensor_of(2)}, options);
    while (pipeline.status().succeeded + pipeline.status().late < 1) std::this_thread::yield();
    return job;
  }
  ~HeldBack() {
    gate.open();
    EXPECT_TRUE(hung.wait().ok());
    pipeline.wait_until_done();
    EXPECT_EQ(pipeline.status().in_flight, 0U);
    EXPECT_EQ(pipeline.status().succeeded, 1);
  }
};

TEST(RuntimeDevices, DeadlineEndsATaskWhoseResultIsHeldBack) {
  HeldBack of;
  SubmitOptions options;
  options.deadline = milliseconds(50);
  Job late = of.submit(options);
  EXPECT_EQ(late.wait().error().failure, TaskFailure::kDeadline);  // for ever, before
  EXPECT_FALSE(of.hung.done());
  EXPECT_EQ(of.pipeline.status().late, 1);
  EXPECT_EQ(of.pipeline.status().in_flight, 1U);
}

TEST(RuntimeDevices, CancelEndsATaskWhoseResultIsHeldBack) {
  HeldBack of;
  SubmitOptions options;
  int called = 0;
  options.callback = [&called](const TaskOutcome& outcome) {
    EXPECT_EQ(outcome.error().failure, TaskFailure::kCancelled);
    ++called;
  };
  Job job = of.submit(options);
  EXPECT_FALSE(job.done());
  job.cancel();
  job.cancel();
  while (!job.done()) std::this_thread::yield();  // its result may just be on its way
  EXPECT_EQ(called, 1);
  EXPECT_EQ(of.pipeline.status().cancelled, 1);
  EXPECT_EQ(of.pipeline.status().succeeded, 0);
}

// Another stream's task is late, and its callback takes long.
TEST(RuntimeDevices, CallbackThatTakesLongHoldsBackNoDeadline) {
  Gate card, callback;
  Begun begun;
  ScriptedRuntime runtime({noting("card", begun, &card)});
  Pipeline pipeline = runtime.open({});
  Stream first = pipeline.open_stream(), second = pipeline.open_stream();
  Job hung = *first.submit({tensor_of(1)});
  card.wait_for(1);
  SubmitOptions late;
  late.deadline = milliseconds(1);
  late.callback = [&callback](const TaskOutcome&) { callback.pass(); };
  ASSERT_TRUE(first.submit({tensor_of(2)}, late).ok());
  callback.wait_for(1);
  late.callback = {};
  EXPECT_EQ(second.submit({tensor_of(3)}, late)->wait().error().failure, TaskFailure::kDeadline);
  callback.open();
  card.open();
  pipeline.wait_until_done();
}

TEST(RuntimeDevices, TaskThatIsLateWhileItsRunHangsIsLetGoToo) {
  Begun begun;
  auto options = noting("card", begun);
  options.faults.fault = [](const device::FaultPlace&) { return Fault::kHang; };
  ScriptedRuntime runtime({options});
  Pipeline pipeline = runtime.open({});
  Stream stream = pipeline.open_stream();
  SubmitOptions late;
  late.deadline = milliseconds(20);
  EXPECT_EQ(stream.submit({tensor_of(1)}, late)->wait().error().failure, TaskFailure::kDeadline);
  pipeline.wait_until_done();
  EXPECT_EQ(pipeline.status().in_flight, 0U);
  Job cancelled = *stream.submit({tensor_of(2)});
  cancelled.cancel();
  pipeline.wait_until_done();
  EXPECT_EQ(pipeline.status().cancelled, 1);
  EXPECT_EQ(pipeline.status().late, 1);
}

TEST(RuntimeDevices, ResultsKeepTheirOrderAmongThemselvesWhateverEndsBefore) {
  Gate gate;
  Begun begun;
  ScriptedRuntime runtime({noting("card", begun, &gate)});
  Pipeline pipeline = runtime.open({});
  Stream stream = pipeline.open_stream();
  std::vector<std::uint64_t> results, others;
  std::vector<Job> jobs;
  for (std::uint64_t i = 0; i < 20; ++i) {
    SubmitOptions options;
    options.callback = [&](const TaskOutcome& outcome) {  // one at a time
      (outcome.ok() ? results : others)
          .push_back(outcome.ok() ? outcome.result().sequence : outcome.error().sequence);
    };
    jobs.push_back(*stream.submit({tensor_of(i)}, options));
  }
  gate.wait_for(1);
  for (const std::size_t index : {7U, 3U, 12U}) jobs[index].cancel();
  EXPECT_EQ(others, (std::vector<std::uint64_t>{7, 3, 12}));
  gate.open();
  stream.wait_until_done();
  EXPECT_EQ(results.size(), 17U);
  EXPECT_TRUE(std::is_sorted(results.begin(), results.end()));
}

TEST(RuntimeDevices, UnorderedStreamGivesEachResultWhenItIsThere) {
  Gate gate;
  Runtime runtime = Runtime::open().value();
  PipelineOptions options;
  options.stages = {{.name = "work",
                     .function = [&gate](Task& task) -> Status {
                       if (task.sequence == 0) gate.pass();
                       return {};
                     },
                     .threads = 2}};
  Pipeline pipeline = runtime.open_pipeline(options).value();
  Stream stream = pipeline.open_stream(unordered());
  std::vector<std::uint64_t> order;
  std::vector<Job> jobs;
  for (int i = 0; i < 5; ++i) {
    SubmitOptions submit;
    submit.callback = [&order](const TaskOutcome& outcome) {
      order.push_back(outcome.result().sequence);
    };
    jobs.push_back(*stream.submit({}, submit));
    if (i == 0) gate.wait_for(1);
  }
  for (int i = 1; i < 5; ++i) (void)jobs[static_cast<std::size_t>(i)].wait();
  EXPECT_FALSE(jobs[0].done());
  gate.open();
  stream.wait_until_done();
  EXPECT_EQ(order, (std::vector<std::uint64_t>{1, 2, 3, 4, 0}));
}

TEST(RuntimeDevices, TasksOfAHigherPriorityOvertakeBeforeStagesAndOnTheKernel) {
  Gate gate;
  Begun begun;
  ScriptedRuntime runtime({noting("card", begun, &gate)});
  PipelineOptions options;
  // Of two threads one may bring a task of a low priority while the other is at one of a high.
  options.stages = {{.kind = StageKind::kExecute, .model = runtime.model(), .threads = 1}};
  Pipeline pipeline = runtime.open(options);
  Stream low = pipeline.open_stream({.priority = -3}), high = pipeline.open_stream({.priority = 2});
  std::vector<Job> jobs;
  const auto submit = [&](Stream& stream, std::optional<int> priority = {}) {
    SubmitOptions with;
    with.priority = priority;
    jobs.push_back(*stream.submit({tensor_of(1)}, with));
    return jobs.back().id();
  };
  std::vector<std::uint64_t> order = {submit(low)};
  gate.wait_for(1);
  std::vector<std::uint64_t> lows;
  for (int i = 0; i < 10; ++i) lows.push_back(submit(low));
  std::vector<std::uint64_t> highs;
  for (int i = 0; i < 4; ++i) highs.push_back(submit(high));
  order.push_back(submit(low, 7));
  order.insert(order.end(), highs.begin(), highs.end());
  order.insert(order.end(), lows.begin(), lows.end());
  gate.open();
  for (Job& job : jobs) EXPECT_TRUE(job.wait().ok());
  EXPECT_EQ(begun.tasks(), order);
}

TEST(RuntimeDevices, PrioritiesBeyondTheLimitsAreRefused) {
  Runtime runtime = Runtime::open().value();
  PipelineOptions options;
  options.stages = {{.name = "nothing", .function = [](Task&) { return Status(); }}};
  Pipeline pipeline = runtime.open_pipeline(options).value();
  EXPECT_EQ(pipeline.open_stream({.priority = 8}).submit({}).error().message,
            "a priority of 8; allowed -7 to 7");
  SubmitOptions submit;
  submit.priority = -100;
  EXPECT_EQ(pipeline.open_stream().submit({}, submit).error().message,
            "a priority of -100; allowed -7 to 7");
  EXPECT_EQ(pipeline.status().in_flight, 0U);
}

}  // namespace
}  // namespace tessera::scripted
