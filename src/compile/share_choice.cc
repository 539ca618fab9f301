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

ShareWay find_way(const PlannedLayer& layer, const ShareChoice& choice) {
  if (choice.cores <= 1) return ShareWay::kOneCore;
  if (split_of(layer, choice) == Split::kChannels && by_channels(layer)) {
    return ShareWay::kChannels;
  }
  if (by_rows(layer)) return ShareWay::kRows;
  if (by_columns(layer)) return ShareWay::kColumns;
  if (by_channels(layer)) return ShareWay::kChannels;
  return layer.output.images() > 1 ? ShareWay::kImages : ShareWay::kOneCore;
}

const char* one_core_reason(const PlannedLayer& layer) {
  if (layer.whole_channels) return "a normalisation over the channels of one row and column";
  return "one result an image, or sums that are not cut";
}

std::vector<LayerBox> share_boxes(const PlannedLayer& layer, const ShareChoice& choice) {
  const LayerBox whole = whole_box(layer);
  const ShareWay way = find_way(layer, choice);
  if (way == ShareWay::kChannels && !layer.channel_shares.empty()) {
    std::vector<LayerBox> boxes;
    for (const RowRange& channels : layer.channel_shares) {
      boxes.push_back(whole);
      boxes.back().channels = channels;
    }
    return boxes;
  }
  RowRange LayerBox::* axis = nullptr;
  if (way == ShareWay::kRows) axis = &LayerBox::rows;
  if (way == ShareWay::kColumns) axis = &LayerBox::columns;
  if (way == ShareWay::kChannels) axis = &LayerBox::channels;
  if (way == ShareWay::kImages) axis = &LayerBox::images;
  if (axis == nullptr) return {whole};
  std::vector<LayerBox> boxes;
  for (const RowRange& range : even_ranges((whole.*axis).last, choice.cores)) {
    boxes.push_back(whole);
    boxes.back().*axis = range;
  }
  return boxes;
}

}  // namespace tessera::compile
