// libFuzzer target of the importer: import_fuzz fuzz/corpus/import
#include <cstddef>
#include <cstdint>
#include <span>

#include "import_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::fuzz::import_target(std::as_bytes(std::span(data, size)));
  return 0;
}
