// A graph on its way to a verified program, for tests.
#pragma once

#include <memory>

#include "compile/compile.h"
#include "graph/graph.h"
#include "isa/program.h"

namespace tessera::compile::testing {

// Compiles, links and verifies; an error fails the test that calls.
isa::Program build(std::shared_ptr<const graph::Graph> graph, const ChipConfig& chip,
                   const CompileOptions& options = {});

}  // namespace tessera::compile::testing
