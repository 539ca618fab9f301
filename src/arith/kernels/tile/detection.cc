#include "arith/kernels/tile/detection.h"

#include "arith/vector_targets.h"
// The sets left out are named in front of Highway.
#include <hwy/targets.h>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tessera::kernels::tiles {

std::int64_t detect() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return 0;
  constexpr unsigned kHalfFloats = 1u << 23, kTile = 1u << 24, kInt8 = 1u << 25;
  if ((d & kHalfFloats) == 0 || (d & kTile) == 0 || (d & kInt8) == 0) return 0;
  if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512vl")) {
    return 0;
  }
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0 ? HWY_AVX3_DL : 0;
}

}  // namespace tessera::kernels::tiles

#else

namespace tessera::kernels::tiles {

std::int64_t detect() { return 0; }

}  // namespace tessera::kernels::tiles

#endif
