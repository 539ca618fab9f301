// `tessera run` of a program.
#pragma once

#include <string>

#include "tools/run/arguments.h"

namespace tessera::tools {

// A program (.tprog) or firmware text (.tasm) in place of a model.
bool is_program(const std::string& path);
Status run_program(const RunArguments& arguments);

}  // namespace tessera::tools
