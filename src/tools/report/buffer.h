// report --min-buffer: the smallest state buffer without spilling, and what less of it costs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "isa/program.h"
#include "tools/verb.h"

namespace tessera::tools {

// `roles`: what is read and written (files/roles.h).
Status min_buffer_report(const ModelArguments& arguments, const std::string& html, FileRoles roles);

// "state buffer: peak ... of ... bytes a partition; ...", one line.
std::string buffer_use_text(const NetworkState& state);
nlohmann::json buffer_use_json(const NetworkState& state);

}  // namespace tessera::tools
