#include "compile/split_operands.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>

#include "compile/surface_conventions.h"

namespace tessera::compile {
namespace {

double elements_of(const StorageView& view) {
  return static_cast<double>(std::accumulate(view.extents.begin(), view.extents.end(),
                                             std::int64_t{1}, std::multiplies<>()));
}

class OperandFinder {
 public:
  OperandFinder(const graph::Graph& graph, const ShareSetting& setting,
                const std::vector<ShareDraft>& drafts, std::size_t memories)
      : graph_(graph), setting_(setting), drafts_(drafts), memories_(memories) {}

  SplitOperands run() {
    const Table<StorageIndex, StorageUses> uses = find_uses(inputs_of(0));
    result_.of_layer.resize(layers().size());
    result_.copiers.resize(layers().size());
    result_.copied.resize(layers().size());
    result_.outputs.resize(layers().size());
    for (std::size_t s = 0; s < uses.size(); ++s) {
      const auto index = static_cast<StorageIndex>(s);
      find_stored(index, uses[index]);
      for (const auto& [reader, input] : uses[s].readers) {
        result_.of_layer[reader].push_back(find_operand(index, uses[s], reader, input));
        add_makers(uses[s], reader);
      }
    }
    for (LayerIndex layer = 0; layer < std::ssize(layers()); ++layer) {
      for (const PlannedCopy& copy : layers()[layer].copies) {
        if (copy.fill) continue;
        add_makers(uses[copy.source], layer);
        const std::vector<LayerIndex>& writers = uses[copy.source].writers;
        if (writers.empty()) continue;
        result_.copied[layer].push_back({copy.source, writers});
        result_.storages[copy.source].copied = true;
      }
    }
    return std::move(result_);
  }

 private:
  const Layers& layers() const { return drafts_[0].prepared.layers; }
  PlanInputs inputs_of(std::size_t way) const {
    const Prepared& prepared = drafts_[way].prepared;
    return {graph_, setting_.chip, setting_.options, prepared.storages, prepared.layers};
  }

  void add_makers(const StorageUses& uses, LayerIndex reader) {
    std::vector<LayerIndex>& makers = result_.copiers[reader];
    for (const auto& [copier, copy] : uses.copies) {
      if (copier < reader && (makers.empty() || makers.back() != copier)) makers.push_back(copier);
    }
  }

  void find_stored(StorageIndex index, const StorageUses& uses) {
    const Storage& storage = drafts_[0].prepared.storages.storages[index];
    result_.storages.push_back({.bytes = static_cast<double>(storage.bytes()),
                                .element_bytes = static_cast<double>(format_bytes(storage.format)),
                                .writers = uses.writers});
    for (std::size_t way = 0; way < drafts_.size(); ++way) {
      const HeldStorage& held = drafts_[way].held[index];
      if (held.active && held.gathered) result_.storages.back().gathered[way] = held.writers;
    }
    if (uses.writers.empty() || storage.base != isa::BaseIndex::kOutput) return;
    result_.outputs[*std::ranges::max_element(uses.writers)].push_back(index);
  }

  SplitOperand find_operand(StorageIndex index, const StorageUses& uses, LayerIndex reader,
                            std::size_t input) const {
    const Storage& storage = drafts_[0].prepared.storages.storages[index];
    const StorageView& seen = layers()[reader].inputs[input];
    SplitOperand operand;
    operand.storage = index;
    operand.element = format_bytes(storage.format);
    operand.bytes = static_cast<double>(storage.bytes());
    operand.row_bytes = seen.columns() * operand.element;
    operand.ahead = rows_ahead(layers()[reader], input);
    operand.may_stay = setting_.choice.hand_over && !uses.filled && uses.copies.empty() &&
                       !uses.writers.empty() && reads_buffer(layers()[reader]);
    std::optional<ChannelPlane> plane;
    for (const StorageView& view : layout_views(inputs_of(0), storage, uses)) {
      if (!plane) plane = ChannelPlane::of(view, storage.elements);
    }
    for (const LayerIndex writer : uses.writers) {
      operand.writers.push_back({writer, layers()[writer].node, output_elements(layers()[writer])});
      find_samples(reader, input, operand.writers.back());
      operand.may_stay = operand.may_stay && writes_buffer(layers()[writer]);
      for (std::size_t way = 0; plane && way < drafts_.size(); ++way) {
        operand.writers.back().written[way] = regions(*plane, way, writer, -1);
        operand.writers.back().made[way] = made_by_cores(way, writer);
      }
    }
    for (std::size_t way = 0; way < drafts_.size(); ++way) {
      const HandOver why = drafts_[way].held[index].why;
      std::tie(operand.taken[way], operand.loads[way]) =
          taken_by_cores(operand, way, reader, input);
      operand.room[way] = may_lie_in_buffer(drafts_[way].held[index], reader, input);
      if (why == HandOver::kStays) add_if_loaded(way, reader, input, operand);
    }
    for (std::size_t way = 0; plane && way < drafts_.size(); ++way) {
      operand.read[way] = regions(*plane, way, reader, static_cast<int>(input));
    }
    operand.writers_of_storage = operand.writers.size();
    if (const Share read = whole(operand.read)) {
      std::erase_if(operand.writers, [&](const SplitWriter& writer) {
        const Share written = whole(writer.written);
        return written && intersection(read->front(), written->front()).empty();
      });
    }
    return operand;
  }

  static bool may_lie_in_buffer(const HeldStorage& held, LayerIndex reader, std::size_t input) {
    if (held.why == HandOver::kNoRoom || held.why == HandOver::kKernels || held.unfit) return false;
    return std::ranges::find(held.unfit_readers, std::pair{reader, input}) ==
           held.unfit_readers.end();
  }

  // Of all rows of an input: how many more than its part a layer's first row needs.
  static double rows_ahead(const PlannedLayer& layer, std::size_t input) {
    const auto extent = static_cast<double>(layer.inputs[input].rows());
    const auto first = static_cast<double>(input_rows_read(layer, input, {0, 1}).last);
    return std::max(0.0, first / extent - 1 / static_cast<double>(layer.output.rows()));
  }

  void add_if_loaded(std::size_t way, LayerIndex reader, std::size_t input,
                     SplitOperand& operand) const {
    for (const std::vector<Piece>& pieces : drafts_[way].work[reader].pieces) {
      for (const Piece& piece : pieces) {
        operand.if_loaded[way].add(piece.inputs[input].view, operand.element, setting_.chip);
      }
    }
  }

  void find_samples(LayerIndex reader, std::size_t input, SplitWriter& writer) const {
    if (memories_ == 1) return;
    for (std::size_t way = 0; way < drafts_.size(); ++way) {
      std::vector<WrittenView> written;
      for (std::size_t core = 0; core < cores(); ++core) {
        for (const Piece& piece : drafts_[way].work[writer.layer].pieces[core]) {
          written.emplace_back(piece.output.view, setting_.choice.memory_of(core));
        }
      }
      for (std::size_t own = 0; own < drafts_.size(); ++own) {
        for (const std::vector<Piece>& pieces : drafts_[own].work[reader].pieces) {
          SampleMemories& samples = writer.samples[way][own].emplace_back();
          samples.fill(kNoMemory);
          if (pieces.empty()) continue;
          samples = sample_memories(pieces.front().inputs[input].view, written);
        }
      }
    }
  }

  // What all cores have together, whichever way; none where one of the ways is not known.
  Share whole(const std::array<Share, kSplitWays>& ways) const {
    PlaneRegion all;
    for (std::size_t way = 0; way < drafts_.size(); ++way) {
      if (!ways[way]) return std::nullopt;
      for (const PlaneRegion& region : *ways[way]) all = hull(all, region);
    }
    return Regions{all};
  }

  // Bytes of an input that each core reads, also where these are no region, and in how many loads at most.
  std::pair<std::vector<double>, double> taken_by_cores(const SplitOperand& operand,
                                                        std::size_t way, LayerIndex layer,
                                                        std::size_t input) const {
    std::vector<double> all;
    double loads_max = 1;
    for (const std::vector<Piece>& pieces : drafts_[way].work[layer].pieces) {
      double bytes = 0, loads = 0;
      const StorageView* before = nullptr;
      for (const Piece& piece : pieces) {
        const StorageView& view = piece.inputs[input].view;
        if (before != nullptr && view == *before) continue;
        bytes += static_cast<double>(std::accumulate(view.extents.begin(), view.extents.end(),
                                                     operand.element, std::multiplies<>()));
        ++loads;
        before = &view;
      }
      all.push_back(std::min(bytes, operand.bytes));
      loads_max = std::max(loads_max, loads);
    }
    return {all, loads_max};
  }

  std::vector<double> made_by_cores(std::size_t way, LayerIndex layer) const {
    std::vector<double> all;
    for (const std::vector<Piece>& pieces : drafts_[way].work[layer].pieces) {
      double made = 0;
      for (const Piece& piece : pieces) made += elements_of(piece.output.view);
      all.push_back(made);
    }
    return all;
  }

  // Of the layer's input, or of its output for -1.
  Share regions(const ChannelPlane& plane, std::size_t way, LayerIndex layer, int input) const {
    Regions all;
    for (const std::vector<Piece>& pieces : drafts_[way].work[layer].pieces) {
      PlaneRegion of_core;
      for (const Piece& piece : pieces) {
        const auto i = static_cast<std::size_t>(input);
        const auto region =
            input < 0 ? plane.around(piece.output.view) : plane.region(piece.inputs[i].view);
        if (!region) return std::nullopt;
        of_core = hull(of_core, *region);
      }
      all.push_back(of_core);
    }
    return all;
  }

  std::size_t cores() const { return static_cast<std::size_t>(setting_.choice.cores); }

  const graph::Graph& graph_;
  const ShareSetting& setting_;
  const std::vector<ShareDraft>& drafts_;
  const std::size_t memories_;
  SplitOperands result_;
};

}  // namespace

double output_elements(const PlannedLayer& layer) { return elements_of(layer.output); }

SplitOperands find_split_operands(const graph::Graph& graph, const ShareSetting& setting,
                                  const std::vector<ShareDraft>& drafts, std::size_t memories) {
  return OperandFinder(graph, setting, drafts, memories).run();
}

}  // namespace tessera::compile
