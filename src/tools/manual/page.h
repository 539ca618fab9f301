// Manual pages in the language of man(7): of the command, and of each of its verbs.
#pragma once

#include <string>

#include "tools/manual/command_description.h"

namespace tessera::tools {

// "tessera.1": all verbs with a line each, statuses, environment and files.
std::string manual_page(const CommandDescription& command, const std::string& version);

// "tessera-run.1": the verb's arguments and options. `verb` is one of `command.verbs`.
std::string verb_manual_page(const CommandDescription& command, const CommandDescription& verb,
                             const std::string& version);

}  // namespace tessera::tools
