#include "base/check.h"

#include <cstdio>
#include <cstdlib>

#include "tessera/visible_text.h"

namespace tessera {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s: %s\n", file, line, condition,
               visible_text(message, LineBreaks::kIndented).c_str());
  std::abort();
}

}  // namespace tessera
