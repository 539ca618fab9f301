#include "compile/channel_plane.h"

#include <algorithm>
#include <functional>

#include "compile/surface_conventions.h"

namespace tessera::compile {
namespace {

RowRange common(const RowRange& a, const RowRange& b) {
  return {std::max(a.first, b.first), std::min(a.last, b.last)};
}
RowRange around(const RowRange& a, const RowRange& b) {
  return {std::min(a.first, b.first), std::max(a.last, b.last)};
}

// Rows and columns as one walk of `stride`; 1 element has any.
bool walks(const StorageView& view, std::int64_t stride) {
  if (view.columns() > 1 && view.strides[kColumns] != stride) return false;
  return view.rows() == 1 || view.strides[kRows] == view.columns() * stride;
}

}  // namespace

PlaneRegion intersection(const PlaneRegion& a, const PlaneRegion& b) {
  return {common(a.channels, b.channels), common(a.plane, b.plane), common(a.images, b.images)};
}

PlaneRegion hull(const PlaneRegion& a, const PlaneRegion& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  return {around(a.channels, b.channels), around(a.plane, b.plane), around(a.images, b.images)};
}

std::optional<ChannelPlane> ChannelPlane::of(const StorageView& whole, std::int64_t elements) {
  ChannelPlane result;
  result.whole_ = whole;
  result.images_ = whole.images();
  result.channels_ = whole.channels();
  result.plane_ = whole.rows() * whole.columns();
  if (whole.offset != 0 || result.images_ * result.channels_ * result.plane_ != elements) {
    return std::nullopt;
  }
  result.image_stride_ = whole.strides[kImages];
  result.channel_stride_ = whole.strides[kChannels];
  result.plane_stride_ = whole.strides[whole.columns() > 1 ? kColumns : kRows];
  if (!walks(whole, result.plane_stride_)) return std::nullopt;
  // Each lies dense within the next.
  std::array<RunOfAxis, 3> axes = result.axes();
  std::ranges::sort(axes, {}, &RunOfAxis::stride);
  std::int64_t dense = 1;
  for (const RunOfAxis& axis : axes) {
    if (axis.count == 1) continue;
    if (axis.stride != dense) return std::nullopt;
    dense *= axis.count;
  }
  return result;
}

std::array<ChannelPlane::RunOfAxis, 3> ChannelPlane::axes() const {
  return {{{image_stride_, images_, &PlaneRegion::images},
           {channel_stride_, channels_, &PlaneRegion::channels},
           {plane_stride_, plane_, &PlaneRegion::plane}}};
}

bool ChannelPlane::set_plane(std::int64_t first, std::int64_t length, PlaneRegion& region) const {
  region.plane = {first, first + length};
  if (region.plane.last <= plane_) return true;
  if (!images_adjoin() || first != 0 || length % plane_ != 0) return false;
  region.plane.last = plane_;
  region.images.last = region.images.first + length / plane_;
  return true;
}

bool ChannelPlane::set_first(const StorageView& view, PlaneRegion& region) const {
  std::array<RunOfAxis, 3> axes = this->axes();
  std::ranges::sort(axes, std::greater(), &RunOfAxis::stride);
  std::int64_t rest = view.offset;
  for (const RunOfAxis& axis : axes) {
    const std::int64_t first = axis.count == 1 ? 0 : rest / axis.stride;
    region.*axis.range = {first, first + 1};
    if (axis.count > 1) rest %= axis.stride;
  }
  return rest == 0;
}

std::optional<PlaneRegion> ChannelPlane::region(const StorageView& view) const {
  if (view.channels() > 1 && view.strides[kChannels] != channel_stride_) return std::nullopt;
  if (!walks(view, plane_stride_)) return std::nullopt;
  std::int64_t images = view.images(), length = view.rows() * view.columns();
  if (images > 1 && (view.strides[kImages] != image_stride_ || length > plane_)) {
    // Images of the view may be parts of the plane that follow each other.
    if (view.strides[kImages] != length * plane_stride_) return std::nullopt;
    length *= images;
    images = 1;
  }
  PlaneRegion result;
  if (!set_first(view, result)) return std::nullopt;
  result.images.last = result.images.first + images;
  result.channels.last = result.channels.first + view.channels();
  if (!set_plane(result.plane.first, length, result)) return std::nullopt;
  if (result.channels.last > channels_ || result.images.last > images_) return std::nullopt;
  return result;
}

std::optional<PlaneRegion> ChannelPlane::around(const StorageView& view) const {
  if (const auto exact = region(view)) return exact;
  if (plane_stride_ == 0) return std::nullopt;
  if (view.channels() > 1 && view.strides[kChannels] != channel_stride_) return std::nullopt;
  PlaneRegion result;
  if (!set_first(view, result)) return std::nullopt;
  const bool by_image = view.images() > 1 && view.strides[kImages] == image_stride_ && images_ > 1;
  std::int64_t span = 0;
  for (const Axis axis : {kImages, kRows, kColumns}) {
    if (view.extents[axis] == 1 || (axis == kImages && by_image)) continue;
    if (view.strides[axis] % plane_stride_ != 0) return std::nullopt;
    span += (view.extents[axis] - 1) * view.strides[axis] / plane_stride_;
  }
  result.plane.last += span;
  result.channels.last = result.channels.first + view.channels();
  if (by_image) result.images.last = result.images.first + view.images();
  const bool within = result.plane.last <= plane_ && result.channels.last <= channels_ &&
                      result.images.last <= images_;
  return within ? std::optional(result) : std::nullopt;
}

StorageView ChannelPlane::view(const PlaneRegion& region) const {
  const std::int64_t columns = whole_.columns();
  const std::int64_t length = region.plane.last - region.plane.first;
  const bool whole_rows = region.plane.first % columns == 0 && length % columns == 0;
  StorageView view = whole_;
  view.offset = region.channels.first * channel_stride_ + region.plane.first * plane_stride_ +
                region.images.first * image_stride_;
  view.extents[kImages] = region.images.last - region.images.first;
  view.extents[kChannels] = region.channels.last - region.channels.first;
  view.extents[kRows] = whole_rows ? length / columns : 1;
  view.extents[kColumns] = whole_rows ? columns : length;
  const auto stride = [&view](Axis axis, std::int64_t elements) {
    view.strides[axis] = view.extents[axis] == 1 ? 0 : elements;
  };
  stride(kImages, image_stride_);
  stride(kChannels, channel_stride_);
  stride(kRows, view.columns() * plane_stride_);
  stride(kColumns, plane_stride_);
  return view;
}

std::optional<StorageView> ChannelPlane::rows_outermost(const StorageView& view) const {
  const auto part = region(view);
  if (!part || part->images.last - part->images.first != view.images()) return std::nullopt;
  const std::int64_t columns = whole_.columns();
  const std::int64_t row = part->plane.first / columns, column = part->plane.first % columns;
  const bool whole_rows = column == 0 && view.columns() == columns;
  const bool within_row = view.rows() == 1 && column + view.columns() <= columns;
  if (!whole_rows && !within_row) return std::nullopt;
  StorageView result = view;
  result.offset =
      ((part->images.first * whole_.rows() + row) * channels_ + part->channels.first) * columns +
      column;
  result.strides[kImages] = view.images() == 1 ? 0 : plane_ * channels_;
  result.strides[kChannels] = view.channels() == 1 ? 0 : columns;
  result.strides[kRows] = view.rows() == 1 ? 0 : channels_ * columns;
  result.strides[kColumns] = view.columns() == 1 ? 0 : 1;
  return result;
}

}  // namespace tessera::compile
