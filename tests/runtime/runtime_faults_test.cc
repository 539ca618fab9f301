// Devices that fail: their own jobs get errors within the deadline, other devices go on, and what
// was opened on the device works again when the device does.
#include <gtest/gtest.h>

#include <atomic>

#include "scripted_runtime.h"

namespace tessera::scripted {
namespace {

using device::Fault;
using std::chrono::milliseconds;

// A device that misbehaves while `fault` says so.
struct Switch {
  std::atomic<Fault> fault{Fault::kNone};
  std::atomic<bool> resets{true};
};

device::ScriptedOptions failing(const std::string& name, Switch& how) {
  device::ScriptedOptions options;
  options.name = name;
  options.run_limit = milliseconds(10);
  options.faults.fault = [&how](const device::FaultPlace&) { return how.fault.load(); };
  options.faults.reset_answers = [&how] { return how.resets.load(); };
  return options;
}

SubmitOptions within(milliseconds deadline) {
  SubmitOptions options;
  options.deadline = deadline;
  return options;
}

// Submits until `good` tasks in a row succeed; false after many tries.
bool recovers(Stream& stream, int good) {
  int row = 0;
  for (int i = 0; i < 2000 && row < good; ++i) {
    TaskOutcome outcome =
        stream.submit_when_room({tensor_of(7)}, within(milliseconds(200)))->wait();
    row = outcome.ok() && value_of(outcome.result().outputs()[0]) == result_of(7) ? row + 1 : 0;
    if (row == 0) std::this_thread::sleep_for(milliseconds(1));
  }
  return row == good;
}

std::string fault_name(Fault fault) {
  const char* const names[] = {"None",           "Error",           "Hang",
                               "LostCompletion", "WrongCompletion", "SecondCompletion"};
  return names[static_cast<int>(fault)];
}

class RuntimeFaults : public testing::TestWithParam<Fault> {};

INSTANTIATE_TEST_SUITE_P(Faults, RuntimeFaults,
                         testing::Values(Fault::kError, Fault::kHang, Fault::kLostCompletion,
                                         Fault::kWrongCompletion, Fault::kSecondCompletion),
                         [](const auto& info) { return fault_name(info.param); });

TEST_P(RuntimeFaults, JobsEndWithinTheirDeadlineAndTheSessionRecovers) {
  Switch how;
  ScriptedRuntime runtime({failing("card", how)});
  Pipeline pipeline = runtime.open({});
  Stream stream = pipeline.open_stream();
  ASSERT_TRUE(recovers(stream, 3));
  how.fault = GetParam();
  how.resets = false;
  int failed = 0;
  for (std::uint64_t i = 0; i < 8; ++i) {
    TaskOutcome outcome = stream.submit_when_room({tensor_of(i)}, within(milliseconds(30)))->wait();
    if (outcome.ok()) {
      EXPECT_EQ(value_of(outcome.result().outputs()[0]), result_of(i));  // its own, whatever else
      continue;
    }
    ++failed;
    EXPECT_TRUE(outcome.error().failure == TaskFailure::kDevice ||
                outcome.error().failure == TaskFailure::kDeadline)
        << task_failure_name(outcome.error().failure) << ": " << outcome.error().error.message;
  }
  EXPECT_GE(failed, 6);
  how.fault = Fault::kNone;
  how.resets = true;
  EXPECT_TRUE(recovers(stream, 20));
  EXPECT_EQ(pipeline.status().in_flight, 0U);
}

TEST_P(RuntimeFaults, OtherDevicesGoOn) {
  Switch bad, good;
  device::ScriptedOptions in_order = failing("good", good);
  in_order.run_limit = milliseconds(10'000);  // a busy machine is no fault of the device
  ScriptedRuntime runtime({failing("bad", bad), in_order});
  Pipeline pipeline = runtime.open({});
  Stream stream = pipeline.open_stream();
  ASSERT_TRUE(recovers(stream, 3));
  bad.fault = GetParam();
  bad.resets = false;
  std::vector<Job> jobs;
  for (std::uint64_t i = 0; i < 200; ++i) {
    jobs.push_back(*stream.submit_when_room({tensor_of(i)}, within(milliseconds(2000))));
  }
  int succeeded = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    TaskOutcome outcome = jobs[i].wait();
    if (!outcome.ok()) {
      EXPECT_NE(outcome.error().failure, TaskFailure::kError) << outcome.error().error.message;
      continue;
    }
    ++succeeded;
    EXPECT_EQ(value_of(outcome.result().outputs()[0]), result_of(i));
  }
  // The bad one takes a queue full of tasks with it at most.
  EXPECT_GE(succeeded, 120);
  for (const auto& entry : runtime.state().devices()) {
    EXPECT_TRUE(entry->name() != "good" || entry->status().healthy);
  }
}

TEST(RuntimeFaultsAll, KernelThatDoesNotComeBackIsFoundWithoutALimit) {
  Switch how;
  device::ScriptedOptions options = failing("card", how);
  options.run_limit = milliseconds(0);
  ScriptedRuntime runtime({options});
  Pipeline pipeline = runtime.open({});
  Stream stream = pipeline.open_stream();
  ASSERT_TRUE(recovers(stream, 3));
  how.fault = Fault::kHang;
  EXPECT_FALSE(stream.submit({tensor_of(1)}, within(milliseconds(30)))->wait().ok());
  how.fault = Fault::kNone;
  EXPECT_TRUE(recovers(stream, 20));
  EXPECT_GE(runtime.state().devices()[0]->device().counters().resets, 1);
}

TEST(RuntimeFaultsAll, WhereNoDeviceIsInOrderTheErrorSaysWhy) {
  Switch how;
  ScriptedRuntime runtime({failing("card", how)});
  Pipeline pipeline = runtime.open({});
  Stream stream = pipeline.open_stream();
  runtime.state().devices()[0]->device().fail("the fan stopped");
  how.resets = false;
  runtime.state().devices()[0]->judge({ErrorCode::kUnavailable, "the fan stopped"},
                                      pipeline::kNoDeadline);
  TaskOutcome outcome = stream.submit({tensor_of(1)})->wait();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().failure, TaskFailure::kDevice);
  EXPECT_EQ(outcome.error().stage, "execute");
  EXPECT_EQ(outcome.error().device, "card");
  EXPECT_NE(outcome.error().error.message.find("the fan stopped"), std::string::npos)
      << outcome.error().error.message;
}

}  // namespace
}  // namespace tessera::scripted
