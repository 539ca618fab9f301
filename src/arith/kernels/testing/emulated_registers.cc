#include "arith/kernels/testing/emulated_registers.h"

#include "base/check.h"

namespace tessera::kernels::emulated {

void expect_aligned(const void* address, std::size_t alignment) {
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  TESSERA_CHECK(number % alignment == 0, "address {:#x} of {} aligned bytes", number, alignment);
}

}  // namespace tessera::kernels::emulated
