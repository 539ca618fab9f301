#include "tools/bench/stage_times.h"

#include <sys/prctl.h>

#include <array>
#include <chrono>
#include <thread>

#include "base/check.h"
#include "device/scripted_device.h"

namespace tessera::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kAwake{60};

// 0 to 1, from the task and the stage.
double random_share(std::uint64_t task, unsigned stage) {
  std::uint64_t bits = (task * 8 + stage + 1) * 0x9E3779B97F4A7C15U;
  bits ^= bits >> 29U;
  bits *= 0xBF58476D1CE4E5B9U;
  return static_cast<double>(bits >> 11U) / static_cast<double>(std::uint64_t{1} << 53U);
}

}  // namespace

double StageTimes::of(double milliseconds, std::uint64_t task, unsigned stage) const {
  return milliseconds * (1 + jitter * (2 * random_share(task, stage) - 1));
}

void take(double milliseconds) {
  const auto end =
      Clock::now() + std::chrono::nanoseconds(static_cast<std::int64_t>(milliseconds * 1e6));
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);  // of this thread: wake up when it is time
  std::this_thread::sleep_until(end - kAwake);
  while (Clock::now() < end) {
  }
}

TimedPipeline::TimedPipeline(const StageTimes& times, bool metrics)
    : times_(times), state_(runtime::RuntimeState::make(metrics)) {
  device::ScriptedOptions options;
  options.name = "processor";
  options.queue_depth = 16;
  options.run_time = [times](const device::ActivityObserver::Run& run) {
    return std::chrono::nanoseconds(
        static_cast<std::int64_t>(1e6 * times.of(times.execute_ms, run.tag, 1)));
  };
  auto device = device::make_scripted_device(options);
  TESSERA_CHECK(device.ok(), "{}", device.error().message);
  state_->add(DeviceKind::kSim, {}, std::move(device).value());
  constexpr std::array<std::int64_t, 1> kBytes = {64};
  auto model = state_->load(Network(device::scripted_network("timed", kBytes, kBytes)), {}, false);
  TESSERA_CHECK(model.ok(), "{}", model.error().message);
  model_ = std::move(model).value();
}

HostFunction TimedPipeline::host_stage(double milliseconds, unsigned stage) const {
  return [times = times_, milliseconds, stage](Task& task) -> Status {
    take(times.of(milliseconds, task.sequence, stage));
    return {};
  };
}

Result<Pipeline> TimedPipeline::open(const Threads& threads, PipelineOptions options) {
  const Model model(model_);
  options.stages = {
      {.name = "pre", .function = host_stage(times_.pre_ms, 0), .threads = threads.pre},
      {.kind = StageKind::kExecute, .name = "execute", .model = model, .threads = threads.execute},
      {.name = "post", .function = host_stage(times_.post_ms, 2), .threads = threads.post}};
  TESSERA_TRY(auto opened, runtime::PipelineState::open(state_, options));
  return Pipeline(std::move(opened));
}

Status TimedPipeline::run_one_by_one(int tasks) {
  TESSERA_TRY(Pipeline pipeline, open({}));
  Stream stream = pipeline.open_stream();
  for (int i = 0; i < tasks; ++i) {
    TESSERA_TRY(Job job, stream.submit({Tensor::zeros(Format::kU8, {64})}));
    const TaskOutcome outcome = job.wait();
    if (!outcome.ok()) return outcome.error().error;
  }
  return {};
}

double TimedPipeline::kernel_busy_seconds() const {
  return 1e-9 * static_cast<double>(state_->devices()[0]->status().busy.count());
}

}  // namespace tessera::tools
