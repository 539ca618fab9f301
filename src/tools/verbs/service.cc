// tessera serve, master and node: options, help and messages are here, and tessera-service does the rest.
#include "tools/program.h"
#include "tools/service/arguments.h"
#include "tools/verb.h"

namespace tessera::tools {
namespace {

template <typename Arguments>
Action hand_over(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();  // the options point into it
  arguments->add_to(app);
  return [arguments] { return start_service(); };
}

}  // namespace

Action serve_verb(CLI::App& app) { return hand_over<ServeArguments>(app); }
Action master_verb(CLI::App& app) { return hand_over<MasterArguments>(app); }
Action node_verb(CLI::App& app) { return hand_over<NodeArguments>(app); }

}  // namespace tessera::tools
