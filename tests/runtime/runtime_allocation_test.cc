// What a task takes from the heap on its way through a runtime. A program by itself, since it
// counts every allocation there is.
#include <gtest/gtest.h>

#include <atomic>

#include "scripted_runtime.h"

namespace {

std::atomic<std::int64_t> allocations{0};

struct OwnAllocations {
  static bool fails() { return false; }
  static void made(void* /*block*/) { allocations.fetch_add(1, std::memory_order_relaxed); }
  static void gone(void* /*block*/) {}
};

}  // namespace

#include "base/testing/own_allocations.h"

namespace tessera::scripted {
namespace {

// Allocations from the first submit to the last result, the inputs' not counted.
std::int64_t allocations_of(Stream& stream, std::uint64_t tasks) {
  std::vector<std::vector<Tensor>> inputs(tasks);
  for (std::uint64_t i = 0; i < tasks; ++i) inputs[i].push_back(tensor_of(i));
  std::atomic<std::uint64_t> right{0};
  const std::int64_t before = allocations;
  for (std::uint64_t i = 0; i < tasks; ++i) {
    SubmitOptions options;
    options.callback = [&right](const TaskOutcome& outcome) {
      right += outcome.ok() && value_of(outcome.result().outputs()[0]) ==
                                   result_of(outcome.result().sequence % 1000);
    };
    EXPECT_TRUE(stream.submit_when_room(std::move(inputs[i]), std::move(options)).ok());
  }
  stream.wait_until_done();
  const std::int64_t taken = allocations - before;
  EXPECT_EQ(right, tasks);
  return taken;
}

TEST(RuntimeAllocation, TaskTakesTheListOfItsRunsWhichGoesToTheResultAndNothingElse) {
  ScriptedRuntime runtime({{.queue_depth = 16}}, false);
  Pipeline pipeline = runtime.open({});
  Stream stream = pipeline.open_stream();
  for (int i = 0; i < 10; ++i) allocations_of(stream, 1000);
  const std::int64_t taken = allocations_of(stream, 1000);
  // A moment with more packets on their way than any before makes some more of them.
  EXPECT_LE(taken, 1000 + 20);
  EXPECT_GE(taken, 1000);
}

}  // namespace
}  // namespace tessera::scripted
