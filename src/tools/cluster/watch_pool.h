// The page of a cluster's pool: asks the master again and again, and serves what it says.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"

namespace tessera::tools {

// A request to whichever master leads.
using PoolQuestion = std::function<Result<nlohmann::json>(nlohmann::json request)>;

struct WatchPoolArguments {
  std::string http = "8080";  // PORT or ADDRESS:PORT
  std::string file;           // shown instead of a cluster; or empty
  double seconds = 0;         // 0: until a signal
  bool json = false;
};

Status watch_pool(const WatchPoolArguments& arguments, const PoolQuestion& ask);

}  // namespace tessera::tools
