#include "base/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace tessera {

std::vector<std::byte> zeros_in_huge_pages(std::size_t size) {
  constexpr std::uintptr_t kPage = std::uintptr_t{2} << 20;
  std::vector<std::byte> bytes;
  bytes.reserve(size);
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t first = (begin + kPage - 1) / kPage * kPage;
  const std::uintptr_t last = (begin + size) / kPage * kPage;
  // Advice: what a system makes of it changes no result.
  if (first < last) (void)madvise(bytes.data() + (first - begin), last - first, MADV_HUGEPAGE);
  bytes.resize(size);
  return bytes;
}

}  // namespace tessera
