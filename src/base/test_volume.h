// For tests: how much of a long comparison is done.
#pragma once

#include <cstdlib>

namespace tessera {

// One in this number of the values or cases of a long comparison: all of them where
// TESSERA_TEST_WHOLE is set (`make test-long`), else one in `everyday`. The sanitizers take ten
// times as long and look at the code, not at its values: one in `sanitized`.
inline int visit_one_in([[maybe_unused]] int everyday, [[maybe_unused]] int sanitized) {
  if (std::getenv("TESSERA_TEST_WHOLE") != nullptr) return 1;
#ifdef TESSERA_SANITIZED
  return sanitized;
#else
  return everyday;
#endif
}

}  // namespace tessera
