// Where a side of TLS has its certificates.
#pragma once

#include <string>

namespace tessera::transport {

// PEM files. Both sides show a certificate, and each must be signed by `authority`. A client without certificate and
// key is refused by the server, which says so.
struct TlsFiles {
  std::string authority{}, certificate{}, key{};
};

// What is said of a peer where one side has certificates and the other has none; each names what to give.
inline constexpr const char* kPeerHasTls =
    "speaks TLS, and this side does not; give it --tls-authority, --tls-certificate and --tls-key "
    "(in "
    "a device's name tls_authority=, tls_certificate= and tls_key=)";
inline constexpr const char* kPeerHasNoTls =
    "does not speak TLS, and this side does; give both --tls-authority, --tls-certificate and "
    "--tls-key (in a device's name tls_authority=, tls_certificate= and tls_key=), or none";

}  // namespace tessera::transport
