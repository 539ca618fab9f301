// A cluster of processes beside this one, for measurements.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "tools/remote/background_process.h"

namespace tessera::tools {

struct StartedClusterOptions {
  std::string arch = "cloud16";
  bool is_timed = false;   // as `tessera node --timed`
  bool with_etcd = false;  // its records in an etcd, where there is one
};

// `tessera cluster try` with one node of one card.
class StartedCluster {
 public:
  // Waits until the node is there.
  static Result<std::unique_ptr<StartedCluster>> start(const StartedClusterOptions& options);

  const std::string& master() const { return master_; }  // HOST:PORT
  bool has_etcd() const { return has_etcd_; }

 private:
  StartedCluster() = default;

  std::unique_ptr<BackgroundProcess> process_;
  std::string master_;
  bool has_etcd_ = false;
};

}  // namespace tessera::tools
