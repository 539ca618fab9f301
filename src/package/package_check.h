// What must hold of a package's tables before anyone links or runs it: regions of sizes that exist,
// tensors that are those of its graph and lie in their regions, host steps that name host steps.
// Descriptors are not looked at; verify_program() does that for the linked program.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "package/package.h"

namespace tessera::package {

// Largest DRAM region a file may ask for, bytes.
inline constexpr std::int64_t kRegionBytesMax = std::int64_t{64} << 30;
// Ranges of its weights that a program may have elsewhere: each is read by itself, with a digest of its own.
inline constexpr std::size_t kWeightPartsMax = 16384;
// Workspace, inputs and outputs, each 0..kRegionBytesMax.
Status check_regions(std::int64_t workspace, std::int64_t inputs, std::int64_t outputs);

// What can be said without the graph: regions, segments, and what frames name.
Status check_unlinked(const isa::Unlinked& unlinked);
// `package.graph` is set and has passed graph::verify().
Status check_package(const Package& package);
// What is prepared for several cores; `package` has passed check_package().
Status check_prepared(const Package& package);

}  // namespace tessera::package
