// tessera-service: the verbs that need gRPC, which takes its time to start. The command `tessera` has read
// the same arguments and started this in its place.
#include "tools/command_line.h"
#include "tools/service/actions.h"

namespace tessera::tools {
namespace {

constexpr Verb kVerbs[] = {
    {"serve", "what `tessera serve` does", "tessera serve --help", serve_action},
    {"cluster", "what `tessera cluster try` and `slurm` do", "tessera cluster --help",
     cluster_action},
    {"master", "what `tessera master` does", "tessera master --help", master_action},
    {"node", "what `tessera node` does", "tessera node --help", node_action},
};

}  // namespace
}  // namespace tessera::tools

int main(int argc, char** argv) {
  return tessera::tools::run_command_line(tessera::tools::kVerbs, argc, argv);
}
