// Files of secrets: keys, tokens, passwords.
#pragma once

#include <string>

#include "base/result.h"

namespace tessera {

// Refuses one that others than its owner may read or change, with what to do; one of root may be
// readable by its group, of which the account of a service is. What is not there is left to whoever reads it.
Status check_secret_file(const std::string& path);

}  // namespace tessera
