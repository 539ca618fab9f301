// Names and numbers of any kind in the pages and traces of a run: they open no element, and the
// files are UTF-8.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/check.h"
#include "choices.h"
#include "network/network.h"
#include "report/buffer_page.h"
#include "report/format_page.h"
#include "report/page_texts.h"
#include "text_checks.h"

namespace {

using namespace tessera;  // a fuzz target
using fuzz::Choices;

constexpr std::size_t kNameBytesMax = 40;

// Names from the bytes, or all of them "a": the pages differ in the names alone.
struct Naming {
  Choices choices;
  bool harmless = false;
  std::string name() {
    std::string text = choices.text(kNameBytesMax);
    return harmless ? "a" : text;
  }
  double real() { return choices.real(); }
  std::int64_t integer() { return choices.integer(); }
};

RunResult some_run(Naming& naming) {
  RunResult run;
  run.cycles = naming.integer();
  run.clock_hertz = naming.integer();
  const std::int64_t count = naming.choices.below(4);
  for (std::int64_t i = 0; i < count; ++i) {
    EngineUse engine;
    engine.name = naming.name();
    engine.busy = naming.integer();
    run.engines.push_back(std::move(engine));
    LayerUse layer;
    layer.name = naming.name();
    layer.kind = naming.name();
    layer.begin = naming.integer();
    run.layers.push_back(std::move(layer));
    const std::string engine_name = naming.name();
    run.timeline.push_back({engine_name, naming.name(), i, 0, naming.choices.below(200), 0});
    run.timeline.back().end = run.timeline.back().begin + naming.choices.below(200);
  }
  return run;
}

report::FormatStudy some_study(Naming& naming) {
  report::FormatStudy study;
  const std::int64_t count = naming.choices.below(5);
  for (std::int64_t i = 0; i < count; ++i) {
    report::FormatRow row;
    row.format = naming.name();
    // A row without an error is a point of the plot.
    row.error = naming.choices.one_in(3) ? naming.name() : "";
    row.accuracy.cosine = naming.real();
    row.accuracy.max_error = naming.real();
    row.weight_bytes = naming.choices.byte() * 1000;
    row.activation_bytes = naming.choices.byte() * 1000;
    row.cycles_error = naming.name();
    study.rows.push_back(std::move(row));
  }
  return study;
}

report::BufferCurve some_curve(Naming& naming) {
  report::BufferCurve curve;
  curve.smallest = naming.choices.byte();
  const std::int64_t count = naming.choices.below(5);
  for (std::int64_t i = 0; i < count; ++i) {
    report::BufferPoint point;
    point.bytes = 1 + naming.choices.byte();
    point.cycles = naming.choices.byte();
    if (naming.choices.one_in(3)) point.error = naming.name() + "x";
    curve.points.push_back(std::move(point));
  }
  return curve;
}

// A network of which nothing is asked but its notes and names.
Network some_network(Naming& naming) {
  auto state = std::make_shared<NetworkState>();
  state->chip.name = naming.name();
  const std::int64_t count = naming.choices.below(3);
  for (std::int64_t i = 0; i < count; ++i) {
    HostStepNote note{naming.name(), "", ""};
    note.operator_name = naming.name();
    note.reason = naming.name();
    state->placement.host_steps.push_back(std::move(note));
    package::TranspositionHint hint;
    hint.tensor = naming.name();
    hint.reader = naming.name();
    hint.way = naming.name();
    state->package.transpositions.push_back(std::move(hint));
  }
  return Network(std::move(state));
}

struct Pages {
  std::string timeline, report, formats, buffer;
};

Pages pages(std::span<const std::byte> bytes, bool harmless) {
  Naming naming{Choices(bytes), harmless};
  RunResult run = some_run(naming);
  const Network network = some_network(naming);
  const std::string title = naming.name();
  Pages made;
  made.timeline = report::timeline_text(run);
  // With a timeline a report asks for the program, which this network has not.
  run.timeline.clear();
  made.report = report::html_report_text(title, network, run);
  made.formats = report::format_page_text(title, some_study(naming));
  made.buffer = report::buffer_page_text(title, some_curve(naming));
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const Pages found = pages(bytes, false);
  const Pages expected = pages(bytes, true);
  fuzz::check_json(found.timeline);
  fuzz::check_page(found.report, expected.report);
  fuzz::check_page(found.buffer, expected.buffer);
  fuzz::check_utf8(found.formats);
  return 0;
}
