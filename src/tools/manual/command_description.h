// The command line as data: what manual pages and shells need to know of it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tessera::tools {

// An option, or an argument that has a place in place of a name.
struct OptionDescription {
  std::vector<std::string> names;  // "-o", "--output", short ones first; an argument's one name
  std::string help;
  std::string value;                 // what stands for its value, "INT"; empty: it takes none
  std::string range;                 // "INT in [1 - 64]"; empty: none is stated
  std::vector<std::string> choices;  // the only values, where the command line states them
  std::string default_value;         // empty: none is stated
  std::vector<std::string> needs, excludes;  // names of other options
  bool argument = false;
  bool required = false;
  bool repeated = false;  // may be given several times

  // The name that says most: "--output".
  const std::string& name() const { return names.back(); }
};

// A verb, or with its verbs the command itself.
struct CommandDescription {
  std::string name, help;
  std::string example;  // one line; empty: none
  std::string notes;    // lines behind the example; may be empty
  std::vector<OptionDescription> options;
  std::vector<CommandDescription> verbs;
};

// What `tessera --help` and `tessera VERB --help` show, in their order: options and verbs of the
// empty group are left out, as they are there.
CommandDescription describe(const CLI::App& app);

}  // namespace tessera::tools
