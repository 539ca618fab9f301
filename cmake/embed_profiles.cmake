# cmake -D OUTPUT=x.cc -D "PROFILES=a.toml;b.toml" -P embed_profiles.cmake
# Writes the architecture files into a C++ source as raw strings (see src/arch/builtin_profiles.h).
set(rows "")
foreach(file IN LISTS PROFILES)
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  string(APPEND rows "    BuiltinProfile{\"${name}\", R\"toml(${text})toml\"},\n")
endforeach()
file(WRITE ${OUTPUT} "// Written by cmake/embed_profiles.cmake from arch/*.toml.
#include \"arch/builtin_profiles.h\"

#include <array>

namespace tessera {
namespace {

constexpr std::array kProfiles = {
${rows}};

}  // namespace

std::span<const BuiltinProfile> builtin_profiles() { return kProfiles; }

}  // namespace tessera
")
