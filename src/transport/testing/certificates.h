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
  // For the names and addresses of loopback, or for another name; "IP:ADDRESS": for an address.
  TlsFiles sign(const std::string& common_name, const std::string& host = "localhost");
  // For loopback, and an hour ago it was valid no more.
  TlsFiles sign_expired(const std::string& common_name);

 private:
  struct State;
  TlsFiles sign_until(const std::string& common_name, const std::string& host, long seconds);
  std::string folder_;
  State* state_;
  int count_ = 0;
};

}  // namespace tessera::transport::testing
