// `tessera run` of several networks on one core.
#pragma once

#include "tools/run/arguments.h"

namespace tessera::tools {

// --priority, --arrival or --share beside a single network is an error.
Status check_alone(const RunArguments& arguments);
// The networks of `arguments.model.model` and `arguments.others`. What each gave is printed, also
// where one was stopped; then the result is an error.
Status run_shared(const RunArguments& arguments);

}  // namespace tessera::tools
