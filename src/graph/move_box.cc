#include "graph/move_box.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "base/copy_plane.h"

namespace tessera::graph {

namespace {

// A run of output coordinates along one axis, as at most two nested axes.
struct Segment {
  std::int64_t input_start = 0;
  std::int64_t output_start = 0;
  std::vector<std::int64_t> extents;
  std::vector<std::int64_t> input_steps;
  std::vector<std::int64_t> output_steps;
};

// How many coordinates from `start` on have a constant step; -1 entries end a run.
std::int64_t run_length(const IndexMap& map, std::size_t start) {
  if (start + 1 >= map.size() || map[start + 1] < 0) return 1;
  const std::int64_t step = map[start + 1] - map[start];
  std::size_t end = start + 1;
  while (end + 1 < map.size() && map[end + 1] >= 0 && map[end + 1] - map[end] == step) ++end;
  return static_cast<std::int64_t>(end - start + 1);
}

// The whole map as map[i*k + j] = map[0] + i*a + j*b (tiles and whole-number scales).
std::optional<Segment> two_level_segment(const IndexMap& map) {
  const auto count = static_cast<std::int64_t>(map.size());
  const std::int64_t k = run_length(map, 0);
  if (k == count || count % k != 0) return std::nullopt;
  const auto at = [&](std::int64_t i) { return map[static_cast<std::size_t>(i)]; };
  const std::int64_t a = at(k) - at(0);
  const std::int64_t b = k > 1 ? at(1) - at(0) : 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (at(i) < 0 || at(i) != at(0) + (i / k) * a + (i % k) * b) return std::nullopt;
  }
  return Segment{at(0), 0, {count / k, k}, {a, b}, {k, 1}};
}

std::vector<Segment> segments_of(const IndexMap& map) {
  if (map.empty()) return {};
  if (map[0] >= 0) {
    if (auto whole = two_level_segment(map)) return {*whole};
  }
  std::vector<Segment> segments;
  for (std::size_t i = 0; i < map.size();) {
    if (map[i] < 0) {
      ++i;
      continue;
    }
    const std::int64_t length = run_length(map, i);
    const std::int64_t step = length > 1 ? map[i + 1] - map[i] : 0;
    segments.push_back({map[i], static_cast<std::int64_t>(i), {length}, {step}, {1}});
    i += static_cast<std::size_t>(length);
  }
  return segments;
}

void append_axis(CopyBox& box, const Segment& segment, std::int64_t input_stride,
                 std::int64_t output_stride) {
  box.input_offset += segment.input_start * input_stride;
  box.output_offset += segment.output_start * output_stride;
  for (std::size_t i = 0; i < segment.extents.size(); ++i) {
    box.extents.push_back(segment.extents[i]);
    box.input_strides.push_back(segment.input_steps[i] * input_stride);
    box.output_strides.push_back(segment.output_steps[i] * output_stride);
  }
}

// One axis of the tensor between two composed boxes: `first` fills it, `second` walks over it.
struct MiddleAxis {
  std::int64_t extent = 1;
  std::int64_t stride = 1;         // in the middle tensor
  std::int64_t input_stride = 0;   // in the input of `first`
  std::int64_t start = 0;          // coordinate where `second` begins
  std::int64_t low = 0, high = 0;  // what the walk adds at least and at most
};

// The axes of `first` as a dense row-major tensor, or nothing if it is not one.
std::optional<std::vector<MiddleAxis>> middle_axes(const CopyBox& first, std::int64_t count) {
  std::vector<MiddleAxis> axes;
  for (std::size_t i = 0; i < first.extents.size(); ++i) {
    if (first.extents[i] == 1) continue;
    axes.push_back({first.extents[i], first.output_strides[i], first.input_strides[i], 0, 0, 0});
  }
  std::sort(axes.begin(), axes.end(),
            [](const MiddleAxis& a, const MiddleAxis& b) { return a.stride > b.stride; });
  std::int64_t expected = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (axis->stride != expected) return std::nullopt;
    expected *= axis->extent;
  }
  if (expected != count || first.output_offset != 0) return std::nullopt;
  return axes;
}

// Adds an axis of `second` (extent, stride in the middle tensor, stride in the output) to the
// composed box; splits it where it runs over the end of a middle axis.
bool walk_axis(std::vector<MiddleAxis>& axes, CopyBox& box, std::int64_t extent,
               std::int64_t stride, std::int64_t output_stride) {
  if (extent == 1) return true;
  if (stride == 0) {
    box.extents.push_back(extent);
    box.input_strides.push_back(0);
    box.output_strides.push_back(output_stride);
    return true;
  }
  for (std::size_t k = 0; k < axes.size(); ++k) {
    MiddleAxis& axis = axes[k];
    if (stride % axis.stride != 0) continue;
    const std::int64_t step = stride / axis.stride;
    if (std::abs(step) >= axis.extent) return false;
    if (extent * std::abs(step) > axis.extent && k > 0 && step > 0 && axis.extent % step == 0 &&
        axis.start == 0) {
      const std::int64_t inner = axis.extent / step;
      if (extent % inner != 0) return false;
      return walk_axis(axes, box, extent / inner, stride * inner, output_stride * inner) &&
             walk_axis(axes, box, inner, stride, output_stride);
    }
    (step > 0 ? axis.high : axis.low) += step * (extent - 1);
    box.extents.push_back(extent);
    box.input_strides.push_back(step * axis.input_stride);
    box.output_strides.push_back(output_stride);
    return true;
  }
  return false;
}

ElementRange range_of(std::int64_t offset, const std::vector<std::int64_t>& extents,
                      const std::vector<std::int64_t>& strides) {
  ElementRange range{offset, offset};
  for (std::size_t i = 0; i < extents.size(); ++i) {
    std::int64_t reach = 0;
    const bool far = __builtin_mul_overflow(extents[i] - 1, strides[i], &reach);
    std::int64_t& end = reach < 0 ? range.first : range.last;
    if (far || __builtin_add_overflow(end, reach, &end)) return {INT64_MIN, INT64_MAX};
  }
  return range;
}

// Axes of extent 1 repeated, of a dense tensor.
CopyBox repeating_box(const Shape& dims, const Shape& wanted) {
  CopyBox box;
  box.extents = wanted;
  box.input_strides = row_major_strides(dims);
  box.output_strides = row_major_strides(wanted);
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] == 1) box.input_strides[axis] = 0;
  }
  return simplified(box);
}

}  // namespace

std::vector<std::int64_t> row_major_strides(const Shape& dims) {
  std::vector<std::int64_t> strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

CopyBox dense_box(std::int64_t count) { return {0, 0, 0, {count}, {1}, {1}}; }

CopyBox permuted_box(const Shape& input_dims, const std::vector<std::int64_t>& permutation) {
  const std::vector<std::int64_t> input_strides = row_major_strides(input_dims);
  CopyBox box;
  for (const std::int64_t axis : permutation) {
    box.extents.push_back(input_dims[static_cast<std::size_t>(axis)]);
    box.input_strides.push_back(input_strides[static_cast<std::size_t>(axis)]);
  }
  box.output_strides = row_major_strides(box.extents);
  return simplified(box);
}

CopyBox joined(const CopyBox& box) {
  CopyBox result;
  result.input = box.input;
  result.input_offset = box.input_offset;
  result.output_offset = box.output_offset;
  for (std::size_t i = 0; i < box.extents.size(); ++i) {
    if (box.extents[i] == 1) continue;
    if (!result.extents.empty() &&
        result.input_strides.back() == box.input_strides[i] * box.extents[i] &&
        result.output_strides.back() == box.output_strides[i] * box.extents[i]) {
      result.extents.back() *= box.extents[i];
      result.input_strides.back() = box.input_strides[i];
      result.output_strides.back() = box.output_strides[i];
      continue;
    }
    result.extents.push_back(box.extents[i]);
    result.input_strides.push_back(box.input_strides[i]);
    result.output_strides.push_back(box.output_strides[i]);
  }
  return result;
}

CopyBox simplified(const CopyBox& box) {
  CopyBox result = joined(box);
  if (result.extents.empty()) {
    result.extents = {1};
    result.input_strides = {1};
    result.output_strides = {1};
  }
  return result;
}

namespace {

// Without axis k.
CopyBox without_axis(CopyBox box, std::size_t k) {
  const auto at = static_cast<std::ptrdiff_t>(k);
  box.extents.erase(box.extents.begin() + at);
  box.input_strides.erase(box.input_strides.begin() + at);
  box.output_strides.erase(box.output_strides.begin() + at);
  return box;
}

bool same_axes(const CopyBox& a, const CopyBox& b) {
  return a.extents == b.extents && a.input_strides == b.input_strides &&
         a.output_strides == b.output_strides;
}

// `box` with axis k as `like` has it and one position long.
CopyBox with_axis_of(CopyBox box, const CopyBox& like, std::size_t k) {
  const auto at = static_cast<std::ptrdiff_t>(k);
  box.extents.insert(box.extents.begin() + at, 1);
  box.input_strides.insert(box.input_strides.begin() + at, like.input_strides[k]);
  box.output_strides.insert(box.output_strides.begin() + at, like.output_strides[k]);
  return box;
}

}  // namespace

std::optional<CopyBox> continued(const CopyBox& first, const CopyBox& second) {
  if (first.input != second.input) return std::nullopt;
  const CopyBox a = joined(first);
  const CopyBox b = joined(second);
  const std::size_t rank = std::max(a.extents.size(), b.extents.size());
  if (a.extents.size() + b.extents.size() + 1 < 2 * rank) return std::nullopt;
  for (std::size_t k = 0; k < rank; ++k) {
    // An axis on which one of them has a single position is missing there.
    const CopyBox low = a.extents.size() < rank ? with_axis_of(a, b, k) : a;
    const CopyBox high = b.extents.size() < rank ? with_axis_of(b, a, k) : b;
    if (low.input_strides[k] != high.input_strides[k] ||
        low.output_strides[k] != high.output_strides[k] ||
        high.input_offset - low.input_offset != low.extents[k] * low.input_strides[k] ||
        high.output_offset - low.output_offset != low.extents[k] * low.output_strides[k] ||
        !same_axes(without_axis(low, k), without_axis(high, k))) {
      continue;
    }
    CopyBox both = low;
    both.extents[k] += high.extents[k];
    return simplified(both);
  }
  return std::nullopt;
}

std::vector<RepeatingStep> repeating_steps(Shape dims, const Shape& wanted) {
  std::vector<RepeatingStep> steps;
  while (dims != wanted) {
    Shape next = wanted;
    CopyBox box = repeating_box(dims, next);
    while (box.extents.size() > kBoxAxesMax) {  // half of the axes that are left
      std::vector<std::size_t> axes;
      for (std::size_t axis = 0; axis < dims.size(); ++axis) {
        if (dims[axis] != next[axis]) axes.push_back(axis);
      }
      for (std::size_t i = axes.size() / 2; i < axes.size(); ++i) next[axes[i]] = 1;
      box = repeating_box(dims, next);
    }
    steps.push_back({std::move(box), next});
    dims = std::move(next);
  }
  return steps;
}

IndexMap identity_map(std::int64_t count) {
  IndexMap map(static_cast<std::size_t>(count));
  std::iota(map.begin(), map.end(), 0);
  return map;
}

std::optional<MoveAttributes> move_by_index_maps(const Shape& input_dims,
                                                 const std::vector<IndexMap>& maps) {
  TESSERA_CHECK(input_dims.size() == maps.size(), "{} axes, {} maps", input_dims.size(),
                maps.size());
  Shape output_dims;
  for (const IndexMap& map : maps) output_dims.push_back(static_cast<std::int64_t>(map.size()));
  const std::vector<std::int64_t> input_strides = row_major_strides(input_dims);
  const std::vector<std::int64_t> output_strides = row_major_strides(output_dims);
  std::vector<CopyBox> boxes(1);
  MoveAttributes move;
  for (std::size_t axis = 0; axis < maps.size(); ++axis) {
    move.has_fill |= std::find(maps[axis].begin(), maps[axis].end(), -1) != maps[axis].end();
    const std::vector<Segment> segments = segments_of(maps[axis]);
    if (boxes.size() * segments.size() > kBoxesMax) return std::nullopt;
    std::vector<CopyBox> longer;
    for (const CopyBox& box : boxes) {
      for (const Segment& segment : segments) {
        longer.push_back(box);
        append_axis(longer.back(), segment, input_strides[axis], output_strides[axis]);
      }
    }
    boxes = std::move(longer);
  }
  for (CopyBox& box : boxes) {
    move.copies.push_back(simplified(box));
    if (move.copies.back().extents.size() > kBoxAxesMax) return std::nullopt;
  }
  return move;
}

std::optional<CopyBox> composed(const CopyBox& first, std::int64_t count, const CopyBox& second) {
  auto axes = middle_axes(first, count);
  if (!axes) return std::nullopt;
  CopyBox box;
  box.input = first.input;
  box.input_offset = first.input_offset;
  box.output_offset = second.output_offset;
  std::int64_t rest = second.input_offset;
  for (MiddleAxis& axis : *axes) {
    axis.start = rest / axis.stride;
    rest %= axis.stride;
    box.input_offset += axis.start * axis.input_stride;
  }
  for (std::size_t i = 0; i < second.extents.size(); ++i) {
    if (!walk_axis(*axes, box, second.extents[i], second.input_strides[i],
                   second.output_strides[i])) {
      return std::nullopt;
    }
  }
  for (const MiddleAxis& axis : *axes) {
    if (axis.start + axis.low < 0 || axis.start + axis.high >= axis.extent) return std::nullopt;
  }
  box = simplified(box);
  if (box.extents.size() > kBoxAxesMax) return std::nullopt;
  return box;
}

bool is_dense_copy(const CopyBox& box, std::int64_t count) {
  const CopyBox simple = simplified(box);
  return simple.input_offset == 0 && simple.output_offset == 0 && simple.extents.size() == 1 &&
         simple.extents[0] == count && simple.input_strides[0] == 1 &&
         simple.output_strides[0] == 1;
}

std::vector<TensorId> inputs_read(const std::vector<TensorId>& inputs,
                                  std::vector<CopyBox>& copies) {
  std::vector<TensorId> read;
  for (CopyBox& copy : copies) {
    const TensorId input = inputs[static_cast<std::size_t>(copy.input)];
    const auto found = std::ranges::find(read, input);
    copy.input = static_cast<std::int32_t>(found - read.begin());
    if (found == read.end()) read.push_back(input);
  }
  return read;
}

std::int64_t box_elements(const CopyBox& box) { return element_count(box.extents); }

ElementRange input_range(const CopyBox& box) {
  return range_of(box.input_offset, box.extents, box.input_strides);
}

ElementRange output_range(const CopyBox& box) {
  return range_of(box.output_offset, box.extents, box.output_strides);
}

namespace {

// A plane of the two innermost axes after the other.
void copy_box(const CopyBox& box, const std::byte* from, std::byte* to,
              std::int64_t element_bytes) {
  const std::size_t rank = box.extents.size();
  const std::size_t outer = rank < 2 ? 0 : rank - 2;
  const std::int64_t rows = rank < 2 ? 1 : box.extents[outer];
  const auto strides = [&](const std::vector<std::int64_t>& all) {
    return PlaneStrides{rank < 2 ? 0 : all[outer], rank == 0 ? 0 : all.back()};
  };
  const std::int64_t columns = rank == 0 ? 1 : box.extents.back();
  if (rows == 0 || columns == 0) return;
  const std::int64_t planes = box_elements(box) / (rows * columns);
  std::vector<std::int64_t> at(outer, 0);
  std::int64_t source = box.input_offset;
  std::int64_t target = box.output_offset;
  for (std::int64_t n = 0; n < planes; ++n) {
    copy_plane(element_bytes, rows, columns, from + source * element_bytes,
               strides(box.input_strides), to + target * element_bytes,
               strides(box.output_strides));
    for (std::size_t k = outer; k-- > 0;) {
      source += box.input_strides[k];
      target += box.output_strides[k];
      if (++at[k] < box.extents[k]) break;
      source -= box.input_strides[k] * box.extents[k];
      target -= box.output_strides[k] * box.extents[k];
      at[k] = 0;
    }
  }
}

}  // namespace

Tensor moved(const MoveAttributes& move, std::span<const Tensor* const> inputs, Format format,
             const Shape& output_dims) {
  Tensor output = Tensor::zeros(format, output_dims);
  const auto size = static_cast<std::size_t>(format_bytes(format));
  if (move.has_fill) {
    for (std::size_t at = 0; at < output.bytes.size(); at += size) {
      std::memcpy(output.bytes.data() + at, &move.fill, size);
    }
  }
  for (const CopyBox& box : move.copies) {
    copy_box(box, inputs[static_cast<std::size_t>(box.input)]->bytes.data(), output.bytes.data(),
             format_bytes(format));
  }
  return output;
}

}  // namespace tessera::graph
