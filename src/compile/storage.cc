#include "compile/storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "base/check.h"
#include "compile/fill_walks.h"
#include "graph/move_box.h"

namespace tessera::compile {
namespace {

using graph::Graph;
using graph::MoveAttributes;
using graph::Node;
using graph::NodeKind;
using graph::TensorId;
using isa::BaseIndex;

// A shorter run of a fill takes as long.
constexpr std::int64_t kFillRunBytes = 128;

// Runs along its last axis.
std::int64_t runs_of_walk(const StridedWalk& walk) {
  std::int64_t runs = 1;
  for (std::size_t i = 0; i + 1 < walk.extents.size(); ++i) runs *= walk.extents[i];
  return runs;
}

// What is found of a graph once for all attempts: the views of its nodes by these choices, and who
// makes and reads its tensors.
class KnownGraph {
 public:
  KnownGraph(const Graph& graph, const ViewChoices& choices)
      : graph_(graph),
        choices_(choices),
        axes_(graph),
        views_(graph.nodes.size()),
        producers_(graph.tensors.size(), nullptr),
        readers_(graph.tensors.size()),
        outputs_(graph.tensors.size(), false) {
    for (const Node& node : graph.nodes) {
      for (const TensorId id : node.outputs) producers_[id] = &node;
      for (const TensorId id : node.inputs) {
        if (readers_[id].empty() || readers_[id].back() != &node) readers_[id].push_back(&node);
      }
    }
    for (const TensorId id : graph.outputs) outputs_[id] = true;
  }

  graph::ViewChoice choice(std::size_t node) const {
    return choices_.empty() ? graph::ViewChoice{} : choices_[node];
  }
  Result<const graph::NodeViews*> views_of(std::size_t node) {
    std::optional<graph::NodeViews>& views = views_[node];
    if (!views) {
      TESSERA_TRY(views, graph::node_views(axes_, graph_.nodes[node], choice(node)));
    }
    return &*views;
  }
  const Node* producer(TensorId id) const { return producers_[id]; }  // or null
  // Each once, in the order of the graph.
  const std::vector<const Node*>& readers(TensorId id) const { return readers_[id]; }
  bool is_output(TensorId id) const { return outputs_[id]; }

 private:
  const Graph& graph_;
  const ViewChoices& choices_;
  const graph::PreferredAxes axes_;
  std::vector<std::optional<graph::NodeViews>> views_;
  Table<TensorId, const Node*> producers_;
  Table<TensorId, std::vector<const Node*>> readers_;
  Table<TensorId, bool> outputs_;
};

// One way of giving tensors their places. Where a reader cannot walk a place, the attempt ends with
// that tensor, and the next attempt gives it a storage of its own.
class Attempt {
 public:
  Attempt(const Graph& graph, const ChipConfig& chip, KnownGraph& known,
          const std::set<TensorId>& alone)
      : graph_(graph), chip_(chip), known_(known), alone_(alone) {}

  Status run() {
    plan_.places.resize(graph_.tensors.size());
    plan_.nodes.resize(graph_.nodes.size());
    for (const TensorId id : graph_.inputs) own_storage(id, BaseIndex::kInput);
    for (const Node& node : graph_.nodes) place_outputs(node);
    for (std::size_t i = 0; i < graph_.nodes.size() && !conflict_; ++i) {
      TESSERA_RETURN_IF_ERROR(plan_node(graph_.nodes[i], plan_.nodes[i]));
    }
    plan_outputs();
    return {};
  }

  const std::optional<TensorId>& conflict() const { return conflict_; }
  // Places with all parents followed.
  StoragePlan finish() {
    for (std::size_t i = 0; i < plan_.places.size(); ++i) {
      if (!plan_.places[i].valid()) continue;
      const auto place = resolve({static_cast<std::int32_t>(i)});
      TESSERA_CHECK(place.has_value(), "place of tensor {}", i);
      plan_.places[i] = *place;
    }
    return std::move(plan_);
  }

 private:
  bool is_output(TensorId id) const { return known_.is_output(id); }
  std::int64_t elements(TensorId id) const { return element_count(graph_.tensor(id).dims); }
  Place& local(TensorId id) { return plan_.places[id]; }

  StorageIndex own_storage(TensorId id, BaseIndex base) {
    const graph::TensorInfo& info = graph_.tensor(id);
    const auto index = static_cast<StorageIndex>(plan_.storages.size());
    plan_.storages.push_back({.name = info.name,
                              .format = info.format,
                              .elements = elements(id),
                              .base = base,
                              .owner = id});
    parents_.emplace_back();
    pinned_.push_back(base != BaseIndex::kWorkspace);
    local(id) = {index, AxisMap::dense(elements(id))};
    return index;
  }

  // Constants get their storage when they are read.
  void touch(TensorId id) {
    if (!local(id).valid()) {
      TESSERA_CHECK(graph_.tensor(id).constant != nullptr, "tensor '{}' is read before it is made",
                    graph_.tensor(id).name);
      own_storage(id, BaseIndex::kWeights);
    }
  }

  std::optional<Place> resolve(TensorId id) {
    Place place = local(id);
    while (parents_[place.storage]) {
      const Place& parent = *parents_[place.storage];
      const auto map = place.map.then(parent.map);
      if (!map) return std::nullopt;
      place = {parent.storage, *map};
    }
    return place;
  }

  void place_outputs(const Node& node) {
    for (const TensorId id : node.inputs) {
      if (graph_.tensor(id).constant == nullptr || node.kind() == NodeKind::kMove) touch(id);
    }
    if (node.kind() == NodeKind::kMove) {
      place_move(node);
      return;
    }
    for (const TensorId id : node.outputs) {
      const StorageIndex index =
          own_storage(id, is_output(id) ? BaseIndex::kOutput : BaseIndex::kWorkspace);
      if (node.kind() == NodeKind::kHostStep) pinned_[index] = true;
    }
  }

  void place_move(const Node& node) {
    const auto& move = node.as<MoveAttributes>();
    const TensorId out = node.outputs[0];
    const bool output = is_output(out);
    if (!output && !move.has_fill && move.copies.size() == 1 && !alone_.contains(out) &&
        fold(move.copies[0], node.inputs[static_cast<std::size_t>(move.copies[0].input)], out)) {
      return;
    }
    own_storage(out, output ? BaseIndex::kOutput : BaseIndex::kWorkspace);
    if (!output && !alone_.contains(out)) {
      if (auto order = order_of_readers(out, move)) local(out).map = *std::move(order);
    }
    homes_.resize(graph_.nodes.size());
    auto& homed = homes_[static_cast<std::size_t>(&node - graph_.nodes.data())];
    const bool may_home = !move.has_fill || has_margins(move, out);
    for (const graph::CopyBox& box : move.copies) {
      homed.push_back(may_home &&
                      rehome(box, node.inputs[static_cast<std::size_t>(box.input)], out));
    }
  }

  // All of the input lies side by side in the output, and what is filled before it and behind it.
  bool has_margins(const MoveAttributes& move, TensorId out) {
    if (move.copies.size() != 1 || !local(out).map.is_dense()) return false;
    const graph::CopyBox box = graph::simplified(move.copies[0]);
    return box.extents.size() == 1 && box.input_strides[0] == 1 && box.output_strides[0] == 1;
  }

  // The order of the axes in which the only readers of a Move's output, Moves themselves, walk it,
  // if the boxes then write longer runs: what is concatenated along the last axis and read plane by
  // plane is stored plane by plane.
  std::optional<AxisMap> order_of_readers(TensorId out, const MoveAttributes& move) const {
    std::optional<AxisMap> order;
    for (const Node* const node : known_.readers(out)) {
      if (node->kind() != NodeKind::kMove || node->inputs.size() != 1) return std::nullopt;
      const auto& reader = node->as<MoveAttributes>();
      if (reader.has_fill || reader.copies.size() != 1) return std::nullopt;
      auto found = order_of_box(graph_.tensor(out).dims, reader.copies[0]);
      if (!found || (order && found->axes() != order->axes())) return std::nullopt;
      order = std::move(found);
    }
    if (!order || runs_of(move, *order) >= runs_of(move, AxisMap::dense(elements(out)))) {
      return std::nullopt;
    }
    return order;
  }

  // A dense storage with the axes of `dims` in the order of the box's target; none where the box
  // does not walk each of them as a whole axis.
  static std::optional<AxisMap> order_of_box(const Shape& dims, const graph::CopyBox& box) {
    std::vector<std::int64_t> strides(dims.size(), 1);
    std::int64_t wide = 0;
    for (std::size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
    for (const std::int64_t extent : dims) wide += extent > 1 ? 1 : 0;
    std::vector<std::size_t> places(box.extents.size());
    std::iota(places.begin(), places.end(), std::size_t{0});
    std::sort(places.begin(), places.end(), [&](std::size_t a, std::size_t b) {
      return box.output_strides[a] < box.output_strides[b];
    });
    std::vector<MapAxis> axes;
    std::int64_t span = 1;
    for (const std::size_t place : places) {
      if (box.extents[place] == 1) continue;
      std::size_t d = 0;
      while (d < dims.size() && (dims[d] == 1 || strides[d] != box.input_strides[place] ||
                                 box.extents[place] > dims[d])) {
        ++d;
      }
      if (d == dims.size()) return std::nullopt;
      axes.push_back({strides[d], dims[d], span});
      span *= dims[d];
    }
    if (static_cast<std::int64_t>(axes.size()) != wide) return std::nullopt;
    AxisMap map(std::move(axes), 0);
    if (!map.covers(element_count(dims))) return std::nullopt;
    return map;
  }

  // Runs of elements that lie together on both sides of the Move's copies.
  static std::int64_t runs_of(const MoveAttributes& move, const AxisMap& order) {
    std::int64_t runs = 0;
    for (const graph::CopyBox& box : move.copies) {
      const auto walk = order.map({box.output_offset, box.extents, box.output_strides});
      if (!walk) return INT64_MAX;
      std::int64_t run = 1;
      for (std::size_t i = box.extents.size(); i-- > 0;) {
        if (box.extents[i] == 1) continue;
        if (box.input_strides[i] != run || walk->strides[i] != run) break;
        run *= box.extents[i];
      }
      std::int64_t count = 1;
      for (const std::int64_t extent : box.extents) count *= extent;
      runs += count / std::max<std::int64_t>(run, 1);
    }
    return runs;
  }

  // The output becomes a view of the input.
  bool fold(const graph::CopyBox& box, TensorId in, TensorId out) {
    std::vector<MapAxis> axes;
    for (std::size_t i = 0; i < box.extents.size(); ++i) {
      if (box.input_strides[i] < 0 || box.output_strides[i] < 0) return false;
      axes.push_back({box.output_strides[i], box.extents[i], box.input_strides[i]});
    }
    if (box.output_offset != 0) return false;
    const AxisMap map(std::move(axes), box.input_offset);
    if (!map.covers(elements(out))) return false;
    const auto composed = map.then(local(in).map);
    if (!composed) return false;
    local(out) = {local(in).storage, *composed};
    return true;
  }

  // What the planar engine reads begins in the first partition; a Move in front is a view.
  bool is_read_from_first_partition(TensorId id) const {
    return std::ranges::any_of(known_.readers(id), [&](const Node* reader) {
      if (reader->kind() == NodeKind::kMove && reader->inputs.size() == 1 &&
          reader->as<MoveAttributes>().copies.size() == 1) {
        return is_read_from_first_partition(reader->outputs[0]);
      }
      return reader->kind() == NodeKind::kElementwise || reader->kind() == NodeKind::kPool ||
             reader->kind() == NodeKind::kReduce;
    });
  }

  // A reduction, which may come in parts, writes from the first partition on; what is put together of
  // parts may have readers of its own, which cannot walk all of the whole.
  bool has_other_places(TensorId id) const {
    const Node* const producer = known_.producer(id);
    if (producer == nullptr) return false;
    if (producer->kind() == NodeKind::kReduce) return true;
    constexpr std::int64_t kWorthALoad = std::int64_t{1} << 15;  // bytes
    const std::int64_t bytes = elements(id) * format_bytes(graph_.tensor(id).format);
    if (bytes >= kWorthALoad && is_read_from_first_partition(id)) return true;
    return producer->kind() == NodeKind::kMove && producer->inputs.size() > 1 &&
           known_.readers(id).size() > 1;
  }

  // The planar engine makes a part whose neighbours become channels.
  bool turns_channels(const graph::CopyBox& box, TensorId id, std::int64_t plane) const {
    const Node* const producer = known_.producer(id);
    if (producer == nullptr || producer->kind() != NodeKind::kElementwise) return false;
    for (std::size_t i = 0; i < box.extents.size(); ++i) {
      if (box.input_strides[i] == 1 && box.extents[i] > 1) return box.output_strides[i] >= plane;
    }
    return false;
  }

  // A part of an image that begins in another partition than the first is then rather loaded into the
  // whole than keeping all of it out of the state buffer.
  bool keeps_whole_from_buffer(const graph::CopyBox& box, TensorId part,
                               const Storage& whole) const {
    const Shape& dims = graph_.tensor(whole.owner).dims;
    if (dims.size() != 4) return false;
    const std::int64_t partitions = chip_.state_buffer.partitions;
    const std::int64_t plane = dims[2] * dims[3];
    if (!has_other_places(part) && !turns_channels(box, part, plane)) return false;
    const std::int64_t bytes =
        dims[0] * ceil_div(dims[1], partitions) * plane * format_bytes(whole.format);
    return box.output_offset / plane % partitions != 0 &&
           bytes <= chip_.state_buffer.bytes_per_partition / 2;
  }

  // The input gets its home within the output, so that its producer stores it there.
  bool rehome(const graph::CopyBox& box, TensorId in, TensorId out) {
    const Place& place = local(in);
    const StorageIndex whole = local(out).storage;
    const auto index = static_cast<std::size_t>(place.storage);
    if (pinned_[index] || parents_[index] || place.storage == whole || !place.map.is_dense() ||
        plan_.storages[index].elements != elements(in) ||
        alone_.contains(plan_.storages[index].owner) || box.input_offset != 0 ||
        keeps_whole_from_buffer(box, plan_.storages[index].owner, plan_.storages[whole])) {
      return false;
    }
    std::vector<MapAxis> axes;
    for (std::size_t i = 0; i < box.extents.size(); ++i) {
      if (box.input_strides[i] <= 0 || box.output_strides[i] <= 0) return false;
      axes.push_back({box.input_strides[i], box.extents[i], box.output_strides[i]});
    }
    AxisMap map(std::move(axes), box.output_offset);
    if (!map.covers(elements(in))) return false;
    auto placed = map.then(local(out).map);
    if (!placed) return false;
    parents_[index] = Place{whole, *std::move(placed)};
    return true;
  }

  Status plan_node(const Node& node, NodePlan& plan) {
    if (node.kind() == NodeKind::kHostStep) {
      for (const TensorId id : node.inputs) require_dense(id);
      for (const TensorId id : node.outputs) require_dense(id);
      return {};
    }
    if (node.kind() == NodeKind::kMove) {
      plan_move(node, plan);
      return {};
    }
    const auto index = static_cast<std::size_t>(&node - graph_.nodes.data());
    TESSERA_TRY(const graph::NodeViews* const found, known_.views_of(index));
    const graph::NodeViews& views = *found;
    plan.inputs.resize(node.inputs.size());
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (is_kernel_operand(graph_, node, i)) continue;
      plan.inputs[i] = view(node.inputs[i], views.inputs[i]);
    }
    plan.swapped = known_.choice(index).swapped;
    if (plan.swapped) std::swap(plan.inputs[0], plan.inputs[1]);
    plan.output = view(node.outputs[0], views.output);
    return {};
  }

  void plan_move(const Node& node, NodePlan& plan) {
    const auto& move = node.as<MoveAttributes>();
    const TensorId out = node.outputs[0];
    const Storage& own = plan_.storages[local(out).storage];
    if (own.owner != out) return;  // folded
    const std::int64_t total = elements(out);
    const auto& homed = homes_[static_cast<std::size_t>(&node - graph_.nodes.data())];
    if (move.has_fill && homed.size() == 1 && homed[0]) {
      const std::int64_t first = move.copies[0].output_offset;
      const std::int64_t end = first + graph::box_elements(move.copies[0]);
      fill_range(move, out, 0, first, plan.copies);
      fill_range(move, out, end, total - end, plan.copies);
    } else if (move.has_fill && fill_around(move, out, plan.copies)) {
      // What boxes copy needs no fill.
    } else if (move.has_fill && total > 0 && !local(out).map.is_dense()) {
      // Any order of the elements will do.
      plan.copies.push_back({.fill = true,
                             .fill_bits = move.fill,
                             .destination = local(out).storage,
                             .from = {0, {total}, {0}},
                             .to = {0, {total}, {1}}});
    } else if (move.has_fill && total > 0) {
      fill_range(move, out, 0, total, plan.copies);
    }
    for (std::size_t i = 0; i < move.copies.size(); ++i) {
      const graph::CopyBox& box = move.copies[i];
      if (homed[i] || std::count(box.extents.begin(), box.extents.end(), 0) > 0) continue;
      add_copy({.from = {}, .to = {}}, node.inputs[static_cast<std::size_t>(box.input)],
               {box.input_offset, box.extents, box.input_strides}, out,
               {box.output_offset, box.extents, box.output_strides}, plan.copies);
    }
  }

  // Fills what lies around the boxes of a Move. False where all of the output takes less.
  bool fill_around(const MoveAttributes& move, TensorId out, std::vector<PlannedCopy>& copies) {
    const auto place = resolve(out);
    if (!place) return false;
    const std::int64_t element = format_bytes(plan_.storages[place->storage].format);
    const std::vector<StridedWalk> around = walks_around(move.copies, elements(out));
    std::int64_t bytes = 0;
    for (const StridedWalk& walk : around) {
      const std::int64_t run = walk.extents.back() * element;
      bytes += runs_of_walk(walk) * std::max(run, kFillRunBytes);
      if (!place->map.map(walk)) return false;
    }
    if (around.empty() || 2 * bytes > elements(out) * element) return false;
    for (const StridedWalk& walk : around) {
      add_copy({.fill = true, .fill_bits = move.fill, .from = {}, .to = {}}, TensorId{}, {}, out,
               walk, copies);
    }
    return true;
  }

  void fill_range(const MoveAttributes& move, TensorId out, std::int64_t first, std::int64_t count,
                  std::vector<PlannedCopy>& copies) {
    if (count == 0) return;
    add_copy({.fill = true, .fill_bits = move.fill, .from = {}, .to = {}}, TensorId{},
             {0, {count}, {0}}, out, {first, {count}, {1}}, copies);
  }

  void add_copy(PlannedCopy copy, TensorId in, const StridedWalk& from, TensorId out,
                const StridedWalk& to, std::vector<PlannedCopy>& copies) {
    if (!copy.fill) {
      const auto place = resolve(in);
      const auto walk = place ? place->map.map(from) : std::nullopt;
      if (!walk) return fail(in);
      copy.source = place->storage;
      copy.from = *walk;
    }
    const auto place = resolve(out);
    const auto walk = place ? place->map.map(to) : std::nullopt;
    if (!walk) return fail(out);
    copy.destination = place->storage;
    copy.to = *walk;
    copies.push_back(std::move(copy));
  }

  StorageView view(TensorId id, const graph::StridedView& from) {
    touch(id);
    const auto place = resolve(id);
    const auto result = place ? view_in_storage(*place, from) : std::nullopt;
    if (result) return *result;
    fail(id);
    return {};
  }

  void require_dense(TensorId id) {
    touch(id);
    const auto place = resolve(id);
    if (!place || !place->map.is_dense()) fail(id);
  }

  void plan_outputs() {
    for (const TensorId id : graph_.outputs) {
      if (conflict_) return;
      touch(id);
      const auto place = resolve(id);
      if (place && plan_.storages[place->storage].base == BaseIndex::kOutput &&
          place->map.is_dense()) {
        plan_.output_storages.push_back(place->storage);
        continue;
      }
      copy_output(id);
    }
  }

  // An output that is an input or a constant of the graph.
  void copy_output(TensorId id) {
    const std::int64_t total = elements(id);
    Storage storage{.name = graph_.tensor(id).name,
                    .format = graph_.tensor(id).format,
                    .elements = total,
                    .base = BaseIndex::kOutput,
                    .owner = {}};
    const auto place = resolve(id);
    const StridedWalk walk{0, {total}, {1}};
    const auto from = place ? place->map.map(walk) : std::nullopt;
    if (!from) return fail(id);
    plan_.output_storages.push_back(static_cast<StorageIndex>(plan_.storages.size()));
    plan_.output_copies.push_back({.source = place->storage,
                                   .destination = plan_.output_storages.back(),
                                   .from = *from,
                                   .to = walk});
    plan_.storages.push_back(storage);
    parents_.emplace_back();
  }

  void fail(TensorId id) {
    if (!conflict_) conflict_ = id;
  }

  const Graph& graph_;
  const ChipConfig& chip_;
  KnownGraph& known_;
  const std::set<TensorId>& alone_;
  StoragePlan plan_;
  Table<StorageIndex, std::optional<Place>> parents_;
  Table<StorageIndex, bool> pinned_;      // those that keep their own home
  std::vector<std::vector<bool>> homes_;  // of each Move and box: the producer stores there
  std::optional<TensorId> conflict_;
};

}  // namespace

std::int64_t StorageView::dense_elements() const {
  std::int64_t span = 1;
  for (std::size_t i = 4; i > 0; --i) {
    if (extents[i - 1] == 1) continue;
    if (strides[i - 1] != span) return 0;
    span *= extents[i - 1];
  }
  return span;
}

StorageView StorageView::part(std::size_t axis, std::int64_t first, std::int64_t count) const {
  StorageView result = *this;
  result.offset += first * strides[axis];
  result.extents[axis] = count;
  if (count == 1) result.strides[axis] = 0;
  return result;
}

std::optional<StorageView> view_in_storage(const Place& place, const graph::StridedView& view) {
  StridedWalk walk{.offset = 0, .extents = {}, .strides = {}};
  walk.extents.assign(view.extents.begin(), view.extents.end());
  walk.strides.assign(view.strides.begin(), view.strides.end());
  const auto mapped = place.map.map(walk);
  if (!mapped) return std::nullopt;
  StorageView result{.storage = place.storage, .offset = mapped->offset, .extents = view.extents};
  std::copy(mapped->strides.begin(), mapped->strides.end(), result.strides.begin());
  for (std::size_t i = 0; i < 4; ++i) {
    if (result.extents[i] == 1) result.strides[i] = 0;
  }
  return result;
}

bool is_kernel_operand(const Graph& graph, const Node& node, std::size_t input) {
  if (node.kind() == NodeKind::kConv) return input > 0;
  return node.kind() == NodeKind::kMatMul && input > 0 &&
         graph.tensor(node.inputs[input]).constant != nullptr;
}

Result<StoragePlan> plan_storages(const graph::Graph& graph, const ChipConfig& chip,
                                  const ViewChoices& choices, const std::set<TensorId>& apart) {
  std::set<TensorId> alone = apart;
  KnownGraph known(graph, choices);
  for (;;) {
    Attempt attempt(graph, chip, known, alone);
    TESSERA_RETURN_IF_ERROR(attempt.run());
    if (!attempt.conflict()) return attempt.finish();
    const TensorId id = *attempt.conflict();
    TESSERA_CHECK(alone.insert(id).second, "tensor '{}' has its own storage and cannot be walked",
                  graph.tensor(id).name);
  }
}

}  // namespace tessera::compile
