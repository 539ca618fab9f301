// Serves the scripted pipeline until its standard input ends; prints its address on one line.
//
//   scripted_server [EVENTS_KEPT [QUEUE]]      QUEUE: the name of one more queue, of one packet
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "dashboard/server.h"
#include "metrics/collector.h"
#include "scripted_pipeline.h"

int main(int argc, char** argv) {
  using namespace tessera;
  metrics::Recorder recorder;
  metrics::CollectorOptions options;
  if (argc > 1) options.events_kept = std::strtoul(argv[1], nullptr, 10);
  metrics::Collector collector(recorder, options);
  if (argc > 2) {
    const auto queue =
        recorder.add_source({.kind = metrics::SourceKind::kQueue, .name = argv[2], .capacity = 1});
    if (!queue.ok()) return 1;
    recorder.record({.kind = metrics::EventKind::kQueueDepth, .source = *queue, .value = 1});
  }
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
