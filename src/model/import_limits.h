// How much of an untrusted model file is read, and how.
#pragma once

#include <cstdint>

namespace tessera::model {

struct ImportLimits {
  std::int64_t file_bytes_max = std::int64_t{2} << 30;
  std::int64_t nodes_max = 200'000;
  std::int64_t tensor_bytes_max = std::int64_t{2} << 30;
  std::int64_t external_bytes_max = std::int64_t{16} << 30;  // all external data of a model
  int rank_max = 16;
  int subgraph_depth_max = 16;
  int function_depth_max = 64;                              // calls of functions in functions
  std::int64_t function_bytes_max = std::int64_t{1} << 28;  // of their bodies, written out
  bool contrib_operators = false;  // those of com.microsoft stay as the file has them
};

}  // namespace tessera::model
