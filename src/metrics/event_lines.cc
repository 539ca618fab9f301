#include "metrics/event_lines.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace tessera::metrics {
namespace {

using nlohmann::json;

Error wrong(const std::string& what) { return {ErrorCode::kInvalidArgument, what}; }

Result<std::int64_t> number_field(const json& object, const char* name) {
  const auto found = object.find(name);
  // Larger ones do not fit into 63 bits.
  if (found == object.end() || !found->is_number_integer() ||
      (found->is_number_unsigned() &&
       found->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))) {
    return wrong(fmt::format("'{}' is no whole number", name));
  }
  return found->get<std::int64_t>();
}

Result<std::string> text_field(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string())
    return wrong(fmt::format("'{}' is no text", name));
  return found->get<std::string>();
}

// The value whose name this is, of `count` values from 0 on.
template <typename Value>
Result<Value> value_of_name(const std::string& name, int count, const char* what) {
  for (int i = 0; i < count; ++i) {
    if (name == name_of(static_cast<Value>(i))) return static_cast<Value>(i);
  }
  return wrong(fmt::format("there is no {} '{}'", what, name));
}

Result<EndOfEvents> end_of(const json& object) {
  EndOfEvents end;
  TESSERA_TRY(end.events, number_field(object, "events"));
  TESSERA_TRY(end.lost, number_field(object, "lost"));
  return end;
}

// All but its source.
Result<Event> event_of(const json& object, const std::string& kind) {
  Event event;
  TESSERA_TRY(event.kind, value_of_name<EventKind>(kind, kEventKinds, "kind of event"));
  TESSERA_TRY(const std::int64_t stream, number_field(object, "stream"));
  TESSERA_TRY(const std::int64_t packet, number_field(object, "packet"));
  TESSERA_TRY(event.begin_ns, number_field(object, "begin_ns"));
  TESSERA_TRY(event.end_ns, number_field(object, "end_ns"));
  TESSERA_TRY(event.value, number_field(object, "value"));
  if (stream < 0 || stream > UINT32_MAX || packet < 0) {
    return wrong(fmt::format("stream {}, packet {}: out of range", stream, packet));
  }
  // Within 146 years of the start, so that differences of times fit.
  constexpr std::int64_t kFar = INT64_MAX / 2;
  if (event.begin_ns < -kFar || event.end_ns > kFar || event.end_ns < event.begin_ns) {
    return wrong(fmt::format("it begins at {} ns and ends at {}", event.begin_ns, event.end_ns));
  }
  event.stream = static_cast<std::uint32_t>(stream);
  event.packet = static_cast<std::uint64_t>(packet);
  if (object.contains("outcome")) {
    TESSERA_TRY(const std::string outcome, text_field(object, "outcome"));
    TESSERA_TRY(event.outcome, value_of_name<Outcome>(outcome, kOutcomes, "outcome"));
  }
  return event;
}

}  // namespace

Result<SourceId> EventLines::source(const std::string& name, const std::string& device) {
  const auto [found, is_new] = known_.try_emplace({name, device});
  if (!is_new) return found->second;
  if (sources_.size() == Recorder::kSourcesMax) {
    return wrong(fmt::format("'{}' is source {}, at most {} are possible", name,
                             sources_.size() + 1, Recorder::kSourcesMax));
  }
  found->second = {static_cast<std::uint16_t>(sources_.size())};
  sources_.emplace_back();
  sources_.back().description.name = name;
  sources_.back().description.device = device;
  return found->second;
}

Status EventLines::add(std::string_view line) {
  const json object = json::parse(line, nullptr, false);
  if (!object.is_object()) return wrong("it is no JSON object");
  if (end_.has_value()) return wrong("it stands behind the last line");
  TESSERA_TRY(const std::string kind, text_field(object, "kind"));
  if (kind == kEndOfEvents) {
    TESSERA_TRY(end_, end_of(object));
    return {};
  }
  TESSERA_TRY(Event event, event_of(object, kind));
  TESSERA_TRY(const std::string name, text_field(object, "source"));
  TESSERA_TRY(const std::string device, text_field(object, "device"));
  TESSERA_TRY(event.source, source(name, device));
  events_.push_back(event);
  return {};
}

}  // namespace tessera::metrics
