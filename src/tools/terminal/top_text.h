// The screen of `tessera top`, from the state that a running pipeline's server sends.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"

namespace tessera::tools {

// Lines of at most `columns` (80 or more; 100 at most are used). An error where `state` is not what
// such a server sends.
Result<std::string> top_text(const nlohmann::json& state, int columns = 100);

}  // namespace tessera::tools
