// The element formats of tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera {

// The processor computes in f16, bf16, f32 and in integers of up to 32 bits; the others it moves
// and converts.
enum class Format : std::uint8_t {
  kF16,
  kBf16,
  kF32,
  kI8,
  kU8,
  kI16,
  kI32,
  kF64,
  kU16,
  kU32,
  kI64,
  kU64,
  kBool,
};
inline constexpr int kFormatCount = 13;

std::string_view format_name(Format format);  // "f16", "bf16", "f32", "i8", ...
// Of such a name; empty where there is no such format.
std::optional<Format> format_from_name(std::string_view name);
std::int64_t format_bytes(Format format);  // bytes per element

}  // namespace tessera
