// Runs a typed graph on the simulated core and on the reference executor, for tests that hold the
// two equal.
#pragma once

#include <memory>
#include <vector>

#include "arch/chip_config.h"
#include "arith/tensor.h"
#include "card/core.h"
#include "compile/compile.h"
#include "graph/graph.h"
#include "isa/program.h"

namespace tessera::agreement {

// Random values for the graph's inputs, from a seed.
std::vector<Tensor> random_inputs(const graph::Graph& graph, std::uint64_t seed);

// The graph's outputs by the reference executor.
Result<std::vector<Tensor>> run_reference(std::shared_ptr<const graph::Graph> graph,
                                          const std::vector<Tensor>& inputs);

// Compiled, linked and proved.
Result<isa::Program> build_program(std::shared_ptr<const graph::Graph> graph,
                                   const ChipConfig& chip, const compile::CompileOptions& options);

// The outputs of a program without host steps.
Result<std::vector<Tensor>> run_program(const isa::Program& program, const ChipConfig& chip,
                                        const std::vector<Tensor>& inputs,
                                        const card::CoreOptions& options);

}  // namespace tessera::agreement
