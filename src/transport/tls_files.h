// Where a side of TLS has its certificates.
#pragma once

#include <string>

namespace tessera::transport {

// PEM files. Both sides show a certificate, and each must be signed by `authority`. A client without certificate and
// key is refused by the server, which says so.
struct TlsFiles {
  std::string authority{}, certificate{}, key{};
};

}  // namespace tessera::transport
