// Convolutions of few channels, one behind the other, work on groups of neighbouring pixels: the pixels
// of a group are channels, of the sums as of the results, so that the rows and columns of an array fill.
//
//   x [1, C, H, W] ─► Conv ─► Conv ─► y      groups of g x f pixels
//     becomes
//   x ─► group ─► Conv ─► Conv ─► Move ─► y    between them [1, f g C, H / g, W / f]
//
//   channel (row, column, c) of a group's pixel (Y, X) is channel c of pixel (Y g + row, X f + column)
//
// A kernel of k taps reaches about (k - 1) / g + 2 groups; each output pixel has its own taps of them and
// zeros. The first convolution may make groups of an image that has none. "group" is a convolution
// with the groups' size as its kernel and stride, whose weights are ones and zeros, and whose sum is one
// block: it quantises an image as the convolution behind it does, and moves nothing through memory.
// Move puts the pixels back. What each convolution has, between none and eight pixels, is what takes
// least of all together (block_cut.h), where that is clearly less than without groups.
//
// Before: formats are settled. After: the same. Values: blocks hold other terms (the channels of a group),
// so sums of rounded terms differ; the graph has the new cut.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/quantity.h"
#include "graph/block_cut.h"
#include "graph/constants.h"
#include "graph/editor.h"
#include "graph/move_box.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

struct PixelGroup {
  std::int64_t h = 1, w = 1;
  std::int64_t pixels() const { return h * w; }
  bool grouped() const { return pixels() != 1; }
  friend bool operator==(const PixelGroup&, const PixelGroup&) = default;
};
constexpr std::array<PixelGroup, 10> kGroups = {
    {{1, 1}, {1, 2}, {2, 1}, {1, 4}, {4, 1}, {2, 2}, {1, 8}, {8, 1}, {2, 4}, {4, 2}}};
constexpr std::size_t kPlain = 0;  // of kGroups

// What a convolution with groups has to take less by, for the costs are estimates.
constexpr double kDoubt = 1.15;
// Of a task that groups pixels, or puts them back.
constexpr double kTaskCost = 1024;
// That a Move puts back in a cycle.
constexpr double kMovedElements = 8;
constexpr std::int64_t kWeightsMax = std::int64_t{1} << 20;

constexpr double kNever = std::numeric_limits<double>::infinity();

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -ceil_div(-a, b); }

// One axis of a convolution.
struct Axis {
  std::int64_t kernel = 1, stride = 1;
  std::int64_t pad_begin = 0, pad_end = 0;
  std::int64_t input = 1, output = 1;
};

// The axis of groups, of `in` pixels of the input and `out` of the output.
std::optional<Axis> grouped_axis(const Axis& axis, std::int64_t in, std::int64_t out) {
  if (axis.input % in != 0 || axis.output % out != 0 || axis.stride * out % in != 0) return {};
  Axis of{.stride = axis.stride * out / in, .input = axis.input / in, .output = axis.output / out};
  const std::int64_t last = axis.stride * (out - 1) + axis.kernel - 1 - axis.pad_begin;
  of.pad_begin = -floor_div(-axis.pad_begin, in);
  of.kernel = floor_div(last, in) + of.pad_begin + 1;
  of.pad_end = (of.output - 1) * of.stride + of.kernel - of.input - of.pad_begin;
  return of;
}

// A convolution [1, channels, h, w] -> [1, output_channels, h, w].
struct Shapes {
  Axis h, w;
  std::int64_t channels = 1, output_channels = 1;
};

Shapes shapes_of(const Graph& graph, const Node& node) {
  const auto& conv = node.as<ConvAttributes>();
  const Shape& x = graph.tensor(node.inputs[0]).dims;
  const Shape& kernel = graph.tensor(node.inputs[1]).dims;
  const Shape& y = graph.tensor(node.outputs[0]).dims;
  return {{kernel[2], conv.stride_h, conv.pad_top, conv.pad_bottom, x[2], y[2]},
          {kernel[3], conv.stride_w, conv.pad_left, conv.pad_right, x[3], y[3]},
          kernel[1],
          kernel[0]};
}

std::optional<Shapes> grouped(const Shapes& of, const PixelGroup& in, const PixelGroup& out) {
  const auto h = grouped_axis(of.h, in.h, out.h);
  const auto w = grouped_axis(of.w, in.w, out.w);
  if (!h || !w) return std::nullopt;
  return Shapes{*h, *w, of.channels * in.pixels(), of.output_channels * out.pixels()};
}

SumShape sum_of(const Shapes& of, std::int64_t native_dimension) {
  return {.kernel_h = of.h.kernel,
          .kernel_w = of.w.kernel,
          .stride_h = of.h.stride,
          .stride_w = of.w.stride,
          .channels = of.channels,
          .output_channels = of.output_channels,
          .pixels = of.h.output * of.w.output,
          .native_dimension = native_dimension};
}

struct Cut {
  BlockCut cut = BlockCut::kChannel;
  double cost = kNever;
};

Cut cheaper_cut(const Shapes& of, std::int64_t native_dimension) {
  const SumShape sum = sum_of(of, native_dimension);
  const double along = cut_cost(sum, BlockCut::kChannel);
  const double across = cut_cost(sum, BlockCut::kIm2col);
  return along < across ? Cut{BlockCut::kChannel, along} : Cut{BlockCut::kIm2col, across};
}

bool takes_groups(const Graph& graph, const Node& node) {
  if (node.kind() != NodeKind::kConv) return false;
  const auto& conv = node.as<ConvAttributes>();
  const TensorInfo& x = graph.tensor(node.inputs[0]);
  const TensorInfo& kernel = graph.tensor(node.inputs[1]);
  const TensorInfo& y = graph.tensor(node.outputs[0]);
  const bool dense = conv.dilation_h == 1 && conv.dilation_w == 1 && conv.input_dilation_h == 1 &&
                     conv.input_dilation_w == 1;
  return dense && conv.groups == 1 && !conv.channel_wise &&
         conv.matrix.kind == MatrixKind::kBlockFloat && conv.post.local_response.size == 0 &&
         kernel.constant != nullptr && x.dims[0] == 1 && x.format == graph.vector_format &&
         y.format == graph.vector_format && element_count(kernel.dims) <= kWeightsMax;
}

// The convolution whose groups are those of `in` pixels that an image without groups has.
Shapes grouping_of(const Axis& h, const Axis& w, std::int64_t channels, const PixelGroup& in) {
  return {{.kernel = in.h, .stride = in.h, .input = h.input, .output = h.input / in.h},
          {.kernel = in.w, .stride = in.w, .input = w.input, .output = w.input / in.w},
          channels,
          channels * in.pixels()};
}

// How a tensor of a chain came to have the pixels of a group as channels, or none.
enum class Arrival : std::uint8_t { kNone, kConv, kRegrouped };
struct State {
  double cost = kNever;
  Arrival arrival = Arrival::kNone;
  std::size_t from = kPlain;  // of kGroups: of the convolution's input, or before the change
};
using States = std::array<State, kGroups.size()>;

void take_less(State& state, const State& other) {
  if (other.cost < state.cost) state = other;
}

// What comes out of a convolution whose input has `states`.
States behind_conv(const Graph& graph, const Node& node, const States& states) {
  const auto& conv = node.as<ConvAttributes>();
  const Shapes shapes = shapes_of(graph, node);
  States result;
  for (std::size_t in = 0; in < kGroups.size(); ++in) {
    if (states[in].cost == kNever) continue;
    for (std::size_t out = 0; out < kGroups.size(); ++out) {
      const auto of = grouped(shapes, kGroups[in], kGroups[out]);
      if (!of || of->channels * of->output_channels * of->h.kernel * of->w.kernel > kWeightsMax) {
        continue;
      }
      const std::int64_t n = conv.matrix.native_dimension;
      const double cost = in == kPlain && out == kPlain ? cut_cost(sum_of(*of, n), conv.cut)
                                                        : kDoubt * cheaper_cut(*of, n).cost;
      take_less(result[out], {states[in].cost + cost, Arrival::kConv, in});
    }
  }
  return result;
}

// A tensor's pixels are put back, and grouped for the convolution that reads it (null at the end).
void regroup(const Graph& graph, const TensorInfo& tensor, const Node* reader, States& states) {
  const auto elements = static_cast<double>(element_count(tensor.dims));
  for (std::size_t from = 1; from < kGroups.size(); ++from) {
    take_less(states[kPlain], {states[from].cost + kTaskCost + elements / kMovedElements,
                               Arrival::kRegrouped, from});
  }
  if (reader == nullptr || states[kPlain].cost == kNever) return;
  const Shapes shapes = shapes_of(graph, *reader);
  const std::int64_t n = reader->as<ConvAttributes>().matrix.native_dimension;
  for (std::size_t to = 1; to < kGroups.size(); ++to) {
    const PixelGroup& in = kGroups[to];
    if (shapes.h.input % in.h != 0 || shapes.w.input % in.w != 0 ||
        shapes.channels * in.pixels() > n) {
      continue;
    }
    const SumShape sum = sum_of(grouping_of(shapes.h, shapes.w, shapes.channels, in), n);
    const double cost = kTaskCost + kDoubt * cut_cost(sum, BlockCut::kIm2col);
    take_less(states[to], {states[kPlain].cost + cost, Arrival::kRegrouped, kPlain});
  }
}

// A tensor of a chain: what its producer makes, and what its reader takes.
struct TensorGroups {
  std::size_t made = kPlain, read = kPlain;  // of kGroups
};

// For each tensor of a chain of convolutions, the first one's input included. None where the chain
// takes least as it is.
std::vector<TensorGroups> choose_groups(const Graph& graph, std::span<const NodeIndex> chain) {
  std::vector<States> made(chain.size() + 1), read(chain.size() + 1);
  made[0][kPlain] = {0, Arrival::kConv, kPlain};
  for (std::size_t i = 0; i <= chain.size(); ++i) {
    const bool end = i == chain.size();
    if (i != 0) made[i] = behind_conv(graph, graph.nodes[chain[i - 1]], read[i - 1]);
    read[i] = made[i];
    const TensorId id =
        i == 0 ? graph.nodes[chain[0]].inputs[0] : graph.nodes[chain[i - 1]].outputs[0];
    regroup(graph, graph.tensor(id), end ? nullptr : &graph.nodes[chain[i]], read[i]);
  }
  std::vector<TensorGroups> groups(chain.size() + 1);
  std::size_t state = kPlain;
  for (std::size_t i = chain.size() + 1; i > 0; --i) {
    TensorGroups& of = groups[i - 1];
    of.read = of.made = state;
    // Groups of one kind become those of another by way of none.
    for (const State* at = &read[i - 1][state]; at->arrival == Arrival::kRegrouped;) {
      of.made = at->from;
      at = of.made == kPlain ? &read[i - 1][kPlain] : &made[i - 1][of.made];
    }
    if (i != 1) state = made[i - 1][of.made].from;
  }
  const bool plain = std::ranges::all_of(
      groups, [](const TensorGroups& of) { return of.made == kPlain && of.read == kPlain; });
  return plain ? std::vector<TensorGroups>{} : groups;
}

// The kernel of `of`: the taps of `kernel` that each pixel of an output group has of the input groups.
Constant grouped_kernel(const Tensor& kernel, const Shapes& plain, const Shapes& of,
                        const PixelGroup& in, const PixelGroup& out) {
  const Shape dims = {of.output_channels, of.channels, of.h.kernel, of.w.kernel};
  auto result = std::make_shared<Tensor>(Tensor::zeros(kernel.format, dims));
  const auto element = static_cast<std::size_t>(format_bytes(kernel.format));
  // Output channel o, channel c of pixel (row, column) of its group, from tap (y, x) of the kernel.
  const auto place = [&](std::int64_t row, std::int64_t column, std::int64_t y, std::int64_t x,
                         std::int64_t o, std::int64_t c) {
    const std::int64_t h = plain.h.stride * row + y - plain.h.pad_begin + of.h.pad_begin * in.h;
    const std::int64_t w = plain.w.stride * column + x - plain.w.pad_begin + of.w.pad_begin * in.w;
    const std::int64_t output = (row * out.w + column) * plain.output_channels + o;
    const std::int64_t input = (h % in.h * in.w + w % in.w) * plain.channels + c;
    return ((output * dims[1] + input) * dims[2] + h / in.h) * dims[3] + w / in.w;
  };
  for (std::int64_t pixel = 0; pixel < out.pixels(); ++pixel) {
    const auto* from = kernel.bytes.data();
    for (std::int64_t o = 0; o < plain.output_channels; ++o) {
      for (std::int64_t c = 0; c < plain.channels; ++c) {
        for (std::int64_t tap = 0; tap < plain.h.kernel * plain.w.kernel; ++tap, from += element) {
          const std::int64_t to =
              place(pixel / out.w, pixel % out.w, tap / plain.w.kernel, tap % plain.w.kernel, o, c);
          std::memcpy(result->bytes.data() + static_cast<std::size_t>(to) * element, from, element);
        }
      }
    }
  }
  return result;
}

std::string suffix_of(const PixelGroup& group) {
  return fmt::format(".pixels_{}x{}", group.h, group.w);
}

Shape grouped_dims(const Shape& dims, const PixelGroup& group) {
  return {1, dims[1] * group.pixels(), dims[2] / group.h, dims[3] / group.w};
}

void set_axes(ConvAttributes& conv, const Axis& h, const Axis& w) {
  conv.stride_h = h.stride;
  conv.stride_w = w.stride;
  conv.pad_top = h.pad_begin;
  conv.pad_bottom = h.pad_end;
  conv.pad_left = w.pad_begin;
  conv.pad_right = w.pad_end;
}

// Between the convolutions of a graph's chain.
struct Rewrite {
  Graph& graph;
  Editor& editor;
};

// The convolution at `index` with groups at both ends, which reads `input`. Returns its output.
TensorId group_conv(const Rewrite& at, NodeIndex index, TensorId input, const PixelGroup& in,
                    const PixelGroup& out) {
  Graph& graph = at.graph;
  const Shapes plain = shapes_of(graph, graph.nodes[index]);
  const Shapes of = *grouped(plain, in, out);
  const TensorInfo kernel = graph.tensor(graph.nodes[index].inputs[1]);
  const TensorInfo y = graph.tensor(graph.nodes[index].outputs[0]);
  const TensorId weights =
      at.editor.add_constant(kernel.name + suffix_of({in.h * out.h, in.w * out.w}),
                             grouped_kernel(*kernel.constant, plain, of, in, out));
  TensorId result = graph.nodes[index].outputs[0];
  if (out.grouped()) {
    result = at.editor.add_tensor(y.name + suffix_of(out), y.format, grouped_dims(y.dims, out));
    if (graph.nodes[index].inputs.size() > 2) {
      const TensorInfo bias = graph.tensor(graph.nodes[index].inputs[2]);
      graph.nodes[index].inputs[2] = at.editor.add_constant(bias.name + suffix_of(out),
                                                            repeated(*bias.constant, out.pixels()));
    }
  }
  Node& node = graph.nodes[index];
  node.inputs[0] = input;
  node.inputs[1] = weights;
  node.outputs[0] = result;
  auto& conv = node.as<ConvAttributes>();
  set_axes(conv, of.h, of.w);
  conv.cut = cheaper_cut(of, conv.matrix.native_dimension).cut;
  return result;
}

// Pixels of `from` put back, as tensor `to`.
void add_ungrouping(const Rewrite& at, TensorId from, TensorId to, const PixelGroup& group,
                    const std::vector<std::string>& origins) {
  const TensorInfo& y = at.graph.tensor(to);
  const std::int64_t line = y.dims[3];
  CopyBox box;
  box.extents = {group.h, group.w, y.dims[1], y.dims[2] / group.h, line / group.w};
  box.input_strides = row_major_strides(box.extents);
  box.output_strides = {line, 1, y.dims[2] * line, group.h * line, group.w};
  at.editor.add_node(y.name, origins, {from}, {to}, MoveAttributes{false, 0, {simplified(box)}});
}

// `x` in groups, quantised as the convolution at `reader` quantises them.
TensorId add_grouping(const Rewrite& at, TensorId x, NodeIndex reader, const PixelGroup& group) {
  const TensorInfo image = at.graph.tensor(x);
  const Node& node = at.graph.nodes[reader];
  const auto& read = node.as<ConvAttributes>();
  const std::int64_t channels = image.dims[1], pixels = group.pixels();
  const Axis h{.input = image.dims[2]}, w{.input = image.dims[3]};
  const Shapes of = grouping_of(h, w, channels, group);
  ConvAttributes conv;
  conv.matrix = read.matrix;
  conv.cut = BlockCut::kIm2col;
  set_axes(conv, of.h, of.w);
  std::vector<double> ones(static_cast<std::size_t>(channels * pixels * channels * pixels), 0.0);
  for (std::int64_t to = 0; to < channels * pixels; ++to) {
    const std::int64_t from = to % channels * pixels + to / channels;
    ones[static_cast<std::size_t>(to * channels * pixels + from)] = 1.0;
  }
  const TensorId weights = at.editor.add_constant(
      image.name + suffix_of(group) + ".ones",
      constant_from_reals(at.graph.tensor(node.inputs[1]).format,
                          {channels * pixels, channels, group.h, group.w}, ones));
  const std::vector<std::string> origins = node.origins;
  const TensorId result = at.editor.add_tensor(image.name + suffix_of(group), image.format,
                                               grouped_dims(image.dims, group));
  at.editor.add_node(image.name + suffix_of(group), origins, {x, weights}, {result},
                     std::move(conv));
  return result;
}

void rewrite(const Rewrite& at, std::span<const NodeIndex> chain,
             const std::vector<TensorGroups>& groups) {
  TensorId plain = at.graph.nodes[chain[0]].inputs[0];
  TensorId made = plain;
  for (std::size_t i = 0; i <= chain.size(); ++i) {
    const PixelGroup& of_producer = kGroups[groups[i].made];
    const PixelGroup& of_reader = kGroups[groups[i].read];
    TensorId read = made;
    if (of_producer != of_reader) {
      if (of_producer.grouped()) {
        add_ungrouping(at, made, plain, of_producer, at.graph.nodes[chain[i - 1]].origins);
      }
      read = of_reader.grouped() ? add_grouping(at, plain, chain[i], of_reader) : plain;
    }
    if (i == chain.size()) return;
    plain = at.graph.nodes[chain[i]].outputs[0];
    const PixelGroup& next = kGroups[groups[i + 1].made];
    made = plain;
    if (of_reader.grouped() || next.grouped()) {
      made = group_conv(at, chain[i], read, of_reader, next);
    }
  }
}

// Convolutions each of which alone reads the one before.
std::vector<NodeIndex> chain_from(const Graph& graph, const Links& links, NodeIndex first) {
  std::vector<NodeIndex> chain = {first};
  while (true) {
    const TensorId y = graph.nodes[chain.back()].outputs[0];
    if (!links.has_single_use(y)) return chain;
    const NodeIndex reader = links.consumers(y)[0];
    if (!takes_groups(graph, graph.nodes[reader])) return chain;
    chain.push_back(reader);
  }
}

bool begins_chain(const Graph& graph, const Links& links, NodeIndex index) {
  if (!takes_groups(graph, graph.nodes[index])) return false;
  const TensorId x = graph.nodes[index].inputs[0];
  const NodeIndex producer = links.producer(x);
  return producer < 0 || !links.has_single_use(x) || !takes_groups(graph, graph.nodes[producer]);
}

}  // namespace

void group_pixels(Graph& graph) {
  const Links links(graph);
  std::vector<std::vector<NodeIndex>> chains;
  for (NodeIndex i = 0; i < static_cast<NodeIndex>(graph.nodes.size()); ++i) {
    if (begins_chain(graph, links, i)) chains.push_back(chain_from(graph, links, i));
  }
  Editor editor(graph);
  for (const std::vector<NodeIndex>& chain : chains) {
    const std::vector<TensorGroups> groups = choose_groups(graph, chain);
    if (!groups.empty()) rewrite({graph, editor}, chain, groups);
  }
  tidy(graph);
  drop_unused_tensors(graph);
}

}  // namespace tessera::graph
