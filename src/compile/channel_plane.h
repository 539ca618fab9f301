// A storage as channels of a plane of elements, of one image or several, whatever the rows and columns
// of the views on it: a row of one view is columns of another. Shares of a layer, and what they read,
// are boxes of it.
//
//   channels │ r r . . . .      plane: rows and columns, one behind the other
//            │ r r . . . .      r: a region, the same of each of its images
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "arith/kernels/surface.h"
#include "compile/storage.h"

namespace tessera::compile {

// [first, last) of each axis.
struct PlaneRegion {
  RowRange channels, plane;
  RowRange images = {0, 1};

  bool empty() const {
    return channels.last <= channels.first || plane.last <= plane.first ||
           images.last <= images.first;
  }
  std::int64_t elements() const {
    if (empty()) return 0;
    return (channels.last - channels.first) * (plane.last - plane.first) *
           (images.last - images.first);
  }
  friend bool operator==(const PlaneRegion&, const PlaneRegion&) = default;
};
PlaneRegion intersection(const PlaneRegion& a, const PlaneRegion& b);
// The smallest region with both.
PlaneRegion hull(const PlaneRegion& a, const PlaneRegion& b);

class ChannelPlane {
 public:
  // As `whole` sees all elements of its storage, once each. None where rows and columns are not one
  // walk.
  static std::optional<ChannelPlane> of(const StorageView& whole, std::int64_t elements);

  // What the view has of it; none where that is no region.
  std::optional<PlaneRegion> region(const StorageView& view) const;
  // The smallest region with what the view has, which may be every second column of a row; none where
  // that is of several images' planes and not the same of each.
  std::optional<PlaneRegion> around(const StorageView& view) const;
  // The region as a view: with the rows of the whole where it ends with rows, else in one row.
  StorageView view(const PlaneRegion& region) const;
  // A view of the storage, for a storage with the same elements in another order: the rows of each
  // image of the whole outermost, then channels, then columns. None for a view that is no region, or
  // has parts of several rows, or rows of several images.
  std::optional<StorageView> rows_outermost(const StorageView& view) const;

 private:
  struct RunOfAxis {
    std::int64_t stride = 1, count = 1;
    RowRange PlaneRegion::* range = nullptr;
  };
  std::array<RunOfAxis, 3> axes() const;
  // Where the view begins, as a region of one element; false where that is between the plane's.
  bool set_first(const StorageView& view, PlaneRegion& region) const;
  // A walk of `length` elements from `first` of an image's plane on; false where that is no region.
  bool set_plane(std::int64_t first, std::int64_t length, PlaneRegion& region) const;
  // Whether an image's plane goes on in the next image's.
  bool images_adjoin() const { return images_ > 1 && image_stride_ == plane_ * plane_stride_; }

  StorageView whole_;
  std::int64_t images_ = 1, channels_ = 1, plane_ = 1;
  std::int64_t image_stride_ = 1, channel_stride_ = 1, plane_stride_ = 1;
};

}  // namespace tessera::compile
