// Operators of com.microsoft that are written out in those of the standard.
#pragma once

#include <string>
#include <vector>

namespace tessera::model {

std::vector<std::string> contrib_operators();  // sorted

}  // namespace tessera::model
