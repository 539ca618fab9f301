// Where a peer is: "tcp:HOST:PORT", "shm:PATH", "ucx:HOST:PORT".
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace tessera::transport {

enum class Medium {
  kTcp,
  kSharedMemory,  // on one machine: rings in memory that both have mapped
  kUcx,           // RDMA, or TCP where there is none; an optional part of the build
};

struct Address {
  Medium medium = Medium::kTcp;
  // kTcp, kUcx: a name or an IP address, of version 6 without its brackets. kSharedMemory: the path of
  // the socket at which the two sides meet, at most 100 bytes.
  std::string host{};
  int port = 0;  // 0, for listening: any that is free

  std::string to_string() const;
  friend bool operator==(const Address&, const Address&) = default;
};

// "tcp:127.0.0.1:7000", "tcp:[::1]:7000", "shm:/run/tessera/node", "ucx:10.0.0.1:7000".
Result<Address> parse_address(std::string_view text);

}  // namespace tessera::transport
