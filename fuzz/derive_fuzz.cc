// The contents of any package or program that the checks pass, as container_fuzz has them: read
// back to layers, written as software, and run.
#include <cstddef>
#include <cstdint>
#include <span>

#include "foreign_program.h"
#include "program_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  static const ChipConfig chip;
  const auto program = fuzz::program_of(std::as_bytes(std::span(data, size)));
  if (program.ok()) fuzz::foreign_program(*program, chip);
  return 0;
}
