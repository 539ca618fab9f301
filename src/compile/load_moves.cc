#include "compile/load_moves.h"

#include <algorithm>

namespace tessera::compile {
namespace {

// Beyond this many loads a copy in DRAM is the better way.
constexpr std::size_t kLoadsMax = 64;

struct BoxAxis {
  std::int64_t extent = 1, to = 0, from = 0;
};

class MovePlanner {
 public:
  MovePlanner(const PlannedCopy& copy, const StorageView& whole, const BufferLayout& layout)
      : copy_(copy), whole_(whole), layout_(layout) {}

  std::optional<std::vector<LoadMove>> run() {
    if (copy_.fill) return std::nullopt;
    std::vector<BoxAxis> axes;
    for (std::size_t i = 0; i < copy_.to.extents.size(); ++i) {
      if (copy_.to.extents[i] == 1) continue;
      if (copy_.to.strides[i] <= 0 || copy_.from.strides[i] < 0) return std::nullopt;
      axes.push_back({copy_.to.extents[i], copy_.to.strides[i], copy_.from.strides[i]});
    }
    for (const std::size_t axis : {0, 1}) {
      if (whole_.strides[axis] != 0 && !split_at(axes, whole_.strides[axis])) return std::nullopt;
    }
    std::sort(axes.begin(), axes.end(),
              [](const BoxAxis& a, const BoxAxis& b) { return a.to > b.to; });
    if (!unroll(axes, copy_.to.offset, copy_.from.offset)) return std::nullopt;
    return std::move(moves_);
  }

 private:
  // Axes that cross `stride` of the target become two.
  static bool split_at(std::vector<BoxAxis>& axes, std::int64_t stride) {
    for (std::size_t i = 0; i < axes.size(); ++i) {
      BoxAxis& axis = axes[i];
      if (axis.to >= stride || axis.to * axis.extent <= stride) continue;
      const std::int64_t inner = stride / axis.to;
      if (stride % axis.to != 0 || axis.extent % inner != 0) return false;
      const BoxAxis outer{axis.extent / inner, stride, axis.from * inner};
      axis.extent = inner;
      axes.push_back(outer);
      return split_at(axes, stride);
    }
    return true;
  }

  bool is_channel(const BoxAxis& axis) const { return axis.to == whole_.strides[1]; }

  // One load if it can be walked, else one for each index of the shortest axis.
  bool unroll(const std::vector<BoxAxis>& axes, std::int64_t to, std::int64_t from) {
    if (moves_.size() >= kLoadsMax) return false;
    if (add(axes, to, from)) return true;
    std::size_t shortest = axes.size();
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (is_channel(axes[i])) continue;
      if (shortest == axes.size() || axes[i].extent <= axes[shortest].extent) shortest = i;
    }
    if (shortest == axes.size()) return false;
    std::vector<BoxAxis> rest = axes;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(shortest));
    const BoxAxis axis = axes[shortest];
    for (std::int64_t k = 0; k < axis.extent; ++k) {
      if (!unroll(rest, to + k * axis.to, from + k * axis.from)) return false;
    }
    return true;
  }

  bool add(const std::vector<BoxAxis>& axes, std::int64_t to, std::int64_t from) {
    LoadMove move;
    move.to.storage = copy_.destination;
    move.to.offset = to;
    move.from.storage = copy_.source;
    move.from.offset = from;
    std::vector<BoxAxis> spatial;
    const auto set = [&](std::size_t place, const BoxAxis& axis) {
      move.to.extents[place] = move.from.extents[place] = axis.extent;
      move.to.strides[place] = axis.to;
      move.from.strides[place] = axis.from;
    };
    for (const BoxAxis& axis : axes) {
      if (is_channel(axis)) {
        set(1, axis);
      } else {
        spatial.push_back(axis);
      }
    }
    if (spatial.size() > 3) return false;
    constexpr std::size_t kPlaces[] = {0, 2, 3};  // images, rows, columns
    for (std::size_t i = 0; i < spatial.size(); ++i)
      set(kPlaces[3 - spatial.size() + i], spatial[i]);
    if (!layout_.map(move.to)) return false;
    moves_.push_back(move);
    return true;
  }

  const PlannedCopy& copy_;
  const StorageView& whole_;
  const BufferLayout& layout_;
  std::vector<LoadMove> moves_;
};

}  // namespace

std::optional<std::vector<LoadMove>> plan_load_moves(const PlannedCopy& copy,
                                                     const StorageView& whole,
                                                     const BufferLayout& layout) {
  return MovePlanner(copy, whole, layout).run();
}

}  // namespace tessera::compile
