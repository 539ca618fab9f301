// What a program has in common with its package, found by its bytes: kernels are cut for several cores in
// other ways than for one, and where a cut ends no byte changes.
//
//   program   [ a b | x | c d e ]        a b and c d e: in the package, by offset and digest
//   package   [ a b . . c d e . ]        x: in the program's own section
#pragma once

#include <cstddef>
#include <span>

#include "isa/unlinked.h"

namespace tessera::package {

// Notes in `program`, all of which is read, where ranges of its weights and constants of its host steps
// lie in the package: `unlinked` is that without its section, `weights` its weight region.
void find_in_package(const isa::Unlinked& unlinked, std::span<const std::byte> weights,
                     isa::Program& program);

}  // namespace tessera::package
