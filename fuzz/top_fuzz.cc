// What `tessera top` is sent: any JSON is a screen that fits the terminal, or an error.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.h"
#include "tools/terminal/terminal.h"
#include "tools/terminal/top_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::tools;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const auto state = nlohmann::json::parse(text, nullptr, false);
  if (state.is_discarded()) return 0;
  const int columns = 80 + data[0] % 40;
  const auto screen = top_text(state, columns);
  if (!screen.ok()) return 0;
  for (const char c : fitted(*screen, "q quits", {columns, 24})) {
    const auto byte = static_cast<unsigned char>(c);
    TESSERA_CHECK(c == '\n' || (byte >= 32 && byte != 127), "byte {} steers the terminal", byte);
  }
  return 0;
}
