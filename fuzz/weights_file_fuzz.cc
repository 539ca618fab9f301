// Any bytes are either tensors by name, each with as many bytes as its shape says, or an error.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "tools/files/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto tensors = tessera::tools::parse_safetensors(std::as_bytes(std::span(data, size)), "f");
  if (!tensors.ok()) return 0;
  for (const auto& [name, tensor] : *tensors) {
    const auto bytes = static_cast<std::size_t>(tessera::element_count(tensor.dims) *
                                                tessera::format_bytes(tensor.format));
    TESSERA_CHECK(tensor.bytes.size() == bytes && bytes <= size, "tensor '{}' has other bytes",
                  name);
  }
  return 0;
}
