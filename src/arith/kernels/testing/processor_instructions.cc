#include "arith/kernels/testing/tile_instructions-inl.h"

namespace tessera::kernels::testing {

std::vector<Instruction> processor_instructions() { return all_instructions(); }

}  // namespace tessera::kernels::testing
