// Any text is a typed graph that keeps its rules, or an error.
#include <cstddef>
#include <cstdint>

#include "program_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::fuzz::graph_text_target({reinterpret_cast<const char*>(data), size});
  return 0;
}
