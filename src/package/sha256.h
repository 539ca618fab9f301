// SHA-256, of files and of parts of them.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>

#include "isa/weights.h"

namespace tessera::package {

using isa::Sha256;

// Of these bytes, one span behind the other.
Sha256 sha256(std::span<const std::span<const std::byte>> pieces);
inline Sha256 sha256(std::span<const std::byte> bytes) { return sha256(std::span(&bytes, 1)); }
inline Sha256 sha256(std::initializer_list<std::span<const std::byte>> pieces) {
  return sha256(std::span(pieces.begin(), pieces.size()));
}
// In hexadecimal digits.
std::string sha256_text(const Sha256& digest);

}  // namespace tessera::package
