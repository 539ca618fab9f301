#include "firmware/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include "base/check.h"

namespace tessera::firmware {

std::string sha256_text(std::span<const std::byte> bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  const int ok = EVP_Digest(bytes.data(), bytes.size(), digest, &length, EVP_sha256(), nullptr);
  TESSERA_CHECK(ok == 1, "SHA-256 of {} bytes", bytes.size());
  std::string text;
  for (unsigned int i = 0; i < length; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

}  // namespace tessera::firmware
