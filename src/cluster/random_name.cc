#include "cluster/random_name.h"

#include <fmt/format.h>

#include <random>

namespace tessera::cluster {

std::string random_name() {
  std::random_device source;
  std::string text;
  for (int i = 0; i < 4; ++i) text += fmt::format("{:08x}", source());
  return text;
}

}  // namespace tessera::cluster
