// Events back from the JSON lines that json_lines_text() and EventFile write, to make a trace of
// them. Foreign bytes: every field is checked.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "metrics/exports.h"

namespace tessera::metrics {

class EventLines {
 public:
  // One line without its newline. The error says what is wrong with it.
  Status add(std::string_view line);

  std::vector<Event>& events() { return events_; }
  // What the events' sources are: name and device; the lines do not say more.
  const SourceStates& sources() const { return sources_; }
  // The last line of a file that was closed.
  const std::optional<EndOfEvents>& end() const { return end_; }

 private:
  Result<SourceId> source(const std::string& name, const std::string& device);

  std::vector<Event> events_;
  SourceStates sources_;
  std::map<std::pair<std::string, std::string>, SourceId> known_;
  std::optional<EndOfEvents> end_;
};

}  // namespace tessera::metrics
