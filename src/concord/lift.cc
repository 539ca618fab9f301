#include "concord/lift.h"

#include "concord/lift_graph.h"
#include "concord/lift_groups.h"
#include "concord/lift_walk.h"
#include "program/verify.h"

namespace tessera::concord {

Result<std::shared_ptr<const graph::Graph>> lift(const program::Program& program,
                                                 const ChipConfig& chip,
                                                 const LiftOptions& options) {
  TESSERA_RETURN_IF_ERROR(program::verify_program(program, chip));
  // Layers whose tasks turn out not to be of one layer are taken apart, until the rest holds; there
  // are fewer layers to take apart each time.
  std::set<std::uint32_t> apart;
  for (;;) {
    TESSERA_TRY(const Groups groups, group_tasks(program, options.use_hints, apart));
    TESSERA_TRY(const Walk walk, walk_tags(program, chip, groups));
    if (!walk.broken.empty()) {
      apart.insert(walk.broken.begin(), walk.broken.end());
      continue;
    }
    TESSERA_TRY(LiftedGraph lifted, lifted_graph(program, groups, walk));
    if (lifted.graph != nullptr) return std::move(lifted.graph);
    apart.insert(lifted.circular.begin(), lifted.circular.end());
  }
}

}  // namespace tessera::concord
