// The digest's own functions: those with a choice of digests load providers first, which takes two megabytes
// and longer than all that a linked program has to be digested.
#define OPENSSL_API_COMPAT 0x10100000L

#include "package/sha256.h"

#include <fmt/format.h>
#include <openssl/sha.h>

#include "base/check.h"

namespace tessera::package {

Sha256 sha256(std::span<const std::span<const std::byte>> pieces) {
  static_assert(std::tuple_size_v<Sha256> == SHA256_DIGEST_LENGTH);
  Sha256 digest{};
  SHA256_CTX context;
  bool ok = SHA256_Init(&context) == 1;
  for (const std::span<const std::byte> piece : pieces) {
    ok = ok && SHA256_Update(&context, piece.data(), piece.size()) == 1;
  }
  ok = ok && SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &context) == 1;
  TESSERA_CHECK(ok, "SHA-256 of {} pieces", pieces.size());
  return digest;
}

std::string sha256_text(const Sha256& digest) {
  std::string text;
  for (const std::byte byte : digest) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

}  // namespace tessera::package
