// Any bytes are a task descriptor that survives being written and read again, or an error.
#include <cstddef>
#include <cstdint>
#include <span>

#include "program_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::fuzz::descriptor_target(std::as_bytes(std::span(data, size)));
  return 0;
}
