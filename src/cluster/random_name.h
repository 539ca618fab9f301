// Names that nobody guesses, and that no two have.
#pragma once

#include <string>

namespace tessera::cluster {

// 32 hexadecimal digits from the system's source of secrets.
std::string random_name();

}  // namespace tessera::cluster
