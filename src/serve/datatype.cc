#include "serve/datatype.h"

#include <array>
#include <utility>

namespace tessera::serve {
namespace {

constexpr std::array<std::pair<Format, std::string_view>, kFormatCount> kDatatypes = {{
    {Format::kF16, "FP16"},
    {Format::kBf16, "BF16"},
    {Format::kF32, "FP32"},
    {Format::kI8, "INT8"},
    {Format::kU8, "UINT8"},
    {Format::kI16, "INT16"},
    {Format::kI32, "INT32"},
    {Format::kF64, "FP64"},
    {Format::kU16, "UINT16"},
    {Format::kU32, "UINT32"},
    {Format::kI64, "INT64"},
    {Format::kU64, "UINT64"},
    {Format::kBool, "BOOL"},
}};

}  // namespace

std::string_view datatype_of(Format format) {
  for (const auto& [of, name] : kDatatypes) {
    if (of == format) return name;
  }
  return "";
}

std::optional<Format> format_of(std::string_view datatype) {
  for (const auto& [format, name] : kDatatypes) {
    if (name == datatype) return format;
  }
  return std::nullopt;
}

}  // namespace tessera::serve
