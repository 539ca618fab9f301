#include "compile/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "compile/pieces.h"
#include "compile/residency.h"

namespace tessera::compile {
namespace {

constexpr std::int64_t kAlignmentBytes = 64;
constexpr std::int64_t kSmallBlockShare = 64;    // of the state buffer
constexpr std::int64_t kSmallBlockDistance = 8;  // pieces

// One attempt with a given set of residents; what did not fit, if anything.
struct Misfit {
  Error error;
  std::int32_t first_layer = 0, last_layer = 0;
};

class Planner {
 public:
  explicit Planner(const PlanInputs& inputs)
      : inputs_(inputs),
        residents_(find_residents(inputs)),
        capacity_(inputs.chip.state_buffer.bytes_per_partition) {
    for (Resident& resident : residents_) {
      resident.active =
          resident.possible && inputs.options.resident && resident.layout.bytes() <= capacity_;
    }
  }

  Result<Plan> run() {
    for (;;) {
      plan_ = {};
      const std::optional<Misfit> misfit = attempt();
      if (!misfit) return std::move(plan_);
      if (!demote(*misfit)) return misfit->error;
    }
  }

 private:
  const Storage& storage(StorageIndex index) const {
    return inputs_.storages.storages[static_cast<std::size_t>(index)];
  }
  Resident& resident(StorageIndex index) { return residents_[static_cast<std::size_t>(index)]; }
  const Layer& layer(std::int32_t index) const {
    return inputs_.layers[static_cast<std::size_t>(index)];
  }

  bool lives_at(const Resident& resident, std::int32_t index) const {
    return resident.active && resident.first_layer <= index && index <= resident.last_layer;
  }

  bool takes_resident(std::int32_t index, std::size_t input) {
    const StorageView& view = layer(index).inputs[input];
    const Resident& from = resident(view.storage);
    return lives_at(from, index) && fit_input(from.layout, layer(index), input) != Fit::kNone;
  }

  std::optional<Misfit> attempt() {
    resident_blocks_.assign(residents_.size(), -1);
    const auto count = static_cast<std::int32_t>(inputs_.layers.size());
    for (std::int32_t index = 0; index < count; ++index) {
      chained_.clear();
      reach_ = 1;
      const LayerKind kind = layer(index).kind;
      if (kind == LayerKind::kCopy || kind == LayerKind::kHost) {
        add_copy_piece(index);
        continue;
      }
      const std::int32_t last = chain_end(index);
      if (last > index && add_chain(index, last)) {
        for (; index < last; ++index) add_moves_after(index);
        add_moves_after(last);
        continue;
      }
      const LayerOperands operands = find_operands(index);
      auto pieces = cut_layer(inputs_, index, operands, room_at(index));
      if (!pieces.ok()) return Misfit{pieces.error(), index, index};
      for (Piece& piece : *pieces) add_piece(std::move(piece), operands);
      add_moves_after(index);
    }
    mark_stores();
    if (auto misfit = place_buffer()) return misfit;
    return place_homes();
  }

  // Each output row comes from the same row of the input alone.
  static bool is_pointwise(const Layer& of) {
    if (of.kind == LayerKind::kPlanar) {
      return of.planar.mode == program::PlanarMode::kElementwise;
    }
    const ProductConfig& p = of.slices[0].product;
    return p.kernel_h == 1 && p.stride_h == 1 && p.pad_top == 0 && p.input_dilation_h == 1;
  }

  // The last layer of a chain that begins at `first`: each takes row by row what the one before
  // leaves, and what lies between does not stay in the state buffer.
  std::int32_t chain_end(std::int32_t first) {
    std::int32_t last = first;
    const auto count = static_cast<std::int32_t>(inputs_.layers.size());
    if (!cuts_by_rows(layer(first))) return first;
    while (last + 1 < count) {
      const Layer& before = layer(last);
      const Layer& next = layer(last + 1);
      if (!cuts_by_rows(next) || !is_pointwise(next) || resident(before.output.storage).active ||
          next.output.rows() != before.output.rows() ||
          std::find(next.inputs.begin(), next.inputs.end(), before.output) == next.inputs.end()) {
        break;
      }
      ++last;
    }
    return last;
  }

  // Cuts a chain by rows and takes it chunk by chunk, so that nothing between its layers goes
  // through DRAM. A product of one chunk runs beside the products of the next, which come first:
  //
  //   conv 0 | mul 0 | conv 1 | mul 1 | product 0 | conv 2 | mul 2 | product 1 | ...
  bool add_chain(std::int32_t first, std::int32_t last) {
    std::vector<LayerOperands> operands;
    std::vector<std::int64_t> delays;  // of each layer, in chunks
    std::int64_t delay = 0;
    PieceRoom room = room_at(first);
    for (std::int32_t index = first; index <= last; ++index) {
      operands.push_back(find_operands(index));
      if (index > first && layer(index).kind == LayerKind::kNeural) ++delay;
      delays.push_back(delay);
      const PieceRoom here = room_at(index);
      room.wanted = std::min(room.wanted, here.wanted);
    }
    const std::int64_t rows = layer(first).output.rows();
    std::int64_t chunk = rows;
    for (std::int64_t chunks = 2; chain_bytes(first, operands, chunk) * 3 > room.wanted * 2;
         ++chunks) {
      if (chunk == 1) return false;
      chunk = ceil_div(rows, chunks);
    }
    const std::int64_t chunks = ceil_div(rows, chunk);
    reach_ = last - first + 1;
    for (std::int64_t slot = 0; slot < chunks + delay; ++slot) {
      for (std::size_t k = 0; k < operands.size(); ++k) {
        const std::int64_t at = slot - delays[k];
        if (at < 0 || at >= chunks) continue;
        const RowRange range{at * chunk, std::min(rows, (at + 1) * chunk)};
        const auto index = first + static_cast<std::int32_t>(k);
        add_piece(piece_of_rows(inputs_, index, range), operands[k]);
        const Piece& piece = plan_.pieces.back();
        chained_.push_back({piece.output.view, piece.output.block});
        for (const PieceOperand& input : piece.inputs) {
          if (input.transfer) chained_.push_back({input.view, input.block});
        }
      }
    }
    return true;
  }

  // Bytes a partition of one chunk from the middle of the chain: outputs, and what is loaded.
  std::int64_t chain_bytes(std::int32_t first, const std::vector<LayerOperands>& operands,
                           std::int64_t chunk) const {
    std::int64_t bytes = 0;
    const StorageView* before = nullptr;
    StorageView output;
    for (std::size_t k = 0; k < operands.size(); ++k) {
      const auto index = first + static_cast<std::int32_t>(k);
      const std::int64_t middle = std::min(layer(index).output.rows() - chunk,
                                           layer(index).output.rows() / 2 / chunk * chunk);
      const Piece piece = piece_of_rows(inputs_, index, {middle, middle + chunk});
      for (std::size_t i = 0; i < piece.inputs.size(); ++i) {
        const StorageView& view = piece.inputs[i].view;
        const bool chained = before != nullptr && view == *before;
        if (!operands[k].input_resident[i] && !chained) bytes += bytes_of(view);
      }
      if (!operands[k].output_resident) bytes += bytes_of(piece.output.view);
      output = piece.output.view;
      before = &output;
    }
    return bytes;
  }

  std::int64_t bytes_of(const StorageView& view) const {
    return round_up(
        view_bytes(view, storage(view.storage).format, inputs_.chip.state_buffer.partitions),
        kAlignmentBytes);
  }

  LayerOperands find_operands(std::int32_t index) {
    const Layer& of = layer(index);
    LayerOperands operands;
    operands.by_image = of.dynamic;
    const auto check = [&](const StorageView& view, bool is_resident, Fit fit) {
      if (!is_resident) {
        fit = fit_view(
            BufferLayout(view, storage(view.storage).format, inputs_.chip.state_buffer.partitions),
            view, Start::kFirstPartition);
      }
      TESSERA_CHECK(fit != Fit::kNone, "layer '{}': an operand has no surface", of.name);
      operands.by_image = operands.by_image || fit == Fit::kByImage;
    };
    for (std::size_t i = 0; i < of.inputs.size(); ++i) {
      const bool taken = takes_resident(index, i);
      operands.input_resident.push_back(taken);
      check(of.inputs[i], taken,
            taken ? fit_input(resident(of.inputs[i].storage).layout, of, i) : Fit::kNone);
    }
    const Resident& to = resident(of.output.storage);
    operands.output_resident = to.active;
    check(of.output, to.active, to.active ? fit_output(to.layout, of) : Fit::kNone);
    return operands;
  }

  PieceRoom room_at(std::int32_t index) const {
    std::int64_t used = 0;
    for (const Resident& other : residents_) {
      if (lives_at(other, index)) used += round_up(other.layout.bytes(), kAlignmentBytes);
    }
    PieceRoom room;
    room.allowed = std::max<std::int64_t>(0, capacity_ - used);
    room.wanted = room.allowed / 2;
    if (inputs_.options.tile_budget_bytes > 0) {
      room.wanted = std::min(room.wanted, inputs_.options.tile_budget_bytes);
    }
    return room;
  }

  std::int64_t now() const { return static_cast<std::int64_t>(plan_.pieces.size()); }

  std::int32_t add_block(const std::string& name, const BufferLayout& layout) {
    Block block{.name = name, .bytes = layout.bytes()};
    block.first = block.last = now();
    // Small blocks are kept to themselves for a while, so that nobody waits for their bytes.
    const bool small = layout.bytes() <= capacity_ / kSmallBlockShare;
    const std::int64_t distance = small ? kSmallBlockDistance : 0;
    block.wish_first = std::max<std::int64_t>(0, now() - distance);
    block.wish_last = now() + distance;
    plan_.buffer_blocks.push_back(block);
    plan_.buffer_layouts.push_back(layout);
    return static_cast<std::int32_t>(plan_.buffer_blocks.size()) - 1;
  }

  Block& block_at(std::int32_t index) {
    return plan_.buffer_blocks[static_cast<std::size_t>(index)];
  }

  void use_block(std::int32_t index) {
    Block& block = block_at(index);
    const std::int64_t distance = block.wish_last - block.last;
    block.last = std::max(block.last, now());
    block.wish_last = block.last + distance;
  }

  std::int32_t resident_block(StorageIndex index) {
    std::int32_t& block = resident_blocks_[static_cast<std::size_t>(index)];
    if (block < 0) {
      block = add_block(storage(index).name, resident(index).layout);
      block_at(block).early = true;
    }
    use_block(block);
    return block;
  }

  // A block that holds this view already: an earlier operand's, the piece's before, the result of
  // the layer before in a chain.
  std::int32_t loaded_block(const Piece& piece, std::size_t input) const {
    const StorageView& view = piece.inputs[input].view;
    for (std::size_t i = 0; i < input; ++i) {
      if (piece.inputs[i].view == view) return piece.inputs[i].block;
    }
    for (auto it = chained_.rbegin(); it != chained_.rend(); ++it) {
      if (it->first == view) return it->second;
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

  void add_piece(Piece piece, const LayerOperands& operands) {
    const std::int64_t partitions = inputs_.chip.state_buffer.partitions;
    for (std::size_t i = 0; i < piece.inputs.size(); ++i) {
      PieceOperand& operand = piece.inputs[i];
      if (operands.input_resident[i]) {
        operand.block = resident_block(operand.view.storage);
        continue;
      }
      operand.block = loaded_block(piece, i);
      if (operand.block < 0) {
        const Storage& from = storage(operand.view.storage);
        operand.block = add_block(from.name, BufferLayout(operand.view, from.format, partitions));
        operand.transfer = true;
        Block& block = block_at(operand.block);
        block.wish_first = std::min(block.wish_first, std::max<std::int64_t>(0, now() - reach_));
      }
      use_block(operand.block);
    }
    PieceOperand& output = piece.output;
    if (layer(piece.layer).kind == LayerKind::kTranspose &&
        layer(piece.layer).way == TranspositionWay::kDma) {
      output.block = piece.inputs[0].block;  // stored from where it was loaded to
      output.transfer = true;
    } else if (operands.output_resident) {
      output.block = resident_block(output.view.storage);
    } else {
      const Storage& to = storage(output.view.storage);
      output.block = add_block(to.name, BufferLayout(output.view, to.format, partitions));
      Block& block = block_at(output.block);
      block.wish_last = std::max(block.wish_last, now() + reach_);
      output.transfer = true;
    }
    plan_.pieces.push_back(std::move(piece));
  }

  void add_copy_piece(std::int32_t index) {
    Piece piece;
    piece.layer = index;
    const Layer& of = layer(index);
    for (std::size_t i = 0; i < of.copies.size(); ++i) {
      if (!resident(of.copies[i].destination).active) {
        piece.copies.push_back(static_cast<std::int32_t>(i));
      }
    }
    plan_.pieces.push_back(std::move(piece));
    add_moves_after(index);
  }

  // Parts of Moves whose source is complete after this layer are loaded now, not when the Move's
  // turn comes: the load engine has time.
  void add_moves_after(std::int32_t index) {
    for (std::size_t i = 0; i < residents_.size(); ++i) {
      if (!residents_[i].active) continue;
      Piece piece;
      for (const ResidentMove& move : residents_[i].moves) {
        if (move.after != index) continue;
        piece.layer = move.layer;
        const std::int32_t block = resident_block(static_cast<StorageIndex>(i));
        piece.moves.push_back({move.load.from, move.load.to, block});
      }
      if (!piece.moves.empty()) plan_.pieces.push_back(std::move(piece));
    }
  }

  // Residents that somebody reads from DRAM are stored as well.
  void mark_stores() {
    std::vector<bool> needed(residents_.size(), false);
    for (std::size_t i = 0; i < needed.size(); ++i) {
      needed[i] = inputs_.storages.storages[i].base == program::BaseIndex::kOutput;
    }
    const auto need = [&](StorageIndex index) { needed[static_cast<std::size_t>(index)] = true; };
    for (const Piece& piece : plan_.pieces) {
      for (const PieceOperand& input : piece.inputs) {
        if (input.transfer) need(input.view.storage);
      }
      for_each_dram_storage(piece, need);
    }
    for (Piece& piece : plan_.pieces) {
      if (piece.output.block < 0) continue;
      piece.output.transfer = needed[static_cast<std::size_t>(piece.output.view.storage)];
    }
  }

  // Storages that copies and host steps of a piece touch in DRAM.
  template <typename Visit>
  void for_each_dram_storage(const Piece& piece, Visit&& visit) const {
    const Layer& of = layer(piece.layer);
    for (const std::int32_t i : piece.copies) {
      const PlannedCopy& copy = of.copies[static_cast<std::size_t>(i)];
      if (!copy.fill) visit(copy.source);
      visit(copy.destination);
    }
    for (const PieceMove& move : piece.moves) visit(move.from.storage);
    if (of.kind != LayerKind::kHost) return;
    const graph::Node& node = inputs_.graph.nodes[static_cast<std::size_t>(of.node)];
    for (const auto* list : {&node.inputs, &node.outputs}) {
      for (const graph::TensorId id : *list) {
        visit(inputs_.storages.places[static_cast<std::size_t>(id.value)].storage);
      }
    }
  }

  std::optional<Misfit> place_buffer() {
    const MemoryBounds bounds{capacity_, kAlignmentBytes};
    auto failed = place_blocks(plan_.buffer_blocks, bounds);
    while (failed && drop_wishes(plan_.buffer_blocks[*failed])) {
      failed = place_blocks(plan_.buffer_blocks, bounds);
    }
    if (failed) {
      const Block& block = plan_.buffer_blocks[*failed];
      return Misfit{
          {ErrorCode::kDoesNotFit,
           fmt::format("layer '{}': tensor '{}' needs {} bytes of each state buffer "
                       "partition, which holds {}, beside the layer's other operands; "
                       "use a chip configuration with a larger "
                       "state_buffer.bytes_per_partition",
                       layer(layer_of(block.first)).name, block.name, block.bytes, capacity_)},
          layer_of(block.first),
          layer_of(block.last)};
    }
    const std::string overlap = find_overlap(plan_.buffer_blocks, bounds);
    TESSERA_CHECK(overlap.empty(), "{}", overlap);
    for (const Block& block : plan_.buffer_blocks) {
      plan_.buffer_peak_bytes = std::max(plan_.buffer_peak_bytes, block.offset + block.bytes);
    }
    return std::nullopt;
  }

  // Blocks that live or wish to live beside this one make do with their life. False if all do.
  bool drop_wishes(const Block& tight) {
    bool dropped = false;
    for (Block& block : plan_.buffer_blocks) {
      if (block.wish_first > tight.last || block.wish_last < tight.first) continue;
      if (block.wish_first == block.first && block.wish_last == block.last) continue;
      block.wish_first = block.first;
      block.wish_last = block.last;
      dropped = true;
    }
    return dropped;
  }

  std::int32_t layer_of(std::int64_t piece) const {
    return plan_.pieces[static_cast<std::size_t>(piece)].layer;
  }

  std::optional<Misfit> place_homes() {
    plan_.homes.assign(residents_.size(), -1);
    const auto touch = [&](StorageIndex index, std::int64_t time) {
      if (storage(index).base != program::BaseIndex::kWorkspace) return;
      std::int32_t& home = plan_.homes[static_cast<std::size_t>(index)];
      if (home < 0) {
        home = static_cast<std::int32_t>(plan_.home_blocks.size());
        plan_.home_blocks.push_back({.name = storage(index).name,
                                     .bytes = storage(index).bytes(),
                                     .first = time,
                                     .wish_first = time});
      }
      Block& block = plan_.home_blocks[static_cast<std::size_t>(home)];
      block.last = time;
      block.wish_last = time + 1;
    };
    for (std::size_t t = 0; t < plan_.pieces.size(); ++t) {
      const Piece& piece = plan_.pieces[t];
      const auto time = static_cast<std::int64_t>(t);
      for (const PieceOperand& input : piece.inputs) {
        if (input.transfer) touch(input.view.storage, time);
      }
      if (piece.output.transfer) touch(piece.output.view.storage, time);
      for_each_dram_storage(piece, [&](StorageIndex index) { touch(index, time); });
    }
    const MemoryBounds bounds{inputs_.chip.dram.bytes, kAlignmentBytes};
    const auto failed = place_blocks(plan_.home_blocks, bounds);
    if (failed) {
      const Block& block = plan_.home_blocks[*failed];
      return Misfit{{ErrorCode::kDoesNotFit,
                     fmt::format("layer '{}': tensor '{}' needs {} bytes of DRAM workspace beside "
                                 "the others, the memory holds {}; use a chip configuration with a "
                                 "larger dram.bytes",
                                 layer(layer_of(block.first)).name, block.name, block.bytes,
                                 bounds.capacity)},
                    0,
                    static_cast<std::int32_t>(inputs_.layers.size())};
    }
    const std::string overlap = find_overlap(plan_.home_blocks, bounds);
    TESSERA_CHECK(overlap.empty(), "{}", overlap);
    for (const Block& block : plan_.home_blocks) {
      plan_.workspace_bytes = std::max(plan_.workspace_bytes, block.offset + block.bytes);
    }
    return std::nullopt;
  }

  // Gives up the resident that saves least for the room and time it takes there.
  bool demote(const Misfit& misfit) {
    Resident* worst = nullptr;
    double worst_score = 0;
    for (Resident& candidate : residents_) {
      if (!candidate.active || candidate.first_layer > misfit.last_layer ||
          candidate.last_layer < misfit.first_layer) {
        continue;
      }
      const double life = candidate.last_layer - candidate.first_layer + 1;
      const double score =
          life / (1 + candidate.uses) * static_cast<double>(candidate.layout.bytes());
      if (worst == nullptr || score > worst_score) {
        worst = &candidate;
        worst_score = score;
      }
    }
    if (worst == nullptr) return false;
    worst->active = false;
    return true;
  }

  const PlanInputs& inputs_;
  std::vector<Resident> residents_;
  const std::int64_t capacity_;
  Plan plan_;
  std::vector<std::int32_t> resident_blocks_;  // of each storage
  std::int64_t reach_ = 1;  // pieces between two of the same layer: how far loads run ahead
  std::vector<std::pair<StorageView, std::int32_t>> chained_;  // results of the current chain
};

}  // namespace

Result<Plan> make_plan(const PlanInputs& inputs) { return Planner(inputs).run(); }

}  // namespace tessera::compile
