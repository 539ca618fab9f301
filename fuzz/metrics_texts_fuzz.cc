// Names and numbers of any kind in what is written of a running system: traces, lines of events,
// snapshots, figures for Prometheus, and what the live page is sent.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "choices.h"
#include "dashboard/wire.h"
#include "metrics/exports.h"
#include "text_checks.h"

namespace {

using namespace tessera;  // a fuzz target
using fuzz::Choices;

constexpr std::size_t kNameBytesMax = 40;

std::int64_t number(Choices& choices) { return choices.integer(); }

// Times and values of one run, whose sums and differences are numbers.
std::int64_t time(Choices& choices) { return choices.integer() / 4096; }

metrics::SourceDescription description(Choices& choices) {
  return {static_cast<metrics::SourceKind>(choices.below(metrics::kSourceKinds)),
          choices.text(kNameBytesMax), choices.text(kNameBytesMax),
          static_cast<int>(choices.integer()), static_cast<int>(choices.integer())};
}

metrics::Distribution distribution(Choices& choices) {
  return {number(choices), number(choices), choices.real(),  number(choices),
          number(choices), number(choices), number(choices), number(choices)};
}

metrics::Snapshot snapshot(Choices& choices) {
  metrics::Snapshot made;
  made.at_ns = number(choices);
  made.window_ns = number(choices);
  made.dropped = number(choices);
  made.tasks.per_second = choices.real();
  made.tasks.submitted = choices.byte();
  made.tasks.latency = distribution(choices);
  made.tasks.latency_late = distribution(choices);
  const std::int64_t count = choices.below(4);
  for (std::int64_t i = 0; i < count; ++i) {
    metrics::SourceSnapshot source;
    source.description = description(choices);
    source.runs = number(choices);
    source.utilisation = choices.real();
    source.runs_per_second = choices.real();
    source.depth = number(choices);
    source.run = distribution(choices);
    made.sources.push_back(std::move(source));
  }
  return made;
}

std::vector<metrics::Event> events(Choices& choices, std::size_t sources) {
  std::vector<metrics::Event> made(static_cast<std::size_t>(sources == 0 ? 0 : choices.below(9)));
  for (metrics::Event& event : made) {
    event.kind = static_cast<metrics::EventKind>(choices.below(metrics::kEventKinds));
    event.outcome = static_cast<metrics::Outcome>(choices.below(metrics::kOutcomes));
    event.source.index =
        static_cast<std::uint16_t>(choices.below(static_cast<std::int64_t>(sources)));
    event.stream = choices.byte();
    event.begin_ns = time(choices);
    event.end_ns = event.begin_ns + (time(choices) & (INT64_MAX / 4096));
    event.packet = choices.byte();
    event.value = time(choices);
  }
  std::ranges::sort(made, {}, &metrics::Event::begin_ns);
  return made;
}

class SomeControls : public dashboard::Controls {
 public:
  explicit SomeControls(Choices& choices)
      : stage_{choices.text(kNameBytesMax), static_cast<int>(choices.integer()), 4},
        choice_{choices.text(kNameBytesMax),
                choices.text(kNameBytesMax),
                {choices.text(kNameBytesMax), choices.text(kNameBytesMax)}} {}
  std::vector<dashboard::StageControl> stages() override { return {stage_}; }
  Status set_threads(const std::string&, int) override { return {}; }
  std::vector<dashboard::Choice> choices() override { return {choice_}; }

 private:
  dashboard::StageControl stage_;
  dashboard::Choice choice_;
};

// What the server sends of a collector that has seen these events.
void check_wire(Choices& choices, const std::vector<metrics::Event>& seen,
                const metrics::SourceStates& sources) {
  metrics::Recorder recorder;
  metrics::Collector collector(recorder, {.period = std::chrono::milliseconds(0)});
  for (const auto& source : sources) (void)recorder.add_source(source.description);
  for (const metrics::Event& event : seen) {
    if (event.source.index < recorder.source_count()) recorder.record(event);
  }
  collector.drain();
  SomeControls controls(choices);
  const std::string title = choices.text(kNameBytesMax);
  fuzz::check_json(dashboard::state_text(collector, &controls, title));
  fuzz::check_json(dashboard::events_text(collector.events_since(0, 100)));
  dashboard::HistoryPieces pieces(
      collector.history({{time(choices), time(choices)}, 100, 1 + choices.below(200)}));
  std::string history;
  while (!pieces.at_end()) history += pieces.next();
  fuzz::check_json(history);
  fuzz::check_json(dashboard::error_text({ErrorCode::kInvalidArgument, title}));
  fuzz::check_prometheus(metrics::prometheus_text(collector.snapshot_at(time(choices))));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Choices choices(std::as_bytes(std::span(data, size)));
  const bool with_wire = choices.one_in(4);
  const metrics::Snapshot state = snapshot(choices);
  fuzz::check_json(metrics::snapshot_json_text(state));
  fuzz::check_prometheus(metrics::prometheus_text(state));
  metrics::SourceStates sources(static_cast<std::size_t>(choices.below(5)));
  for (auto& source : sources) source.description = description(choices);
  const std::vector<metrics::Event> seen = events(choices, sources.size());
  fuzz::check_json(metrics::perfetto_text(seen, sources));
  fuzz::check_json_lines(metrics::json_lines_text(seen, sources));
  if (with_wire) check_wire(choices, seen, sources);
  return 0;
}
