// The profiles of arch/*.toml, compiled in. The .cc is written by cmake/embed_profiles.cmake.
#pragma once

#include <span>
#include <string_view>

namespace tessera {

struct BuiltinProfile {
  std::string_view name;       // "tessera128"
  std::string_view toml_text;  // the whole file
};

// In the order of their names.
std::span<const BuiltinProfile> builtin_profiles();

}  // namespace tessera
