#include "tools/memory_use.h"

#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace tessera::tools {
namespace {

// Code, constants and tables of relocations: pages of a file that nobody has written; dropping them loses nothing.
int drop_unwritten(dl_phdr_info* object, std::size_t, void*) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_W) != 0) continue;
    const std::uintptr_t begin = (object->dlpi_addr + part.p_vaddr + page - 1) / page * page;
    const std::uintptr_t end = (object->dlpi_addr + part.p_vaddr + part.p_memsz) / page * page;
    if (begin >= end) continue;
    // Where it fails they stay, which is no harm. NOLINTNEXTLINE(performance-no-int-to-ptr)
    (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
  return 0;
}

}  // namespace

void use_little_memory() {
#ifdef __GLIBC__
  constexpr int kLargeBytes = 64 << 10;
  mallopt(M_MMAP_THRESHOLD, kLargeBytes);
  mallopt(M_TRIM_THRESHOLD, kLargeBytes);
#endif
  dl_iterate_phdr(drop_unwritten, nullptr);
}

}  // namespace tessera::tools
