// Digests of files that a text names.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace tessera::firmware {

// SHA-256 in hexadecimal digits.
std::string sha256_text(std::span<const std::byte> bytes);

}  // namespace tessera::firmware
