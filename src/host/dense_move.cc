#include "host/dense_move.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "base/element_size.h"

namespace tessera::host {
// Not an anonymous one: BoxCopier, which the header names, has members of these types.
namespace runs {

constexpr std::int64_t kSmallBox = 16'384;  // elements that are not worth another thread

struct Axis {
  std::int64_t extent, source, destination;  // strides in bytes
};

// Axes of extent 1 go; an axis that continues the next one on both sides joins it.
std::vector<Axis> merged_axes(const graph::CopyBox& box, std::int64_t element_bytes) {
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < box.extents.size(); ++i) {
    if (box.extents[i] == 1) continue;
    const Axis axis{box.extents[i], box.input_strides[i] * element_bytes,
                    box.output_strides[i] * element_bytes};
    if (!axes.empty() && axes.back().source == axis.source * axis.extent &&
        axes.back().destination == axis.destination * axis.extent) {
      axes.back() = {axes.back().extent * axis.extent, axis.source, axis.destination};
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}

// ---- the innermost axes of a box

template <typename T>
void copy_strided(const Axis& axis, const std::byte* source, std::byte* destination) {
  for (std::int64_t i = 0; i < axis.extent; ++i) {
    std::memcpy(destination + i * axis.destination, source + i * axis.source, sizeof(T));
  }
}

// Every other element: the lower half of what two elements make, a loop of whole vectors.
void copy_even_halves(std::int64_t count, const std::byte* source, std::byte* destination) {
  std::int64_t i = 0;
  if constexpr (std::endian::native == std::endian::little) {
    for (; i + 1 < count; ++i) {
      std::uint32_t both = 0;
      std::memcpy(&both, source + i * 4, sizeof both);
      const auto even = static_cast<std::uint16_t>(both);
      std::memcpy(destination + i * 2, &even, sizeof even);
    }
  }
  for (; i < count; ++i) std::memcpy(destination + i * 2, source + i * 4, 2);
}

// `count` elements, each kTimes times.
template <typename T, int kTimes>
void repeat_each(std::int64_t count, const std::byte* source, std::byte* destination) {
  struct Repeated {
    T elements[kTimes];
  };
  for (std::int64_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, source + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    Repeated repeated;
    std::fill_n(repeated.elements, kTimes, element);
    std::memcpy(destination + i * static_cast<std::int64_t>(sizeof repeated), &repeated,
                sizeof repeated);
  }
}

// element (i, j) to (j, i): the outer axis is contiguous in the source, the inner one in the
// destination. A tile of both stays in the first-level cache. Of few elements on the outer axis, as in an image whose
// colours lie side by side, loops run along the inner one.
template <typename T>
void exchange(const Axis& outer, const Axis& inner, const std::byte* source,
              std::byte* destination) {
  constexpr std::int64_t kTile = 64, kFew = 16, kLongTile = 1024;
  if (outer.extent <= kFew) {
    for (std::int64_t j0 = 0; j0 < inner.extent; j0 += kLongTile) {
      const Axis tile = {std::min(kLongTile, inner.extent - j0), inner.source,
                         static_cast<std::int64_t>(sizeof(T))};
      for (std::int64_t i = 0; i < outer.extent; ++i) {
        copy_strided<T>(tile, source + i * outer.source + j0 * inner.source,
                        destination + i * outer.destination + j0 * inner.destination);
      }
    }
    return;
  }
  for (std::int64_t i0 = 0; i0 < outer.extent; i0 += kTile) {
    const Axis tile = {std::min(kTile, outer.extent - i0), outer.source, outer.destination};
    for (std::int64_t j = 0; j < inner.extent; ++j) {
      copy_strided<T>(tile, source + i0 * outer.source + j * inner.source,
                      destination + i0 * outer.destination + j * inner.destination);
    }
  }
}

enum class RunKind : std::uint8_t {
  kElement,
  kWhole,     // contiguous on both sides
  kEven,      // every other element of 2 bytes, contiguous in the destination
  kStrided,   // any other axis
  kRepeat,    // two axes: elements, 2 or 4 or 8 times each
  kExchange,  // two axes: contiguous in the source, contiguous in the destination
};

// The innermost axes, copied in one go.
struct Run {
  RunKind kind = RunKind::kElement;
  Axis outer = {1, 0, 0}, inner = {1, 0, 0};
  std::int64_t element_bytes;

  // Takes its axes from the end of `axes`.
  Run(std::vector<Axis>& axes, std::int64_t bytes) : element_bytes(bytes) {
    if (axes.empty()) return;
    inner = axes.back();
    axes.pop_back();
    kind = RunKind::kStrided;
    if (inner.destination != bytes) return;
    if (inner.source == bytes) {
      kind = RunKind::kWhole;
    } else if (inner.source == 2 * bytes && bytes == 2) {
      kind = RunKind::kEven;
    }
    if (kind != RunKind::kStrided || axes.empty() || axes.back().source != bytes) return;
    const std::int64_t times = inner.extent;
    if (inner.source == 0) {
      if ((times != 2 && times != 4 && times != 8) || axes.back().destination != times * bytes) {
        return;
      }
      kind = RunKind::kRepeat;
    } else {
      kind = RunKind::kExchange;
    }
    outer = axes.back();
    axes.pop_back();
  }

  // Of the destination, where they lie behind each other; else 0.
  std::int64_t dense_bytes() const {
    if (kind == RunKind::kElement) return element_bytes;
    if (kind == RunKind::kStrided && inner.destination != element_bytes) return 0;
    if (kind == RunKind::kExchange) return 0;
    return outer.extent * inner.extent * element_bytes;
  }
  // What the run can be cut along.
  bool cuts_outer() const {
    return kind == RunKind::kRepeat || (kind == RunKind::kExchange && outer.extent >= inner.extent);
  }
  std::int64_t extent() const { return cuts_outer() ? outer.extent : inner.extent; }
  Run part(std::int64_t first, std::int64_t last, const std::byte*& source,
           std::byte*& destination) const {
    Run some = *this;
    Axis& axis = cuts_outer() ? some.outer : some.inner;
    source += first * axis.source;
    destination += first * axis.destination;
    axis.extent = last - first;
    return some;
  }

  void copy(const std::byte* source, std::byte* destination) const {
    switch (kind) {
      case RunKind::kElement:
      case RunKind::kWhole:
        std::memcpy(destination, source, static_cast<std::size_t>(inner.extent * element_bytes));
        return;
      case RunKind::kEven:
        return copy_even_halves(inner.extent, source, destination);
      default:
        break;
    }
    with_element(element_bytes, [&](auto element) {
      using T = decltype(element);
      if (kind == RunKind::kStrided) {
        copy_strided<T>(inner, source, destination);
      } else if (kind == RunKind::kExchange) {
        exchange<T>(outer, inner, source, destination);
      } else if (inner.extent == 2) {
        repeat_each<T, 2>(outer.extent, source, destination);
      } else if (inner.extent == 4) {
        repeat_each<T, 4>(outer.extent, source, destination);
      } else {
        repeat_each<T, 8>(outer.extent, source, destination);
      }
    });
  }
};

}  // namespace runs

class BoxCopier {
 public:
  BoxCopier(std::vector<runs::Axis> axes, std::int64_t element_bytes)
      : axes_(std::move(axes)), run_(axes_, element_bytes) {}

  // What the box can be cut along: the outermost axis, or a single run.
  std::int64_t extent() const { return axes_.empty() ? run_.extent() : axes_[0].extent; }

  void copy(std::int64_t first, std::int64_t last, const std::byte* source,
            std::byte* destination) const {
    if (axes_.empty()) {
      const runs::Run part = run_.part(first, last, source, destination);
      return part.copy(source, destination);
    }
    const runs::Axis& axis = axes_[0];
    copy_axis({last - first, axis.source, axis.destination}, 1, source + first * axis.source,
              destination + first * axis.destination);
  }

 private:
  // `axis`, inside it those from `next` on.
  void copy_axis(const runs::Axis& axis, std::size_t next, const std::byte* source,
                 std::byte* destination) const {
    if (next < axes_.size()) {
      for (std::int64_t i = 0; i < axis.extent; ++i) {
        copy_axis(axes_[next], next + 1, source + i * axis.source,
                  destination + i * axis.destination);
      }
      return;
    }
    const std::int64_t bytes = run_.dense_bytes();
    if (axis.source == 0 && bytes > 0) {
      // The same run several times.
      run_.copy(source, destination);
      for (std::int64_t i = 1; i < axis.extent; ++i) {
        std::memcpy(destination + i * axis.destination, destination,
                    static_cast<std::size_t>(bytes));
      }
      return;
    }
    for (std::int64_t i = 0; i < axis.extent; ++i) {
      run_.copy(source + i * axis.source, destination + i * axis.destination);
    }
  }

  std::vector<runs::Axis> axes_;  // outside the run
  runs::Run run_;
};

BoxCopy::BoxCopy(const graph::CopyBox& box, std::int64_t element_bytes)
    : source_bytes_(box.input_offset * element_bytes),
      destination_bytes_(box.output_offset * element_bytes),
      small_(element_count(box.extents) < runs::kSmallBox) {
  if (element_count(box.extents) == 0) return;
  copier_ = std::make_shared<const BoxCopier>(runs::merged_axes(box, element_bytes), element_bytes);
}

void BoxCopy::run(const std::byte* source, std::byte* destination, ThreadPool& pool) const {
  if (copier_ == nullptr) return;
  const std::byte* const from = source + source_bytes_;
  std::byte* const to = destination + destination_bytes_;
  if (small_) return copier_->copy(0, copier_->extent(), from, to);
  pool.for_ranges(copier_->extent(), [&](int, std::int64_t first, std::int64_t last) {
    copier_->copy(first, last, from, to);
  });
}

void fill_elements(std::byte* destination, std::int64_t count, std::int64_t element_bytes,
                   std::uint64_t bits) {
  std::byte element[sizeof bits];
  std::memcpy(element, &bits, sizeof bits);
  const auto bytes = static_cast<std::size_t>(count * element_bytes);
  if (std::all_of(element, element + element_bytes,
                  [&](std::byte byte) { return byte == element[0]; })) {
    std::memset(destination, std::to_integer<int>(element[0]), bytes);
    return;
  }
  if (bytes == 0) return;
  // What is filled is copied behind itself.
  auto filled = static_cast<std::size_t>(element_bytes);
  std::memcpy(destination, element, filled);
  while (filled < bytes) {
    const std::size_t more = std::min(filled, bytes - filled);
    std::memcpy(destination + filled, destination, more);
    filled += more;
  }
}

}  // namespace tessera::host
