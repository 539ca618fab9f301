#include "arith/format.h"

#include <array>

#include "base/check.h"

namespace tessera {
namespace {

struct FormatRow {
  std::string_view name;
  std::int64_t bytes;
  bool is_float;
  bool is_integer;
  bool is_vector;
  bool is_affine;
};

// One row per format, in the order of the enumeration.
constexpr std::array<FormatRow, kFormatCount> kRows = {{
    {"f16", 2, true, false, true, false},
    {"bf16", 2, true, false, true, false},
    {"f32", 4, true, false, true, false},
    {"i8", 1, false, true, false, true},
    {"u8", 1, false, true, false, true},
    {"i16", 2, false, true, false, true},
    {"i32", 4, false, true, false, true},
    {"f64", 8, true, false, false, false},
    {"u16", 2, false, true, false, true},
    {"u32", 4, false, true, false, false},
    {"i64", 8, false, true, false, false},
    {"u64", 8, false, true, false, false},
    {"bool", 1, false, false, false, false},
}};

const FormatRow& row(Format format) {
  const auto index = static_cast<std::size_t>(format);
  TESSERA_CHECK(index < kRows.size(), "number format {} does not exist", index);
  return kRows[index];
}

}  // namespace

std::string_view format_name(Format format) { return row(format).name; }

std::optional<Format> format_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<Format>(i);
  }
  return std::nullopt;
}

std::int64_t format_bytes(Format format) { return row(format).bytes; }
bool format_is_float(Format format) { return row(format).is_float; }
bool format_is_integer(Format format) { return row(format).is_integer; }
bool format_is_vector(Format format) { return row(format).is_vector; }
bool format_is_affine(Format format) { return row(format).is_affine; }

}  // namespace tessera
