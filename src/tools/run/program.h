// `tessera run` of a program.
#pragma once

#include <string>

#include "tessera/network.h"
#include "tools/run/arguments.h"

namespace tessera::tools {

// A program (.tprog) or firmware text (.tasm) in place of a model.
bool is_program(const std::string& path);
Status run_program(const RunArguments& arguments);
// As a network for a processor of a cluster, which takes programs of one core.
Result<Network> load_program_for_cluster(const RunArguments& arguments, FileRoles& roles);

}  // namespace tessera::tools
