#include "compile/piece_list.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/quantity.h"
#include "compile/cascade_schedule.h"
#include "compile/placement_search.h"
#include "compile/surface_conventions.h"

namespace tessera::compile {
namespace {

constexpr std::int64_t kSmallBlockShare = 64;    // of the state buffer
constexpr std::int64_t kSmallBlockDistance = 8;  // pieces
constexpr std::int64_t kReach = 1;               // pieces that a load runs ahead
// Steps of the exact search for a placement that the heuristics did not find.
constexpr std::int64_t kSearchSteps = 4'000'000;

StorageView held_part(StorageView view) {
  for (std::size_t i = 0; i < 4; ++i) {
    if (view.strides[i] == 0) view.extents[i] = 1;
  }
  return view;
}

}  // namespace

PieceList::PieceList(const PlanInputs& inputs, const Residents& residents)
    : inputs_(inputs), residents_(residents), resident_blocks_(residents.size(), -1) {}

BufferLayout PieceList::layout_of(const StorageView& view, std::int64_t ring_rows) const {
  return {view, storage(view.storage).format, inputs_.chip.state_buffer.partitions, ring_rows};
}

std::int32_t PieceList::add_block(const std::string& name, std::int64_t bytes,
                                  const BufferLayout& layout) {
  PlacedBlock block{.name = name, .bytes = bytes};
  block.first = block.last = now();
  // Small blocks are not shared for a while, so that no task waits for their bytes.
  const bool small = bytes <= capacity() / kSmallBlockShare;
  const std::int64_t distance = small ? kSmallBlockDistance : 0;
  block.wish_first = std::max<std::int64_t>(0, now() - distance);
  block.wish_last = now() + distance;
  plan_.buffer_blocks.push_back(block);
  plan_.buffer_layouts.push_back(layout);
  return static_cast<std::int32_t>(plan_.buffer_blocks.size()) - 1;
}

void PieceList::use_block(std::int32_t index) {
  PlacedBlock& block = block_at(index);
  const std::int64_t distance = block.wish_last - block.last;
  block.last = std::max(block.last, now());
  block.wish_last = block.last + distance;
}

std::int32_t PieceList::resident_block(StorageIndex index) {
  std::int32_t& block = resident_blocks_[index];
  if (block < 0) {
    block = add_block(storage(index).name, residents_[index].layout);
    block_at(block).early = true;
  }
  use_block(block);
  return block;
}

// A block that holds this view already: an earlier operand's, or the piece's before.
std::int32_t PieceList::loaded_block(const Piece& piece, std::size_t input) const {
  const StorageView& view = piece.inputs[input].view;
  for (std::size_t i = 0; i < input; ++i) {
    if (piece.inputs[i].view == view) return piece.inputs[i].block;
  }
  for (auto it = plan_.pieces.rbegin(); it != plan_.pieces.rend() && it->layer == piece.layer;
       ++it) {
    for (const PieceOperand& other : it->inputs) {
      if (other.view == view) return other.block;
    }
    if (it != plan_.pieces.rbegin()) break;
  }
  return -1;
}

void PieceList::add_piece(Piece piece, const LayerOperands& operands) {
  for (std::size_t i = 0; i < piece.inputs.size(); ++i) {
    PieceOperand& operand = piece.inputs[i];
    if (operands.input_resident[i]) {
      operand.block = resident_block(operand.view.storage);
      continue;
    }
    operand.block = loaded_block(piece, i);
    if (operand.block < 0) {
      operand.block = add_block(storage(operand.view.storage).name, layout_of(operand.view));
      operand.transfer = true;
      PlacedBlock& block = block_at(operand.block);
      block.wish_first = std::min(block.wish_first, std::max<std::int64_t>(0, now() - kReach));
    }
    use_block(operand.block);
  }
  PieceOperand& output = piece.output;
  const PlannedLayer& of = layer(piece.layer);
  if (piece.part.continues) {  // the part before made the block of the results
    const Piece& before = plan_.pieces.back();
    piece.part.block = before.part.block;
    output.block = before.output.block;
    use_block(output.block);
    if (!operands.output_resident) output.transfer = !piece.part.keeps;
  } else if (of.kind == LayerKind::kTranspose && of.way == TranspositionWay::kDma) {
    output.block = piece.inputs[0].block;  // stored from where it was loaded to
    output.transfer = true;
  } else if (operands.output_resident) {
    output.block = resident_block(output.view.storage);
  } else {
    output.block = add_block(storage(output.view.storage).name, layout_of(output.view));
    PlacedBlock& block = block_at(output.block);
    block.wish_last = std::max(block.wish_last, now() + kReach);
    output.transfer = !piece.part.keeps;
  }
  // Sums of products stay in PSUM.
  if (piece.part.one_of_several() && of.kind == LayerKind::kPlanar) add_accumulators(piece);
  plan_.pieces.push_back(std::move(piece));
}

void PieceList::add_accumulators(Piece& piece) {
  if (piece.part.block < 0) {
    piece.part.block =
        add_block(storage(piece.output.view.storage).name + " so far",
                  accumulator_bytes(piece, inputs_.chip.state_buffer.partitions), {});
  }
  use_block(piece.part.block);
}

void PieceList::add_layer(std::vector<Piece> pieces, const LayerOperands& operands) {
  for (Piece& piece : pieces) add_piece(std::move(piece), operands);
}

void PieceList::add_loads(LayerIndex layer, const std::vector<StorageView>& views) {
  if (views.empty()) return;
  Piece piece;
  piece.layer = layer;
  for (const StorageView& view : views) {
    piece.moves.push_back({view, view, resident_block(view.storage)});
  }
  plan_.pieces.push_back(std::move(piece));
}

Piece PieceList::cascade_piece(const Cascade& cascade, const CascadeStep& step, RowRange rows,
                               const Table<RingIndex, BlockIndex>& ring_blocks) {
  const CascadeMember& member = cascade.members[step.member];
  const PlannedLayer& of = layer(member.layer);
  Piece piece = piece_of_rows(inputs_, member.layer, rows);
  const auto block_of = [&](const CascadeOperand& operand, StorageIndex index) {
    if (operand.passage == Passage::kResident) return resident_block(index);
    const std::int32_t block = ring_blocks[operand.ring];
    use_block(block);
    return block;
  };
  for (std::size_t i = 0; i < piece.inputs.size(); ++i) {
    PieceOperand& input = piece.inputs[i];
    const CascadeOperand& operand = member.inputs[i];
    input.block = block_of(operand, input.view.storage);
    if (operand.passage != Passage::kRing) continue;
    const std::int64_t ring = cascade.rings[operand.ring].rows;
    const std::int64_t end = input.row_first + input.view.rows();
    if (input.row_first % ring + input.view.rows() <= ring) continue;
    // The engine follows the ring from its first place on.
    input.row_first = input.row_first / ring * ring;
    input.view = of.inputs[i].part(kRows, input.row_first, end - input.row_first);
  }
  piece.output.block = block_of(member.output, piece.output.view.storage);
  return piece;
}

void PieceList::add_cascade(const Cascade& cascade) {
  Table<RingIndex, BlockIndex> blocks(cascade.rings.size(), -1);
  const auto ring_block = [&](std::int32_t ring) {
    std::int32_t& block = blocks[ring];
    if (block >= 0) return block;
    const Ring& of = cascade.rings[ring];
    block = add_block(storage(of.view.storage).name, layout_of(of.view, of.rows));
    return block;
  };
  std::vector<PieceMove> loads;  // for the next piece
  for (const CascadeStep& step : cascade.steps) {
    for (const RowRange rows : unwrapped_rows(cascade, inputs_, step)) {
      if (step.member < 0) {
        StorageView view = cascade.rings[step.ring].view;
        if (view.strides[kRows] != 0) view = view.part(kRows, rows.first, rows.last - rows.first);
        view = held_part(view);
        loads.push_back({view, view, ring_block(step.ring)});
        use_block(loads.back().block);
        continue;
      }
      const CascadeOperand& output = cascade.members[step.member].output;
      if (output.ring >= 0) ring_block(output.ring);
      Piece piece = cascade_piece(cascade, step, rows, blocks);
      piece.moves = std::move(loads);
      loads.clear();
      plan_.pieces.push_back(std::move(piece));
    }
  }
  TESSERA_CHECK(loads.empty(), "rows are loaded that no layer reads");
}

void PieceList::add_copies(std::int32_t index) {
  Piece piece;
  piece.layer = index;
  const PlannedLayer& of = layer(index);
  for (std::size_t i = 0; i < of.copies.size(); ++i) {
    if (!residents_[of.copies[i].destination].active) {
      piece.copies.push_back(static_cast<std::int32_t>(i));
    }
  }
  plan_.pieces.push_back(std::move(piece));
}

void PieceList::add_copy(std::int32_t index, std::int32_t copy) {
  Piece piece;
  piece.layer = index;
  piece.copies.push_back(copy);
  plan_.pieces.push_back(std::move(piece));
}

void PieceList::add_moves(const std::vector<MoveAfter>& moves) {
  for (std::size_t i = 0; i < moves.size();) {
    const StorageIndex to = moves[i].storage;
    Piece piece;
    for (; i < moves.size() && moves[i].storage == to; ++i) {
      if (!residents_[to].active) continue;
      const ResidentMove& move = residents_[to].moves[moves[i].move];
      piece.layer = move.layer;
      piece.moves.push_back({move.load.from, move.load.to, resident_block(to)});
    }
    if (!piece.moves.empty()) plan_.pieces.push_back(std::move(piece));
  }
}

void PieceList::reorder(const std::vector<PieceIndex>& order) {
  Table<PieceIndex, Piece> pieces;
  for (const PieceIndex i : order) pieces.push_back(std::move(plan_.pieces[i]));
  plan_.pieces = std::move(pieces);
  for (PlacedBlock& block : plan_.buffer_blocks) {
    block.wish_first -= block.first;  // until below: how much earlier, and later, than its life
    block.wish_last -= block.last;
    block.first = std::ssize(plan_.pieces);
    block.last = 0;
  }
  for (PieceIndex i = 0; i < std::ssize(plan_.pieces); ++i) {
    const Piece& piece = plan_.pieces[i];
    const auto use = [&](BlockIndex index) {
      if (index < 0) return;
      block_at(index).first = std::min<std::int64_t>(block_at(index).first, i);
      block_at(index).last = std::max<std::int64_t>(block_at(index).last, i);
    };
    for (const PieceMove& move : piece.moves) use(move.block);
    for (const PieceOperand& input : piece.inputs) use(input.block);
    use(piece.output.block);
    use(piece.part.block);
  }
  for (PlacedBlock& block : plan_.buffer_blocks) {
    block.wish_first = std::max<std::int64_t>(0, block.first + block.wish_first);
    block.wish_last += block.last;
  }
}

// Of the blocks that live or wish to live beside this one, those with the widest wishes make do with
// a half of it, at last with their life. False if all do.
bool PieceList::drop_wishes(const PlacedBlock& tight) {
  const auto beside = [&](const PlacedBlock& block) {
    return block.wish_first <= tight.last && block.wish_last >= tight.first;
  };
  std::int64_t widest = 0;
  for (const PlacedBlock& block : plan_.buffer_blocks) {
    if (!beside(block)) continue;
    widest = std::max({widest, block.first - block.wish_first, block.wish_last - block.last});
  }
  if (widest == 0) return false;
  for (PlacedBlock& block : plan_.buffer_blocks) {
    if (!beside(block)) continue;
    block.wish_first = std::max(block.wish_first, block.first - widest / 2);
    block.wish_last = std::min(block.wish_last, block.last + widest / 2);
  }
  return true;
}

// The layers of the pieces during its life; those of a cascade take turns.
std::pair<std::int32_t, std::int32_t> PieceList::layers_during(const PlacedBlock& block) const {
  std::pair<std::int32_t, std::int32_t> range{layer_of(block.first), layer_of(block.first)};
  for (std::int64_t piece = block.first; piece <= block.last; ++piece) {
    range.first = std::min(range.first, layer_of(piece));
    range.second = std::max(range.second, layer_of(piece));
  }
  return range;
}

// The tightest placement that the search finds, if it is tight enough.
bool PieceList::place_without_wishes() {
  if (placement_bound(plan_.buffer_blocks, kAlignmentBytes) > capacity()) return false;
  const SearchOptions options{
      .alignment = kAlignmentBytes, .target = capacity(), .steps_max = kSearchSteps};
  return place_tightly(plan_.buffer_blocks, options).peak <= capacity();
}

std::optional<Misfit> PieceList::place() {
  const auto& buffer = inputs_.chip.state_buffer;
  const MemoryBounds bounds{
      .capacity = capacity(),
      .alignment = kAlignmentBytes,
      .bank_bytes = buffer.banks == 0 ? 0 : ceil_div(buffer.bytes_per_partition, buffer.banks)};
  auto failed = place_blocks(plan_.buffer_blocks, bounds);
  while (failed && drop_wishes(plan_.buffer_blocks[*failed])) {
    failed = place_blocks(plan_.buffer_blocks, bounds);
  }
  if (failed && !place_without_wishes()) {
    const PlacedBlock& block = plan_.buffer_blocks[*failed];
    const auto [first, last] = layers_during(block);
    return Misfit{
        {ErrorCode::kDoesNotFit,
         fmt::format("layer '{}': tensor '{}' needs {} bytes of each state buffer "
                     "partition, which holds {}, beside the layer's other operands; "
                     "use a chip configuration with a larger "
                     "state_buffer.bytes_per_partition",
                     layer(layer_of(block.first)).name, block.name, block.bytes, capacity())},
        first,
        last};
  }
  const std::string overlap = find_overlap_indexed(plan_.buffer_blocks, bounds);
  TESSERA_CHECK(overlap.empty(), "{}", overlap);
  for (const PlacedBlock& block : plan_.buffer_blocks) {
    plan_.buffer_peak_bytes = std::max(plan_.buffer_peak_bytes, block.offset + block.bytes);
  }
  return std::nullopt;
}

}  // namespace tessera::compile
