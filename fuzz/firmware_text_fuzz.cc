// Any text is a program, or an error that names its place; a program's text gives that program
// back.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "firmware/assembler.h"
#include "firmware/disassembler.h"
#include "package/container.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto program = firmware::assemble_card(text, "fuzz.tasm", {});
  if (!program.ok()) {
    TESSERA_CHECK(program.error().message.starts_with("fuzz.tasm"), "{}", program.error().message);
    return 0;
  }
  const auto again = firmware::assemble_card(firmware::disassemble(*program, {}), "again.tasm", {});
  TESSERA_CHECK(again.ok(), "{}", again.error().message);
  TESSERA_CHECK(*again == *program, "the text changed what no file has");
  TESSERA_CHECK(package::serialise(*again) == package::serialise(*program), "the text changed it");
  return 0;
}
