#include "compile/share_choice.h"

#include "compile/even_ranges.h"

namespace tessera::compile {
namespace {

bool reduces(const PlannedLayer& layer) {
  return layer.kind == LayerKind::kPlanar && layer.planar.mode == isa::PlanarMode::kReduction;
}

bool by_rows(const PlannedLayer& layer) {
  const bool all_rows = reduces(layer) && layer.planar.reduce.over_rows;
  return layer.output.rows() > 1 && !all_rows;
}
bool by_columns(const PlannedLayer& layer) {
  return layer.output.columns() > 1 && !layer.dynamic && !reduces(layer);
}
// Few rows leave cores idle. A product would load its kernels for each image.
bool rather_by_images(const PlannedLayer& layer, const ShareChoice& choice) {
  if (layer.kind != LayerKind::kPlanar || layer.output.rows() >= choice.cores) return false;
  const std::int64_t others = by_rows(layer) ? layer.output.rows() + 1 : choice.cores;
  return layer.output.images() >= others;
}
bool by_channels(const PlannedLayer& layer) {
  return layer.output.channels() > 1 && !layer.whole_channels;
}

Split split_of(const PlannedLayer& layer, const ShareChoice& choice) {
  const auto node = static_cast<std::size_t>(layer.node);
  return layer.node >= 0 && node < choice.of_nodes.size() ? choice.of_nodes[node] : choice.split;
}

}  // namespace

const char* share_way_name(ShareWay way) {
  switch (way) {
    case ShareWay::kOneCore:
      return "one core";
    case ShareWay::kRows:
      return "rows";
    case ShareWay::kColumns:
      return "columns";
    case ShareWay::kChannels:
      return "channels";
    case ShareWay::kGrid:
      return "rows and channels";
    case ShareWay::kImages:
      return "images";
    case ShareWay::kCopies:
      return "copies";
    case ShareWay::kParts:
      return "parts";
    case ShareWay::kHost:
      return "host";
    case ShareWay::kNone:
      break;
  }
  return "nothing";
}

const char* hand_over_name(HandOver hand_over) {
  switch (hand_over) {
    case HandOver::kStays:
      return "stays";
    case HandOver::kSwitchedOff:
      return "switched off";
    case HandOver::kInDram:
      return "a copy or a host step";
    case HandOver::kOtherLayout:
      return "another layout";
    case HandOver::kOthersRead:
      return "most of it is others'";
    case HandOver::kNoRoom:
      return "no room";
    case HandOver::kKernels:
      return "kernels would come for each image";
    case HandOver::kNothing:
      break;
  }
  return "nothing";
}

ShareWay find_way(const PlannedLayer& layer, const ShareChoice& choice) {
  if (choice.cores <= 1) return ShareWay::kOneCore;
  const Split split = split_of(layer, choice);
  if (split == Split::kChannels && by_channels(layer)) return ShareWay::kChannels;
  if (split == Split::kGrid && layer.grid.both()) return ShareWay::kGrid;
  if (rather_by_images(layer, choice)) return ShareWay::kImages;
  if (by_rows(layer)) return ShareWay::kRows;
  if (by_columns(layer)) return ShareWay::kColumns;
  if (by_channels(layer)) return ShareWay::kChannels;
  return layer.output.images() > 1 ? ShareWay::kImages : ShareWay::kOneCore;
}

const char* one_core_reason(const PlannedLayer& layer) {
  if (layer.whole_channels) return "a normalisation over the channels of one row and column";
  return "one result an image, or sums that are not cut";
}

bool may_have_grid(const PlannedLayer& layer, const ShareChoice& choice) {
  return split_of(layer, choice) == Split::kGrid && !layer.dynamic && by_channels(layer) &&
         (by_rows(layer) || by_columns(layer));
}

std::int64_t band_extent(const PlannedLayer& layer) {
  return by_rows(layer) ? layer.output.rows() : layer.output.columns();
}

namespace {

using BoxAxis = RowRange LayerBox::*;

std::vector<LayerBox> cut(const std::vector<LayerBox>& boxes, BoxAxis axis,
                          const std::vector<RowRange>& ranges) {
  std::vector<LayerBox> result;
  for (const LayerBox& box : boxes) {
    for (const RowRange& range : ranges) {
      result.push_back(box);
      result.back().*axis = range;
    }
  }
  return result;
}

BoxAxis axis_of(const PlannedLayer& layer, ShareWay way) {
  switch (way) {
    case ShareWay::kRows:
      return &LayerBox::rows;
    case ShareWay::kColumns:
      return &LayerBox::columns;
    case ShareWay::kChannels:
      return &LayerBox::channels;
    case ShareWay::kImages:
      return &LayerBox::images;
    case ShareWay::kGrid:
      return by_rows(layer) ? &LayerBox::rows : &LayerBox::columns;
    default:
      return nullptr;
  }
}

}  // namespace

std::vector<LayerBox> share_boxes(const PlannedLayer& layer, const ShareChoice& choice) {
  const LayerBox whole = whole_box(layer);
  const ShareWay way = find_way(layer, choice);
  const BoxAxis axis = axis_of(layer, way);
  if (axis == nullptr) return {whole};
  std::vector<LayerBox> boxes{whole};
  const bool grid = way == ShareWay::kGrid;
  if (axis != &LayerBox::channels) {
    boxes =
        cut(boxes, axis, even_ranges((whole.*axis).last, grid ? layer.grid.bands : choice.cores));
    if (!grid) return boxes;
  }
  if (!layer.channel_shares.empty()) {  // of a product
    return cut(boxes, &LayerBox::channels, layer.channel_shares);
  }
  return cut(boxes, &LayerBox::channels,
             grid ? block_ranges(whole.channels.last, layer.grid.block, layer.grid.ranges)
                  : even_ranges(whole.channels.last, choice.cores));
}

}  // namespace tessera::compile
