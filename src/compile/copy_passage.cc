#include "compile/copy_passage.h"

#include <algorithm>
#include <utility>

#include "base/quantity.h"
#include "compile/surface_conventions.h"

namespace tessera::compile {
namespace {

constexpr std::size_t kViewAxes = 4;

std::size_t longest_of(const std::vector<CopyAxis>& axes) {
  const auto longest =
      std::max_element(axes.begin(), axes.end(),
                       [](const CopyAxis& a, const CopyAxis& b) { return a.extent < b.extent; });
  return static_cast<std::size_t>(longest - axes.begin());
}

// The axis whose elements lie side by side.
std::optional<std::size_t> innermost(const std::vector<CopyAxis>& axes,
                                     std::int64_t CopyAxis::* of) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].*of == 1) return i;
  }
  return std::nullopt;
}

class Search {
 public:
  Search(const ChipConfig& chip, const PlannedCopy& copy, Format format,
         std::optional<TranspositionWay> asked)
      : chip_(chip), copy_(copy), format_(format), asked_(asked) {}

  std::optional<CopyPassage> run(const std::vector<CopyAxis>& axes) {
    const auto source = innermost(axes, &CopyAxis::from);
    const auto target = innermost(axes, &CopyAxis::to);
    if (axes.size() <= kViewAxes) {
      try_axes(axes, std::vector<bool>(axes.size(), true));
      return std::move(best_);
    }
    // Two of the others beside the innermost ones.
    std::vector<bool> is_kept(axes.size(), false);
    if (source) is_kept[*source] = true;
    if (target) is_kept[*target] = true;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      for (std::size_t j = i + 1; j < axes.size(); ++j) {
        if (is_kept[i] || is_kept[j]) continue;
        std::vector<bool> kept = is_kept;
        kept[i] = kept[j] = true;
        try_axes(axes, kept);
      }
    }
    return std::move(best_);
  }

 private:
  // Parts of the axes that are kept.
  void try_axes(const std::vector<CopyAxis>& axes, const std::vector<bool>& is_kept) {
    kept_.clear();
    unrolled_.clear();
    parts_ = 1;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      (is_kept[i] ? kept_ : unrolled_).push_back(axes[i]);
      if (!is_kept[i]) parts_ = std::min(parts_ * axes[i].extent, kPassagePartsMax + 1);
    }
    if (parts_ > kPassagePartsMax) return;
    source_ = innermost(kept_, &CopyAxis::from);
    target_ = innermost(kept_, &CopyAxis::to);
    offer_as_it_lies();
    if (source_ && target_ && *source_ != *target_) {
      offer_exchanged(kRows);
      offer_exchanged(kImages);
    }
  }

  // `first` for each index of the axes that no part has.
  std::vector<TransposePart> unroll(const TransposePart& first) const {
    std::vector<TransposePart> parts = {first};
    for (const CopyAxis& axis : unrolled_) {
      std::vector<TransposePart> more;
      for (const TransposePart& part : parts) {
        for (std::int64_t i = 0; i < axis.extent; ++i) {
          more.push_back(part);
          more.back().from.offset += i * axis.from;
          more.back().to.offset += i * axis.to;
        }
      }
      parts = std::move(more);
    }
    return parts;
  }

  // Parts follow each other on engines that work side by side: beyond the first, what the slowest
  // takes, and loads and stores share the memory.
  void offer(TranspositionWay way, const TransposePart& part, Cycles turning) {
    const Cycles alone = transfer_task_cycles(chip_, part.from, format_) + turning +
                         transfer_task_cycles(chip_, part.to, format_);
    const Cycles memory = transfer_cycles(chip_, part.from, format_) +
                          transfer_cycles(chip_, part.to, format_) +
                          2 * chip_.dma.task_start_cycles;
    const Cycles cycles = alone + (parts_ - 1) * std::max(memory, turning);
    const bool wanted = asked_ == way;
    const bool held = best_ && asked_ == best_->way;
    if (best_ && !wanted && (held || best_->cycles <= cycles)) return;
    if (asked_ && !wanted && way != TranspositionWay::kDma) return;
    const std::int64_t bytes =
        transfer_bytes(chip_, part.from, format_) + transfer_bytes(chip_, part.to, format_);
    best_ = {.way = way, .parts = unroll(part), .cycles = cycles, .dram_bytes = parts_ * bytes};
  }

  void offer_as_it_lies() {
    offer(TranspositionWay::kDma, passing_part(copy_, kept_, longest_of(kept_)), 0);
  }

  // `last`: where the last of the axes besides goes, images or rows.
  void offer_exchanged(std::size_t last) {
    const CopyAxis& columns = kept_[*source_];
    const CopyAxis& channels = kept_[*target_];
    TransposePart part;
    part.from = {.storage = copy_.source, .offset = copy_.from.offset};
    part.to = {.storage = copy_.destination, .offset = copy_.to.offset};
    const auto set = [](StorageView& view, std::size_t place, std::int64_t extent,
                        std::int64_t stride) {
      view.extents[place] = extent;
      view.strides[place] = stride;
    };
    set(part.from, kChannels, channels.extent, channels.from);
    set(part.from, kColumns, columns.extent, columns.from);
    set(part.to, kChannels, columns.extent, columns.to);
    set(part.to, kColumns, channels.extent, channels.to);
    std::size_t place = last;
    for (std::size_t i = kept_.size(); i > 0; --i) {
      if (i - 1 == *source_ || i - 1 == *target_) continue;
      set(part.from, place, kept_[i - 1].extent, kept_[i - 1].from);
      set(part.to, place, kept_[i - 1].extent, kept_[i - 1].to);
      place = last == kRows ? kImages : kRows;
    }
    offer(TranspositionWay::kArray, part, array_transposition_cycles(chip_, {part}));
    offer(TranspositionWay::kPlanar, part, planar_transposition_cycles(chip_, {part}));
  }

  const ChipConfig& chip_;
  const PlannedCopy& copy_;
  const Format format_;
  const std::optional<TranspositionWay> asked_;
  std::vector<CopyAxis> kept_, unrolled_;
  std::int64_t parts_ = 1;
  std::optional<std::size_t> source_, target_;  // of kept_
  std::optional<CopyPassage> best_;
};

}  // namespace

std::optional<std::vector<CopyAxis>> copy_axes(const PlannedCopy& copy) {
  std::vector<CopyAxis> axes;
  for (std::size_t i = 0; i < copy.to.extents.size(); ++i) {
    const CopyAxis axis{copy.to.extents[i], copy.from.strides[i], copy.to.strides[i]};
    if (axis.extent == 1) continue;
    if (axis.from <= 0 || axis.to <= 0) return std::nullopt;
    if (!axes.empty() && axes.back().from == axis.from * axis.extent &&
        axes.back().to == axis.to * axis.extent) {
      axes.back() = {axes.back().extent * axis.extent, axis.from, axis.to};
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}

TransposePart passing_part(const PlannedCopy& copy, const std::vector<CopyAxis>& axes,
                           std::size_t channel) {
  TransposePart part;
  part.from = {.storage = copy.source, .offset = copy.from.offset};
  part.to = {.storage = copy.destination, .offset = copy.to.offset};
  constexpr std::size_t kPlaces[] = {kImages, kRows, kColumns};
  std::size_t next = kViewAxes - axes.size();
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t place = i == channel ? std::size_t{kChannels} : kPlaces[next++];
    part.from.extents[place] = part.to.extents[place] = axes[i].extent;
    part.from.strides[place] = axes[i].from;
    part.to.strides[place] = axes[i].to;
  }
  return part;
}

std::optional<CopyPassage> find_passage(const ChipConfig& chip, const PlannedCopy& copy,
                                        const std::vector<CopyAxis>& axes, Format format,
                                        std::optional<TranspositionWay> asked) {
  if (axes.size() < 2) return std::nullopt;
  return Search(chip, copy, format, asked).run(axes);
}

}  // namespace tessera::compile
