#include "package/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <memory>
#include <new>

#include "base/check.h"

namespace tessera::package {

Sha256 sha256(std::span<const std::span<const std::byte>> pieces) {
  Sha256 digest{};
  unsigned int length = 0;
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  bool ok = context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  for (const std::span<const std::byte> piece : pieces) {
    ok = ok && EVP_DigestUpdate(context.get(), piece.data(), piece.size()) == 1;
  }
  ok = ok && EVP_DigestFinal_ex(context.get(), reinterpret_cast<unsigned char*>(digest.data()),
                                &length) == 1;
  if (!ok) throw std::bad_alloc();  // what it is short of
  TESSERA_CHECK(length == digest.size(), "SHA-256 gave {} bytes", length);
  return digest;
}

std::string sha256_text(const Sha256& digest) {
  std::string text;
  for (const std::byte byte : digest) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

}  // namespace tessera::package
