// Calls with a JSON object each way, between masters and nodes. Behind the interface is the network, or a
// simulation's.
#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"

namespace tessera::cluster {

using Clock = std::function<std::chrono::steady_clock::time_point()>;

class Caller {
 public:
  virtual ~Caller() = default;
  // The peer's error as it is; kUnavailable: no answer in time, and it may have done it all the same.
  virtual Result<nlohmann::json> call(const std::string& endpoint, const nlohmann::json& request,
                                      std::chrono::milliseconds timeout) = 0;
};

}  // namespace tessera::cluster
