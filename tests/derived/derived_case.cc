#include "derived_case.h"

#include <fmt/format.h>

#include <algorithm>

#include "arch/architecture_file.h"
#include "compile/compile.h"
#include "concord/expand/expand.h"
#include "concord/lift/lift.h"
#include "device/program_run.h"
#include "firmware/assembler.h"
#include "firmware/testing/random_chains.h"
#include "graph/edge_blocks.h"
#include "link/link.h"
#include "model_case.h"
#include "network/firmware_file.h"
#include "network/network.h"
#include "package/container.h"
#include "random_models.h"
#include "tools/files/tensor_file.h"
#include "tools/verb.h"

namespace tessera::derived {
namespace {

Result<ChipConfig> chip_of(const Recipe& recipe) {
  TESSERA_TRY(ChipConfig chip, load_chip_config(recipe.arch));
  if (recipe.formats_of_tessera128) {
    TESSERA_TRY(const ChipConfig usual, load_chip_config("tessera128"));
    chip.formats = usual.formats;
  }
  if (recipe.native_dimension > 0) chip.formats.matrix.native_dimension = recipe.native_dimension;
  return chip;
}

Result<isa::Program> program_of_graph(const std::shared_ptr<const graph::Graph>& graph,
                                      const Recipe& recipe, const ChipConfig& chip) {
  TESSERA_TRY(const package::Package package,
              compile::compile(graph, chip, {.tile_budget_bytes = recipe.tile_budget_bytes}));
  TESSERA_TRY(const isa::Program linked, link::link(package, chip));
  // By way of its bytes: what they do not say is not derived.
  return package::parse_program(package::serialise(linked), recipe.source);
}

Result<isa::Program> program_of(const Recipe& recipe, const ChipConfig& chip) {
  const std::string chains = "chains:";
  if (recipe.source.starts_with(chains)) {
    firmware::AssembleOptions options;
    options.chip = &chip;
    const std::uint64_t seed = std::stoull(recipe.source.substr(chains.size()));
    return firmware::assemble(firmware::testing::random_chains(seed), recipe.source, options);
  }
  const std::string models = "graph:";
  if (recipe.source.starts_with(models)) {
    return program_of_graph(random_model(std::stoull(recipe.source.substr(models.size()))), recipe,
                            chip);
  }
  if (recipe.source.ends_with(".tasm")) return network::assemble_file(recipe.source, recipe.arch);
  LoadOptions load;
  for (const std::string& text : recipe.shapes) {
    TESSERA_TRY(const auto shape, tools::parse_shape(text));
    load.shapes[shape.first] = shape.second;
  }
  TESSERA_TRY(const auto graph, network::load_graph(recipe.source, chip, load));
  return program_of_graph(graph, recipe, chip);
}

bool fits(const std::vector<Tensor>& inputs, const std::vector<TensorDescription>& wanted) {
  return std::equal(inputs.begin(), inputs.end(), wanted.begin(), wanted.end(),
                    [](const Tensor& tensor, const TensorDescription& slot) {
                      return tensor.format == slot.format && tensor.dims == slot.dims;
                    });
}

Status add_stored_cases(const Recipe& recipe, const std::vector<TensorDescription>& wanted,
                        std::vector<tools::GoldenVector>& vectors) {
  if (recipe.model.empty()) return {};
  TESSERA_TRY(const auto stored, cases::read_cases(recipe.cases, recipe.model));
  for (const cases::ModelCase& one : stored) {
    if (static_cast<int>(vectors.size()) * 2 >= recipe.vectors) break;
    tools::GoldenVector vector{one.name, {}, {}};
    for (const cases::CaseTensor& row : one.inputs) {
      TESSERA_TRY(Tensor tensor, cases::read_case_input(recipe.cases, row));
      vector.inputs.push_back(std::move(tensor));
    }
    if (fits(vector.inputs, wanted)) vectors.push_back(std::move(vector));
  }
  return {};
}

// Real ones where there are any, then random ones and edge values in turn.
Result<std::vector<tools::GoldenVector>> inputs_of(const Recipe& recipe,
                                                   const std::vector<TensorDescription>& wanted) {
  std::vector<tools::GoldenVector> vectors;
  TESSERA_RETURN_IF_ERROR(add_stored_cases(recipe, wanted, vectors));
  TESSERA_TRY(const tools::ImagePreprocessing pixels,
              tools::parse_preprocessing("mean=127.5,127.5,127.5;std=127.5,127.5,127.5"));
  for (const std::string& picture : recipe.pictures) {
    if (static_cast<int>(vectors.size()) >= recipe.vectors) break;
    TESSERA_TRY(Tensor tensor, tools::read_input(picture, wanted[0], 0, pixels));
    vectors.push_back({picture, {std::move(tensor)}, {}});
  }
  for (std::uint64_t seed = 0; static_cast<int>(vectors.size()) < recipe.vectors; ++seed) {
    const bool edges = seed % 3 == 1;
    tools::GoldenVector vector{fmt::format("{}:{}", edges ? "edges" : "random", seed), {}, {}};
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      vector.inputs.push_back(edges ? tools::edge_tensor(wanted[i], seed / 3, i)
                                    : tools::random_tensor(wanted[i], seed, i));
    }
    vectors.push_back(std::move(vector));
  }
  return vectors;
}

}  // namespace

Result<concord::Software> derive_recipe(const Recipe& recipe) {
  TESSERA_TRY(const ChipConfig chip, chip_of(recipe));
  TESSERA_TRY(const isa::Program program, program_of(recipe, chip));
  TESSERA_TRY(const auto graph, concord::lift(program, chip));
  return concord::expand(graph::dense_edges(*graph));
}

Result<Case> make_case(const Recipe& recipe) {
  Case made;
  made.recipe = recipe;
  TESSERA_TRY(const ChipConfig chip, chip_of(recipe));
  TESSERA_TRY(isa::Program program, program_of(recipe, chip));
  TESSERA_TRY(const auto lifted, concord::lift(program, chip));
  made.graph = std::make_shared<const graph::Graph>(graph::dense_edges(*lifted));
  TESSERA_TRY(made.software, concord::expand(*made.graph));
  TESSERA_TRY(const auto processor, device::ProgramRun::create(std::move(program), chip, {}));
  TESSERA_TRY(made.vectors, inputs_of(recipe, processor->inputs()));
  for (tools::GoldenVector& vector : made.vectors) {
    TESSERA_TRY(RunResult run, processor->run(vector.inputs));
    vector.outputs = std::move(run.outputs);
    for (const Tensor& output : vector.outputs) made.values += element_count(output.dims);
  }
  return made;
}

}  // namespace tessera::derived
