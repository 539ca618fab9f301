// Any text is either a configuration that survives being written and read again, or an error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "arch/architecture_file.h"
#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = tessera::parse_chip_config(text, "fuzz.toml");
  if (!config.ok()) return 0;
  const auto again = tessera::parse_chip_config(tessera::describe(config.value()), "again.toml");
  TESSERA_CHECK(again.ok(), "{}", again.error().message);
  TESSERA_CHECK(fingerprint(again.value()) == fingerprint(config.value()), "changed on the way");
  return 0;
}
