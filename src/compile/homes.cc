#include "compile/homes.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "compile/surface_conventions.h"

namespace tessera::compile {
namespace {

// Storages that copies, loads into residents and rings, and host steps of a piece touch in DRAM.
template <typename Visit>
void for_each_dram_storage(const PlanInputs& inputs, const Piece& piece, Visit&& visit) {
  const PlannedLayer& of = inputs.layers[piece.layer];
  for (const std::int32_t i : piece.copies) {
    const PlannedCopy& copy = of.copies[i];
    if (!copy.fill) visit(copy.source);
    visit(copy.destination);
  }
  for (const PieceMove& move : piece.moves) visit(move.from.storage);
  if (of.kind != LayerKind::kHost) return;
  const graph::Node& node = inputs.graph.nodes[of.node];
  for (const auto* list : {&node.inputs, &node.outputs}) {
    for (const graph::TensorId id : *list) {
      visit(inputs.storages.places[id].storage);
    }
  }
}

}  // namespace

void mark_stores(const PlanInputs& inputs, Plan& plan) {
  Table<StorageIndex, bool> needed(inputs.storages.storages.size(), false);
  for (std::size_t i = 0; i < needed.size(); ++i) {
    needed[i] = inputs.storages.storages[i].base == isa::BaseIndex::kOutput;
  }
  const auto need = [&](StorageIndex index) { needed[index] = true; };
  for (const Piece& piece : plan.pieces) {
    for (const PieceOperand& input : piece.inputs) {
      if (input.transfer) need(input.view.storage);
    }
    for_each_dram_storage(inputs, piece, need);
  }
  for (Piece& piece : plan.pieces) {
    if (piece.output.block < 0 || piece.part.keeps) continue;
    piece.output.transfer = needed[piece.output.view.storage];
  }
}

std::optional<Misfit> place_homes(const PlanInputs& inputs, Plan& plan) {
  const auto& storages = inputs.storages.storages;
  plan.homes.assign(storages.size(), -1);
  const auto touch = [&](StorageIndex index, std::int64_t time) {
    const Storage& storage = storages[index];
    if (storage.base != isa::BaseIndex::kWorkspace) return;
    std::int32_t& home = plan.homes[index];
    if (home < 0) {
      home = static_cast<std::int32_t>(plan.home_blocks.size());
      plan.home_blocks.push_back(
          {.name = storage.name, .bytes = storage.bytes(), .first = time, .wish_first = time});
    }
    PlacedBlock& block = plan.home_blocks[home];
    block.last = time;
    block.wish_last = time + 1;
  };
  for (std::size_t t = 0; t < plan.pieces.size(); ++t) {
    const Piece& piece = plan.pieces[t];
    const auto time = static_cast<std::int64_t>(t);
    for (const PieceOperand& input : piece.inputs) {
      if (input.transfer) touch(input.view.storage, time);
    }
    if (piece.output.transfer) touch(piece.output.view.storage, time);
    for_each_dram_storage(inputs, piece, [&](StorageIndex index) { touch(index, time); });
  }
  const MemoryBounds bounds{inputs.chip.dram.bytes, kAlignmentBytes};
  if (const auto failed = place_blocks(plan.home_blocks, bounds)) {
    const PlacedBlock& block = plan.home_blocks[*failed];
    const std::int32_t layer = plan.pieces[block.first].layer;
    return Misfit{
        {ErrorCode::kDoesNotFit,
         fmt::format("layer '{}': tensor '{}' needs {} bytes of DRAM workspace beside "
                     "the others, the memory holds {}; use a chip configuration with a "
                     "larger dram.bytes",
                     inputs.layers[layer].name, block.name, block.bytes, bounds.capacity)},
        0,
        static_cast<std::int32_t>(inputs.layers.size())};
  }
  const std::string overlap = find_overlap_indexed(plan.home_blocks, bounds);
  TESSERA_CHECK(overlap.empty(), "{}", overlap);
  for (const PlacedBlock& block : plan.home_blocks) {
    plan.workspace_bytes = std::max(plan.workspace_bytes, block.offset + block.bytes);
  }
  return std::nullopt;
}

}  // namespace tessera::compile
