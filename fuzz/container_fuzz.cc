// The contents of any package or program are refused, or pass the verifier.
#include <cstddef>
#include <cstdint>
#include <span>

#include "program_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::fuzz::container_target(std::as_bytes(std::span(data, size)));
  return 0;
}
