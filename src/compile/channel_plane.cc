#include "compile/channel_plane.h"

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
  return {common(a.channels, b.channels), common(a.plane, b.plane)};
}

PlaneRegion hull(const PlaneRegion& a, const PlaneRegion& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  return {around(a.channels, b.channels), around(a.plane, b.plane)};
}

std::optional<ChannelPlane> ChannelPlane::of(const StorageView& whole, std::int64_t elements) {
  ChannelPlane result;
  result.whole_ = whole;
  result.channels_ = whole.channels();
  result.plane_ = whole.rows() * whole.columns();
  if (whole.images() != 1 || whole.offset != 0) return std::nullopt;
  if (result.channels_ * result.plane_ != elements) return std::nullopt;
  // The one lies dense within the other.
  const bool channels_outside =
      result.channels_ == 1 || (whole.strides[kChannels] == result.plane_ && walks(whole, 1));
  result.channel_stride_ = channels_outside ? result.plane_ : 1;
  result.plane_stride_ = channels_outside ? 1 : result.channels_;
  if (result.channels_ > 1 && whole.strides[kChannels] != result.channel_stride_) {
    return std::nullopt;
  }
  if (!walks(whole, result.plane_stride_)) return std::nullopt;
  return result;
}

std::optional<PlaneRegion> ChannelPlane::region(const StorageView& view) const {
  if (view.images() != 1) return std::nullopt;
  if (view.channels() > 1 && view.strides[kChannels] != channel_stride_) return std::nullopt;
  if (!walks(view, plane_stride_)) return std::nullopt;
  const bool channels_outside = channel_stride_ >= plane_stride_;
  const std::int64_t outer = channels_outside ? channel_stride_ : plane_stride_;
  const std::int64_t inner = channels_outside ? plane_stride_ : channel_stride_;
  if (view.offset % outer % inner != 0) return std::nullopt;
  const std::int64_t from_outer = view.offset / outer, from_inner = view.offset % outer / inner;
  const std::int64_t channel = channels_outside ? from_outer : from_inner;
  const std::int64_t place = channels_outside ? from_inner : from_outer;
  const PlaneRegion result{{channel, channel + view.channels()},
                           {place, place + view.rows() * view.columns()}};
  if (result.channels.last > channels_ || result.plane.last > plane_) return std::nullopt;
  return result;
}

StorageView ChannelPlane::view(const PlaneRegion& region) const {
  const std::int64_t columns = whole_.columns();
  const std::int64_t length = region.plane.last - region.plane.first;
  const bool whole_rows = region.plane.first % columns == 0 && length % columns == 0;
  StorageView view = whole_;
  view.offset = region.channels.first * channel_stride_ + region.plane.first * plane_stride_;
  view.extents[kChannels] = region.channels.last - region.channels.first;
  view.extents[kRows] = whole_rows ? length / columns : 1;
  view.extents[kColumns] = whole_rows ? columns : length;
  const auto stride = [&view](Axis axis, std::int64_t elements) {
    view.strides[axis] = view.extents[axis] == 1 ? 0 : elements;
  };
  stride(kChannels, channel_stride_);
  stride(kRows, view.columns() * plane_stride_);
  stride(kColumns, plane_stride_);
  return view;
}

std::optional<StorageView> ChannelPlane::rows_outermost(const StorageView& view) const {
  const auto part = region(view);
  if (!part) return std::nullopt;
  const std::int64_t columns = whole_.columns();
  const std::int64_t row = part->plane.first / columns, column = part->plane.first % columns;
  const bool whole_rows = column == 0 && view.columns() == columns;
  const bool within_row = view.rows() == 1 && column + view.columns() <= columns;
  if (!whole_rows && !within_row) return std::nullopt;
  StorageView result = view;
  result.offset = (row * channels_ + part->channels.first) * columns + column;
  result.strides[kChannels] = view.channels() == 1 ? 0 : columns;
  result.strides[kRows] = view.rows() == 1 ? 0 : channels_ * columns;
  result.strides[kColumns] = view.columns() == 1 ? 0 : 1;
  return result;
}

}  // namespace tessera::compile
