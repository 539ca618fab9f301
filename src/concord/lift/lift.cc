#include "concord/lift/lift.h"

#include <fmt/format.h>

#include <algorithm>

#include "concord/lift/graph.h"
#include "concord/lift/groups.h"
#include "concord/lift/message_matrices.h"
#include "concord/lift/tags.h"
#include "concord/lift/walk.h"
#include "isa/verify.h"

namespace tessera::concord {
namespace {

// A tag counts granules in 32 bits.
Status check_sizes(const isa::Program& program, const LiftOptions& options) {
  const std::int64_t bytes_max =
      std::min((granule_bytes(program) << 32) - 1, options.region_bytes_max);
  const auto check = [&](const char* region, std::int64_t bytes) -> Status {
    if (bytes <= bytes_max) return {};
    return Error{ErrorCode::kDoesNotFit,
                 fmt::format("the program's {} has {} bytes; layers can be read back out of a "
                             "program with at most {}",
                             region, bytes, bytes_max)};
  };
  TESSERA_RETURN_IF_ERROR(check("workspace", program.workspace_bytes));
  TESSERA_RETURN_IF_ERROR(check("input region", program.input_bytes));
  TESSERA_RETURN_IF_ERROR(check("output region", program.output_bytes));
  return check("weight region", std::ssize(program.weights));
}

Result<std::shared_ptr<const graph::Graph>> lift_verified(const isa::Program& program,
                                                          const ChipConfig& chip,
                                                          const LiftOptions& options) {
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

}  // namespace

Result<std::shared_ptr<const graph::Graph>> lift(const isa::Program& program,
                                                 const ChipConfig& chip,
                                                 const LiftOptions& options) {
  TESSERA_RETURN_IF_ERROR(isa::verify_program(program, chip));
  TESSERA_RETURN_IF_ERROR(check_sizes(program, options));
  TESSERA_TRY(const auto surfaces, surfaces_for_matrices(program, chip));
  return surfaces ? lift_verified(surfaces->program, surfaces->chip, options)
                  : lift_verified(program, chip, options);
}

}  // namespace tessera::concord
