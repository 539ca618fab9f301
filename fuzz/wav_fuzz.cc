// Any bytes are either a recording, with no more samples than they hold, or an error.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "wav.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto recording = speech::parse_wav(std::as_bytes(std::span(data, size)), "f");
  if (!recording.ok()) return 0;
  TESSERA_CHECK(recording->samples.size() * 2 <= size, "{} samples of {} bytes",
                recording->samples.size(), size);
  return 0;
}
