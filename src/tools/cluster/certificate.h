// Until when certificates are valid.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace tessera::tools {

struct CertificateTimes {
  std::string subject;                         // as OpenSSL writes it: "CN = node1"
  std::int64_t from_unix = 0, until_unix = 0;  // seconds
};

// The one of a PEM file that ends first. kInvalidModel: it has none.
Result<CertificateTimes> read_certificate_times(const std::string& path);

}  // namespace tessera::tools
