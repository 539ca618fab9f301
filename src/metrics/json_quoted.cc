#include "metrics/json_quoted.h"

#include <nlohmann/json.hpp>

namespace tessera::metrics {

std::string json_quoted(const std::string& text) {
  using nlohmann::json;
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace tessera::metrics
