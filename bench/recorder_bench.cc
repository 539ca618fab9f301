// What recording an event costs the thread that does it.
#include <benchmark/benchmark.h>

#include <chrono>
#include <vector>

#include "metrics/collector.h"
#include "metrics/recorder.h"

namespace tessera::metrics {
namespace {

Event make_event(Recorder& recorder) {
  const SourceId source = recorder.add_source({.kind = SourceKind::kStage, .name = "pre"}).value();
  return {.kind = EventKind::kStageRun, .source = source, .begin_ns = 1000, .end_ns = 2000};
}

// The event itself, its times known; the ring is emptied now and then, outside the timing.
void record_on(benchmark::State& state) {
  Recorder recorder;
  Event event = make_event(recorder);
  std::vector<Event> drained;
  int waiting = 0;
  for (auto _ : state) {
    recorder.record(event);
    if (++waiting == 4000) {
      state.PauseTiming();
      drained.clear();
      recorder.drain(drained);
      waiting = 0;
      state.ResumeTiming();
    }
  }
  state.counters["dropped"] = static_cast<double>(recorder.dropped());
}
BENCHMARK(record_on);

void record_off(benchmark::State& state) {
  Recorder recorder({.recording = false});
  const Event event = make_event(recorder);
  for (auto _ : state) {
    recorder.record(event);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(record_off);

// As the runtime does it: two looks at the clock and an event.
void record_with_clock(benchmark::State& state) {
  Recorder recorder;
  Event event = make_event(recorder);
  std::vector<Event> drained;
  int waiting = 0;
  for (auto _ : state) {
    event.begin_ns = recorder.now();
    event.end_ns = recorder.now();
    recorder.record(event);
    if (++waiting == 4000) {
      state.PauseTiming();
      drained.clear();
      recorder.drain(drained);
      waiting = 0;
      state.ResumeTiming();
    }
  }
}
BENCHMARK(record_with_clock);

// The other side: what the collector's thread does for each event.
void collect(benchmark::State& state) {
  Recorder recorder;
  Event event = make_event(recorder);
  Collector collector(recorder, {.period = std::chrono::milliseconds(0)});
  for (auto _ : state) {
    state.PauseTiming();
    for (int i = 0; i < 4000; ++i) {
      event.begin_ns = event.end_ns;
      event.end_ns += 10'000;
      recorder.record(event);
    }
    state.ResumeTiming();
    collector.drain();
  }
  state.SetItemsProcessed(state.iterations() * 4000);
}
BENCHMARK(collect);

}  // namespace
}  // namespace tessera::metrics
