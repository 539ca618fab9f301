// A cluster on this machine, to try.
#pragma once

#include <string>

#include "base/result.h"

namespace tessera::tools {

struct TryArguments {
  int nodes = 4, cards = 1, port = 7400;
  std::string arch = "cloud16";
  bool etcd = false;
  double seconds = 0;
  bool json = false;
};

// Runs until it is time, or a signal.
Status try_cluster(const TryArguments& arguments);

}  // namespace tessera::tools
