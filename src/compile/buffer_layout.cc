#include "compile/buffer_layout.h"

#include <algorithm>

#include "base/check.h"
#include "base/quantity.h"
#include "compile/surface_conventions.h"

namespace tessera::compile {
namespace {

// Keeps the channel apart from the byte within one offset.
constexpr std::int64_t kChannelUnit = std::int64_t{1} << 40;

std::int64_t held(const StorageView& view, std::size_t axis) {
  return view.strides[axis] == 0 ? 1 : view.extents[axis];
}

// Pitches of the three axes along a partition, in bytes; 0 broadcasts.
struct Pitches {
  std::int64_t image = 0, row = 0, column = 0;
};

// Images and rows become linear rows of one pitch.
bool set_rows(const StorageView& view, Pitches pitch, isa::BufferSurface& surface) {
  const bool many_images = view.images() > 1;
  const bool many_rows = view.rows() > 1;
  surface.ring_rows = static_cast<std::uint32_t>(view.images() * view.rows());
  surface.broadcast_images = many_images && pitch.image == 0;
  surface.broadcast_rows = many_rows && pitch.row == 0;
  std::int64_t linear = pitch.row;
  if (!many_rows) linear = pitch.image;
  if (many_rows && pitch.row == 0 && many_images && pitch.image != 0) {
    if (pitch.image % view.rows() != 0) return false;
    linear = pitch.image / view.rows();
  } else if (many_rows && many_images && pitch.image != 0 &&
             pitch.image != view.rows() * pitch.row) {
    return false;
  }
  surface.row_pitch = static_cast<std::uint32_t>(linear);
  return true;
}

}  // namespace

std::int64_t view_bytes(const StorageView& view, Format format, std::int64_t partitions) {
  return ceil_div(held(view, kChannels), partitions) * held(view, kImages) * held(view, kRows) *
         held(view, kColumns) * format_bytes(format);
}

BufferLayout::BufferLayout(const StorageView& view, Format format, std::int64_t partitions,
                           std::int64_t ring_rows)
    : storage_(view.storage),
      format_(format),
      partitions_(partitions),
      origin_(view.offset),
      channels_(held(view, kChannels)),
      bytes_(view_bytes(view, format, partitions)) {
  const std::int64_t element = format_bytes(format);
  const std::int64_t row_pitch = held(view, kColumns) * element;
  const std::int64_t image_pitch = held(view, kRows) * row_pitch;
  block_pitch_ = held(view, kImages) * image_pitch;
  row_pitch_ = row_pitch;
  if (ring_rows > 0 && ring_rows < held(view, kRows)) {
    TESSERA_CHECK(held(view, kImages) == 1, "a ring of {} images", held(view, kImages));
    ring_rows_ = ring_rows;
    block_pitch_ = ring_rows * row_pitch;
    bytes_ = ceil_div(channels_, partitions) * block_pitch_;
  }
  map_ = AxisMap({{view.strides[kImages], held(view, kImages), image_pitch},
                  {view.strides[kChannels], channels_, kChannelUnit},
                  {view.strides[kRows], held(view, kRows), row_pitch},
                  {view.strides[kColumns], held(view, kColumns), element}},
                 0);
}

// Sets offset and ring of a surface whose offset counts as if all rows were held. False where an
// engine cannot follow the ring.
bool BufferLayout::enter_ring(const StorageView& view, std::int64_t row_pitch,
                              isa::BufferSurface& surface) const {
  const std::int64_t row = surface.offset / row_pitch_;
  const std::int64_t rest = surface.offset % row_pitch_;
  const bool one_row = view.rows() == 1 || row_pitch == 0;
  const std::int64_t strip = (std::int64_t{surface.columns} - 1) * surface.column_pitch;
  if ((!one_row && row_pitch != row_pitch_) || rest + strip >= row_pitch_) return false;
  const std::int64_t place = row % ring_rows_;
  const std::int64_t rows = one_row ? 1 : view.rows();
  if (place != 0 && place + rows > ring_rows_) return false;
  surface.offset = static_cast<std::uint32_t>(place * row_pitch_ + rest);
  surface.ring_rows = static_cast<std::uint32_t>(std::min(rows, ring_rows_));
  return true;
}

std::optional<MappedSurface> BufferLayout::map(const StorageView& view) const {
  if (view.storage != storage_ || view.offset < origin_) return std::nullopt;
  StridedWalk walk{.offset = view.offset - origin_, .extents = {}, .strides = {}};
  walk.extents.assign(view.extents.begin(), view.extents.end());
  walk.strides.assign(view.strides.begin(), view.strides.end());
  const auto mapped = map_.walk_within(walk);
  if (!mapped) return std::nullopt;
  const std::int64_t channel_step = mapped->strides[kChannels];
  if (channel_step != 0 && channel_step != kChannelUnit) return std::nullopt;
  for (const Axis axis : {kImages, kRows, kColumns}) {
    if (mapped->strides[axis] >= kChannelUnit) return std::nullopt;
  }
  const std::int64_t channel = mapped->offset / kChannelUnit;
  const std::int64_t byte = mapped->offset % kChannelUnit;
  std::int64_t block = 0;  // byte of the view's first channel block
  MappedSurface result;
  isa::BufferSurface& surface = result.surface;
  surface.broadcast_channels = view.channels() > 1 && channel_step == 0;
  surface.channels = static_cast<std::uint32_t>(view.channels());
  if (channel % partitions_ == 0) {
    block = channel / partitions_ * block_pitch_;
  } else {
    if (surface.broadcast_channels) return std::nullopt;
    result.channel_first = channel;
    surface.channels = static_cast<std::uint32_t>(channels_);
  }
  surface.offset = static_cast<std::uint32_t>(byte);
  surface.format = format_;
  surface.images = static_cast<std::uint32_t>(view.images());
  surface.rows = static_cast<std::uint32_t>(view.rows());
  surface.columns = static_cast<std::uint32_t>(view.columns());
  surface.block_pitch = static_cast<std::uint32_t>(block_pitch_);
  const Pitches pitch{mapped->strides[kImages], mapped->strides[kRows], mapped->strides[kColumns]};
  surface.column_pitch =
      static_cast<std::uint32_t>(view.columns() == 1 ? format_bytes(format_) : pitch.column);
  if (!set_rows(view, pitch, surface)) return std::nullopt;
  if (ring_rows_ > 0 && !enter_ring(view, pitch.row, surface)) return std::nullopt;
  surface.offset += static_cast<std::uint32_t>(block);
  return result;
}

std::optional<std::vector<LayoutStep>> BufferLayout::steps(const StorageView& view) const {
  if (view.storage != storage_ || view.offset < origin_) return std::nullopt;
  std::vector<LayoutStep> steps;
  // Splits what is left of an axis at the borders of the map's axes, innermost part first.
  const auto split = [&](std::size_t axis, std::int64_t extent, std::int64_t stride) {
    const std::size_t first = steps.size();
    while (extent > 1) {
      const auto holds =
          std::find_if(map_.axes().begin(), map_.axes().end(), [&](const MapAxis& candidate) {
            return stride % candidate.from_stride == 0 &&
                   stride / candidate.from_stride < candidate.extent;
          });
      if (holds == map_.axes().end()) return false;
      const std::int64_t factor = stride / holds->from_stride;
      std::int64_t inner = extent;
      if (factor * (extent - 1) >= holds->extent) {
        if (holds->extent % factor != 0) return false;
        inner = holds->extent / factor;
        if (extent % inner != 0) return false;
      }
      const std::int64_t mapped = factor * holds->to_stride;
      steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(first),
                   {.axis = axis,
                    .extent = inner,
                    .stride = stride,
                    .channels = mapped >= kChannelUnit ? mapped / kChannelUnit : 0});
      extent /= inner;
      stride *= inner;
    }
    return true;
  };
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (view.strides[axis] == 0) continue;
    if (!split(axis, view.extents[axis], view.strides[axis])) return std::nullopt;
  }
  return steps;
}

}  // namespace tessera::compile
