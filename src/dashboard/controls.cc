#include "dashboard/controls.h"

#include <fmt/format.h>

namespace tessera::dashboard {

Status Controls::choose(const std::string& name, const std::string&) {
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("there is nothing to choose as '{}'", name)};
}

}  // namespace tessera::dashboard
