// Any text that assembles is a program whose layers can be read back and which gives the same bits
// on all devices.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "arch/architecture_file.h"
#include "arch/chip_config.h"
#include "firmware/assembler.h"
#include "foreign_program.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  static const ChipConfig chip = load_chip_config("tessera128").value();
  firmware::AssembleOptions options;
  options.chip = &chip;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto program = firmware::assemble(text, "fuzz.tasm", options);
  if (program.ok()) fuzz::foreign_program(*program, chip);
  return 0;
}
