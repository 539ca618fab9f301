// Any bytes are a tensor that survives being written and read again, or an error.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "tools/files/tensor_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  const auto tensor = tools::parse_npy(std::as_bytes(std::span(data, size)), "fuzz.npy");
  if (!tensor.ok()) {
    TESSERA_CHECK(tensor.error().message.starts_with("reading 'fuzz.npy': "), "{}",
                  tensor.error().message);
    return 0;
  }
  TESSERA_CHECK(static_cast<std::int64_t>(tensor->bytes.size()) ==
                    element_count(tensor->dims) * format_bytes(tensor->format),
                "a tensor of {} bytes", tensor->bytes.size());
  const auto bytes = tools::npy_bytes(*tensor, "again.npy");
  TESSERA_CHECK(bytes.ok(), "{}", bytes.error().message);
  const auto again = tools::parse_npy(*bytes, "again.npy");
  TESSERA_CHECK(again.ok(), "{}", again.error().message);
  TESSERA_CHECK(*again == *tensor, "changed on the way");
  return 0;
}
