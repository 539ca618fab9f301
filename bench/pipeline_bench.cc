// What a packet costs on its way through an empty pipeline, and a task from submit to its callback
// with a device that takes no time, recording on and off: CPU time of all threads together, and
// allocations. A packet is to take less than 3 us and none.
#include <benchmark/benchmark.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>

#include "device/scripted_device.h"
#include "pipeline/pipeline.h"
#include "runtime/pipeline_state.h"
#include "runtime/runtime_state.h"

namespace {
std::atomic<std::int64_t> allocations{0};
}

// Counts what any thread of this program allocates.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tessera::pipeline {
namespace {

class Plain : public Packet {};

class Nothing : public StageFunction {
 public:
  void run(std::span<const PacketPtr> batch) override { benchmark::DoNotOptimize(batch.data()); }
};

class Counting : public Sink {
 public:
  void finished(PacketPtr) override { count.fetch_add(1, std::memory_order_relaxed); }
  std::atomic<std::int64_t> count{0};
};

// Arguments: packets that a thread takes at once, and the way of handing over.
void packet_through_an_empty_pipeline(benchmark::State& state) {
  PacketPool pool([] { return std::make_unique<Plain>(); });
  Counting sink;
  PipelineConfig config;
  for (const char* name : {"pre", "execute", "post"}) {
    config.stages.push_back({.name = name,
                             .capacity = 64,
                             .batch = static_cast<std::size_t>(state.range(0)),
                             .grain = 50'000,
                             .function = std::make_shared<Nothing>()});
  }
  config.handover = state.range(1) == 0 ? FlowKind::kFreeFlow : FlowKind::kLockStep;
  config.sink = &sink;
  auto made = PacketPipeline::create(std::move(config));
  if (!made.ok()) return state.SkipWithError(made.error().message.c_str());
  PacketPipeline& pipeline = **made;
  {
    std::vector<PacketPtr> all(400);  // more than there is room for
    for (PacketPtr& packet : all) packet = pool.take();
  }
  for (int i = 0; i < 4000; ++i) pipeline.enter(pool.take());
  pipeline.wait_until_empty();
  const std::int64_t before = allocations;
  for (auto _ : state) pipeline.enter(pool.take());
  pipeline.wait_until_empty();
  state.counters["allocations"] = static_cast<double>(allocations - before);
  state.counters["packets"] = static_cast<double>(state.iterations());
}
BENCHMARK(packet_through_an_empty_pipeline)
    ->ArgNames({"batch", "lock_step"})
    ->Args({1, 0})
    ->Args({8, 0})
    ->Args({32, 0})
    ->Args({8, 1})
    ->MeasureProcessCPUTime()
    ->UseRealTime();

}  // namespace
}  // namespace tessera::pipeline

namespace tessera::runtime {
namespace {

// Argument: whether events are recorded.
void task_through_a_runtime(benchmark::State& state) {
  auto runtime = RuntimeState::make(state.range(0) == 1);
  runtime->add(DeviceKind::kSim, {}, device::make_scripted_device({.queue_depth = 16}).value());
  constexpr std::array<std::int64_t, 1> kBytes = {64};
  const Network network(device::scripted_network("empty", kBytes, kBytes));
  const Model model(runtime->load(network, {}, false).value());
  Pipeline pipeline(
      PipelineState::open(runtime, {.stages = default_stages(model), .jobs_max = 128}).value());
  Stream stream = pipeline.open_stream();
  std::atomic<std::int64_t> good{0};
  const auto submit = [&] {
    SubmitOptions options;
    options.callback = [&good](const TaskOutcome& outcome) {
      good.fetch_add(outcome.ok() ? 1 : 0, std::memory_order_relaxed);
    };
    (void)stream.submit_when_room({Tensor::zeros(Format::kU8, {64})}, std::move(options));
  };
  for (int i = 0; i < 4000; ++i) submit();
  stream.wait_until_done();
  good = 0;
  const std::int64_t before = allocations;
  for (auto _ : state) submit();
  stream.wait_until_done();
  if (good != static_cast<std::int64_t>(state.iterations())) state.SkipWithError("tasks failed");
  state.counters["allocations_a_task"] =
      static_cast<double>(allocations - before) / static_cast<double>(state.iterations());
}
BENCHMARK(task_through_a_runtime)
    ->ArgName("recording")
    ->Arg(0)
    ->Arg(1)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

}  // namespace
}  // namespace tessera::runtime
