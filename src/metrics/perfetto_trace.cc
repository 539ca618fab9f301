#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <queue>
#include <string>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "metrics/exports.h"
#include "metrics/json_quoted.h"

namespace tessera::metrics {
namespace perfetto {

// A viewer wants the slices of a track to nest. What overlaps (the threads of a stage, transfers
// that go on at once) is spread over lanes, each a track: the first that is free takes the next
// event. Events come in the order of their begins.
class Lanes {
 public:
  std::size_t take(const Event& event) {
    while (!busy_.empty() && busy_.top().free_from <= event.begin_ns) {
      free_.push(busy_.top().lane);
      busy_.pop();
    }
    std::size_t lane = busy_.size();
    if (!free_.empty()) {
      lane = free_.top();
      free_.pop();
    }
    busy_.push({event.end_ns, lane});
    return lane;
  }

 private:
  struct Busy {
    std::int64_t free_from;
    std::size_t lane;
    friend auto operator<=>(const Busy&, const Busy&) = default;
  };
  template <typename Entry>
  using Least = std::priority_queue<Entry, std::vector<Entry>, std::greater<>>;
  Least<Busy> busy_;
  Least<std::size_t> free_;
};

class TraceWriter {
 public:
  // The sources outlive the writer.
  explicit TraceWriter(const SourceStates& sources)
      : sources_(sources), body_("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n") {}

  void add(const Event& event) {
    switch (event.kind) {
      case EventKind::kStageRun:
      case EventKind::kKernelRun:
      case EventKind::kTransferIn:
      case EventKind::kTransferOut:
        return write_slice(event);
      case EventKind::kQueueDepth:
        return write_depth(event);
      case EventKind::kControlChange:
      case EventKind::kFault:
        return write_mark(event);
      case EventKind::kTaskSubmitted:
      case EventKind::kTaskCompleted:
        return;  // the slices of its packet show a task
    }
  }
  void finish() { body_ += "\n]}\n"; }
  std::string& body() { return body_; }  // what was not taken yet

 private:
  // Microseconds, as the format wants them, with all nanoseconds.
  static std::string micros(std::int64_t ns) {
    const auto size = ns < 0 ? -static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
    return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", size / 1000, size % 1000);
  }

  void line(const std::string& fields) {
    if (!first_) body_ += ",\n";
    first_ = false;
    body_ += '{';
    body_ += fields;
    body_ += '}';
  }

  std::string name_of_source(const Event& event) const {
    const SourceDescription& source = sources_[event.source.index].description;
    return source.device.empty() ? source.name : source.device + " " + source.name;
  }

  static const char* track_suffix(EventKind kind) {
    if (kind == EventKind::kTransferIn) return ": DDR writes";
    if (kind == EventKind::kTransferOut) return ": DDR reads";
    return "";
  }

  // The track of this kind of event of its source, named when it is first used.
  int track(const Event& event, std::size_t lane) {
    const auto [found, is_new] = tracks_.try_emplace(
        std::tuple{event.source.index, event.kind, lane}, static_cast<int>(tracks_.size()) + 1);
    if (is_new) {
      std::string name = name_of_source(event) + track_suffix(event.kind);
      if (lane > 0) name += fmt::format(" {}", lane + 1);
      line(
          fmt::format("\"ph\":\"M\",\"pid\":1,\"tid\":{},\"name\":\"thread_name\","
                      "\"args\":{{\"name\":{}}}",
                      found->second, json_quoted(name)));
      line(
          fmt::format("\"ph\":\"M\",\"pid\":1,\"tid\":{},\"name\":\"thread_sort_index\","
                      "\"args\":{{\"sort_index\":{}}}",
                      found->second, event.source.index * 100 + sort_order(event.kind) + lane));
    }
    return found->second;
  }

  static std::size_t sort_order(EventKind kind) {
    if (kind == EventKind::kTransferIn) return 0;
    return kind == EventKind::kTransferOut ? 60 : 30;
  }

  static const char* value_name(EventKind kind) {
    if (kind == EventKind::kStageRun) return "waited_ns";
    return kind == EventKind::kKernelRun ? "cycles" : "bytes";
  }

  // Tasks count from 1; what is of none (weights) has the name of what happened.
  static std::string slice_name(const Event& event) {
    return event.packet == 0 ? metrics::name_of(event.kind)
                             : fmt::format("packet {}", event.packet);
  }

  void write_slice(const Event& event) {
    const std::size_t lane = lanes_[{event.source.index, event.kind}].take(event);
    const int tid = track(event, lane);
    line(
        fmt::format("\"ph\":\"X\",\"pid\":1,\"tid\":{},\"name\":\"{}\",\"cat\":\"{}\","
                    "\"ts\":{},\"dur\":{},\"args\":{{\"packet\":{},\"stream\":{},\"{}\":{}}}",
                    tid, slice_name(event), metrics::name_of(event.kind), micros(event.begin_ns),
                    micros(event.end_ns - event.begin_ns), event.packet, event.stream,
                    value_name(event.kind), event.value));
  }

  void write_depth(const Event& event) {
    line(fmt::format("\"ph\":\"C\",\"pid\":1,\"name\":{},\"ts\":{},\"args\":{{\"packets\":{}}}",
                     json_quoted(name_of_source(event)), micros(event.begin_ns), event.value));
  }

  void write_mark(const Event& event) {
    const std::string name =
        fmt::format("{}: {} {}", name_of_source(event), metrics::name_of(event.kind), event.value);
    line(fmt::format("\"ph\":\"i\",\"s\":\"g\",\"pid\":1,\"tid\":0,\"name\":{},\"ts\":{}",
                     json_quoted(name), micros(event.begin_ns)));
  }

  const SourceStates& sources_;
  std::map<std::tuple<std::uint16_t, EventKind, std::size_t>, int> tracks_;
  std::map<std::pair<std::uint16_t, EventKind>, Lanes> lanes_;
  std::string body_;
  bool first_ = true;
};

}  // namespace perfetto

std::string perfetto_text(std::span<const Event> events, const SourceStates& sources) {
  std::string text;
  const Status written = write_perfetto(events, sources, [&text](const std::string& piece) {
    text += piece;
    return Status();
  });
  TESSERA_CHECK(written.ok(), "writing to memory");
  return text;
}

Status write_perfetto(std::span<const Event> events, const SourceStates& sources,
                      const std::function<Status(const std::string&)>& write) {
  constexpr std::size_t kPiece = 1 << 20;
  perfetto::TraceWriter writer(sources);
  for (const Event& event : events) {
    writer.add(event);
    if (writer.body().size() < kPiece) continue;
    TESSERA_RETURN_IF_ERROR(write(writer.body()));
    writer.body().clear();
  }
  writer.finish();
  return write(writer.body());
}

struct PerfettoPieces::State {
  State(std::vector<Event> events_kept, SourceStates sources_kept)
      : events(std::move(events_kept)), sources(std::move(sources_kept)), writer(sources) {}
  const std::vector<Event> events;
  const SourceStates sources;
  perfetto::TraceWriter writer;
  std::size_t written = 0;  // events
  bool at_end = false;
};

PerfettoPieces::PerfettoPieces(std::vector<Event> events, SourceStates sources)
    : state_(std::make_unique<State>(std::move(events), std::move(sources))) {}
PerfettoPieces::~PerfettoPieces() = default;

bool PerfettoPieces::at_end() const { return state_->at_end; }

std::string PerfettoPieces::next() {
  constexpr std::size_t kPiece = 1 << 18;
  State& state = *state_;
  while (state.written < state.events.size() && state.writer.body().size() < kPiece) {
    state.writer.add(state.events[state.written++]);
  }
  if (state.written == state.events.size()) {
    state.writer.finish();
    state.at_end = true;
  }
  return std::exchange(state.writer.body(), {});
}

}  // namespace tessera::metrics
