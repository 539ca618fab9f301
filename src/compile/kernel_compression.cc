#include "compile/kernel_compression.h"

#include <algorithm>

#include "arch/cost.h"
#include "arch/dram_config.h"

namespace tessera::compile {
namespace {

constexpr std::int64_t kSavedShareMin = 64;

// Until the last element is in kernel memory: what is slower, the channel or the expansion.
Cycles arrival_cycles(const ChipConfig& chip, std::int64_t stored_bytes, Cycles extraction) {
  return std::max(dram_costs(chip).cycles(stored_bytes), extraction);
}

}  // namespace

KernelStream best_kernel_form(const ChipConfig& chip, const KernelRows& image,
                              const KernelImageShape& shape) {
  const auto element_bytes = static_cast<std::uint32_t>(format_bytes(shape.format));
  const std::int64_t image_bytes = shape.bytes_per_partition();
  const std::int64_t plain_bytes = image.partitions * image.bytes;
  const Cycles plain = arrival_cycles(chip, plain_bytes, 0);
  const Cycles extraction =
      kernel_extraction_cycles(chip.neural, image.partitions * image_bytes / element_bytes);
  KernelStream best;
  auto fewest = static_cast<std::uint64_t>(plain_bytes - ceil_div(plain_bytes, kSavedShareMin));
  for (const KernelStream& form :
       kernel_stream_forms(image, element_bytes, static_cast<std::uint32_t>(image_bytes))) {
    const auto bytes = static_cast<std::int64_t>(form.stored_bytes);
    if (form.stored_bytes >= fewest || arrival_cycles(chip, bytes, extraction) > plain) continue;
    best = form;
    fewest = form.stored_bytes;
  }
  return best;
}

}  // namespace tessera::compile
