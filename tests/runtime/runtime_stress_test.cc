// Many packets, streams and devices at once, with random stage times, random cancels and threads
// that change: every result is right, in the order of its stream, none is lost or comes twice, and
// memory stays flat.
//
// TESSERA_STRESS_PACKETS sets how many (20,000), TESSERA_STRESS_SEED what is random (printed).
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <random>
#include <thread>

#include "scripted_runtime.h"

namespace tessera::scripted {
namespace {

constexpr std::uint32_t kStreams = 8;

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Some work, or giving way to others; about 0 to 3 us.
void dawdle(std::uint64_t seed) {
  if (seed % 64 == 0) std::this_thread::yield();
  volatile std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < seed % 1000; ++i) sum = sum + i;
}

std::uint64_t input_of(std::uint32_t stream, std::uint64_t sequence) {
  return (std::uint64_t{stream} << 48U) + sequence * 977 + 5;
}

StageOptions adding_one(const std::string& name) {
  return {.name = name, .function = [](Task& task) -> Status {
            const std::uint64_t value = value_of(task.runs[0][0]);
            dawdle(result_of(value) >> 11U);
            task.runs[0][0] = tensor_of(value + 1);
            return {};
          }};
}

// One stream, its submitter and what came back; the callbacks of a stream come one at a time.
struct StreamCheck {
  std::uint64_t taken = 0, next = 0, right = 0, cancelled = 0, wrong = 0, out_of_order = 0;

  void took(std::uint32_t stream, const TaskOutcome& outcome) {
    const std::uint64_t sequence =
        outcome.ok() ? outcome.result().sequence : outcome.error().sequence;
    ++taken;
    if (outcome.ok()) {  // what was cancelled is done at once
      out_of_order += sequence >= next ? 0 : 1;
      next = sequence + 1;
    }
    if (!outcome.ok()) {
      ++(outcome.error().failure == TaskFailure::kCancelled ? cancelled : wrong);
    } else if (value_of(outcome.result().outputs()[0]) ==
               result_of(input_of(stream, sequence) + 1) + 1) {
      ++right;
    } else {
      ++wrong;
    }
  }
};

class Stress {
 public:
  explicit Stress(std::uint64_t seed) : seed_(seed), runtime_(devices()) {
    PipelineOptions options;
    options.stages = runtime_.stages();
    options.stages.insert(options.stages.begin() + 1, adding_one("before"));
    options.stages.insert(options.stages.begin() + 3, adding_one("after"));
    options.jobs_max = 200;
    pipeline_.emplace(runtime_.open(options));
    for (std::uint32_t s = 0; s < kStreams; ++s) streams_.push_back(pipeline_->open_stream());
  }

  // Sends `packets` more through; threads of stages change meanwhile.
  void send(std::uint64_t packets) {
    std::vector<std::thread> submitters;
    for (std::uint32_t s = 0; s < kStreams; ++s) {
      submitters.emplace_back([this, s, packets] { submit(s, packets / kStreams); });
    }
    std::atomic<bool> over{false};
    std::thread operator_([this, &over] {
      std::mt19937_64 random(seed_);
      const char* const names[] = {"pre", "before", "execute", "after", "post"};
      while (!over) {
        const Status status =
            pipeline_->set_threads(names[random() % 5], 1 + static_cast<int>(random() % 4));
        EXPECT_TRUE(status.ok());
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    });
    for (std::thread& submitter : submitters) submitter.join();
    for (Stream& stream : streams_) stream.wait_until_done();
    pipeline_->wait_until_done();  // packets of cancelled jobs may come later than their jobs
    over = true;
    operator_.join();
  }

  void check(std::uint64_t sent, std::uint64_t cancels_asked) const {
    std::uint64_t right = 0, cancelled = 0;
    for (const StreamCheck& check : checks_) {
      EXPECT_EQ(check.taken, sent / kStreams);
      EXPECT_EQ(check.out_of_order, 0U);
      EXPECT_EQ(check.wrong, 0U);
      right += check.right;
      cancelled += check.cancelled;
    }
    EXPECT_EQ(right + cancelled, sent / kStreams * kStreams);
    EXPECT_LE(cancelled, cancels_asked);
    std::printf("%llu right, %llu cancelled\n", static_cast<unsigned long long>(right),
                static_cast<unsigned long long>(cancelled));
  }
  std::uint64_t cancels_asked() const { return cancels_; }
  PipelineStatus status() const { return pipeline_->status(); }
  std::vector<DeviceStatus> devices_status() {
    std::vector<DeviceStatus> list;
    for (const auto& entry : runtime_.state().devices()) list.push_back(entry->status());
    return list;
  }

 private:
  static std::vector<device::ScriptedOptions> devices() {
    std::vector<device::ScriptedOptions> list;
    for (const int kernels : {1, 2, 1}) {
      device::ScriptedOptions one;
      one.name = "card" + std::to_string(list.size());
      one.kernels = kernels;
      one.run_time = [](const device::ActivityObserver::Run& run) {
        const std::uint64_t random = result_of(run.tag) >> 20U;
        return std::chrono::nanoseconds(random % 3 == 0 ? 0 : random % 20'000);
      };
      list.push_back(std::move(one));
    }
    return list;
  }

  void submit(std::uint32_t s, std::uint64_t packets) {
    std::mt19937_64 random(seed_ * 31 + s);
    std::deque<Job> recent;
    for (std::uint64_t i = 0; i < packets; ++i) {
      SubmitOptions options;
      options.callback = [check = &checks_[s], s](TaskOutcome outcome) { check->took(s, outcome); };
      auto job =
          streams_[s].submit_when_room({tensor_of(input_of(s, sent_[s]++))}, std::move(options));
      ASSERT_TRUE(job.ok()) << job.error().message;
      recent.push_back(std::move(job).value());
      if (recent.size() > 12) recent.pop_front();
      if (random() % 50 == 0) {
        recent[random() % recent.size()].cancel();
        ++cancels_;
      }
    }
  }

  const std::uint64_t seed_;
  ScriptedRuntime runtime_;
  std::optional<Pipeline> pipeline_;
  std::vector<Stream> streams_;
  std::array<StreamCheck, kStreams> checks_{};
  std::array<std::uint64_t, kStreams> sent_{};
  std::atomic<std::uint64_t> cancels_{0};
};

TEST(RuntimeStress, EveryResultIsRightInOrderAndOnce) {
  const std::uint64_t packets = number_from("TESSERA_STRESS_PACKETS", 20'000) / 40 * 40;
  const std::uint64_t seed = number_from("TESSERA_STRESS_SEED", 1);
  std::printf("%llu packets, seed %llu\n", static_cast<unsigned long long>(packets),
              static_cast<unsigned long long>(seed));
  Stress stress(seed);
  stress.send(packets / 5);
  const std::size_t heap_before = mallinfo2().uordblks;
  stress.send(packets / 5 * 4);
  const std::size_t heap_after = mallinfo2().uordblks;
  stress.check(packets, stress.cancels_asked());
  const PipelineStatus status = stress.status();
  EXPECT_EQ(status.in_flight, 0U);
  EXPECT_EQ(status.submitted, static_cast<std::int64_t>(packets));
  EXPECT_EQ(status.succeeded + status.cancelled, static_cast<std::int64_t>(packets));
  EXPECT_EQ(status.failed + status.late, 0);
  std::int64_t runs = 0;
  for (const DeviceStatus& device : stress.devices_status()) {
    EXPECT_GT(device.runs, 0) << device.name;
    EXPECT_TRUE(device.healthy) << device.fault;
    runs += device.runs;
  }
  EXPECT_LE(runs, status.submitted);
  EXPECT_GE(runs, status.succeeded);
  std::printf("heap: %zu bytes after a fifth, %zu at the end\n", heap_before, heap_after);
#if !defined(__SANITIZE_THREAD__) && !defined(TESSERA_SANITIZED)
  // The history of events has a fixed size, and is full by then only in long runs.
  if (packets >= 1'000'000) {
    EXPECT_LT(heap_after, heap_before + (2U << 20U));
  }
#endif
}

}  // namespace
}  // namespace tessera::scripted
