// Channels that Moves shuffle (halves put together, every other one taken) go to their readers in
// contiguous parts. A convolution whose channels part is split by where they go, and convolutions that
// read them have their weights in the order in which the parts lie.
//
//   a ─┐                      even channels ─► ...        b.0 ─┐
//      ├─ Moves (shuffle) ─►                        =>         ├─ Move ─► Conv, weights in that order
//   b ─┘                      odd channels ─► Conv        a.1 ─┘          ...
//
// So a part is made where its reader wants it, and nothing passes memory one channel at a time. Each part
// passes the input through the array again. Where the parts have so few channels that this takes longer, one
// convolution makes them side by side, and filters of one tap on the planar engine copy each to its place.
// What is known of that engine's lanes decides this; no value depends on it.
//
// Before: formats are settled. After: no convolution over one block of N, or over integers, reads
// shuffled channels of convolutions that nothing else reads. Values: every sum has its terms, and they
// share their exponents as before.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "graph/constants.h"
#include "graph/editor.h"
#include "graph/move_box.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

// Beyond this many parts of a convolution, those that are left are one.
constexpr std::size_t kPartsMax = 6;
// Boxes of a Move in front of which channels are followed.
constexpr std::size_t kChannelsMax = 4096;

// A channel of a tensor that no Move makes.
struct Source {
  TensorId root;
  std::int64_t channel = 0;
  friend auto operator<=>(const Source&, const Source&) = default;
};
using Sources = std::vector<Source>;

std::int64_t plane_of(const Shape& dims) { return dims[2] * dims[3]; }
bool is_image(const Shape& dims) { return dims.size() == 4 && dims[0] == 1 && plane_of(dims) > 0; }

// Whole planes of `plane` elements that a box copies, as (from, to) pairs of channels.
using PlaneCopies = std::vector<std::pair<std::int64_t, std::int64_t>>;
std::optional<PlaneCopies> plane_copies(const CopyBox& box, std::int64_t plane) {
  std::int64_t run = 1;
  std::size_t outer = box.extents.size();
  while (outer > 0 && run < plane &&
         (box.extents[outer - 1] == 1 ||
          (box.input_strides[outer - 1] == run && box.output_strides[outer - 1] == run))) {
    run *= box.extents[--outer];
  }
  if (run % plane != 0 || box.input_offset % plane != 0 || box.output_offset % plane != 0) {
    return std::nullopt;
  }
  PlaneCopies copies;
  for (std::int64_t i = 0; i < run / plane; ++i) {
    copies.emplace_back(box.input_offset / plane + i, box.output_offset / plane + i);
  }
  for (std::size_t axis = outer; axis-- > 0;) {
    const std::int64_t extent = box.extents[axis];
    const std::int64_t from = box.input_strides[axis], to = box.output_strides[axis];
    if (extent == 1) continue;
    if (from % plane != 0 || to % plane != 0) return std::nullopt;
    const PlaneCopies inner = std::exchange(copies, {});
    if (inner.size() * static_cast<std::size_t>(extent) > kChannelsMax) return std::nullopt;
    for (std::int64_t i = 0; i < extent; ++i) {
      for (const auto& [a, b] : inner)
        copies.emplace_back(a + i * from / plane, b + i * to / plane);
    }
  }
  return copies;
}

// Where the channels of tensors come from, for planes of one size.
class ChannelOrigins {
 public:
  ChannelOrigins(const Graph& graph, const Links& links) : graph_(graph), links_(links) {}

  // None where a Move does not copy whole planes. The result lives as long as this.
  const Sources* of(TensorId id, std::int64_t plane) {
    const auto [found, is_new] = known_.try_emplace({id, plane});
    if (is_new) {
      auto sources = find(id, plane);
      known_[{id, plane}] = std::move(sources);
    }
    const auto& sources = known_[{id, plane}];
    return sources ? &*sources : nullptr;
  }

 private:
  std::optional<Sources> find(TensorId id, std::int64_t plane) {
    const Shape& dims = graph_.tensor(id).dims;
    const std::int64_t count = element_count(dims);
    if (count == 0 || count % plane != 0) return std::nullopt;
    const auto channels = static_cast<std::size_t>(count / plane);
    if (channels > kChannelsMax) return std::nullopt;
    const NodeIndex producer = links_.producer(id);
    if (producer < 0 || graph_.nodes[producer].kind() != NodeKind::kMove) {
      if (!is_image(dims) || plane_of(dims) != plane) return std::nullopt;
      Sources sources;
      for (std::size_t c = 0; c < channels; ++c)
        sources.push_back({id, static_cast<std::int64_t>(c)});
      return sources;
    }
    const Node& node = graph_.nodes[producer];
    const auto& move = node.as<MoveAttributes>();
    if (move.has_fill) return std::nullopt;
    Sources sources(channels);
    for (const CopyBox& box : move.copies) {
      const auto copies = plane_copies(box, plane);
      const Sources* const from = of(node.inputs[static_cast<std::size_t>(box.input)], plane);
      if (!copies || from == nullptr) return std::nullopt;
      for (const auto& [a, b] : *copies) {
        sources[static_cast<std::size_t>(b)] = (*from)[static_cast<std::size_t>(a)];
      }
    }
    return sources;
  }

  const Graph& graph_;
  const Links& links_;
  std::map<std::pair<TensorId, std::int64_t>, std::optional<Sources>> known_;
};

// A Move's output that others than such Moves read.
struct Sink {
  TensorId tensor;
  NodeIndex node = -1;  // the Move
  Sources sources;      // of its channels
  bool free = false;    // its readers take any order
  bool shuffled = false;
};

// Whether the order of the input channels is that of the weights alone.
bool takes_any_order(const Graph& graph, const Node& node, TensorId input) {
  if (node.kind() != NodeKind::kConv || node.inputs[0] != input) return false;
  const auto& conv = node.as<ConvAttributes>();
  const TensorInfo& kernel = graph.tensor(node.inputs[1]);
  if (conv.groups != 1 || conv.channel_wise || kernel.constant == nullptr) return false;
  if (conv.matrix.kind == MatrixKind::kInteger) return true;
  const std::int64_t taps = conv.cut == BlockCut::kChannel ? 1 : kernel.dims[2] * kernel.dims[3];
  return conv.matrix.kind == MatrixKind::kBlockFloat &&
         kernel.dims[1] * taps <= conv.matrix.native_dimension;
}

bool is_shuffled(const Sources& sources) {
  std::map<TensorId, int> roots;
  std::size_t runs = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    ++roots[sources[i].root];
    const bool goes_on = i > 0 && sources[i].root == sources[i - 1].root &&
                         sources[i].channel == sources[i - 1].channel + 1;
    runs += goes_on ? 0 : 1;
  }
  return runs > 2 * roots.size();
}

// Its channels can be made by several convolutions.
bool can_be_split(const Graph& graph, const Links& links, TensorId root) {
  const NodeIndex producer = links.producer(root);
  if (producer < 0 || links.is_output(root)) return false;
  const Node& node = graph.nodes[producer];
  if (node.kind() != NodeKind::kConv) return false;
  const auto& conv = node.as<ConvAttributes>();
  if (conv.groups != 1 || conv.channel_wise || conv.post.local_response.size != 0) return false;
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    if (graph.tensor(node.inputs[i]).constant == nullptr) return false;
  }
  return std::ranges::all_of(links.consumers(root), [&](NodeIndex reader) {
    return graph.nodes[reader].kind() == NodeKind::kMove;
  });
}

std::vector<Sink> find_sinks(const Graph& graph, const Links& links, ChannelOrigins& origins) {
  std::vector<Sink> sinks;
  for (NodeIndex i = 0; i < static_cast<NodeIndex>(graph.nodes.size()); ++i) {
    if (graph.nodes[i].kind() != NodeKind::kMove) continue;
    const TensorId id = graph.nodes[i].outputs[0];
    const Shape& dims = graph.tensor(id).dims;
    if (!is_image(dims)) continue;
    const std::int64_t plane = plane_of(dims);
    const Sources* const sources = origins.of(id, plane);
    if (sources == nullptr) continue;
    const auto& readers = links.consumers(id);
    const bool inner = !links.is_output(id) && std::ranges::all_of(readers, [&](NodeIndex reader) {
      return graph.nodes[reader].kind() == NodeKind::kMove &&
             origins.of(graph.nodes[reader].outputs[0], plane) != nullptr;
    });
    if (inner) continue;
    const bool free = !links.is_output(id) && std::ranges::all_of(readers, [&](NodeIndex reader) {
      return takes_any_order(graph, graph.nodes[reader], id);
    });
    sinks.push_back({id, i, *sources, free, is_shuffled(*sources)});
  }
  return sinks;
}

// Channels of a root that go to the same sinks.
struct Part {
  std::vector<std::size_t> sinks;
  std::vector<std::int64_t> channels;  // ascending
  TensorId tensor;
};
using Parts = std::vector<Part>;

Parts parts_of(TensorId root, const std::vector<Sink>& sinks) {
  std::map<std::int64_t, std::vector<std::size_t>> sinks_of_channel;
  for (std::size_t s = 0; s < sinks.size(); ++s) {
    for (const Source& source : sinks[s].sources) {
      if (source.root != root) continue;
      std::vector<std::size_t>& of = sinks_of_channel[source.channel];
      if (of.empty() || of.back() != s) of.push_back(s);
    }
  }
  Parts parts;
  for (const auto& [channel, of] : sinks_of_channel) {
    const auto found = std::ranges::find(parts, of, &Part::sinks);
    if (found != parts.end()) {
      found->channels.push_back(channel);
    } else {
      parts.push_back({of, {channel}, {}});
    }
  }
  std::ranges::stable_sort(parts, std::greater<>(),
                           [](const Part& p) { return p.channels.size(); });
  while (parts.size() > kPartsMax) {
    std::vector<std::int64_t>& kept = parts[kPartsMax - 1].channels;
    kept.insert(kept.end(), parts.back().channels.begin(), parts.back().channels.end());
    parts.pop_back();
  }
  for (Part& part : parts) std::ranges::sort(part.channels);
  return parts;
}

// Slices `channels` of axis `axis`.
std::shared_ptr<const Tensor> chosen(const Tensor& from, std::size_t axis,
                                     const std::vector<std::int64_t>& channels) {
  Shape dims = from.dims;
  std::int64_t outer = 1, inner = format_bytes(from.format);
  for (std::size_t i = 0; i < axis; ++i) outer *= dims[i];
  for (std::size_t i = axis + 1; i < dims.size(); ++i) inner *= dims[i];
  const std::int64_t all = dims[axis];
  dims[axis] = static_cast<std::int64_t>(channels.size());
  auto result = std::make_shared<Tensor>(Tensor::zeros(from.format, dims));
  auto* to = result->bytes.data();
  for (std::int64_t o = 0; o < outer; ++o) {
    for (const std::int64_t channel : channels) {
      std::memcpy(to, from.bytes.data() + static_cast<std::size_t>((o * all + channel) * inner),
                  static_cast<std::size_t>(inner));
      to += inner;
    }
  }
  return result;
}

template <typename T>
std::vector<T> chosen(const std::vector<T>& from, const std::vector<std::int64_t>& channels) {
  if (from.size() <= 1) return from;
  std::vector<T> result;
  for (const std::int64_t channel : channels) {
    result.push_back(from[static_cast<std::size_t>(channel)]);
  }
  return result;
}

// A convolution for `channels` of the node's, in this order; the first takes its place.
TensorId add_convolution(Graph& graph, Editor& editor, const Node& node, const std::string& suffix,
                         const std::vector<std::int64_t>& channels, NodeIndex place) {
  const TensorInfo y = graph.tensor(node.outputs[0]);
  auto conv = node.as<ConvAttributes>();
  conv.post.multipliers = chosen(conv.post.multipliers, channels);
  conv.integer.stationary_zero_points = chosen(conv.integer.stationary_zero_points, channels);
  std::vector<TensorId> inputs = node.inputs;
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    const TensorInfo& constant = graph.tensor(inputs[i]);
    inputs[i] =
        editor.add_constant(constant.name + suffix, chosen(*constant.constant, 0, channels));
  }
  const auto count = static_cast<std::int64_t>(channels.size());
  const TensorId made =
      editor.add_tensor(y.name + suffix, y.format, {1, count, y.dims[2], y.dims[3]});
  if (place >= 0) {
    Node& first = graph.nodes[place];
    first.inputs = std::move(inputs);
    first.outputs = {made};
    first.attributes = std::move(conv);
  } else {
    editor.add_node(node.name + suffix, node.origins, std::move(inputs), {made}, std::move(conv));
  }
  return made;
}

// Channels of `from` from `first` on, as the part has them, by filters of one tap.
TensorId add_copy(Graph& graph, Editor& editor, const Node& node, TensorId from, std::int64_t first,
                  std::int64_t count) {
  // A copy: new tensors move the others.
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const TensorInfo whole = graph.tensor(from);
  const std::string suffix = fmt::format(".from_{}", first);
  const Shape dims = {1, count, whole.dims[2], whole.dims[3]};
  const std::int64_t plane = plane_of(dims);
  const TensorId seen = editor.add_tensor(whole.name + suffix, whole.format, dims);
  const CopyBox box{0, first * plane, 0, {count * plane}, {1}, {1}};
  editor.add_node(node.name + suffix, node.origins, {from}, {seen},
                  MoveAttributes{false, 0, {box}});
  const std::vector<double> ones(static_cast<std::size_t>(count), 1.0);
  // A bias of -0 keeps the sign of zeros.
  const std::vector<double> zeros(ones.size(), -0.0);
  const auto constant = [&](const char* name, const Shape& shape, const std::vector<double>& of) {
    return editor.add_constant(whole.name + suffix + name,
                               constant_from_reals(whole.format, shape, of));
  };
  const TensorId weights = constant(".weights", {count, 1, 1, 1}, ones);
  const TensorId bias = constant(".bias", {count}, zeros);
  const TensorId made = editor.add_tensor(whole.name + suffix + ".copy", whole.format, dims);
  ConvAttributes conv;
  conv.groups = count;
  conv.channel_wise = true;
  conv.matrix = node.as<ConvAttributes>().matrix;
  editor.add_node(node.name + suffix + ".copy", node.origins, {seen, weights, bias}, {made},
                  std::move(conv));
  return made;
}

// Whether one convolution whose parts are copied takes fewer cycles a pixel on an array of N x N than one
// for each part; few outputs leave the columns empty, while rows hold a few pixels.
bool takes_less_together(const Graph& graph, const Node& node, const Parts& parts,
                         std::int64_t lane_elements) {
  constexpr double kSideBySide = 8;  // pixels in a matrix, at most
  const auto& conv = node.as<ConvAttributes>();
  const TensorInfo& kernel = graph.tensor(node.inputs[1]);
  if (conv.matrix.kind != MatrixKind::kBlockFloat || kernel.dims[2] * kernel.dims[3] != 1 ||
      !is_vector_float(graph.tensor(node.outputs[0]).format) || lane_elements == 0) {
    return false;
  }
  const auto n = static_cast<double>(conv.matrix.native_dimension);
  const auto cycles = [&](std::int64_t outputs) {
    const double sides = std::min(n / static_cast<double>(kernel.dims[1]), kSideBySide);
    return std::max(1 / sides, static_cast<double>(outputs) / n);
  };
  double apart = 0;
  for (const Part& part : parts) apart += cycles(std::ssize(part.channels));
  const double copied = static_cast<double>(parts.size()) / static_cast<double>(lane_elements);
  return cycles(kernel.dims[0]) + copied < apart;
}

// The convolution becomes one for each part, or one whose parts are copied.
struct SplitOf {
  NodeIndex index = -1;
  std::int64_t lane_elements = 0;
};
void split_convolution(Graph& graph, Editor& editor, const SplitOf& of, Parts& parts) {
  const NodeIndex index = of.index;
  const Node node = graph.nodes[index];
  if (!takes_less_together(graph, node, parts, of.lane_elements)) {
    for (std::size_t p = 0; p < parts.size(); ++p) {
      parts[p].tensor = add_convolution(graph, editor, node, fmt::format(".channels_{}", p),
                                        parts[p].channels, p == 0 ? index : -1);
    }
    return;
  }
  std::vector<std::int64_t> all;
  for (const Part& part : parts) {
    all.insert(all.end(), part.channels.begin(), part.channels.end());
  }
  const TensorId whole = add_convolution(graph, editor, node, ".channels", all, index);
  std::int64_t first = 0;
  for (Part& part : parts) {
    const std::int64_t count = std::ssize(part.channels);
    part.tensor = add_copy(graph, editor, node, whole, first, count);
    first += count;
  }
}

// Where channels of roots are now.
class Places {
 public:
  void add(TensorId root, const Parts& parts) {
    for (const Part& part : parts) {
      for (std::size_t i = 0; i < part.channels.size(); ++i) {
        places_[{root, part.channels[i]}] = {part.tensor, static_cast<std::int64_t>(i)};
      }
    }
  }
  Source of(const Source& source) const {
    const auto found = places_.find(source);
    return found == places_.end() ? source : found->second;
  }

 private:
  std::map<Source, Source> places_;
};

// Copies of planes; those a constant step apart are one box.
MoveAttributes gather(const Sources& sources, std::int64_t plane, std::vector<TensorId>& inputs) {
  MoveAttributes move;
  const auto count = static_cast<std::int64_t>(sources.size());
  std::map<TensorId, std::vector<std::pair<std::int64_t, std::int64_t>>> copies;
  for (std::int64_t c = 0; c < count; ++c) {
    const Source& source = sources[static_cast<std::size_t>(c)];
    if (!copies.contains(source.root)) inputs.push_back(source.root);
    copies[source.root].emplace_back(source.channel, c);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& all = copies[inputs[i]];
    for (std::size_t first = 0; first < all.size();) {
      std::size_t last = first + 1;
      const auto step = [&](std::size_t k) {
        return std::pair(all[k].first - all[k - 1].first, all[k].second - all[k - 1].second);
      };
      while (last < all.size() && step(last) == step(first + 1)) ++last;
      const auto [from, to] =
          last > first + 1 ? step(first + 1) : std::pair<std::int64_t, std::int64_t>{1, 1};
      CopyBox box;
      box.input = static_cast<std::int32_t>(i);
      box.input_offset = all[first].first * plane;
      box.output_offset = all[first].second * plane;
      box.extents = {static_cast<std::int64_t>(last - first), plane};
      box.input_strides = {from * plane, 1};
      box.output_strides = {to * plane, 1};
      move.copies.push_back(simplified(box));
      first = last;
    }
  }
  return move;
}

// The order in which the sink's channels lie: those of a tensor together, as they are there.
std::vector<std::int64_t> order_of(const Sources& places) {
  std::map<TensorId, std::size_t> seen;
  for (const Source& place : places) seen.try_emplace(place.root, seen.size());
  std::vector<std::int64_t> order;
  for (std::size_t c = 0; c < places.size(); ++c) order.push_back(static_cast<std::int64_t>(c));
  std::ranges::stable_sort(order, {}, [&](std::int64_t c) {
    const Source& place = places[static_cast<std::size_t>(c)];
    return std::pair(seen[place.root], place.channel);
  });
  return order;
}

void rewrite_sink(Graph& graph, Editor& editor, const Links& links, const Places& places,
                  const Sink& sink) {
  Sources now;
  for (const Source& source : sink.sources) now.push_back(places.of(source));
  if (sink.free && sink.shuffled) {
    const std::vector<std::int64_t> order = order_of(now);
    now = chosen(now, order);
    for (const NodeIndex reader : links.consumers(sink.tensor)) {
      const TensorInfo kernel = graph.tensor(graph.nodes[reader].inputs[1]);
      graph.nodes[reader].inputs[1] =
          editor.add_constant(kernel.name + ".ordered", chosen(*kernel.constant, 1, order));
    }
  }
  Node& move = graph.nodes[sink.node];
  move.inputs.clear();
  move.attributes = gather(now, plane_of(graph.tensor(sink.tensor).dims), move.inputs);
}

}  // namespace

void unshuffle_channels(Graph& graph) { unshuffle_channels_for(graph, 0); }

void unshuffle_channels_for(Graph& graph, std::int64_t lane_elements) {
  const Links links(graph);
  ChannelOrigins origins(graph, links);
  const std::vector<Sink> sinks = find_sinks(graph, links, origins);
  std::map<TensorId, Parts> split;
  for (const Sink& sink : sinks) {
    if (!sink.free || !sink.shuffled) continue;
    for (const Source& source : sink.sources) {
      if (split.contains(source.root) || !can_be_split(graph, links, source.root)) continue;
      split[source.root] = parts_of(source.root, sinks);
    }
  }
  if (split.empty()) return;
  Editor editor(graph);
  Places places;
  for (auto& [root, parts] : split) {
    split_convolution(graph, editor, {links.producer(root), lane_elements}, parts);
    places.add(root, parts);
  }
  for (const Sink& sink : sinks) {
    const bool parted = std::ranges::any_of(
        sink.sources, [&](const Source& source) { return split.contains(source.root); });
    if (parted) rewrite_sink(graph, editor, links, places, sink);
  }
  tidy(graph);
  drop_unused_tensors(graph);
}

}  // namespace tessera::graph
