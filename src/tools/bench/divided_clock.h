// The same processor with every clock divided: what shows that a simulated cycle costs nothing.
#pragma once

#include "tools/verb.h"

namespace tessera::tools {

// Loads the model for the architecture with engines and task manager `divider` times as slow, in
// cycles of the undivided clock; the memory keeps its nanoseconds. Errors are those of ModelArguments::load(). `divider` is one of
// 1, 2, 4, 5, 8, 10 (an engine's clock is kept in thousandths of the core's).
Result<Network> load_with_divided_clock(const ModelArguments& arguments, int divider);

}  // namespace tessera::tools
