#include "dashboard/wire.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "metrics/exports.h"
#include "metrics/json_quoted.h"

namespace tessera::dashboard {
namespace {

using metrics::Bin;
using metrics::Event;
using metrics::json_quoted;

void append_events(std::string& text, std::span<const Event> events) {
  for (const Event& event : events) {
    if (!text.empty() && text.back() != '[') text += ',';
    fmt::format_to(std::back_inserter(text), "[{},{},{},{},{},{},{},{}]",
                   static_cast<int>(event.kind), event.source.index, event.begin_ns, event.end_ns,
                   event.packet, event.stream, event.value, static_cast<int>(event.outcome));
  }
}

// One column of a source's bins; left out where all of it is zero.
template <typename Number>
void append_column(std::string& text, const char* name, std::span<const Bin> bins,
                   Number Bin::* field) {
  bool any = false;
  for (const Bin& bin : bins) any |= bin.*field != 0;
  if (!any) return;
  if (text.back() != '{') text += ',';
  fmt::format_to(std::back_inserter(text), "\"{}\":[", name);
  for (const Bin& bin : bins) {
    if (text.back() != '[') text += ',';
    fmt::format_to(std::back_inserter(text), "{}", bin.*field);
  }
  text += ']';
}

// As many as there are of a past that is over; three digits are more than a chart shows.
void append_rates(std::string& text, std::span<const double> rates) {
  if (rates.empty()) return;
  if (text.back() != '{') text += ',';
  text += "\"rate\":[";
  for (const double rate : rates) {
    if (text.back() != '[') text += ',';
    fmt::format_to(std::back_inserter(text), "{:.4g}", rate);
  }
  text += ']';
}

void append_bins(std::string& text, std::span<const Bin> bins, std::span<const double> rates) {
  text += '{';
  append_column(text, "busy", bins, &Bin::busy_ns);
  append_column(text, "in_ns", bins, &Bin::in_ns);
  append_column(text, "out_ns", bins, &Bin::out_ns);
  append_column(text, "bytes_in", bins, &Bin::bytes_in);
  append_column(text, "bytes_out", bins, &Bin::bytes_out);
  append_column(text, "count", bins, &Bin::count);
  append_column(text, "depth", bins, &Bin::depth_max);
  append_rates(text, rates);
  text += '}';
}

template <typename Items>
std::string list_text(const Items& items, const auto& text_of) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : ",") + text_of(item);
  return "[" + text + "]";
}

std::string number_text(std::int64_t number) { return fmt::format("{}", number); }

std::string processor_text(const CardStatus& card, const ProcessorStatus& one) {
  return fmt::format(
      "{{\"name\":{},\"cores\":{},\"reserved\":{},\"memory_first\":{},\"memory_bytes\":{},"
      "\"weight\":{},\"running\":{},\"networks\":{},\"runs\":{},\"failures\":{},"
      "\"last_run_cycles\":{},\"images_per_second\":{:.6g},\"changes\":{}}}",
      json_quoted(one.name), list_text(one.cores, number_text),
      list_text(one.reserved, number_text), one.memory_first, one.memory_bytes, one.weight,
      one.running, list_text(one.networks, json_quoted), one.runs, one.failures,
      one.last_run_cycles, card.images_per_second(one), one.changes);
}

std::string part_text(const CardPart& part) {
  return fmt::format("{{\"kind\":{},\"index\":{},\"card\":{},\"busy_cycles\":{},\"bytes\":{}}}",
                     json_quoted(part.kind), part.index, part.card, part.busy_cycles, part.bytes);
}

std::string card_text(const CardStatus& card) {
  const auto processor = [&](const ProcessorStatus& one) { return processor_text(card, one); };
  return fmt::format(
      "{{\"arch\":{},\"clock_hertz\":{},\"cards\":{},\"groups\":{},\"cores_per_group\":{},"
      "\"memory_bytes\":{},\"cycles\":{},\"processors\":{},\"parts\":{}}}",
      json_quoted(card.arch), card.clock_hertz, card.cards, card.groups, card.cores_per_group,
      card.memory_bytes, card.cycles, list_text(card.processors, processor),
      list_text(card.parts, part_text));
}

std::string controls_text(Controls& controls) {
  std::string stages, choices;
  for (const StageControl& stage : controls.stages()) {
    if (!stages.empty()) stages += ',';
    stages += fmt::format("{{\"name\":{},\"threads\":{},\"threads_max\":{}}}",
                          json_quoted(stage.name), stage.threads, stage.threads_max);
  }
  for (const Choice& choice : controls.choices()) {
    if (!choices.empty()) choices += ',';
    std::string allowed;
    for (const std::string& position : choice.allowed) {
      if (!allowed.empty()) allowed += ',';
      allowed += json_quoted(position);
    }
    choices += fmt::format("{{\"name\":{},\"chosen\":{},\"allowed\":[{}]}}",
                           json_quoted(choice.name), json_quoted(choice.chosen), allowed);
  }
  return fmt::format("\"stages\":[{}],\"choices\":[{}],\"cards\":{}", stages, choices,
                     list_text(controls.cards(), card_text));
}

}  // namespace

std::string state_text(metrics::Collector& collector, Controls* controls,
                       const std::string& title) {
  const metrics::Snapshot snapshot = collector.snapshot();
  const metrics::Limit limit = metrics::limit_of(metrics::use_of(
      snapshot, controls == nullptr ? metrics::Conditions() : controls->conditions()));
  return fmt::format(
      "{{\"title\":{},\"pid\":{},\"snapshot\":{},"
      "\"limit\":{{\"cause\":\"{}\",\"place\":{},\"text\":{}}},{}}}",
      json_quoted(title), getpid(), metrics::snapshot_json_text(snapshot), name_of(limit.cause),
      json_quoted(limit.place), json_quoted(limit.text),
      controls == nullptr ? "\"stages\":[],\"choices\":[],\"cards\":[]" : controls_text(*controls));
}

std::string events_text(const metrics::NewEvents& news) {
  std::string text =
      fmt::format("{{\"next\":{},\"missed\":{},\"events\":[", news.next, news.missed);
  append_events(text, news.events);
  return text + "]}";
}

std::string HistoryPieces::next() {
  constexpr std::size_t kEventsOfPiece = 4000;
  std::string text;
  if (!has_begun_) {
    has_begun_ = true;
    text = fmt::format(
        "{{\"from\":{},\"to\":{},\"until\":{},\"has_events\":{},\"bin_ns\":{},\"first_bin\":{},"
        "\"events\":[",
        answer_.span.from_ns, answer_.span.to_ns, answer_.until_ns, answer_.has_events,
        answer_.bin_ns, answer_.first_bin);
  }
  if (events_ < answer_.events.size()) {
    if (events_ > 0) text += ',';
    const std::size_t count = std::min(kEventsOfPiece, answer_.events.size() - events_);
    append_events(text, std::span(answer_.events).subspan(events_, count));
    events_ += count;
    if (events_ < answer_.events.size()) return text;
  }
  text += sources_ == 0 ? "],\"bins\":[" : ",";
  if (sources_ < answer_.bins.size()) {
    append_bins(text, answer_.bins[sources_], answer_.rates[sources_]);
    ++sources_;
  }
  if (sources_ == answer_.bins.size()) {
    text += "]}";
    at_end_ = true;
  }
  return text;
}

std::size_t HistoryPieces::held_bytes() const {
  constexpr std::size_t kOnePiece = 1 << 19;
  std::size_t bytes = kOnePiece + answer_.events.capacity() * sizeof(Event);
  for (const auto& row : answer_.bins) bytes += row.capacity() * sizeof(row[0]);
  for (const auto& row : answer_.rates) bytes += row.capacity() * sizeof(row[0]);
  return bytes;
}

std::string error_text(const Error& error) {
  return fmt::format("{{\"error\":{}}}\n", json_quoted(error.to_string()));
}

}  // namespace tessera::dashboard
