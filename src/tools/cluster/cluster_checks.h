// What can be seen to be wrong with a cluster, and what to do about it: `tessera doctor --cluster`.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cluster/channel.h"

namespace tessera::tools {

struct ClusterCheck {
  enum class Outcome : std::uint8_t { kOk, kWarning, kError };
  std::string check;    // "master", "store", "daemons", "clocks", "versions", "certificates", ...
  std::string subject;  // an endpoint, a node or a file
  Outcome outcome = Outcome::kOk;
  std::string detail;  // what was found
  std::string remedy;  // what to do; empty where it is well
};
const char* outcome_name(ClusterCheck::Outcome outcome);  // "ok", "warning", "error"

struct ClusterCheckOptions {
  std::vector<std::string> masters = {};       // HOST:PORT
  std::vector<std::string> certificates = {};  // PEM files
  std::string tenant = {}, token = {};
  std::string version = {};  // of this program
  std::chrono::milliseconds patience{3000};
  // From when on an amount is an error or a warning.
  std::int64_t clock_error_ms = 1000, clock_warning_ms = 200;
  int certificate_warning_days = 30, certificate_error_days = 7;
  double free_warning = 0.10, free_error = 0.03;  // of a file system
};

// Asks the masters and, by what they say, each node. `dialer` reaches both.
std::vector<ClusterCheck> check_cluster(const ClusterCheckOptions& options,
                                        cluster::Dialer& dialer);

}  // namespace tessera::tools
