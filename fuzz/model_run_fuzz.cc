// A model that is accepted is compiled and run, with the same bits everywhere.
#include <cstddef>
#include <cstdint>
#include <span>

#include "model_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::fuzz::model_target(std::as_bytes(std::span(data, size)));
  return 0;
}
