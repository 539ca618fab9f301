// The files that `tessera trace` reads: lines of events, whole or not.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "metrics/event_lines.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  metrics::EventLines lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    (void)lines.add(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  // What was taken can be written in both forms.
  const std::string again = metrics::json_lines_text(lines.events(), lines.sources());
  TESSERA_CHECK(lines.events().empty() == again.empty(), "{} events, {} bytes",
                lines.events().size(), again.size());
  TESSERA_CHECK(!metrics::perfetto_text(lines.events(), lines.sources()).empty(), "a trace");
  return 0;
}
