// Folded software against what was folded: equal bits, and one loop where one is to be found.
#include "concord/fold/fold.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>

#include "concord/expand/expand.h"
#include "concord/fold/join.h"
#include "concord/interpret.h"
#include "concord/steps.h"
#include "concord/testing/random_graph.h"
#include "concord/testing/unrolled.h"
#include "concord/write/layer_nodes.h"
#include "concord/write/onnx.h"

namespace tessera::concord {
namespace {

using testing::random_tensor;
using testing::unrolled;
using testing::Values;

std::vector<Tensor> inputs_of(const Software& software, Values values, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Tensor> inputs;
  for (const Port& port : software.inputs) {
    const Value& value = software.value(port.value);
    inputs.push_back(random_tensor(value.format, value.dims, values, random));
  }
  return inputs;
}

void expect_equal(const Software& a, const Software& b) {
  for (const Values values : {Values::kOrdinary, Values::kEdges}) {
    const std::vector<Tensor> inputs = inputs_of(a, values, 3);
    const auto left = interpret(a, inputs), right = interpret(b, inputs);
    ASSERT_TRUE(left.ok() && right.ok());
    EXPECT_TRUE(*left == *right);
  }
}

std::vector<const Operation*> loops_of(const Software& software) {
  std::vector<const Operation*> loops;
  for (const Operation& operation : software.operations) {
    if (operation.repeat != nullptr) loops.push_back(&operation);
  }
  return loops;
}

TEST(Fold, AnUnrolledLoopBecomesOne) {
  const Software flat = unrolled(9);
  const Software whole = folded(flat);
  const auto loops = loops_of(whole);
  ASSERT_EQ(loops.size(), 1U);
  const Repeat& repeat = *loops[0]->repeat;
  EXPECT_EQ(repeat.turns, 9);
  EXPECT_EQ(repeat.carried.size(), 2U);  // this state and the one before
  EXPECT_LT(count_layer_nodes(whole).nodes, 75);
  EXPECT_GT(count_layer_nodes(flat).nodes, 400);
  expect_equal(flat, whole);
}

// Layers keep their names: those of the first turn, and one for the loop.
// The operations of each layer together, the layers in any order that their operands allow.
Software in_random_order(const Software& software, std::uint32_t seed) {
  std::map<LayerIndex, std::vector<Operation>> layers;
  std::set<std::int32_t> missing;  // values that an operation makes, and has not yet
  for (const Operation& operation : software.operations) {
    layers[operation.layer].push_back(operation);
    for (const ValueId id : operation.outputs) missing.insert(id.value);
  }
  std::mt19937 random(seed);
  Software result = software;
  result.operations.clear();
  while (!layers.empty()) {
    auto layer = layers.begin();
    std::advance(layer, random() % layers.size());
    std::set<std::int32_t> without = missing;
    for (const Operation& operation : layer->second) {
      for (const ValueId id : operation.outputs) without.erase(id.value);
    }
    const bool ready = std::ranges::all_of(layer->second, [&](const Operation& operation) {
      return std::ranges::none_of(operation.inputs,
                                  [&](ValueId id) { return without.contains(id.value); });
    });
    if (!ready) continue;
    missing = std::move(without);
    std::ranges::move(layer->second, std::back_inserter(result.operations));
    layers.erase(layer);
  }
  return result;
}

TEST(Fold, LoopsThatAProgramDoesInTurnsAreFound) {
  const Software nine = unrolled(9), twelve = unrolled(12);
  const Software flat = joined({&nine, &twelve});
  const Software whole = folded(flat);
  ASSERT_EQ(loops_of(whole).size(), 2U);
  for (std::uint32_t seed = 0; seed < 8; ++seed) {
    const Software mixed = in_random_order(flat, seed);
    const Software found = folded(mixed);
    EXPECT_EQ(found.operations.size(), whole.operations.size()) << "seed " << seed;
    EXPECT_EQ(loops_of(found).size(), 2U) << "seed " << seed;
    expect_equal(mixed, found);
  }
}

TEST(Fold, LayersAreThoseOfOneTurn) {
  const Software whole = folded(unrolled(9));
  std::vector<std::string> names;
  for (const Layer& layer : whole.layers) names.push_back(layer.name);
  EXPECT_EQ(names, (std::vector<std::string>{"inputs", "turn0.product.repeat", "turn0.product",
                                             "turn0.sum", "turn0.limit", "outputs"}));
  EXPECT_EQ(count_layer_nodes(whole).matrix_layers, 1);
}

TEST(Fold, FewTurnsStayAsTheyAre) {
  const Software flat = unrolled(2);
  const Software whole = folded(flat);
  EXPECT_TRUE(loops_of(whole).empty());
  expect_equal(flat, whole);
}

TEST(Fold, LayersWithWeightsOfTheirOwnStayLayers) {
  const Software flat = unrolled(9, true);
  const Software whole = folded(flat);
  EXPECT_TRUE(loops_of(whole).empty());
  EXPECT_EQ(count_layer_nodes(whole).matrix_layers, 9);
  expect_equal(flat, whole);
}

// One turn that rounds otherwise parts the loop.
TEST(Fold, ATurnThatDiffersStaysOutside) {
  Software flat = unrolled(11);
  for (Operation& operation : flat.operations) {
    const auto layer = static_cast<std::size_t>(operation.layer);
    if (operation.op == Operator::kMinimum && flat.layers[layer].name == "turn5.limit") {
      operation.op = Operator::kSubtract;
    }
  }
  const Software whole = folded(flat);
  EXPECT_EQ(loops_of(whole).size(), 2U);
  expect_equal(flat, whole);
}

// The same operations, but turn 4 reads what turn 0 has made: no loop may run across it.
TEST(Fold, OperandsFromElsewherePartTheLoop) {
  Software flat = unrolled(12);
  std::map<std::string, std::vector<Operation*>> layers;
  for (Operation& operation : flat.operations) {
    layers[flat.layers[operation.layer].name].push_back(&operation);
  }
  layers["turn6.sum"][1]->inputs[0] = layers["turn1.sum"][1]->outputs[0];
  const Software whole = folded(flat);
  for (const Operation* loop : loops_of(whole)) EXPECT_LT(loop->repeat->turns, 12);
  expect_equal(flat, whole);
}

TEST(Fold, WhatIsToBeTrainedStaysAsItIs) {
  Software flat = unrolled(9);
  for (Value& value : flat.values)
    value.trained |= value.constant != nullptr && value.dims.size() == 2;
  EXPECT_TRUE(loops_of(folded(flat)).empty());
}

// Every layer of every turn can be looked at: its result, made an output, is that of the turn.
TEST(Fold, ResultsWithinTurnsCanBeOutputs) {
  Software flat = unrolled(7);
  for (std::size_t i = 0; i < flat.operations.size(); i += 5) {
    const ValueId id = flat.operations[i].outputs[0];
    const bool taken = std::any_of(flat.outputs.begin(), flat.outputs.end(),
                                   [&](const Port& port) { return port.value == id; });
    if (!taken) flat.outputs.push_back({id, flat.value(id).name});
  }
  const Software whole = folded(flat);
  ASSERT_EQ(whole.outputs.size(), flat.outputs.size());
  for (std::size_t i = 0; i < flat.outputs.size(); ++i) {
    EXPECT_EQ(whole.value(whole.outputs[i].value).name, flat.outputs[i].name);
  }
  EXPECT_GE(loops_of(whole).size(), 1U);
  expect_equal(flat, whole);
}

// Names are unique, whatever values are added.
TEST(Fold, NamesStayUnique) {
  Software flat = unrolled(5);
  for (std::size_t i = 0; i < flat.values.size(); ++i) {
    if (flat.values[i].name.starts_with("v")) {
      flat.values[i].name = "r" + std::to_string(flat.values.size() + i);
    }
  }
  const Software whole = folded(flat);
  std::set<std::string> names;
  for (const Value& value : whole.values)
    EXPECT_TRUE(names.insert(value.name).second) << value.name;
  expect_equal(flat, whole);
}

TEST(Fold, RandomGraphsKeepTheirBits) {
  int folds = 0;
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    const graph::Graph graph = testing::random_graph(seed, 6);
    const auto flat = expand(graph);
    if (!flat.ok()) continue;
    const Software whole = folded(*flat);
    EXPECT_LE(count_layer_nodes(whole).nodes, count_layer_nodes(*flat).nodes);
    EXPECT_TRUE(write_onnx(whole).ok());
    expect_equal(*flat, whole);
    ++folds;
  }
  EXPECT_GT(folds, 30);
}

}  // namespace
}  // namespace tessera::concord
