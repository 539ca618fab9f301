// What bash, zsh and fish complete behind the command: verbs, options, values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/manual/command_description.h"

namespace tessera::tools {

// Values that are offered where the command line states no set of them.
struct KnownValues {
  std::string verb;  // empty: of all verbs
  std::string name;  // of the option or argument
  std::vector<std::string> values;
  bool files = false;  // names of files, too
};

// A script for each shell. An option takes the values that the command line states, or else those
// of `known`; other texts are names of files, and nothing is offered for a number.
std::string bash_completion(const CommandDescription& command,
                            const std::vector<KnownValues>& known);
std::string zsh_completion(const CommandDescription& command,
                           const std::vector<KnownValues>& known);
std::string fish_completion(const CommandDescription& command,
                            const std::vector<KnownValues>& known);

}  // namespace tessera::tools
