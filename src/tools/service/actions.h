// What tessera-service does of the verbs that the command hands over to it.
#pragma once

#include "tools/verb.h"

namespace tessera::tools {

Action serve_action(CLI::App& app);
Action cluster_action(CLI::App& app);  // try, slurm
Action master_action(CLI::App& app);
Action node_action(CLI::App& app);

}  // namespace tessera::tools
