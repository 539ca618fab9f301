// For tests only: every instruction set that the vector code was compiled for.
#pragma once

#include "arith/vector_targets.h"
// The sets left out are named in front of Highway.
#include <hwy/targets.h>

#include <cstdint>
#include <string>

namespace tessera::arith {

// Runs body(name) once for each instruction set this processor has, with the run-time choice bound
// to it, and sets the choice free at the end. Not for concurrent use.
template <typename Body>
void for_each_target(const Body& body) {
  for (const std::int64_t target :
       {HWY_SCALAR, HWY_SSE4, HWY_AVX2, HWY_AVX3, HWY_AVX3_DL, HWY_NEON}) {
    const bool available =
        target == HWY_SCALAR || (hwy::SupportedTargets() & HWY_TARGETS & target) != 0;
    if (!available) continue;
    hwy::GetChosenTarget().Update(target);
    body(std::string(hwy::TargetName(target)));
  }
  hwy::GetChosenTarget().DeInit();
}

}  // namespace tessera::arith
