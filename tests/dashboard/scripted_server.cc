// Serves the scripted pipeline until its standard input ends; prints its address on one line.
//
//   scripted_server [EVENTS_KEPT [QUEUE [hang | full]]]
//
// QUEUE: the name of one more queue, of one packet. hang: and of a device whose runs took 40 ms,
// until one began that does not end, with a stage whose thread waits for it. full: as many events
// as are kept are there.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include "dashboard/server.h"
#include "metrics/collector.h"
#include "scripted_pipeline.h"

namespace {

using namespace tessera;

Status add_hanging_device(metrics::Recorder& recorder) {
  constexpr std::int64_t kRunNs = 40'000'000;
  // A kernel of the same name is on the pipeline's own device.
  TESSERA_TRY(const metrics::SourceId kernel,
              recorder.add_source({.kind = metrics::SourceKind::kKernel,
                                   .name = "kernel A",
                                   .device = "slow0 on a card of another rack"}));
  TESSERA_TRY(const metrics::SourceId stage,
              recorder.add_source({.kind = metrics::SourceKind::kStage, .name = "execute"}));
  for (std::int64_t run = 0; run < 3; ++run) {
    recorder.record({.kind = metrics::EventKind::kKernelRun,
                     .source = kernel,
                     .begin_ns = run * kRunNs,
                     .end_ns = (run + 1) * kRunNs});
  }
  recorder.set_running(kernel, 3 * kRunNs);
  recorder.begin_work(stage, 3 * kRunNs);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  metrics::Recorder recorder;
  metrics::CollectorOptions options;
  if (argc > 1) options.events_kept = std::strtoul(argv[1], nullptr, 10);
  metrics::Collector collector(recorder, options);
  if (argc > 2) {
    const auto queue =
        recorder.add_source({.kind = metrics::SourceKind::kQueue, .name = argv[2], .capacity = 1});
    if (!queue.ok()) return 1;
    const bool is_full = argc > 3 && std::string_view(argv[3]) == "full";
    for (std::size_t i = 0; i < (is_full ? options.events_kept : 1); ++i) {
      recorder.record({.kind = metrics::EventKind::kQueueDepth, .source = *queue, .value = 1});
      if (i % 1000 == 0) collector.drain();
    }
  }
  const bool hangs = argc > 3 && std::string_view(argv[3]) == "hang";
  if (hangs && !add_hanging_device(recorder).ok()) return 1;
  auto pipeline = dashboard::ScriptedPipeline::start(recorder);
  if (!pipeline.ok()) return 1;
  auto server =
      dashboard::Server::start(collector, pipeline->get(), {.title = "scripted pipeline"});
  if (!server.ok()) {
    std::cerr << server.error().to_string() << "\n";
    return 1;
  }
  std::cout << (*server)->url() << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
  }
  return 0;
}
