// The state of reading the tensors of one model.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "model/import_limits.h"

namespace tessera::model {

// What the tensors of one model share.
struct TensorImport {
  ImportLimits limits;
  std::string folder;                    // where external data may lie; "" = none allowed
  std::int64_t external_bytes = 0;       // read so far, checked against limits.external_bytes_max
  std::set<std::string> external_files;  // that they were read from
};

}  // namespace tessera::model
