// Names of nodes, tenants and allocations.
#pragma once

#include <string>

#include "base/result.h"

namespace tessera::cluster {

// 1 to 64 of a-z A-Z 0-9 . _ -
bool is_name(const std::string& text);
// kInvalidArgument; `what` it is of.
Status check_name(const std::string& what, const std::string& text);
// One that nobody guesses, and that no two have: 32 hexadecimal digits from the system's source of secrets.
std::string random_name();

}  // namespace tessera::cluster
