// The instruction sets that vector sources are compiled for; included before Highway.
//
// Left out: SSSE3, whose processors take the plain form, and ARM's scalable vectors, whose length
// is not known when compiling. The sanitizers look at the code, not at its values, and vector code
// with them takes long to compile: they also leave out the set below another one of the same code.
#pragma once

#ifndef TESSERA_SANITIZED
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#elif defined(HWY_WANT_AVX3_DL)
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#else
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif
