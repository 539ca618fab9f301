#include "compile/share_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "compile/even_ranges.h"
#include "compile/pieces.h"
#include "compile/residency.h"
#include "compile/surface_conventions.h"

namespace tessera::compile {
namespace {

// The axis of a copy that is cut: the outermost with an element for each core, else the longest.
std::size_t axis_to_cut(const std::vector<std::int64_t>& extents, int cores) {
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] >= cores) return i;
  }
  return static_cast<std::size_t>(std::max_element(extents.begin(), extents.end()) -
                                  extents.begin());
}

StridedWalk part_of(StridedWalk walk, std::size_t axis, const RowRange& range) {
  if (walk.extents.empty()) return walk;  // the source of a fill
  walk.offset += range.first * walk.strides[axis];
  walk.extents[axis] = range.last - range.first;
  return walk;
}

// Shares of less than an aligned run of bytes are not worth a task.
void cut_copy(const PlannedCopy& copy, std::int64_t element, int cores,
              std::vector<PlannedCopy>& parts) {
  const std::vector<std::int64_t>& extents = copy.to.extents;
  std::int64_t bytes = element;
  for (const std::int64_t extent : extents) bytes *= extent;
  const std::int64_t shares = std::min<std::int64_t>(cores, bytes / kAlignmentBytes);
  if (extents.empty() || shares <= 1) {
    parts.push_back(copy);
    return;
  }
  const std::size_t axis = axis_to_cut(extents, cores);
  for (const RowRange& range : even_ranges(extents[axis], shares)) {
    PlannedCopy part = copy;
    part.to = part_of(copy.to, axis, range);
    if (!copy.fill) part.from = part_of(copy.from, axis, range);
    parts.push_back(std::move(part));
  }
}

// Images, or rows, are axes that both sides of a part have.
void cut_part(const TransposePart& part, int cores, std::vector<TransposePart>& parts) {
  const std::size_t axis = part.from.rows() >= part.from.images() ? kRows : kImages;
  for (const RowRange& range : even_ranges(part.from.extents[axis], cores)) {
    const std::int64_t count = range.last - range.first;
    parts.push_back(
        {part.from.part(axis, range.first, count), part.to.part(axis, range.first, count)});
  }
}

class Sharer {
 public:
  Sharer(const PlanInputs& inputs, const ShareChoice& choice)
      : inputs_(inputs), choice_(choice), cores_(static_cast<std::size_t>(choice.cores)) {}

  Result<Table<LayerIndex, LayerWork>> run() {
    Table<LayerIndex, LayerWork> all;
    for (std::size_t i = 0; i < inputs_.layers.size(); ++i) {
      LayerWork work;
      work.pieces.resize(cores_);
      work.copies.resize(cores_);
      TESSERA_RETURN_IF_ERROR(share(static_cast<std::int32_t>(i), work));
      if (cores_ == 1 && work.way == ShareWay::kCopies) work.way = ShareWay::kOneCore;
      if (cores_ == 1 && work.way == ShareWay::kOneCore) work.reason = "there is one core";
      all.push_back(std::move(work));
    }
    return all;
  }

 private:
  Status share(std::int32_t index, LayerWork& work) {
    const PlannedLayer& layer = inputs_.layers[index];
    switch (layer.kind) {
      case LayerKind::kHost:
        work.way = ShareWay::kHost;
        return {};
      case LayerKind::kCopy:
        share_copies(layer, work);
        return {};
      case LayerKind::kTranspose:
        return share_parts(index, work);
      default:
        return share_boxes_of(index, work);
    }
  }

  // Copies in turn; the parts of one follow each other, so they come to different cores.
  void share_copies(const PlannedLayer& layer, LayerWork& work) {
    for (std::size_t i = 0; i < layer.copies.size(); ++i) {
      work.copies[turn_++ % cores_].push_back(static_cast<std::int32_t>(i));
    }
    if (layer.copies.size() > 1) work.way = ShareWay::kCopies;
    if (layer.copies.empty()) work.way = ShareWay::kNone;
    if (layer.copies.size() == 1) work.reason = "a copy of a few bytes";
  }

  Status share_parts(std::int32_t index, LayerWork& work) {
    TESSERA_TRY(std::vector<Piece> pieces, cut_layer(inputs_, index, operands_of(index), room()));
    const auto ranges = even_ranges(std::ssize(pieces), choice_.cores);
    if (ranges.size() > 1) {
      work.way = ShareWay::kParts;
    } else {
      work.reason = "a transposition of one part";
    }
    for (std::size_t core = 0; core < ranges.size(); ++core) {
      for (std::int64_t i = ranges[core].first; i < ranges[core].last; ++i) {
        work.pieces[core].push_back(std::move(pieces[static_cast<std::size_t>(i)]));
      }
    }
    return {};
  }

  Status share_boxes_of(std::int32_t index, LayerWork& work) {
    const PlannedLayer& layer = inputs_.layers[index];
    work.boxes = share_boxes(layer, choice_);
    const std::vector<LayerBox>& boxes = work.boxes;
    TESSERA_CHECK(boxes.size() <= cores_, "layer '{}': {} shares for {} cores", layer.name,
                  boxes.size(), cores_);
    if (boxes.size() > 1) {
      work.way = find_way(layer, choice_);
    } else {
      work.reason = one_core_reason(layer);
    }
    for (std::size_t core = 0; core < boxes.size(); ++core) {
      TESSERA_TRY(work.pieces[core],
                  cut_box(inputs_, index, boxes[core], operands_of(index), room()));
    }
    return {};
  }

  PieceRoom room() const {
    PieceRoom room;
    room.allowed = inputs_.chip.state_buffer.bytes_per_partition;
    room.wanted = room.allowed / 2;
    const std::int64_t budget = inputs_.options.tile_budget_bytes;
    if (budget > 0) room.wanted = std::min(room.wanted, budget);
    return room;
  }

  LayerOperands operands_of(std::int32_t index) const { return operands_in_dram(inputs_, index); }

  const PlanInputs& inputs_;
  const ShareChoice& choice_;
  const std::size_t cores_;
  std::size_t turn_ = 0;  // the core of the next copy
};

}  // namespace

void cut_movement(const StoragePlan& storages, int cores, Layers& layers) {
  if (cores <= 1) return;
  for (PlannedLayer& layer : layers) {
    std::vector<PlannedCopy> copies;
    for (const PlannedCopy& copy : layer.copies) {
      cut_copy(copy, format_bytes(storages.storages[copy.destination].format), cores, copies);
    }
    layer.copies = std::move(copies);
    std::vector<TransposePart> parts;
    for (const TransposePart& part : layer.parts) cut_part(part, cores, parts);
    layer.parts = std::move(parts);
  }
}

Result<Table<LayerIndex, LayerWork>> share_layers(const PlanInputs& inputs,
                                                  const ShareChoice& choice) {
  return Sharer(inputs, choice).run();
}

Result<std::int64_t> place_apart(const PlanInputs& inputs, Addresses& addresses) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const Storage& storage = inputs.storages.storages[i];
    if (storage.base != isa::BaseIndex::kWorkspace) continue;
    addresses[i].offset = static_cast<std::uint64_t>(bytes);
    bytes = round_up(bytes + storage.bytes(), kAlignmentBytes);
  }
  if (bytes <= inputs.chip.dram.bytes) return bytes;
  return Error{ErrorCode::kDoesNotFit,
               fmt::format("the tensors between the layers, each in a place of its own, take {} "
                           "bytes of DRAM, the memory holds {}; use a chip configuration with "
                           "dram.bytes >= {}",
                           bytes, inputs.chip.dram.bytes, bytes)};
}

}  // namespace tessera::compile
