// Another program of this build or installation that takes the command's place.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace tessera::tools {

// The folder of the running program.
std::string program_folder();
// The first of these places, from that folder, where there is a file; else empty.
std::string find_program(const std::vector<std::string>& places);
// words[0] runs in this process, with the signals that it was started with. Returns only with an error.
Status become(std::vector<std::string> words);

// tessera-service with this process's own arguments: that of the build, or the installed one.
Status start_service();

}  // namespace tessera::tools
