// Certificates for tests: an authority, and what it signs.
#pragma once

#include <string>

#include "transport/transport.h"

namespace tessera::transport::testing {

// Files in a folder. Each call makes an authority of its own.
class Authority {
 public:
  explicit Authority(std::string folder);
  ~Authority();
  // For the names and addresses of loopback, or for another name.
  TlsFiles sign(const std::string& common_name, const std::string& host = "localhost");

 private:
  struct State;
  std::string folder_;
  State* state_;
  int count_ = 0;
};

}  // namespace tessera::transport::testing
