#include "operator_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "arch/architecture_file.h"
#include "concord/expand/expand.h"
#include "concord/interpret.h"
#include "concord/lift/lift.h"
#include "firmware/assembler.h"
#include "firmware/disassembler.h"
#include "graph/build.h"
#include "host/executor.h"
#include "model/evaluate.h"
#include "network/network.h"
#include "package/container.h"
#include "random_runs.h"

namespace tessera::agreement {
namespace {

using graph::testing::TestModel;

constexpr std::uint64_t kSeed = 20260401;

// The operator's definition, node by node.
std::vector<Tensor> evaluated(const model::Model& model, const std::vector<Tensor>& inputs) {
  std::map<std::string, Tensor> values(model.graph.initializers.begin(),
                                       model.graph.initializers.end());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    values[model.graph.inputs[i].name] = inputs[i];
  }
  for (const model::Node& node : model.graph.nodes) {
    std::vector<const Tensor*> operands;
    for (const std::string& name : node.inputs) {
      operands.push_back(name.empty() ? nullptr : &values.at(name));
    }
    auto results = model::evaluate(node, model.opsets.at(""), operands);
    EXPECT_TRUE(results.ok()) << results.error().to_string();
    if (!results.ok()) return {};
    for (std::size_t i = 0; i < node.outputs.size(); ++i) values[node.outputs[i]] = (*results)[i];
  }
  std::vector<Tensor> outputs;
  for (const model::ValueInfo& output : model.graph.outputs) {
    outputs.push_back(values.at(output.name));
  }
  return outputs;
}

void expect_close(const Tensor& expected, const Tensor& found) {
  const std::vector<double> a = graph::reals(expected);
  const std::vector<double> b = graph::reals(found);
  ASSERT_EQ(expected.dims, found.dims);
  if (!format_is_float(expected.format)) {
    ASSERT_TRUE(expected == found) << "integers differ from the definition";
    return;
  }
  double range = 0.0;
  for (const double value : a) range = std::max(range, std::isfinite(value) ? std::abs(value) : 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    ASSERT_LE(std::abs(a[i] - b[i]), 1e-5 * range + 1e-4 * std::abs(a[i])) << "element " << i;
  }
}

void expect_same(const Result<std::vector<Tensor>>& expected,
                 const Result<std::vector<Tensor>>& found, const char* device) {
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  ASSERT_EQ(expected->size(), found->size());
  for (std::size_t i = 0; i < expected->size(); ++i) {
    EXPECT_TRUE((*expected)[i] == (*found)[i]) << "output " << i << " on " << device;
  }
}

const ChipConfig& chip_of(const std::string& profile) {
  static std::map<std::string, ChipConfig> chips;
  const auto found = chips.find(profile);
  return found != chips.end() ? found->second : chips[profile] = *load_chip_config(profile);
}

// What is read out of the program again, and the software derived from it.
void expect_derived(const Result<std::vector<Tensor>>& expected, const isa::Program& program,
                    const ChipConfig& chip, const std::vector<Tensor>& inputs) {
  const auto lifted = concord::lift(program, chip);
  ASSERT_TRUE(lifted.ok()) << lifted.error().to_string();
  expect_same(expected, run_reference(*lifted, inputs), "ref, lifted");
  const auto software = concord::expand(**lifted);
  ASSERT_TRUE(software.ok()) << software.error().to_string();
  expect_same(expected, concord::interpret(*software, inputs), "derived software");
}

// Firmware text and back.
void expect_text(const isa::Program& program, const ChipConfig& chip) {
  firmware::AssembleOptions options;
  options.chip = &chip;
  const auto again = firmware::assemble(firmware::disassemble(program, {}), "again", options);
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_TRUE(package::serialise(*again) == package::serialise(program)) << "the text of a program";
}

bool has_host_step(const graph::Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const graph::Node& node) {
    return node.kind() == graph::NodeKind::kHostStep;
  });
}

}  // namespace

Shape random_shape(Maker& maker, std::size_t rank, std::int64_t most) {
  constexpr std::int64_t kExtents[] = {1, 2, 2, 3, 3, 5, 7};
  Shape dims(rank);
  std::int64_t elements = 1;
  for (std::int64_t& dim : dims) {
    dim = kExtents[maker.pick(0, rank > 5 ? 4 : 6)];
    if (elements * dim > most) dim = 1;
    elements *= dim;
  }
  for (std::size_t i = rank; i-- > 1;) {  // the last ones would be short
    std::swap(dims[i], dims[static_cast<std::size_t>(maker.pick(0, static_cast<std::int64_t>(i)))]);
  }
  return dims;
}

void check_on(const std::string& profile, const TestModel& test, std::uint64_t seed,
              const Check& check) {
  SCOPED_TRACE(::testing::Message() << profile << ", seed " << seed);
  const ChipConfig& chip = chip_of(profile);
  graph::BuildOptions options;
  options.vector_format = chip.formats.vector;
  options.matrix = chip.formats.matrix;
  options.quantise_vector_inputs = chip.formats.vector_inputs == VectorInputs::kQuantised;
  options.require_full_offload = check.offload;
  options.quantised_bytes = chip.formats.quantised_bytes;
  auto plain = graph::build(test.model(), options);
  ASSERT_TRUE(plain.ok()) << plain.error().to_string();
  const auto steps = std::make_shared<const graph::Graph>(std::move(*plain));
  const std::vector<Tensor> inputs = random_inputs(*steps, seed);
  const auto reference = run_reference(steps, inputs);
  ASSERT_TRUE(reference.ok()) << reference.error().to_string();
  // As a network is built, with what the processor does in a pass.
  options.kernel_memory = network::kernel_memory(chip, 1);
  options.state_buffer = network::state_buffer(chip, 1);
  auto built = graph::build(test.model(), options);
  ASSERT_TRUE(built.ok()) << built.error().to_string();
  const auto graph = std::make_shared<const graph::Graph>(std::move(*built));
  expect_same(reference, run_reference(graph, inputs), "ref, as a network");
  const auto host = host::make_host_executor(graph);
  ASSERT_TRUE(host.ok()) << host.error().to_string();
  expect_same(reference, (*host)->run(inputs), "host");
  const auto program = build_program(graph, chip, {});
  ASSERT_TRUE(program.ok()) << program.error().to_string();
  if (check.simulate && !has_host_step(*graph)) {
    expect_same(reference, run_program(*program, chip, inputs, {.check_hazards = true}), "sim");
    if (check.derive) expect_derived(reference, *program, chip, inputs);
    if (check.derive) expect_text(*program, chip);
  }
  if (chip.formats.vector != Format::kF32 || !check.define) return;
  const std::vector<Tensor> expected = evaluated(test.model(), inputs);
  ASSERT_EQ(expected.size(), reference->size());
  for (std::size_t i = 0; i < expected.size(); ++i) expect_close(expected[i], (*reference)[i]);
}

void check(MakeModel make, int rounds) {
  for (int round = 0; round < rounds && !::testing::Test::HasFailure(); ++round) {
    const std::uint64_t seed = kSeed + static_cast<std::uint64_t>(round);
    for (const char* profile : {"tessera128", "f32"}) {
      Maker maker(seed);
      check_on(profile, make(maker), seed);
    }
  }
}

}  // namespace tessera::agreement
