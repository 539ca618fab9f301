// A convolution of an image whose pixels were made channels (slices with a stride, concatenated, or
// SpaceToDepth) reads the image itself, with a larger kernel and stride.
//
//   x [1, C, r h, r w] ─► Moves ─► [1, C r r, h, w] ─► Conv k x k, stride s
//     becomes   x ─► Conv r k x r k, stride r s
//
// Before: formats are settled. After: the same. Values: none changes; the terms of each sum share an
// exponent (one block of N), or are integers.
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "graph/editor.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

constexpr std::int64_t kElementsMax = std::int64_t{1} << 23;
constexpr int kMovesMax = 4;  // behind each other

// Of each element of a tensor that Moves make of one other, where it is there.
struct Origin {
  TensorId root;
  std::vector<std::int32_t> places;
};

void follow(const CopyBox& box, const std::vector<std::int32_t>* inner,
            std::vector<std::int32_t>& places) {
  std::vector<std::int64_t> index(box.extents.size(), 0);
  std::int64_t from = box.input_offset, to = box.output_offset;
  for (bool more = true; more;) {
    places[static_cast<std::size_t>(to)] = inner == nullptr
                                               ? static_cast<std::int32_t>(from)
                                               : (*inner)[static_cast<std::size_t>(from)];
    more = false;
    for (std::size_t i = index.size(); i > 0 && !more; --i) {
      from += box.input_strides[i - 1];
      to += box.output_strides[i - 1];
      more = ++index[i - 1] < box.extents[i - 1];
      if (more) break;
      from -= index[i - 1] * box.input_strides[i - 1];
      to -= index[i - 1] * box.output_strides[i - 1];
      index[i - 1] = 0;
    }
  }
}

std::optional<Origin> origin_of(const Graph& graph, const Links& links, TensorId id, int depth) {
  const NodeIndex producer = links.producer(id);
  if (producer < 0 || graph.nodes[producer].kind() != NodeKind::kMove || depth == kMovesMax) {
    return std::nullopt;
  }
  const Node& node = graph.nodes[producer];
  const auto& move = node.as<MoveAttributes>();
  const std::int64_t count = element_count(graph.tensor(id).dims);
  if (move.has_fill || count > kElementsMax) return std::nullopt;
  Origin origin{{}, std::vector<std::int32_t>(static_cast<std::size_t>(count), 0)};
  for (const CopyBox& box : move.copies) {
    if (std::ranges::count(box.extents, 0) > 0) continue;
    const TensorId input = node.inputs[static_cast<std::size_t>(box.input)];
    if (element_count(graph.tensor(input).dims) > kElementsMax) return std::nullopt;
    const auto inner = origin_of(graph, links, input, depth + 1);
    const TensorId root = inner ? inner->root : input;
    if (origin.root.valid() && origin.root != root) return std::nullopt;
    origin.root = root;
    follow(box, inner ? &inner->places : nullptr, origin.places);
  }
  return origin;
}

// Channel k of the convolution's input is channel `channel` of the image, pixels (row, column) of each
// r x r.
struct Pixel {
  std::int64_t channel = 0, row = 0, column = 0;
  friend auto operator<=>(const Pixel&, const Pixel&) = default;
};
struct Folded {
  TensorId image;
  std::int64_t factor = 1;
  std::vector<Pixel> pixels;
};

bool is_candidate(const Graph& graph, const Links& links, const Node& node) {
  if (node.kind() != NodeKind::kConv) return false;
  const auto& conv = node.as<ConvAttributes>();
  const TensorInfo& kernel = graph.tensor(node.inputs[1]);
  if (conv.groups != 1 || conv.dilation_h != 1 || conv.dilation_w != 1 ||
      conv.input_dilation_h != 1 || conv.input_dilation_w != 1 || kernel.constant == nullptr ||
      !links.has_single_use(node.inputs[0])) {
    return false;
  }
  if (conv.matrix.kind == MatrixKind::kInteger) return true;
  return conv.matrix.kind == MatrixKind::kBlockFloat &&
         kernel.dims[1] * kernel.dims[2] * kernel.dims[3] <= conv.matrix.native_dimension;
}

std::optional<Folded> find_folded(const Graph& graph, const Links& links, const Node& node) {
  if (!is_candidate(graph, links, node)) return std::nullopt;
  const NodeIndex producer = links.producer(node.inputs[0]);
  if (producer < 0 || graph.nodes[producer].kind() != NodeKind::kMove) return std::nullopt;
  const auto origin = origin_of(graph, links, node.inputs[0], 0);
  if (!origin) return std::nullopt;
  const Shape& x = graph.tensor(origin->root).dims;
  const Shape& y = graph.tensor(node.inputs[0]).dims;
  if (x.size() != 4 || x[0] != 1 || y[0] != 1 || x[1] == 0 || y[2] == 0) return std::nullopt;
  Folded folded{origin->root, x[2] / y[2], {}};
  const std::int64_t r = folded.factor;
  if (r < 2 || x[2] != r * y[2] || x[3] != r * y[3] || y[1] != x[1] * r * r) return std::nullopt;
  const std::int64_t plane = x[2] * x[3];
  for (std::int64_t k = 0; k < y[1]; ++k) {
    const std::int32_t* const places = origin->places.data() + k * y[2] * y[3];
    const Pixel pixel{places[0] / plane, places[0] / x[3] % x[2], places[0] % x[3]};
    if (pixel.row >= r || pixel.column >= r) return std::nullopt;
    for (std::int64_t i = 0; i < y[2] * y[3]; ++i) {
      if (places[i] != places[0] + i / y[3] * r * x[3] + i % y[3] * r) return std::nullopt;
    }
    folded.pixels.push_back(pixel);
  }
  std::vector<Pixel> sorted = folded.pixels;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) return std::nullopt;
  return folded;
}

std::shared_ptr<const Tensor> folded_kernel(const Tensor& kernel, const Folded& folded) {
  const std::int64_t r = folded.factor;
  const Shape dims = {kernel.dims[0], kernel.dims[1] / (r * r), r * kernel.dims[2],
                      r * kernel.dims[3]};
  auto result = std::make_shared<Tensor>(Tensor::zeros(kernel.format, dims));
  const auto element = static_cast<std::size_t>(format_bytes(kernel.format));
  const auto* from = kernel.bytes.data();
  for (std::int64_t o = 0; o < dims[0]; ++o) {
    for (const Pixel& pixel : folded.pixels) {
      for (std::int64_t y = 0; y < kernel.dims[2]; ++y) {
        for (std::int64_t x = 0; x < kernel.dims[3]; ++x, from += element) {
          const std::int64_t to =
              ((o * dims[1] + pixel.channel) * dims[2] + y * r + pixel.row) * dims[3] + x * r +
              pixel.column;
          std::memcpy(result->bytes.data() + static_cast<std::size_t>(to) * element, from, element);
        }
      }
    }
  }
  return result;
}

}  // namespace

void fold_space_to_depth(Graph& graph) {
  Editor editor(graph);
  const Links links(graph);
  for (Node& node : graph.nodes) {
    const auto folded = find_folded(graph, links, node);
    if (!folded) continue;
    const TensorInfo& kernel = graph.tensor(node.inputs[1]);
    node.inputs[0] = folded->image;
    node.inputs[1] =
        editor.add_constant(kernel.name + ".folded", folded_kernel(*kernel.constant, *folded));
    auto& conv = node.as<ConvAttributes>();
    conv.cut = BlockCut::kIm2col;
    for (std::int64_t* const of : {&conv.stride_h, &conv.stride_w, &conv.pad_top, &conv.pad_left,
                                   &conv.pad_bottom, &conv.pad_right}) {
      *of *= folded->factor;
    }
  }
  tidy(graph);
  drop_unused_tensors(graph);
}

}  // namespace tessera::graph
