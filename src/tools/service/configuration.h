// Options of a verb from a file, for programs that run on and on: TOML, a key for each long option.
//
//   # master.toml                      tessera master --config master.toml --port 7500
//   store = "etcd:127.0.0.1:2379"
//   port = 7400                        the command line counts
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tessera::tools {

// --config and --print-config, behind the verb's own options.
void add_configuration_options(CLI::App& verb);

struct ConfiguredWords {
  std::vector<std::string> words;  // of the command line behind the verb, those of the file first
  std::map<std::string, int> from_file;  // keys that count, with their lines
};

// What the file says that the words (of the command line, behind the verb) do not. kInvalidArgument: no TOML, an
// unknown key, another type or a value out of range, by file and line with what is allowed.
Result<ConfiguredWords> parse_configuration(std::string_view text, const std::string& file_name,
                                            CLI::App& verb, const std::vector<std::string>& words);
// Likewise with the file that --config names among the words; without it the words as they are.
Result<ConfiguredWords> with_configuration(CLI::App& verb, const std::vector<std::string>& words);

// After parsing, where --print-config is given: every setting with its value and where that is from, as a file that
// parses back, or as JSON.
bool prints_configuration(const CLI::App& verb);
std::string configuration_text(const CLI::App& verb, const ConfiguredWords& configured);

}  // namespace tessera::tools
