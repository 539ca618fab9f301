#include "compile/transposition_pass.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/quantity.h"
#include "compile/copy_passage.h"
#include "compile/residency.h"
#include "compile/surface_conventions.h"
#include "compile/transposition.h"

namespace tessera::compile {
namespace {

using package::TranspositionHint;

// A way with its cost.
struct Offer {
  TranspositionWay way = TranspositionWay::kDma;
  Cycles cycles = 0;
};

class Pass {
 public:
  Pass(const graph::Graph& graph, const ChipConfig& chip, const CompileOptions& options,
       StoragePlan& storages, Layers& layers)
      : graph_(graph), chip_(chip), options_(options), storages_(storages), layers_(layers) {}

  std::vector<TranspositionHint> run() {
    residents_ = find_residents({graph_, chip_, options_, storages_, layers_});
    segments_ = layer_segments(layers_);
    Layers before = std::move(layers_);
    layers_.clear();
    for (std::size_t i = 0; i < before.size(); ++i) {
      PlannedLayer layer = std::move(before[i]);
      if (layer.kind == LayerKind::kNeural || layer.kind == LayerKind::kPlanar) {
        for (std::size_t k = 0; k < layer.inputs.size(); ++k) turn_input(layer, k, segments_[i]);
      }
      if (layer.kind == LayerKind::kCopy) pass_copies(layer, segments_[i]);
      for (TranspositionHint& hint : pending_) {
        hint.layer = static_cast<std::uint32_t>(layers_.size());
        hints_.push_back(std::move(hint));
      }
      pending_.clear();
      if (layer.kind == LayerKind::kNeural && layer.node >= 0 &&
          storages_.nodes[layer.node].swapped) {
        add_swap(layer);
      }
      layers_.push_back(std::move(layer));
      for (PlannedLayer& copy : copies_) layers_.push_back(std::move(copy));
      copies_.clear();
    }
    add_vanished();
    return std::move(hints_);
  }

 private:
  // What a view was turned into before, in the same segment.
  struct Turned {
    StorageView view, target;
    std::int32_t segment = 0;
  };

  const Storage& storage(StorageIndex index) const { return storages_.storages[index]; }

  void turn_input(PlannedLayer& layer, std::size_t input, std::int32_t segment) {
    const StorageView view = layer.inputs[input];
    if (static_cast<std::size_t>(view.storage) >= residents_.size()) return;
    const Resident& resident = residents_[view.storage];
    if (!resident.written || !options_.resident || segments_[resident.first_layer] != segment ||
        fit_input(resident.layout, layer, input) != Fit::kNone) {
      return;
    }
    for (const Turned& turned : turned_) {
      const auto same = turned.segment == segment ? seen_through(turned, view) : std::nullopt;
      if (!same) continue;
      const BufferLayout layout(turned.target, storage(turned.target.storage).format,
                                chip_.state_buffer.partitions);
      PlannedLayer reader = layer;
      reader.inputs[input] = *same;
      if (fit_input(layout, reader, input) == Fit::kNone) continue;
      layer.inputs[input] = *same;
      return;
    }
    const Format format = storage(view.storage).format;
    const StorageView target =
        dense_view(view, static_cast<StorageIndex>(storages_.storages.size()));
    const auto parts = cut_transposition(resident.layout, view, target, format, parts_max());
    const std::vector<Offer> offers = collect_offers(resident.layout, view, target, parts);
    TranspositionHint hint = make_hint(layer, view, parts, offers);
    if (offers[0].way == TranspositionWay::kDma) {
      pending_.push_back(std::move(hint));
      return;
    }
    const std::size_t place =
        offers[0].way == TranspositionWay::kArray ? place_on_array(view.storage) : layers_.size();
    for (TranspositionHint& other : hints_) other.layer += other.layer >= place ? 1 : 0;
    hint.layer = static_cast<std::uint32_t>(place);
    hints_.push_back(std::move(hint));
    PlannedLayer turn;
    turn.kind = LayerKind::kTranspose;
    turn.name = storage(view.storage).name + ".turned." + std::to_string(turned_.size());
    turn.inputs = {view};
    turn.output = target;
    turn.way = offers[0].way;
    turn.parts = *parts;
    storages_.storages.push_back({.name = turn.name,
                                  .format = format,
                                  .elements = elements(target),
                                  .base = isa::BaseIndex::kWorkspace,
                                  .owner = {}});
    layers_.insert(layers_.begin() + static_cast<std::ptrdiff_t>(place), std::move(turn));
    turned_.push_back({view, target, segment});
    layer.inputs[input] = target;
  }

  // Before the planar layers in front of the reader that do not make what is turned: the array has
  // time while they run.
  //
  //   scores ─► softmax ........ ─► product        scores ─► softmax ........ ─► product
  //                       turn v ──┘                   └turn v ──────────────────┘
  std::size_t place_on_array(StorageIndex source) const {
    std::size_t place = layers_.size();
    for (std::size_t i = layers_.size(); i > 0; --i) {
      const PlannedLayer& layer = layers_[i - 1];
      const bool planar = layer.kind == LayerKind::kPlanar;
      const bool passed = planar || layer.kind == LayerKind::kTranspose;
      if (!passed || layer.output.storage == source) break;
      if (planar) place = i - 1;
    }
    return place;
  }

  // What was turned, with its axes where `view` has them; none if it is not the same.
  static std::optional<StorageView> seen_through(const Turned& turned, const StorageView& view) {
    if (turned.view.storage != view.storage || turned.view.offset != view.offset) {
      return std::nullopt;
    }
    StorageView result = turned.target;
    result.extents = view.extents;
    bool used[4] = {};
    for (std::size_t k = 0; k < 4; ++k) {
      result.strides[k] = 0;
      if (view.extents[k] == 1 || view.strides[k] == 0) continue;
      std::size_t j = 0;
      while (j < 4 &&
             (used[j] || (j == 1) != (k == 1) || turned.view.extents[j] != view.extents[k] ||
              turned.view.strides[j] != view.strides[k])) {
        ++j;
      }
      if (j == 4) return std::nullopt;
      used[j] = true;
      result.strides[k] = turned.target.strides[j];
    }
    for (std::size_t j = 0; j < 4; ++j) {
      const bool walked = turned.view.extents[j] > 1 && turned.view.strides[j] != 0;
      if (walked && !used[j]) return std::nullopt;
    }
    return result;
  }

  // A requested engine is used, however many tasks that takes.
  std::size_t parts_max() const {
    constexpr std::size_t kAsked = 4096;
    const bool asked = options_.transposition && *options_.transposition != TranspositionWay::kDma;
    return asked ? kAsked : kTransposePartsMax;
  }

  static std::int64_t elements(const StorageView& view) {
    std::int64_t count = 1;
    for (std::size_t i = 0; i < 4; ++i) count *= view.strides[i] == 0 ? 1 : view.extents[i];
    return count;
  }

  // Ways that are open, cheapest first; a way that the options ask for comes first if it is open.
  std::vector<Offer> collect_offers(const BufferLayout& layout, const StorageView& view,
                                    const StorageView& target,
                                    const std::optional<std::vector<TransposePart>>& parts) const {
    const Format format = storage(view.storage).format;
    std::vector<Offer> offers = {
        {TranspositionWay::kDma, dma_transposition(chip_, view, format).cycles}};
    const BufferLayout to(target, format, layout.partitions());
    const std::int64_t both =
        round_up(layout.bytes(), kAlignmentBytes) + round_up(to.bytes(), kAlignmentBytes);
    if (parts && both <= chip_.state_buffer.bytes_per_partition) {
      offers.push_back({TranspositionWay::kArray, array_transposition_cycles(chip_, *parts)});
      if (planar_can_turn(layout, to, *parts)) {
        offers.push_back({TranspositionWay::kPlanar, planar_transposition_cycles(chip_, *parts)});
      }
    }
    std::stable_sort(offers.begin(), offers.end(), [&](const Offer& a, const Offer& b) {
      const bool a_asked = options_.transposition == a.way;
      const bool b_asked = options_.transposition == b.way;
      return a_asked != b_asked ? a_asked : a.cycles < b.cycles;
    });
    return offers;
  }

  TranspositionHint make_hint(const PlannedLayer& reader, const StorageView& view,
                              const std::optional<std::vector<TransposePart>>& parts,
                              const std::vector<Offer>& offers) const {
    const Format format = storage(view.storage).format;
    TranspositionHint hint;
    hint.tensor = storage(view.storage).name;
    hint.reader = reader.name;
    hint.way = transposition_way_name(offers[0].way);
    hint.cycles = offers[0].cycles;
    if (offers[0].way == TranspositionWay::kDma) {
      hint.dram_bytes = dma_transposition(chip_, view, format).bytes;
    }
    if (offers.size() > 1) {
      hint.next_way = transposition_way_name(offers[1].way);
      hint.next_cycles = offers[1].cycles;
    }
    hint.elements = elements(view);
    if (parts) {
      const TransposePart& part = parts->front();
      hint.channels = part.from.channels();
      hint.columns = part.from.columns();
      hint.matrices = 0;
      for (const TransposePart& each : *parts) {
        hint.matrices += each.from.images() * each.from.rows();
      }
    }
    return hint;
  }

  // Copies that go through the state buffer in fewer cycles than from DRAM to DRAM: loaded in one
  // order and stored in another, or stored only where the source is there already.
  void pass_copies(PlannedLayer& layer, std::int32_t segment) {
    std::vector<PlannedCopy> left;
    for (PlannedCopy& copy : layer.copies) {
      const bool stays = residents_[copy.destination].possible;
      if (copy.fill || stays || !pass_copy(layer, copy, segment)) left.push_back(std::move(copy));
    }
    layer.copies = std::move(left);
  }

  // With the source where it is in the buffer: a store in another order.
  std::optional<CopyPassage> find_store(const PlannedCopy& copy, const std::vector<CopyAxis>& axes,
                                        std::int32_t segment) const {
    constexpr std::size_t kAxesMax = 4;
    const Resident& source = residents_[copy.source];
    const bool there = source.written && options_.resident && axes.size() <= kAxesMax &&
                       segments_[source.first_layer] == segment &&
                       source.layout.bytes() <= chip_.state_buffer.bytes_per_partition / 2;
    const Format format = storage(copy.source).format;
    for (std::size_t channel = 0; there && channel < axes.size(); ++channel) {
      const TransposePart part = passing_part(copy, axes, channel);
      if (!source.layout.map(part.from)) continue;
      return CopyPassage{.way = TranspositionWay::kDma,
                         .parts = {part},
                         .cycles = transfer_task_cycles(chip_, part.to, format),
                         .dram_bytes = transfer_bytes(chip_, part.to, format)};
    }
    return std::nullopt;
  }

  bool pass_copy(const PlannedLayer& layer, const PlannedCopy& copy, std::int32_t segment) {
    const auto axes = copy_axes(copy);
    if (!axes || axes->empty()) return false;
    const Format format = storage(copy.source).format;
    auto passage = find_store(copy, *axes, segment);
    if (!passage) passage = find_passage(chip_, copy, *axes, format, options_.transposition);
    if (!passage || !has_surfaces(*passage, format)) return false;
    const Cycles copying = copy_task_cycles(chip_, copy, format);
    const bool asked =
        passage->way != TranspositionWay::kDma && options_.transposition == passage->way;
    if (!asked && passage->cycles >= copying) return false;
    TranspositionHint hint;
    hint.tensor = storage(copy.source).name;
    hint.reader = layer.name;
    hint.way = transposition_way_name(passage->way);
    hint.cycles = passage->cycles;
    hint.dram_bytes = passage->dram_bytes;
    hint.next_way = "copy";
    hint.next_cycles = copying;
    hint.layer = static_cast<std::uint32_t>(layers_.size() + 1 + copies_.size());
    for (const TransposePart& part : passage->parts) {
      hint.elements += elements(part.from);
      PlannedLayer pass;
      pass.kind = LayerKind::kTranspose;
      pass.way = passage->way;
      pass.name = layer.name + ".passed." + std::to_string(copies_.size());
      pass.inputs = {part.from};
      pass.output = part.to;
      pass.parts = {part};
      copies_.push_back(std::move(pass));
    }
    hints_.push_back(std::move(hint));
    return true;
  }

  // The parts are blocks of their own in the buffer; all are alike.
  bool has_surfaces(const CopyPassage& passage, Format format) const {
    const TransposePart& part = passage.parts.front();
    const std::int64_t partitions = chip_.state_buffer.partitions;
    return BufferLayout(part.from, format, partitions).map(part.from).has_value() &&
           BufferLayout(part.to, format, partitions).map(part.to).has_value();
  }

  void add_swap(const PlannedLayer& layer) {
    TranspositionHint hint;
    hint.tensor = storage(layer.output.storage).name;
    hint.reader = layer.name;
    hint.way = "swapped";
    hint.channels = layer.output.channels();
    hint.columns = layer.output.rows();
    hint.matrices = layer.output.images();
    hint.elements = elements(layer.output);
    hint.layer = static_cast<std::uint32_t>(layers_.size());
    hints_.push_back(std::move(hint));
  }

  // The box takes axes to another order.
  static bool permutes(const graph::Node& node) {
    if (node.kind() != graph::NodeKind::kMove) return false;
    const auto& move = node.as<graph::MoveAttributes>();
    if (move.has_fill || move.copies.size() != 1) return false;
    const graph::CopyBox& box = move.copies[0];
    for (std::size_t i = 0; i < box.extents.size(); ++i) {
      for (std::size_t j = 0; j < box.extents.size(); ++j) {
        if (box.extents[i] > 1 && box.extents[j] > 1 &&
            box.output_strides[i] > box.output_strides[j] &&
            box.input_strides[i] < box.input_strides[j] && box.input_strides[i] > 0) {
          return true;
        }
      }
    }
    return false;
  }

  // Transpositions of the model that no reader notices, and those that copy in DRAM.
  void add_vanished() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const graph::Node& node = graph_.nodes[i];
      if (!permutes(node)) continue;
      const Place& place = storages_.places[node.outputs[0]];
      if (!place.valid()) continue;
      TranspositionHint hint;
      hint.tensor = storage(place.storage).name;
      hint.reader = node.name;
      hint.elements = element_count(graph_.tensor(node.outputs[0]).dims);
      const bool passed = std::any_of(hints_.begin(), hints_.end(), [&](const auto& other) {
        return other.reader == hint.reader && other.next_way == "copy";
      });
      if (passed) continue;
      if (storages_.nodes[i].copies.empty()) {
        const bool turned = std::any_of(hints_.begin(), hints_.end(), [&](const auto& other) {
          return other.tensor == hint.tensor && other.way != "view";
        });
        if (turned) continue;
        hint.way = "view";
      } else {
        const Format format = storage(place.storage).format;
        hint.way = "copy";
        hint.dram_bytes = 2 * hint.elements * format_bytes(format);
        for (const PlannedCopy& copy : storages_.nodes[i].copies) {
          hint.cycles += copy_task_cycles(chip_, copy, format);
        }
      }
      for (std::size_t k = 0; k < layers_.size(); ++k) {
        if (layers_[k].node == static_cast<std::int32_t>(i)) {
          hint.layer = static_cast<std::uint32_t>(k);
        }
      }
      hints_.push_back(std::move(hint));
    }
  }

  const graph::Graph& graph_;
  const ChipConfig& chip_;
  const CompileOptions& options_;
  StoragePlan& storages_;
  Layers& layers_;
  Residents residents_;
  Table<LayerIndex, std::int32_t> segments_;
  std::vector<Turned> turned_;
  Layers copies_;  // that pass through the buffer, behind the layer in hand
  std::vector<TranspositionHint> hints_, pending_;
};

}  // namespace

std::vector<TranspositionHint> add_transpositions(const graph::Graph& graph, const ChipConfig& chip,
                                                  const CompileOptions& options,
                                                  StoragePlan& storages, Layers& layers) {
  return Pass(graph, chip, options, storages, layers).run();
}

}  // namespace tessera::compile
