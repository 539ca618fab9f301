// A program with verbs: its command line is read, the verb's action runs, and its error and exit status
// are what the user gets.
#pragma once

#include <span>

#include "tools/verb.h"

namespace tessera::tools {

struct Verb {
  const char* name;
  const char* help;
  const char* example;
  Action (*make)(CLI::App&);
  bool listed = true;  // false: for the build of this program, no help names it
};

// All of main(): the exit status. What nothing has caught ends the program with a message.
int run_command_line(std::span<const Verb> verbs, int argc, char** argv);

}  // namespace tessera::tools
