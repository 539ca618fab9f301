#include "base/freed_memory.h"

#include <cstdlib>  // says which library it is
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace tessera {

void give_back_freed_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace tessera
