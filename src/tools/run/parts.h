// `tessera run` of a model that no single network can be, since data decides what is computed (tessera/dynamic_network.h).
#pragma once

#include "tools/run/arguments.h"

namespace tessera::tools {

// Whether loading the model failed for that reason, so that run_in_parts() may do.
bool comes_in_parts(const RunArguments& arguments, const Error& error);
// `reason` is that error. Options of a single network are refused: a timeline, several cores, exceptions of values.
Status run_in_parts(const RunArguments& arguments, DeviceKind device, const Error& reason,
                    FileRoles roles);

}  // namespace tessera::tools
