// The device `host`: the typed graph at CPU speed, on the kernels the virtual processor also uses.
//
//   create: weights are quantised and packed once, memory is planned once
//   run:    nodes in order; inside a node the threads share rows or channels, and long rows of small nodes are cut
//           into branches that run side by side (run_order.h)
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <optional>

#include "arith/kernels/local_response.h"
#include "arith/kernels/planar/planar.h"
#include "arith/kernels/product.h"
#include "base/check.h"
#include "base/quantity.h"
#include "graph/surface_view.h"
#include "graph/value_notes.h"
#include "host/buffer_plan.h"
#include "host/dense_elementwise.h"
#include "host/dense_move.h"
#include "host/executor.h"
#include "host/host_step.h"
#include "host/node_plan.h"
#include "host/product_node.h"
#include "host/run_order.h"
#include "host/thread_pool.h"

namespace tessera::host {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeKind;
using graph::NodeViews;
using graph::StridedView;
using graph::TensorId;

// A node with everything that does not depend on the inputs.
struct Prepared {
  NodeKind kind = NodeKind::kHostStep;
  std::size_t chain = 1;  // element-wise nodes from this one on that run together
  // Of products, pooling and reduction.
  std::vector<PlacedSurface> inputs;
  PlacedSurface output;
  std::int64_t images = 0;
  // Products.
  bool small = false;                                    // not worth another thread
  std::vector<ProductPart> parts;                        // none for dynamic products
  std::vector<std::shared_ptr<DynamicProduct>> dynamic;  // one per image
  bool pointwise = false;
  bool strips = false;      // see runs_in_strips()
  bool normalises = false;  // over the channels, behind a convolution
  PoolConfig pool;
  ReduceConfig reduce;
  const DenseElementwise* shape = nullptr;  // of an element-wise node, in HostExecutor::shapes_
  MovePlan move;
  // How far its results reach, where they lie.
  arith::HiddenEnds hidden;
  Place made;
  Format made_format = Format::kF16;
  std::int64_t made_count = 0;
};

// What is looked at when a node has run; apart from what the run needs, since few nodes are.
struct Watch {
  bool product = false;      // sums that may be out of range
  bool elementwise = false;  // has looked at its results itself
  bool looked_at = false;    // how far the results reach
};

// Nodes [first, last) that run together; element-wise ones have steps of HostExecutor::elementwise_ from
// first_step on.
struct Turn {
  NodeKind kind = NodeKind::kHostStep;
  std::size_t first = 0, last = 0;
  std::size_t first_step = 0;
};

// Turns [first, last) of a branch, and those of a stretch.
struct TurnRange {
  std::size_t first = 0, last = 0;
};
using TurnStretch = std::vector<TurnRange>;

constexpr std::int64_t kStrip = 16;         // pixels that products take together
constexpr std::int64_t kLookedAt = 65'536;  // elements that one thread looks through

class HostExecutor : public Executor {
 public:
  HostExecutor(std::shared_ptr<const Graph> graph, const HostOptions& options)
      : graph_(std::move(graph)),
        pool_(options.threads),
        timer_(options.timer),
        order_(order_nodes(*graph_, pool_.threads())),
        plan_(plan_buffers(*graph_, order_)),
        reach_(graph_->nodes.size()),
        values_(graph_->nodes.size()) {
    blocks_.resize(plan_.block_bytes.size());
    bases_.resize(blocks_.size(), nullptr);
    std::vector<bool> callers(blocks_.size(), false);
    for (const auto* const ids : {&graph_->inputs, &graph_->outputs}) {
      for (const TensorId id : *ids) {
        if (graph_->tensor(id).constant == nullptr) callers[block_of(id)] = true;
      }
    }
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
      if (!callers[block]) own(block);
    }
    output_in_place_ = outputs_in_place();
    for (int i = 0; i < pool_.threads(); ++i) workspaces_.push_back(make_product_workspace());
  }

  Status prepare(const HostExecutor* twin) {
    const graph::PreferredAxes axes(*graph_);
    PackedProducts packed;
    prepared_.reserve(graph_->nodes.size());
    std::map<std::vector<Shape>, const DenseElementwise*> shapes;
    for (std::size_t i = 0; i < graph_->nodes.size(); ++i) {
      const Node& node = graph_->nodes[i];
      Prepared& prepared = prepared_.emplace_back();
      prepared.kind = node.kind();
      if (node.kind() == NodeKind::kElementwise) {
        prepared.shape = shape_of(node, shapes);
      } else if (node.kind() == NodeKind::kMove) {
        prepared.move = plan_move(*graph_, plan_, node);
      } else if (node.kind() != NodeKind::kHostStep) {
        TESSERA_TRY(const NodeViews views, graph::node_views(axes, node));
        place_surfaces(node, views, prepared);
        prepare_work(node, views, prepared);
        prepared.parts = twin != nullptr ? twin->prepared_[i].parts : parts_of(i, packed);
      }
      place_results(node, prepared);
      watches_.push_back(
          {.product = node.kind() == NodeKind::kConv || node.kind() == NodeKind::kMatMul,
           .elementwise = node.kind() == NodeKind::kElementwise,
           .looked_at = graph::looks_at(*graph_, node)});
    }
    const std::vector<std::size_t> chains = elementwise_chains(*graph_, plan_, order_);
    for (std::size_t i = 0; i < chains.size(); ++i) {
      prepared_[i].chain = chains[i];
    }
    plan_turns();
    return {};
  }

  // Whether its packed weights are those that an executor of `graph` with `threads` would make.
  bool can_be_twin(const Graph& graph, int threads) const {
    return graph_.get() == &graph && (threads == 0 || threads == pool_.threads());
  }

  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs,
                                  const NodeObserver& observer) override {
    std::vector<std::span<std::byte>> from, to;
    for (const Tensor& input : inputs) from.push_back(only_read(input.bytes));
    std::vector<Tensor> outputs;
    for (const TensorId id : graph_->outputs) {
      outputs.push_back(Tensor::zeros(graph_->tensor(id).format, graph_->tensor(id).dims));
    }
    for (Tensor& output : outputs) to.emplace_back(output.bytes);
    TESSERA_RETURN_IF_ERROR(run_on(from, to, observer));
    return outputs;
  }

  Status run_on(std::span<const std::span<std::byte>> inputs,
                std::span<const std::span<std::byte>> outputs,
                const NodeObserver& observer) override {
    bytes_copied_ = 0;
    flags_ = {};
    for (std::atomic<std::uint8_t>& reach : reach_) reach.store(0, std::memory_order_relaxed);
    place_inputs(inputs);
    place_outputs(inputs, outputs);
    place_elementwise();
    TESSERA_RETURN_IF_ERROR(run_nodes(observer));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::byte* const made = data(graph_->outputs[i]);
      if (made == outputs[i].data()) continue;
      std::copy_n(made, outputs[i].size(), outputs[i].data());
      bytes_copied_ += std::ssize(outputs[i]);
    }
    return {};
  }

  std::int64_t bytes_copied() const override { return bytes_copied_; }
  std::span<const graph::NodeValues> values() const override { return values_; }
  arith::StickyFlags flags() const override { return flags_; }

 private:
  // Products made so far, by their stationary operand.
  using PackedProducts = std::map<TensorId, std::vector<std::size_t>>;

  // Packed once where several nodes multiply by the same.
  std::vector<ProductPart> parts_of(std::size_t index, PackedProducts& packed) const {
    const Node& node = graph_->nodes[index];
    if (node.kind() != NodeKind::kMatMul) {
      return prepare_product(*graph_, node, pool_.threads());
    }
    std::vector<std::size_t>& others = packed[node.inputs[1]];
    for (const std::size_t other : others) {
      if (have_same_parts(*graph_, graph_->nodes[other], node)) return prepared_[other].parts;
    }
    others.push_back(index);
    return prepare_product(*graph_, node, pool_.threads());
  }

  // Turns in the order of the nodes, those of each branch of a stretch behind each other.
  void plan_turns() {
    auto stretch = order_.stretches.begin();
    std::size_t branch = 0;
    for (std::size_t place = 0; place < order_.nodes.size();) {
      const std::size_t i = order_.nodes[place];
      if (order_.branch_of_node[i] != RunOrder::kNoBranch) {
        if (place == stretch->front().first) stretches_.emplace_back();
        if (place == (*stretch)[branch].first) {
          stretches_.back().push_back({turns_.size(), turns_.size()});
        }
      }
      const Prepared& prepared = prepared_[i];
      place += prepared.chain;
      if (prepared.kind != NodeKind::kMove || !prepared.move.is_nothing()) {
        turns_.push_back({prepared.kind, i, i + prepared.chain, elementwise_.steps.size()});
        if (prepared.kind == NodeKind::kElementwise) {
          elementwise_.append(elementwise_plan(i, prepared.chain));
        }
      }
      if (order_.branch_of_node[i] == RunOrder::kNoBranch) continue;
      stretches_.back().back().last = turns_.size();
      if (place != (*stretch)[branch].last) continue;
      ++branch;
      if (branch < stretch->size()) continue;
      ++stretch;
      branch = 0;
    }
  }

  // What the node's products report, of all threads that shared it, and how far its results reach.
  void look_at(std::size_t index) { look_at(index, workspaces_, flags_); }
  void look_at(std::size_t index, std::span<const std::shared_ptr<ProductWorkspace>> workspaces,
               arith::StickyFlags& all_flags) {
    const Watch& watch = watches_[index];
    graph::NodeValues& values = values_[index];
    if (watch.product) {
      arith::StickyFlags flags;
      for (const auto& workspace : workspaces) flags |= take_flags(*workspace);
      values.accumulator_range = flags.accumulator_range;
      all_flags |= flags;
    }
    if (!watch.looked_at) return;
    std::atomic<std::uint8_t>& reach = reach_[index];
    if (!watch.elementwise) {
      const Prepared& prepared = prepared_[index];
      const std::byte* const from = prepared.made.in(bases_);
      const std::int64_t size = format_bytes(prepared.made_format);
      const auto look = [&](int, std::int64_t first, std::int64_t last) {
        reach_to(reach, arith::value_extent(prepared.made_format, from + first * size, last - first,
                                            prepared.hidden));
      };
      if (prepared.made_count <= kLookedAt) {
        look(0, 0, prepared.made_count);
      } else {
        pool_.for_ranges(prepared.made_count, look);
      }
    }
    values.extent = static_cast<ValueExtent>(reach.load(std::memory_order_relaxed));
  }

  void place_results(const Node& node, Prepared& prepared) const {
    const graph::TensorInfo& made = graph_->tensor(node.outputs[0]);
    prepared.hidden = graph::hidden_ends(*graph_, node);
    prepared.made = place_of(*graph_, plan_, node.outputs[0]);
    prepared.made_format = made.format;
    prepared.made_count = element_count(made.dims);
  }

  void place_surfaces(const Node& node, const NodeViews& views, Prepared& prepared) const {
    const auto placed = [&](const StridedView& view, TensorId id) {
      return PlacedSurface(view, graph_->tensor(id).format, place_of(*graph_, plan_, id));
    };
    for (std::size_t i = 0; i < std::min(views.inputs.size(), node.inputs.size()); ++i) {
      prepared.inputs.push_back(placed(views.inputs[i], node.inputs[i]));
    }
    prepared.output = placed(views.output, node.outputs[0]);
    prepared.images = views.output.extents[0];
  }

  void prepare_work(const Node& node, const NodeViews& views, Prepared& prepared) const {
    if (node.kind() == NodeKind::kPool) {
      prepared.pool = pool_config(node.as<graph::PoolAttributes>());
      return;
    }
    if (node.kind() == NodeKind::kReduce) {
      prepared.reduce = reduce_config(node.as<graph::ReduceAttributes>(), views);
      return;
    }
    prepared.small = is_small_product(*graph_, node);
    prepared.dynamic = prepare_dynamic_products(*graph_, node, prepared.images);
    prepared.pointwise = is_pointwise(*graph_, node);
    prepared.strips = runs_in_strips(*graph_, node);
    prepared.normalises = node.kind() == NodeKind::kConv &&
                          node.as<graph::ConvAttributes>().post.local_response.enabled();
  }

  // Of the nodes [first, first + count).
  ElementwisePlan elementwise_plan(std::size_t first, std::size_t count) {
    std::vector<const DenseElementwise*> shapes;
    for (std::size_t i = first; i < first + count; ++i) shapes.push_back(prepared_[i].shape);
    ElementwisePlan plan = plan_elementwise(*graph_, plan_, first, shapes);
    for (std::size_t i = 0; i < count; ++i) {
      const Prepared& prepared = prepared_[first + i];
      plan.steps[i].reach = watches_[first + i].looked_at ? &reach_[first + i] : nullptr;
      plan.steps[i].hidden = prepared.hidden;
    }
    return plan;
  }

  Status run_nodes(const NodeObserver& observer) {
    if (observer || timer_) return run_watched(observer);
    auto stretch = stretches_.begin();
    for (std::size_t t = 0; t < turns_.size();) {
      if (stretch != stretches_.end() && t == stretch->front().first) {
        run_stretch(*stretch);
        t = stretch->back().last;
        ++stretch;
        continue;
      }
      const Turn& turn = turns_[t];
      fetch_ahead(t);
      TESSERA_RETURN_IF_ERROR(run_turn(turn, 0));
      for (std::size_t i = turn.first; i < turn.last; ++i) look_at(i);
      ++t;
    }
    return {};
  }

  // Branches at the same time, each on one thread.
  void run_stretch(const TurnStretch& stretch) {
    std::vector<arith::StickyFlags> flags(stretch.size());
    pool_.run(std::ssize(stretch), [&](std::int64_t piece, int worker) {
      const TurnRange& branch = stretch[static_cast<std::size_t>(piece)];
      const std::span own = std::span(workspaces_).subspan(static_cast<std::size_t>(worker), 1);
      for (std::size_t t = branch.first; t < branch.last; ++t) {
        const Turn& turn = turns_[t];
        fetch_ahead(t);
        const Status done = run_turn(turn, worker);
        TESSERA_CHECK(done.ok(), "a host step in a branch");
        for (std::size_t i = turn.first; i < turn.last; ++i) {
          look_at(i, own, flags[static_cast<std::size_t>(piece)]);
        }
      }
    });
    for (const arith::StickyFlags& some : flags) flags_ |= some;
  }

  // Nodes of a microsecond wait for memory more than they work: what the node behind the next one has
  // is fetched meanwhile. Steps of element-wise nodes lie in their order.
  void fetch_ahead(std::size_t turn) const {
    constexpr std::size_t kLine = 64;
    if (turn + 2 >= turns_.size()) return;
    const Turn& later = turns_[turn + 2];
    if (later.kind == NodeKind::kElementwise) return;
    const auto* const next = reinterpret_cast<const std::byte*>(&prepared_[later.first]);
    for (std::size_t line = 0; line < sizeof(Prepared); line += kLine) {
      __builtin_prefetch(next + line);
    }
  }

  // `worker` does small work.
  Status run_turn(const Turn& turn, int worker) {
    if (turn.kind != NodeKind::kElementwise) return run_node(turn.first, worker);
    DenseElementwise::run(
        std::span(elementwise_.steps).subspan(turn.first_step, turn.last - turn.first), pool_);
    return {};
  }

  Status run_watched(const NodeObserver& observer) {
    std::size_t next = 0;  // turn
    for (std::size_t place = 0; place < order_.nodes.size(); ++place) {
      const auto begin = std::chrono::steady_clock::now();
      std::size_t i = order_.nodes[place];
      const std::size_t first = i;
      const Turn* const turn =
          next < turns_.size() && turns_[next].first == i ? &turns_[next++] : nullptr;
      if (observer && prepared_[i].kind == NodeKind::kElementwise) {
        // A visitor of every tensor sees those inside a chain too.
        ElementwisePlan alone = elementwise_plan(i, 1);
        alone.place(bases_);
        DenseElementwise::run(alone.steps, pool_);
      } else {
        if (turn != nullptr) TESSERA_RETURN_IF_ERROR(run_turn(*turn, 0));
        if (!observer) {
          place += prepared_[i].chain - 1;
          i += prepared_[i].chain - 1;
        }
      }
      for (std::size_t looked = first; looked <= i; ++looked) look_at(looked);
      const Node& node = graph_->nodes[i];
      if (timer_) {
        timer_(node,
               std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
                   .count());
      }
      if (!observer) continue;
      for (const TensorId id : node.outputs) observer(node, id, tensor(id));
    }
    return {};
  }

  // Surface has one pointer type for both.
  static std::span<std::byte> only_read(const std::vector<std::byte>& bytes) {
    return {const_cast<std::byte*>(bytes.data()), bytes.size()};
  }
  static bool is_aligned(std::span<const std::byte> bytes) {
    return reinterpret_cast<std::uintptr_t>(bytes.data()) % kInPlaceAlignment == 0;
  }
  static bool meet(std::span<const std::byte> a, std::span<const std::byte> b) {
    const std::less<> before;
    return before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
  }

  // Each in place where it can be, else in a buffer of the executor's.
  void place_inputs(std::span<const std::span<std::byte>> inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::size_t block = block_of(graph_->inputs[i]);
      if (is_aligned(inputs[i])) {
        bases_[block] = inputs[i].data();
        continue;
      }
      std::copy(inputs[i].begin(), inputs[i].end(), own(block));
      bytes_copied_ += std::ssize(inputs[i]);
    }
  }
  void place_outputs(std::span<const std::span<std::byte>> inputs,
                     std::span<const std::span<std::byte>> outputs) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!output_in_place_[i]) continue;  // the block is another's, or there is none
      const auto meets = [&](std::span<std::byte> other) { return meet(other, outputs[i]); };
      const auto before = outputs.first(i);
      const bool apart = std::none_of(inputs.begin(), inputs.end(), meets) &&
                         std::none_of(before.begin(), before.end(), meets);
      const std::size_t block = block_of(graph_->outputs[i]);
      if (apart && is_aligned(outputs[i])) {
        bases_[block] = outputs[i].data();
      } else {
        own(block);
      }
    }
  }
  // Addresses of element-wise nodes stay from run to run, as long as the blocks lie where they did.
  void place_elementwise() {
    if (bases_ == placed_) return;
    elementwise_.place(bases_);
    placed_ = bases_;
  }
  // Which outputs have a block of their own, so that it may lie in the caller's memory.
  std::vector<bool> outputs_in_place() const {
    std::vector<bool> taken(bases_.size(), false), result;
    for (const TensorId id : graph_->inputs) taken[block_of(id)] = true;
    for (const TensorId id : graph_->outputs) {
      const bool constant = graph_->tensor(id).constant != nullptr;
      result.push_back(!constant && !taken[block_of(id)]);
      if (!constant) taken[block_of(id)] = true;
    }
    return result;
  }

  std::size_t block_of(TensorId id) const {
    return static_cast<std::size_t>(plan_.block_of_tensor[id]);
  }
  // The executor's own memory for a block; made when it is first needed.
  std::byte* own(std::size_t block) {
    std::vector<std::byte>& bytes = blocks_[block];
    if (bytes.empty()) {
      bytes.resize(
          static_cast<std::size_t>(std::max<std::int64_t>(64, plan_.block_bytes[block]) + 64));
    }
    return bases_[block] = bytes.data();
  }

  std::byte* data(TensorId id) {
    const graph::TensorInfo& info = graph_->tensor(id);
    if (info.constant) return only_read(info.constant->bytes).data();
    return bases_[block_of(id)] + plan_.offset_of_tensor[id];
  }
  std::int64_t bytes_of(TensorId id) const {
    const graph::TensorInfo& info = graph_->tensor(id);
    return element_count(info.dims) * format_bytes(info.format);
  }
  Tensor tensor(TensorId id) {
    const graph::TensorInfo& info = graph_->tensor(id);
    const std::byte* const begin = data(id);
    return {info.format, info.dims, {begin, begin + bytes_of(id)}};
  }

  Status run_node(std::size_t index, int worker) {
    Prepared& prepared = prepared_[index];
    switch (prepared.kind) {
      case NodeKind::kConv:
      case NodeKind::kMatMul:
        run_product(index, worker);
        return {};
      case NodeKind::kPool:
      case NodeKind::kReduce:
        run_planar(prepared);
        return {};
      case NodeKind::kMove:
        prepared.move.run(bases_, pool_);
        return {};
      case NodeKind::kElementwise:  // run_turn()
      case NodeKind::kHostStep:
        break;
    }
    return run_step(graph_->nodes[index]);
  }

  void run_product(std::size_t index, int worker) {
    const Prepared& prepared = prepared_[index];
    if (!prepared.dynamic.empty()) {
      run_dynamic(prepared);
      return;
    }
    for (std::int64_t image = 0; image < prepared.images; ++image) {
      const Surface input = prepared.inputs[0].in(bases_, image);
      const Surface output = prepared.output.in(bases_, image);
      if (prepared.small) {
        for (const ProductPart& part : prepared.parts) {
          part.product->run(input_of(part, input), output, part.first_channel, {0, output.rows},
                            *workspaces_[static_cast<std::size_t>(worker)]);
        }
      } else {
        run_shared(prepared, input, output);
      }
      if (prepared.normalises) normalise(graph_->nodes[index], output);
    }
  }

  // Threads share an image.
  void run_shared(const Prepared& prepared, const Surface& input, const Surface& output) {
    const auto input_row = prepared.pointwise ? one_row(input) : std::nullopt;
    const auto output_row = prepared.pointwise ? one_row(output) : std::nullopt;
    if (input_row && output_row) {
      run_pixels(prepared, *input_row, *output_row);
    } else {
      run_rows(prepared.parts, input, output);
    }
  }

  // Over the channels of an image that a convolution has made; threads share its rows.
  void normalise(const Node& node, const Surface& output) {
    const LocalResponse& response = node.as<graph::ConvAttributes>().post.local_response;
    pool_.run(output.rows, [&](std::int64_t row, int) {
      local_response(response, output, {0, output.channels}, {row, row + 1});
    });
  }

  // Stationary operands of all images are packed, then products run; threads share both.
  void run_dynamic(const Prepared& prepared) {
    const bool small = prepared.small;
    const auto share = [&](std::int64_t pieces, const ThreadPool::Work& work) {
      if (!small) return pool_.run(pieces, work);
      for (std::int64_t piece = 0; piece < pieces; ++piece) work(piece, 0);
    };
    std::vector<std::pair<DynamicProduct*, std::int64_t>> pieces;
    for (std::size_t image = 0; image < prepared.dynamic.size(); ++image) {
      DynamicProduct& product = *prepared.dynamic[image];
      const std::int64_t count =
          product.take(prepared.inputs[1].in(bases_, static_cast<std::int64_t>(image)));
      for (std::int64_t piece = 0; piece < count; ++piece) pieces.emplace_back(&product, piece);
    }
    share(std::ssize(pieces), [&](std::int64_t index, int worker) {
      const auto& [product, piece] = pieces[static_cast<std::size_t>(index)];
      product->pack(piece, *workspaces_[static_cast<std::size_t>(worker)]);
    });
    for (const auto& product : prepared.dynamic) product->settle();
    const auto images = std::ssize(prepared.dynamic);
    const std::int64_t ranges =
        small ? 1 : ranges_of(prepared, prepared.output.in(bases_, 0).rows, images);
    share(images * ranges, [&](std::int64_t piece, int worker) {
      const std::int64_t image = piece / ranges;
      const auto input = one_row(prepared.inputs[0].in(bases_, image));
      const auto output = one_row(prepared.output.in(bases_, image));
      TESSERA_CHECK(input && output, "rows of a matrix product lie apart");
      run_range({*prepared.dynamic[static_cast<std::size_t>(image)], 0, *input, *output},
                {piece % ranges, ranges}, *workspaces_[static_cast<std::size_t>(worker)]);
    });
  }

  static Surface input_of(const ProductPart& part, const Surface& input) {
    if (part.inputs == 0) return input;
    Surface some = input;
    some.base += part.first_input * input.partition_pitch;
    some.channels = some.partitions = part.inputs;
    return some;
  }

  // Pieces are ranges of rows of one part.
  void run_rows(const std::vector<ProductPart>& parts, const Surface& input,
                const Surface& output) {
    const auto part_count = static_cast<std::int64_t>(parts.size());
    const std::int64_t ranges =
        std::min(output.rows,
                 pixel_ranges(panels_of(output.rows, output.columns), part_count, pool_.threads()));
    pool_.run(ranges * part_count, [&](std::int64_t piece, int worker) {
      const ProductPart& part = parts[static_cast<std::size_t>(piece % part_count)];
      const std::int64_t range = piece / part_count;
      part.product->run(input_of(part, input), output, part.first_channel,
                        {output.rows * range / ranges, output.rows * (range + 1) / ranges},
                        *workspaces_[static_cast<std::size_t>(worker)]);
    });
  }

  // How many ranges `pixels` are cut into for each of `parts`.
  std::int64_t ranges_of(const Prepared& prepared, std::int64_t pixels, std::int64_t parts) const {
    return prepared.strips ? strip_ranges(ceil_div(pixels, kStrip), parts, pool_.threads())
                           : pixel_ranges(panels_of(1, pixels), parts, pool_.threads());
  }

  // A product whose surfaces have one row.
  struct RowProduct {
    const Product& product;
    std::int64_t first_channel;
    const Surface& input;
    const Surface& output;
  };
  struct Range {
    std::int64_t index, count;
  };
  // Whole strips of pixels.
  static void run_range(const RowProduct& row, const Range& range, ProductWorkspace& workspace) {
    const std::int64_t strips = ceil_div(row.output.columns, kStrip);
    const std::int64_t first = strips * range.index / range.count * kStrip;
    const std::int64_t last =
        std::min(row.output.columns, strips * (range.index + 1) / range.count * kStrip);
    row.product.run(columns_of(row.input, first, last), columns_of(row.output, first, last),
                    row.first_channel, {0, 1}, workspace);
  }

  // Pieces are ranges of pixels of one part; both surfaces have one row.
  void run_pixels(const Prepared& prepared, const Surface& input, const Surface& output) {
    const auto part_count = std::ssize(prepared.parts);
    const std::int64_t ranges = ranges_of(prepared, output.columns, part_count);
    pool_.run(ranges * part_count, [&](std::int64_t piece, int worker) {
      const ProductPart& part = prepared.parts[static_cast<std::size_t>(piece % part_count)];
      run_range({*part.product, part.first_channel, input, output}, {piece / part_count, ranges},
                *workspaces_[static_cast<std::size_t>(worker)]);
    });
  }

  static Surface columns_of(const Surface& surface, std::int64_t first, std::int64_t last) {
    Surface some = surface;
    some.base += first * surface.column_pitch;
    some.columns = last - first;
    return some;
  }

  // One for all nodes of the same shapes, so that it stays in the cache. `found`: operands, then the output.
  const DenseElementwise* shape_of(const Node& node,
                                   std::map<std::vector<Shape>, const DenseElementwise*>& found) {
    std::vector<Shape> dims;
    for (const TensorId id : node.inputs) dims.push_back(graph_->tensor(id).dims);
    const std::size_t operands = dims.size();
    dims.push_back(graph_->tensor(node.outputs[0]).dims);
    const DenseElementwise*& shape = found[dims];
    if (shape == nullptr) {
      shape = &shapes_.emplace_back(std::span(dims).first(operands), dims.back());
    }
    return shape;
  }

  void run_planar(const Prepared& prepared) {
    for (std::int64_t image = 0; image < prepared.images; ++image) {
      const Surface output = prepared.output.in(bases_, image);
      const Surface input = prepared.inputs[0].in(bases_, image);
      const bool by_channel = output.channels >= output.rows;
      const std::int64_t count = by_channel ? output.channels : output.rows;
      const auto work = [&](int, std::int64_t first, std::int64_t last) {
        const ChannelRange channels =
            by_channel ? ChannelRange{first, last} : ChannelRange{0, output.channels};
        const RowRange rows = by_channel ? RowRange{0, output.rows} : RowRange{first, last};
        if (prepared.kind == NodeKind::kPool) {
          pool(prepared.pool, input, output, channels, rows);
        } else {
          reduce(prepared.reduce, input, output, channels, rows);
        }
      };
      if (is_small_planar(input.channels * input.rows * input.columns)) {
        work(0, 0, count);
      } else {
        pool_.for_ranges(count, work);
      }
    }
  }

  Status run_step(const Node& node) {
    std::vector<Tensor> values;
    for (const TensorId id : node.inputs) values.push_back(tensor(id));
    std::vector<const Tensor*> operands;
    for (const Tensor& value : values) operands.push_back(&value);
    TESSERA_TRY(const std::vector<Tensor> results, run_host_step(node, operands));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      std::copy(results[i].bytes.begin(), results[i].bytes.end(), data(node.outputs[i]));
    }
    return {};
  }

  const std::shared_ptr<const Graph> graph_;  // shared with the network
  ThreadPool pool_;
  const NodeTimer timer_;
  const RunOrder order_;
  const BufferPlan plan_;
  std::vector<std::vector<std::byte>> blocks_;  // memory of the executor's own, where it is used
  std::vector<std::byte*> bases_;               // of each block, for this run
  std::vector<std::byte*> placed_;              // what element-wise plans have the addresses of
  std::vector<bool> output_in_place_;           // whether it has a block that no other one has
  std::int64_t bytes_copied_ = 0;
  // Of the last run, by node: how far results reach (ValueExtent, by several threads); and all of it.
  std::vector<std::atomic<std::uint8_t>> reach_;
  std::vector<graph::NodeValues> values_;
  arith::StickyFlags flags_;
  std::vector<std::shared_ptr<ProductWorkspace>> workspaces_;  // one per thread
  std::vector<Prepared> prepared_;
  std::deque<DenseElementwise> shapes_;  // of element-wise nodes
  ElementwisePlan elementwise_;          // of all chains, one behind the other
  std::vector<Watch> watches_;           // by node
  std::vector<Turn> turns_;              // in order; nodes that have nothing to do are left out
  std::vector<TurnStretch> stretches_;   // of them, in order
};

}  // namespace

Result<std::unique_ptr<Executor>> make_host_executor(std::shared_ptr<const graph::Graph> graph,
                                                     const HostOptions& options) {
  const auto* const twin = dynamic_cast<const HostExecutor*>(options.twin);
  TESSERA_CHECK(
      options.twin == nullptr || (twin != nullptr && twin->can_be_twin(*graph, options.threads)),
      "the twin runs another graph, or on another number of threads");
  auto executor = std::make_unique<HostExecutor>(std::move(graph), options);
  TESSERA_RETURN_IF_ERROR(executor->prepare(twin));
  return std::unique_ptr<Executor>(std::move(executor));
}

}  // namespace tessera::host
