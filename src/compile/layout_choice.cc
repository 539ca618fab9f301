#include "compile/layout_choice.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "arch/cost.h"
#include "arch/dram_config.h"
#include "base/check.h"
#include "compile/load_moves.h"
#include "compile/residency.h"
#include "compile/transposition.h"

namespace tessera::compile {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeKind;
using graph::TensorId;
using graph::ViewChoice;

constexpr int kSweepsMax = 4;

// A node's operands in their storages under one choice.
struct Candidate {
  ViewChoice choice;
  std::vector<StorageView> inputs;  // in the order of node.inputs
  StorageView output;
  Cycles cycles = 0;  // of the work itself
};

struct NodeState {
  std::vector<Candidate> candidates;  // empty: not on the processor
  std::size_t chosen = 0;
  std::vector<StorageIndex> storages;  // that it touches
  const Candidate& now() const { return candidates[chosen]; }
};

struct ViewOrder {
  bool operator()(const StorageView& a, const StorageView& b) const {
    return std::tie(a.storage, a.offset, a.extents, a.strides) <
           std::tie(b.storage, b.offset, b.extents, b.strides);
  }
};

// A storage that many nodes touch: what its cost is a sum of, kept up to date operand by operand, so
// that a choice of one node costs the same however many there are.
struct CountedOperands {
  // If it lay in the buffer in this layout.
  struct InLayout {
    BufferLayout layout;
    Cycles tasks = 0, turning = 0;
    std::int64_t unfit_writers = 0;
    std::map<StorageView, std::int64_t, ViewOrder> turned;  // views of readers, by their number
    bool moves_known = false;
    std::optional<Cycles> moves;  // to load what Moves write
  };
  std::map<StorageView, InLayout, ViewOrder> layouts;    // those asked for so far
  std::map<StorageView, std::int64_t, ViewOrder> read;   // views by their number of readers
  std::map<StorageView, std::int64_t, ViewOrder> whole;  // of these, those that may be layouts
  Cycles loads = 0;                                      // of each view of `read` once
  Cycles stores = 0;                                     // of all writers
};
// With fewer operands it is simply summed anew.
constexpr std::size_t kCountedFrom = 32;

struct StorageState {
  std::vector<std::size_t> writers;                          // nodes
  std::vector<std::pair<std::size_t, std::size_t>> readers;  // node, input
  bool copied = false;                                       // Moves or host steps write it
  bool of_host = false;                                      // host steps do
  std::vector<const PlannedCopy*> copies;                    // of the Moves
  Cycles copying = -1;                       // what they take in DRAM; -1: not known
  bool stored = false;                       // an output of the graph, or what copies read
  std::unique_ptr<CountedOperands> counted;  // of a storage with many operands
};

bool may_swap(const Graph& graph, const Node& node) {
  if (node.kind() != NodeKind::kMatMul || node.inputs.size() != 2) return false;
  const auto& matmul = node.as<graph::MatMulAttributes>();
  const auto& a = graph.tensor(node.inputs[0]);
  const auto& b = graph.tensor(node.inputs[1]);
  const auto matrices = [](const Shape& dims) {
    return element_count(dims) / (dims[dims.size() - 2] * dims[dims.size() - 1]);
  };
  return b.constant == nullptr && a.constant == nullptr && a.format == b.format &&
         a.dims.size() >= 2 && b.dims.size() >= 2 && element_count(a.dims) > 0 &&
         element_count(b.dims) > 0 && matrices(a.dims) == matrices(b.dims) &&
         matmul.integer.stationary_zero_points.size() <= 1 && matmul.post.multipliers.size() <= 1;
}

std::vector<ViewChoice> choices_of(const Graph& graph, const Node& node) {
  std::vector<ViewChoice> choices = {{}};
  const auto add_axes = [&](const Shape& dims, const std::vector<std::int64_t>& without) {
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const bool reduced =
          std::find(without.begin(), without.end(), static_cast<std::int64_t>(i)) != without.end();
      if (dims[i] > 1 && !reduced) {
        choices.push_back({.channel_axis = static_cast<std::int32_t>(i), .swapped = false});
      }
    }
  };
  if (node.kind() == NodeKind::kElementwise) {
    add_axes(graph.tensor(node.outputs[0]).dims, {});
  } else if (node.kind() == NodeKind::kReduce) {
    add_axes(graph.tensor(node.inputs[0]).dims, node.as<graph::ReduceAttributes>().axes);
  } else if (may_swap(graph, node)) {
    choices.push_back({.channel_axis = -1, .swapped = true});
  }
  return choices;
}

class Chooser {
 public:
  Chooser(const Graph& graph, const ChipConfig& chip, const StoragePlan& storages)
      : graph_(graph),
        axes_(graph),
        chip_(chip),
        plan_(storages),
        storages_(storages.storages.size()) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) add_node(i);
    for (std::size_t i = 0; i < storages_.size(); ++i) {
      if (storages.storages[i].base == isa::BaseIndex::kOutput) storages_[i].stored = true;
    }
    cost_of_.assign(storages_.size(), -1);
    for (StorageState& state : storages_) {
      if (state.writers.size() + state.readers.size() >= kCountedFrom) count_operands(state);
    }
  }

  Result<ViewChoices> run(Watch* watch) {
    find_groups();
    for (int sweep = 0; sweep < kSweepsMax; ++sweep) {
      bool better = false;
      for (const std::vector<std::size_t>& group : groups_) better = try_group(group) || better;
      for (std::size_t i = 0; i < nodes_.size(); ++i) {
        TESSERA_RETURN_IF_ERROR(
            watched(watch, "choose_views", static_cast<std::int64_t>(i), std::ssize(nodes_)));
        better = try_node(i) || better;
      }
      if (!better) break;
    }
    ViewChoices choices;
    for (const NodeState& node : nodes_) {
      choices.push_back(node.candidates.empty() ? ViewChoice{} : node.now().choice);
    }
    return choices;
  }

 private:
  Format format_of(StorageIndex index) const { return plan_.storages[index].format; }

  void add_node(std::size_t index) {
    const Node& node = graph_.nodes[index];
    NodeState& state = nodes_.emplace_back();
    if (node.kind() == NodeKind::kMove || node.kind() == NodeKind::kHostStep) {
      for (const TensorId id : node.outputs) {
        const Place& place = plan_.places[id];
        const bool writes =
            node.kind() == NodeKind::kHostStep || !plan_.nodes[index].copies.empty();
        if (!place.valid() || !writes) continue;
        storage(place.storage).copied = true;
        if (node.kind() == NodeKind::kHostStep) storage(place.storage).of_host = true;
      }
      for (const PlannedCopy& copy : plan_.nodes[index].copies) {
        storage(copy.destination).copies.push_back(&copy);
        if (!copy.fill) storage(copy.source).stored = true;
      }
      return;
    }
    for (const TensorId id : node.outputs) {
      if (element_count(graph_.tensor(id).dims) == 0) return;
    }
    for (const ViewChoice& choice : choices_of(graph_, node)) add_candidate(node, choice, state);
    if (state.candidates.empty()) return;
    const Candidate& first = state.candidates[0];
    for (std::size_t k = 0; k < first.inputs.size(); ++k) {
      if (first.inputs[k].storage < 0) continue;
      storage(first.inputs[k].storage).readers.emplace_back(index, k);
      state.storages.push_back(first.inputs[k].storage);
    }
    storage(first.output.storage).writers.push_back(index);
    state.storages.push_back(first.output.storage);
    std::sort(state.storages.begin(), state.storages.end());
    state.storages.erase(std::unique(state.storages.begin(), state.storages.end()),
                         state.storages.end());
  }

  StorageState& storage(StorageIndex index) { return storages_[index]; }

  void add_candidate(const Node& node, const ViewChoice& choice, NodeState& state) const {
    const auto views = graph::node_views(axes_, node, choice);
    if (!views.ok()) return;
    const auto in_place = [&](TensorId id, const graph::StridedView& view) {
      const Place& place = plan_.places[id];
      return place.valid() ? view_in_storage(place, view) : std::nullopt;
    };
    Candidate candidate;
    candidate.choice = choice;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      candidate.inputs.emplace_back();
      if (is_kernel_operand(graph_, node, k)) continue;
      const auto view = in_place(node.inputs[k], views->inputs[k]);
      if (!view) return;
      candidate.inputs.back() = *view;
    }
    const auto output = in_place(node.outputs[0], views->output);
    if (!output) return;
    candidate.output = *output;
    for (const Candidate& other : state.candidates) {
      if (other.inputs == candidate.inputs && other.output == candidate.output) return;
    }
    candidate.cycles = std::max<Cycles>(0, work_cycles(node, candidate) - arrival(node, candidate));
    state.candidates.push_back(std::move(candidate));
  }

  // What a node makes of the network's input it makes while that comes, piece by piece.
  Cycles arrival(const Node& node, const Candidate& candidate) const {
    if (node.kind() != NodeKind::kElementwise) return 0;
    Cycles cycles = 0;
    for (const StorageView& in : candidate.inputs) {
      if (in.storage < 0 || plan_.storages[in.storage].base != isa::BaseIndex::kInput) continue;
      cycles = std::max(cycles, transfer_cycles(in));
    }
    return cycles;
  }

  // Only nodes with a choice need a figure.
  Cycles work_cycles(const Node& node, const Candidate& candidate) const {
    const StorageView& out = candidate.output;
    if (node.kind() == NodeKind::kMatMul) {
      ProductWork work;
      const Shape& a = graph_.tensor(node.inputs[0]).dims;
      work.channels = a.back();
      work.output_channels = out.channels();
      return neural_task_cycles(chip_.neural, work, {out.images(), out.rows(), out.rows()});
    }
    if (node.kind() != NodeKind::kElementwise && node.kind() != NodeKind::kReduce) return 0;
    const StorageView& in = candidate.inputs[0];
    PlanarWork work;
    work.channels = out.channels();
    work.output_elements = out.images() * out.rows() * out.columns();
    work.input_elements = in.images() * in.rows() * in.columns();
    if (node.kind() == NodeKind::kElementwise) {
      const auto& elementwise = node.as<graph::ElementwiseAttributes>();
      work.output_cycles = unary_function_cycles(elementwise.activation.function);
      if (elementwise.binary) {
        work.output_cycles =
            std::max(work.output_cycles, binary_function_cycles(elementwise.function));
      }
      if (elementwise.gain_bias) work.input_cycles = gain_bias_input_cycles(candidate);
      return std::min(planar_step_cycles(chip_.planar, work), spread_cycles(candidate));
    }
    return planar_step_cycles(chip_.planar, work);
  }

  // As isa/planar_modes.cc: a lane reads two elements a cycle, and keeps what is one for a row.
  static std::int64_t gain_bias_input_cycles(const Candidate& candidate) {
    std::int64_t streams = 0;
    for (const StorageView& input : candidate.inputs) streams += input.strides[3] != 0;
    return std::max<std::int64_t>(1, ceil_div(streams, 2));
  }

  // build_layers.cc spreads dense work on few channels over all lanes, by way of DRAM.
  Cycles spread_cycles(const Candidate& candidate) const {
    const std::int64_t elements = candidate.output.dense_elements();
    std::int64_t moved = 2 * elements * format_bytes(format_of(candidate.output.storage));
    for (const StorageView& input : candidate.inputs) {
      if (input.storage < 0 || elements == 0 || input.dense_elements() != elements) {
        return INT64_MAX;
      }
      moved += 2 * elements * format_bytes(format_of(input.storage));
    }
    return ceil_div(elements, chip_.planar.lanes) + dram_costs(chip_).whole_cycles(moved);
  }

  Start start_of(std::size_t node) const {
    const NodeKind kind = graph_.nodes[node].kind();
    return kind == NodeKind::kConv || kind == NodeKind::kMatMul ? Start::kWithinBlock
                                                                : Start::kFirstPartition;
  }

  bool is_whole(const StorageView& view) const {
    std::int64_t count = 1;
    for (std::size_t i = 0; i < 4; ++i) count *= view.strides[i] == 0 ? 1 : view.extents[i];
    return count == plan_.storages[view.storage].elements;
  }

  // Cycles for turning what the readers of a storage want in another layout.
  Cycles storage_cost(StorageIndex index) {
    Cycles& cost = cost_of_[index];
    if (cost < 0) cost = find_storage_cost(storage(index));
    return cost;
  }

  // Under the best of the layouts that its writers can leave; as in residency.cc, the writer's own
  // or that of a reader which takes it all.
  Cycles find_storage_cost(StorageState& state) {
    if (state.counted == nullptr) return summed_cost(state);
    const Cycles cycles = counted_cost(state);
#ifdef TESSERA_SANITIZED
    TESSERA_CHECK(cycles == summed_cost(state), "{} cycles counted, {} summed", cycles,
                  summed_cost(state));
#endif
    return cycles;
  }

  Cycles summed_cost(StorageState& state) {
    Cycles stores = 0;
    if (state.stored) {
      for (const std::size_t writer : state.writers) {
        stores += transfer_cycles(nodes_[writer].now().output);
      }
    }
    if (state.readers.empty()) return stores;
    if (state.writers.empty() && !state.of_host && !state.copies.empty()) {
      return stores + copied_cost(state);
    }
    if (state.writers.empty() || state.copied) return stores + load_cost(state);
    std::vector<const StorageView*> layouts;
    if (state.writers.size() == 1) layouts.push_back(&nodes_[state.writers[0]].now().output);
    for (const auto& [node, input] : state.readers) {
      layouts.push_back(&nodes_[node].now().inputs[input]);
    }
    Cycles least = -1;
    for (std::size_t i = 0; i < layouts.size() && least != 0; ++i) {
      const StorageView& view = *layouts[i];
      const bool seen =
          std::any_of(layouts.begin(), layouts.begin() + static_cast<std::ptrdiff_t>(i),
                      [&](const StorageView* other) { return *other == view; });
      if (seen || view.offset != 0 || !is_whole(view)) continue;
      const Cycles cycles = layout_cost(state, view);
      if (least < 0 || cycles < least) least = cycles;
    }
    // Without a layout it goes through DRAM whatever is chosen.
    return stores + (least < 0 ? load_cost(state) : least);
  }

  Cycles transfer_cycles(const StorageView& view) const {
    return compile::transfer_cycles(chip_, view, format_of(view.storage));
  }

  // Written by Moves alone: copied in DRAM and loaded, or loaded from their sources into a block that
  // the readers take (load_moves.h).
  Cycles copied_cost(StorageState& state) {
    Cycles least = copying_cycles(state) + load_cost(state);
    for (const auto& [node, input] : state.readers) {
      const StorageView& view = nodes_[node].now().inputs[input];
      if (view.offset != 0 || !is_whole(view)) continue;
      if (const auto cycles = moving_cost(state, view)) least = std::min(least, *cycles);
    }
    return least;
  }

  Cycles copying_cycles(StorageState& state) const {
    if (state.copying >= 0) return state.copying;
    state.copying = 0;
    for (const PlannedCopy* copy : state.copies) {
      state.copying += copy_task_cycles(chip_, *copy, format_of(copy->destination));
    }
    return state.copying;
  }

  std::optional<Cycles> moving_cost(const StorageState& state, const StorageView& whole) const {
    const BufferLayout layout(whole, format_of(whole.storage), chip_.state_buffer.partitions);
    if (layout.bytes() > chip_.state_buffer.bytes_per_partition) return std::nullopt;
    const auto loading = loading_cycles(state, whole, layout);
    if (!loading) return std::nullopt;
    return layout_cost(state, whole) + *loading;
  }

  // What Moves write, loaded from their sources; none where a load cannot do it.
  std::optional<Cycles> loading_cycles(const StorageState& state, const StorageView& whole,
                                       const BufferLayout& layout) const {
    Cycles cycles = 0;
    for (const PlannedCopy* copy : state.copies) {
      const auto loads = plan_load_moves(*copy, whole, layout);
      if (!loads) return std::nullopt;
      for (const LoadMove& load : *loads) {
        cycles += transfer_cycles(load.from) + chip_.dma.task_start_cycles;
      }
    }
    return cycles;
  }

  // Every reader loads from DRAM in its own layout.
  Cycles load_cost(const StorageState& state) const {
    Cycles cycles = 0;
    std::vector<const StorageView*> loaded;
    for (const auto& [node, input] : state.readers) {
      const StorageView& view = nodes_[node].now().inputs[input];
      if (std::any_of(loaded.begin(), loaded.end(),
                      [&](const StorageView* other) { return *other == view; })) {
        continue;
      }
      loaded.push_back(&view);
      cycles += transfer_cycles(view);
    }
    return cycles;
  }

  Cycles layout_cost(const StorageState& state, const StorageView& whole) const {
    const Format format = format_of(whole.storage);
    const BufferLayout layout(whole, format, chip_.state_buffer.partitions);
    if (state.counted == nullptr && layout.bytes() > chip_.state_buffer.bytes_per_partition) {
      return passing_cost(state, whole);
    }
    Cycles cycles = 0;
    for (const std::size_t writer : state.writers) {
      const StorageView& view = nodes_[writer].now().output;
      const Fit fit = fit_view(layout, view, start_of_results(writer));
      if (fit == Fit::kNone) return dma_transposition(chip_, whole, format).cycles;
      cycles += tasks_cost(fit, view);
    }
    std::vector<const StorageView*> turned;
    for (const auto& [node, input] : state.readers) {
      const StorageView& view = nodes_[node].now().inputs[input];
      const Fit fit = fit_view(layout, view, start_of(node));
      if (fit != Fit::kNone) {
        cycles += tasks_cost(fit, view);
        continue;
      }
      if (std::any_of(turned.begin(), turned.end(),
                      [&](const StorageView* other) { return *other == view; })) {
        continue;
      }
      turned.push_back(&view);
      cycles += turning_cost(layout, view);
    }
    return cycles;
  }

  // The buffer has no room for all of it: rows are handed over as they are made (find_cascade.h), or all
  // is stored, and loaded by every reader that cannot take them so.
  Cycles passing_cost(const StorageState& state, const StorageView& whole) const {
    const bool has_rows = whole.images() == 1 && whole.rows() > 1;
    const BufferLayout row(whole, format_of(whole.storage), chip_.state_buffer.partitions,
                           has_rows ? 1 : 0);
    const auto passes = [&](const StorageView& view, Start start) {
      return has_rows && view.rows() == whole.rows() && view.strides[2] == whole.strides[2] &&
             fit_view(row, view, start) == Fit::kWhole;
    };
    Cycles stores = 0, loads = 0;
    bool handed_over = true;
    for (const std::size_t writer : state.writers) {
      const StorageView& view = nodes_[writer].now().output;
      stores += transfer_cycles(view);
      handed_over = handed_over && passes(view, start_of_results(writer));
    }
    for (const auto& [node, input] : state.readers) {
      const StorageView& view = nodes_[node].now().inputs[input];
      if (!handed_over || !passes(view, start_of(node))) loads += transfer_cycles(view);
    }
    return loads == 0 ? 0 : stores + loads;
  }

  // ---- storages with many operands ---------------------------------------------------------------

  Start start_of_results(std::size_t node) const {
    return graph_.nodes[node].kind() == NodeKind::kReduce ? Start::kFirstPartition
                                                          : Start::kAnywhere;
  }

  void count_operands(StorageState& state) {
    state.counted = std::make_unique<CountedOperands>();
    for (const std::size_t writer : state.writers) count_writer(state, writer, 1);
    for (const auto& [node, input] : state.readers) count_reader(state, node, input, 1);
  }

  // Takes the operand, as it is now chosen, in (sign 1) or out (sign -1).
  void count_writer(StorageState& state, std::size_t node, std::int64_t sign) const {
    const StorageView& view = nodes_[node].now().output;
    CountedOperands& counted = *state.counted;
    if (state.stored) counted.stores += sign * transfer_cycles(view);
    for (auto& [whole, in] : counted.layouts) count_writer_in(in, node, sign);
  }
  void count_writer_in(CountedOperands::InLayout& in, std::size_t node, std::int64_t sign) const {
    const StorageView& view = nodes_[node].now().output;
    const Fit fit = fit_view(in.layout, view, start_of_results(node));
    if (fit == Fit::kNone) {
      in.unfit_writers += sign;
    } else {
      in.tasks += sign * tasks_cost(fit, view);
    }
  }
  void count_reader(StorageState& state, std::size_t node, std::size_t input,
                    std::int64_t sign) const {
    const StorageView& view = nodes_[node].now().inputs[input];
    CountedOperands& counted = *state.counted;
    if (changes_set(counted.read, view, sign)) counted.loads += sign * transfer_cycles(view);
    if (view.offset == 0 && is_whole(view)) changes_set(counted.whole, view, sign);
    for (auto& [whole, in] : counted.layouts) count_reader_in(in, node, input, sign);
  }
  void count_reader_in(CountedOperands::InLayout& in, std::size_t node, std::size_t input,
                       std::int64_t sign) const {
    const StorageView& view = nodes_[node].now().inputs[input];
    const Fit fit = fit_view(in.layout, view, start_of(node));
    if (fit != Fit::kNone) {
      in.tasks += sign * tasks_cost(fit, view);
    } else if (changes_set(in.turned, view, sign)) {
      in.turning += sign * turning_cost(in.layout, view);
    }
  }
  // Whether the view came into the set, or left it.
  static bool changes_set(std::map<StorageView, std::int64_t, ViewOrder>& set,
                          const StorageView& view, std::int64_t sign) {
    const auto found = set.try_emplace(view, 0).first;
    found->second += sign;
    if (found->second == 0) set.erase(found);
    return sign > 0 ? set.at(view) == 1 : !set.contains(view);
  }

  CountedOperands::InLayout& in_layout(StorageState& state, const StorageView& whole) const {
    const auto [found, is_new] = state.counted->layouts.try_emplace(whole);
    CountedOperands::InLayout& in = found->second;
    if (!is_new) return in;
    in.layout = BufferLayout(whole, format_of(whole.storage), chip_.state_buffer.partitions);
    for (const std::size_t writer : state.writers) count_writer_in(in, writer, 1);
    for (const auto& [node, input] : state.readers) count_reader_in(in, node, input, 1);
    return in;
  }

  // As summed_cost().
  Cycles counted_cost(StorageState& state) {
    const CountedOperands& counted = *state.counted;
    const Cycles stores = counted.stores;
    if (state.readers.empty()) return stores;
    if (state.writers.empty() && !state.of_host && !state.copies.empty()) {
      Cycles least = copying_cycles(state) + counted.loads;
      for (const auto& [view, readers] : counted.whole) {
        if (const auto cycles = counted_moving_cost(state, view)) least = std::min(least, *cycles);
      }
      return stores + least;
    }
    if (state.writers.empty() || state.copied) return stores + counted.loads;
    Cycles least = -1;
    const auto consider = [&](const StorageView& view) {
      const Cycles cycles = counted_layout_cost(in_layout(state, view), view);
      if (least < 0 || cycles < least) least = cycles;
    };
    if (state.writers.size() == 1) {
      const StorageView& view = nodes_[state.writers[0]].now().output;
      if (view.offset == 0 && is_whole(view)) consider(view);
    }
    for (const auto& [view, readers] : counted.whole) {
      if (least != 0) consider(view);
    }
    return stores + (least < 0 ? counted.loads : least);
  }

  Cycles counted_layout_cost(const CountedOperands::InLayout& in, const StorageView& whole) const {
    if (in.unfit_writers > 0) {
      return dma_transposition(chip_, whole, format_of(whole.storage)).cycles;
    }
    return in.tasks + in.turning;
  }

  std::optional<Cycles> counted_moving_cost(StorageState& state, const StorageView& whole) const {
    CountedOperands::InLayout& in = in_layout(state, whole);
    if (in.layout.bytes() > chip_.state_buffer.bytes_per_partition) return std::nullopt;
    if (!in.moves_known) {
      in.moves = loading_cycles(state, whole, in.layout);
      in.moves_known = true;
    }
    if (!in.moves) return std::nullopt;
    return counted_layout_cost(in, whole) + *in.moves;
  }

  // Another candidate of a node, and what is counted of its operands.
  void choose(std::size_t index, std::size_t candidate) {
    NodeState& node = nodes_[index];
    if (node.chosen == candidate) return;
    count_node(index, -1);
    node.chosen = candidate;
    count_node(index, 1);
  }
  void count_node(std::size_t index, std::int64_t sign) {
    const Candidate& now = nodes_[index].now();
    for (std::size_t k = 0; k < now.inputs.size(); ++k) {
      const StorageIndex read = now.inputs[k].storage;
      if (read >= 0 && storage(read).counted != nullptr) {
        count_reader(storage(read), index, k, sign);
      }
    }
    StorageState& written = storage(now.output.storage);
    if (written.counted != nullptr) count_writer(written, index, sign);
  }

  // Of a task for each image.
  Cycles tasks_cost(Fit fit, const StorageView& view) const {
    return fit == Fit::kByImage ? (view.images() - 1) * chip_.planar.task_start_cycles : 0;
  }

  Cycles turning_cost(const BufferLayout& layout, const StorageView& view) const {
    const Format format = format_of(view.storage);
    Cycles least = dma_transposition(chip_, view, format).cycles;
    const StorageView target = dense_view(view, view.storage);
    const auto parts = cut_transposition(layout, view, target, format);
    if (!parts) return least;
    least = std::min(least, array_transposition_cycles(chip_, *parts));
    const BufferLayout to(target, format, chip_.state_buffer.partitions);
    if (planar_can_turn(layout, to, *parts)) {
      least = std::min(least, planar_transposition_cycles(chip_, *parts));
    }
    return least;
  }

  Cycles cost(const std::vector<std::size_t>& nodes, const std::vector<StorageIndex>& storages) {
    Cycles cycles = 0;
    for (const std::size_t node : nodes) cycles += nodes_[node].now().cycles;
    for (const StorageIndex index : storages) cycles += storage_cost(index);
    return cycles;
  }

  void forget(const std::vector<StorageIndex>& storages) {
    for (const StorageIndex index : storages) cost_of_[index] = -1;
  }

  bool try_node(std::size_t index) {
    NodeState& node = nodes_[index];
    if (node.candidates.size() < 2) return false;
    const std::size_t before = node.chosen;
    std::size_t best = before;
    Cycles least = cost({index}, node.storages);
    for (std::size_t i = 0; i < node.candidates.size(); ++i) {
      if (i == before) continue;
      choose(index, i);
      forget(node.storages);
      const Cycles cycles = cost({index}, node.storages);
      if (cycles < least) {
        least = cycles;
        best = i;
      }
    }
    choose(index, best);
    forget(node.storages);
    return best != before;
  }

  // All nodes of the group with the same axis on partitions, where they can.
  bool try_group(const std::vector<std::size_t>& group) {
    std::vector<StorageIndex> storages;
    std::vector<std::size_t> best, before;
    std::int32_t axes = 0;
    for (const std::size_t index : group) {
      const NodeState& node = nodes_[index];
      storages.insert(storages.end(), node.storages.begin(), node.storages.end());
      before.push_back(node.chosen);
      for (const Candidate& candidate : node.candidates) {
        axes = std::max(axes, candidate.choice.channel_axis + 1);
      }
    }
    std::sort(storages.begin(), storages.end());
    storages.erase(std::unique(storages.begin(), storages.end()), storages.end());
    best = before;
    Cycles least = cost(group, storages);
    const auto take = [&](const std::vector<std::size_t>& chosen) {
      for (std::size_t i = 0; i < group.size(); ++i) choose(group[i], chosen[i]);
      forget(storages);
    };
    for (std::int32_t axis = 0; axis < axes; ++axis) {
      std::vector<std::size_t> chosen = before;
      for (std::size_t i = 0; i < group.size(); ++i) {
        const std::vector<Candidate>& candidates = nodes_[group[i]].candidates;
        for (std::size_t k = 0; k < candidates.size(); ++k) {
          if (candidates[k].choice.channel_axis == axis) chosen[i] = k;
        }
      }
      take(chosen);
      const Cycles cycles = cost(group, storages);
      if (cycles < least) {
        least = cycles;
        best = chosen;
      }
    }
    take(best);
    return best != before;
  }

  // Element-wise nodes and reductions that hand tensors of one rank to each other; and those that touch
  // tensors of one rank together, whoever makes them.
  void find_groups() {
    find_groups([](const Links& links, TensorId id) { return links.maker[id]; });
    const std::size_t count = groups_.size();
    find_groups([](const Links& links, TensorId id) { return links.first[id]; });
    std::set<std::vector<std::size_t>> seen(groups_.begin(),
                                            groups_.begin() + static_cast<std::ptrdiff_t>(count));
    std::erase_if(groups_, [&, at = std::size_t{0}](const auto& group) mutable {
      return at++ >= count && seen.contains(group);
    });
  }

  // Of nodes with a choice: who makes a tensor, and who makes or reads it first; -1: none.
  struct Links {
    Table<TensorId, std::ptrdiff_t> maker, first;
  };
  template <typename Partner>
  void find_groups(Partner&& partner) {
    std::vector<std::size_t> root(nodes_.size());
    std::iota(root.begin(), root.end(), std::size_t{0});
    const auto find = [&](std::size_t i) {
      while (root[i] != i) i = root[i] = root[root[i]];
      return i;
    };
    const auto flexible = [&](std::size_t i) {
      const NodeKind kind = graph_.nodes[i].kind();
      return !nodes_[i].candidates.empty() &&
             (kind == NodeKind::kElementwise || kind == NodeKind::kReduce);
    };
    const auto rank_of = [&](TensorId id) { return graph_.tensor(id).dims.size(); };
    const Table<TensorId, std::ptrdiff_t> none(graph_.tensors.size(), -1);
    Links links{.maker = none, .first = none};
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (!flexible(i)) continue;
      const Node& node = graph_.nodes[i];
      // A choice names an axis of it.
      const std::size_t rank =
          rank_of(node.kind() == NodeKind::kReduce ? node.inputs[0] : node.outputs[0]);
      for (const TensorId id : node.inputs) {
        if (rank_of(id) != rank) continue;
        if (links.first[id] < 0) links.first[id] = static_cast<std::ptrdiff_t>(i);
        const std::ptrdiff_t other = partner(links, id);
        if (other >= 0) root[find(i)] = find(static_cast<std::size_t>(other));
      }
      if (rank_of(node.outputs[0]) != rank) continue;
      links.maker[node.outputs[0]] = links.first[node.outputs[0]] = static_cast<std::ptrdiff_t>(i);
    }
    std::vector<std::vector<std::size_t>> members(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (flexible(i)) members[find(i)].push_back(i);
    }
    for (std::vector<std::size_t>& group : members) {
      if (group.size() > 1) groups_.push_back(std::move(group));
    }
  }

  const Graph& graph_;
  const graph::PreferredAxes axes_;
  const ChipConfig& chip_;
  const StoragePlan& plan_;
  std::vector<NodeState> nodes_;
  Table<StorageIndex, StorageState> storages_;
  Table<StorageIndex, Cycles> cost_of_;  // under the present choices; -1: not known
  std::vector<std::vector<std::size_t>> groups_;
};

}  // namespace

Result<ViewChoices> choose_views(const Graph& graph, const ChipConfig& chip,
                                 const StoragePlan& storages, Watch* watch) {
  return Chooser(graph, chip, storages).run(watch);
}

}  // namespace tessera::compile
