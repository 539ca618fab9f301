// Plan -> tasks, in the order in which they are issued: for each piece its loads, its kernel, the
// work, the store.
#pragma once

#include <cstdint>
#include <vector>

#include "compile/dram_order.h"
#include "compile/plan.h"
#include "isa/program.h"

namespace tessera::compile {

struct EmittedTasks {
  std::vector<isa::TaskDescriptor> tasks;  // ids are positions; no dependencies yet
  std::vector<std::uint32_t> segments;     // of each task
  std::vector<isa::PieceHint> pieces;      // of each task
  // Of each: which one it was, or was a part of, before tasks were cut for the memories of a card.
  std::vector<std::int32_t> numbers;
  Table<BlockIndex, std::int64_t> block_first, block_last;  // tasks that use each buffer block
  Table<BlockIndex, std::int64_t> home_first, home_last;    // and each home
};

// Pixels that each layer's steps have at least; empty: what the options say, of all layers.
using StepPixels = Table<LayerIndex, std::int64_t>;
// What the options say.
std::int64_t step_pixels(const PlanInputs& inputs);

// `addresses` says where each storage begins in DRAM, `orders` how its elements lie there.
EmittedTasks emit_tasks(const PlanInputs& inputs, const Plan& plan, const Addresses& addresses,
                        const DramOrders& orders = {}, const StepPixels& steps = {});

}  // namespace tessera::compile
