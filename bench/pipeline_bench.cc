// What a packet costs on its way through an empty pipeline: CPU time of all threads together, and
// allocations. The runtime asks for less than 3 us and none.
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>

#include "pipeline/pipeline.h"

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

// Arguments: packets a thread takes at once, and the way of handing over.
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
  config.handover = state.range(1) == 0 ? Handover::kFreeFlow : Handover::kLockStep;
  config.sink = &sink;
  auto made = Pipeline::create(std::move(config));
  if (!made.ok()) return state.SkipWithError(made.error().message.c_str());
  Pipeline& pipeline = **made;
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
