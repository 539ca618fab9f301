// The pieces of a plan while it is made, and the blocks of the state buffer that they use. The time
// of a block is counted in pieces.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compile/cascade.h"
#include "compile/misfit.h"
#include "compile/pieces.h"
#include "compile/plan.h"
#include "compile/residency.h"

namespace tessera::compile {

class PieceList {
 public:
  // Both outlive the list; `residents` says which storages stay in the buffer.
  PieceList(const PlanInputs& inputs, const Residents& residents);

  // The pieces of a layer, in order.
  void add_layer(std::vector<Piece> pieces, const LayerOperands& operands);
  // Loads into the resident block of the storage that the views are of, before `layer`.
  void add_loads(LayerIndex layer, const std::vector<StorageView>& views);
  // The pieces of a cascade's layers, slot by slot.
  void add_cascade(const Cascade& cascade);
  // A Move, or a host step: its copies in DRAM.
  void add_copies(std::int32_t layer);
  // One of its copies, as a piece.
  void add_copy(std::int32_t layer, std::int32_t copy);
  // Parts of Moves whose source is complete after the layer that was added are loaded now, not when
  // the Move's turn comes: the load engine has time.
  void add_moves(const std::vector<MoveAfter>& moves);

  // The pieces in another order, which has each behind those that it reads from.
  void reorder(const std::vector<PieceIndex>& order);

  // Gives every block its place in the state buffer.
  std::optional<Misfit> place();

  Plan& plan() { return plan_; }

 private:
  const PlannedLayer& layer(std::int32_t index) const { return inputs_.layers[index]; }
  const Storage& storage(StorageIndex index) const { return inputs_.storages.storages[index]; }
  std::int64_t capacity() const { return inputs_.chip.state_buffer.bytes_per_partition; }
  std::int64_t now() const { return static_cast<std::int64_t>(plan_.pieces.size()); }
  PlacedBlock& block_at(std::int32_t index) { return plan_.buffer_blocks[index]; }

  BufferLayout layout_of(const StorageView& view, std::int64_t ring_rows = 0) const;
  std::int32_t add_block(const std::string& name, std::int64_t bytes, const BufferLayout& layout);
  std::int32_t add_block(const std::string& name, const BufferLayout& layout) {
    return add_block(name, layout.bytes(), layout);
  }
  void use_block(std::int32_t index);
  std::int32_t resident_block(StorageIndex index);
  std::int32_t loaded_block(const Piece& piece, std::size_t input) const;
  void add_accumulators(Piece& piece);
  void add_piece(Piece piece, const LayerOperands& operands);
  Piece cascade_piece(const Cascade& cascade, const CascadeStep& step, RowRange rows,
                      const Table<RingIndex, BlockIndex>& ring_blocks);
  bool drop_wishes(const PlacedBlock& tight);
  bool place_without_wishes();
  std::pair<std::int32_t, std::int32_t> layers_during(const PlacedBlock& block) const;
  std::int32_t layer_of(std::int64_t piece) const { return plan_.pieces[piece].layer; }

  const PlanInputs& inputs_;
  const Residents& residents_;
  Plan plan_;
  Table<StorageIndex, BlockIndex> resident_blocks_;
};

}  // namespace tessera::compile
