#pragma once

#include <cstdint>

namespace tessera::zoo {

// What a network is, without its weights.
struct Summary {
  std::int64_t nodes = 0;
  std::int64_t macs = 0;        // products only: convolutions and matrix products
  std::int64_t parameters = 0;  // weights and biases
};

}  // namespace tessera::zoo
