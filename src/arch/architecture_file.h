// Architecture files (arch/*.toml): read once, checked, with an error that names file, line, key
// and allowed range; and the digest and the printed forms of what they say.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "arch/chip_config.h"
#include "base/result.h"

namespace tessera {

// Reads a profile by name ("tessera128") from the installed or built-in profiles, or a file by path
// (anything with a '/' or ending in .toml). Behind a '+' may stand other number formats
// (arch/format_choice.h): "tessera128+mxfp8e4m3", also as the configuration's name.
Result<ChipConfig> load_chip_config(const std::string& name_or_path);
Result<ChipConfig> parse_chip_config(std::string_view toml_text, const std::string& file_name);
// The built-in profiles, compiled in from arch/*.toml.
std::span<const std::string_view> builtin_chip_names();

// A digest of every field of a core and its memory; packages carry it. Those of the host and of the
// card around the core are not in it: a package runs on any number of cores.
std::uint64_t fingerprint(const ChipConfig& config);
// The same with the fields of the card; programs of several cores carry it.
std::uint64_t card_fingerprint(const ChipConfig& config);

// Every key with its value and meaning, one a line: an architecture file that parses back.
std::string describe(const ChipConfig& config);
// The text of docs/formats/architecture_file.md.
std::string chip_config_markdown();

}  // namespace tessera
