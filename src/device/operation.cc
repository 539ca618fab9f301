#include "device/operation.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "base/guarded.h"
#include "graph/build.h"
#include "graph/editor.h"
#include "graph/verify.h"

namespace tessera::device {
namespace {

using graph::CopyBox;
using graph::Graph;
using graph::TensorId;

constexpr std::int64_t kExtentMax = 1 << 20;
constexpr std::int64_t kWindowMax = 255;
constexpr double kElementsMax = 1u << 31;  // of one tensor

// A graph of one operation; tensors have the vector format.
class OperationGraph {
 public:
  OperationGraph(const char* name, const ChipConfig& chip) : chip_(chip), editor_(graph_) {
    graph_.name = name;
    graph_.vector_format = chip.formats.vector;
  }

  TensorId input(const char* name, const Shape& dims) {
    const TensorId id = editor_.add_tensor(name, chip_.formats.vector, dims);
    graph_.inputs.push_back(id);
    return id;
  }
  TensorId add(const char* name, std::vector<TensorId> inputs, const Shape& dims,
               graph::NodeAttributes attributes) {
    const TensorId id = editor_.add_tensor(name, chip_.formats.vector, dims);
    editor_.add_node(name, {}, std::move(inputs), {id}, std::move(attributes));
    return id;
  }
  Result<std::shared_ptr<const Graph>> finish(TensorId output) {
    graph_.outputs = {output};
    TESSERA_RETURN_IF_ERROR(graph::verify(graph_));
    return std::shared_ptr<const Graph>(std::make_shared<const Graph>(std::move(graph_)));
  }
  const ChipConfig& chip() const { return chip_; }

 private:
  const ChipConfig& chip_;
  Graph graph_;
  graph::Editor editor_;
};

// Positions of the window whose tap `tap` falls on a pixel: [first, last).
struct Positions {
  std::int64_t first = 0, last = 0;
};
Positions positions_inside(std::int64_t tap, const Window& window, std::int64_t extent,
                           std::int64_t positions) {
  const std::int64_t offset = tap - window.pad;  // of the pixel under position 0
  Positions inside;
  inside.first = offset >= 0 ? 0 : ceil_div(-offset, window.stride);
  inside.last = offset >= extent ? 0 : (extent - 1 - offset) / window.stride + 1;
  inside.last = std::min(inside.last, positions);
  return inside;
}

TensorId build(const Im2col& operation, OperationGraph& graph) {
  const auto& [image, window] = operation;
  const ImageSize positions = window_positions(image, window);
  const std::int64_t width = window.size * window.size * image.channels;
  const TensorId x = graph.input("image", {image.pixels(), image.channels});
  graph::MoveAttributes move;
  move.has_fill = window.pad > 0;  // with zeros
  for (std::int64_t ky = 0; ky < window.size; ++ky) {
    for (std::int64_t kx = 0; kx < window.size; ++kx) {
      const Positions rows = positions_inside(ky, window, image.rows, positions.rows);
      const Positions columns = positions_inside(kx, window, image.columns, positions.columns);
      if (rows.first >= rows.last || columns.first >= columns.last) continue;
      const std::int64_t row = rows.first * window.stride + ky - window.pad;
      const std::int64_t column = columns.first * window.stride + kx - window.pad;
      CopyBox box;
      box.input_offset = (row * image.columns + column) * image.channels;
      box.output_offset = (rows.first * positions.columns + columns.first) * width +
                          (ky * window.size + kx) * image.channels;
      box.extents = {rows.last - rows.first, columns.last - columns.first, image.channels};
      box.input_strides = {window.stride * image.columns * image.channels,
                           window.stride * image.channels, 1};
      box.output_strides = {positions.columns * width, width, 1};
      move.copies.push_back(std::move(box));
    }
  }
  return graph.add("im2col", {x}, {positions.pixels(), width}, move);
}

TensorId build(const MatrixProduct& operation, OperationGraph& graph) {
  const TensorId x = graph.input("moving", {operation.rows, operation.inner});
  const TensorId weights = graph.input("weights", {operation.inner, operation.columns});
  graph::MatMulAttributes product;
  product.matrix = graph.chip().formats.matrix;
  return graph.add("product", {x, weights}, {operation.rows, operation.columns}, product);
}

TensorId build(const Relu& operation, OperationGraph& graph) {
  const TensorId x = graph.input("values", {operation.rows, operation.columns});
  graph::ElementwiseAttributes relu;
  relu.activation.function = UnaryFunction::kRelu;
  return graph.add("relu", {x}, {operation.rows, operation.columns}, relu);
}

// [a, b] to [b, a].
graph::MoveAttributes exchange(std::int64_t a, std::int64_t b) {
  graph::MoveAttributes move;
  move.copies = {{0, 0, 0, {b, a}, {1, b}, {a, 1}}};
  return move;
}

TensorId build(const MaximumPool& operation, OperationGraph& graph) {
  const auto& [image, window] = operation;
  const ImageSize positions = window_positions(image, window);
  const TensorId x = graph.input("image", {image.pixels(), image.channels});
  const TensorId planes = graph.add("planes", {x}, {1, image.channels, image.rows, image.columns},
                                    exchange(image.pixels(), image.channels));
  graph::PoolAttributes pool;
  pool.window_h = pool.window_w = window.size;
  pool.stride_h = pool.stride_w = window.stride;
  pool.pad_top = pool.pad_left = pool.pad_bottom = pool.pad_right = window.pad;
  const TensorId pooled =
      graph.add("pool", {planes}, {1, image.channels, positions.rows, positions.columns}, pool);
  return graph.add("pixels", {pooled}, {positions.pixels(), image.channels},
                   exchange(image.channels, positions.pixels()));
}

bool positive(std::initializer_list<std::int64_t> extents) {
  for (const std::int64_t extent : extents) {
    if (extent < 1 || extent > kExtentMax) return false;
  }
  return true;
}

std::optional<std::string> bad_window(const ImageSize& image, const Window& window) {
  if (!positive({image.rows, image.columns, image.channels, window.size, window.stride}) ||
      window.size > kWindowMax || window.pad < 0 || window.pad >= window.size) {
    return fmt::format(
        "sizes and stride from 1 on, windows up to {}, padding from 0 to less than the window",
        kWindowMax);
  }
  if (window.size > std::min(image.rows, image.columns) + 2 * window.pad) {
    return "a window no larger than the padded image";
  }
  return std::nullopt;
}

bool too_large(const Shape& dims) {
  double elements = 1;
  for (const std::int64_t extent : dims) elements *= static_cast<double>(extent);
  return elements > kElementsMax;
}

// Those of one operand, or of operands and result together; nothing if all is well.
std::optional<std::string> bad_extents(const Operation& operation) {
  std::string extents = fmt::format("sizes from 1 to {}", kExtentMax);
  if (const auto* im2col = std::get_if<Im2col>(&operation)) {
    return bad_window(im2col->image, im2col->window);
  }
  if (const auto* pool = std::get_if<MaximumPool>(&operation)) {
    return bad_window(pool->image, pool->window);
  }
  if (const auto* product = std::get_if<MatrixProduct>(&operation)) {
    if (!positive({product->rows, product->inner, product->columns})) return extents;
    return std::nullopt;
  }
  const auto& relu = std::get<Relu>(operation);
  if (!positive({relu.rows, relu.columns})) return extents;
  return std::nullopt;
}

// What is allowed instead; nothing if all is well.
std::optional<std::string> bad_sizes(const Operation& operation) {
  if (auto allowed = bad_extents(operation)) return allowed;
  bool large = too_large(output_dims(operation));
  if (const auto* product = std::get_if<MatrixProduct>(&operation)) {
    large = large || too_large({product->rows, product->inner}) ||
            too_large({product->inner, product->columns});
  } else if (const auto* pool = std::get_if<MaximumPool>(&operation)) {
    large = large || too_large({pool->image.pixels(), pool->image.channels});
  } else if (const auto* im2col = std::get_if<Im2col>(&operation)) {
    large = large || too_large({im2col->image.pixels(), im2col->image.channels});
  }
  if (!large) return std::nullopt;
  return fmt::format("tensors of at most {:.0f} elements", kElementsMax);
}

}  // namespace

ImageSize window_positions(const ImageSize& image, const Window& window) {
  const auto positions = [&](std::int64_t extent) {
    return (extent + 2 * window.pad - window.size) / window.stride + 1;
  };
  return {positions(image.rows), positions(image.columns), image.channels};
}

const char* operation_name(const Operation& operation) {
  constexpr std::array kNames = {"im2col", "matrix product", "relu", "maximum pool"};
  return kNames[operation.index()];
}

Shape output_dims(const Operation& operation) {
  if (const auto* im2col = std::get_if<Im2col>(&operation)) {
    const Window& window = im2col->window;
    return {window_positions(im2col->image, window).pixels(),
            window.size * window.size * im2col->image.channels};
  }
  if (const auto* product = std::get_if<MatrixProduct>(&operation)) {
    return {product->rows, product->columns};
  }
  if (const auto* relu = std::get_if<Relu>(&operation)) return {relu->rows, relu->columns};
  const auto& pool = std::get<MaximumPool>(operation);
  return {window_positions(pool.image, pool.window).pixels(), pool.image.channels};
}

OperationSet::~OperationSet() {
  for (const auto& [operation, loaded] : known_) (void)device_.unload(loaded);
}

Result<LoadedId> OperationSet::prepare(const Operation& operation) {
  const std::lock_guard lock(mutex_);
  const auto known = known_.find(operation);
  if (known != known_.end()) return known->second;
  const char* const name = operation_name(operation);
  if (const auto allowed = bad_sizes(operation)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("operation '{}': sizes that do not fit; allowed: {}", name, *allowed)};
  }
  OperationGraph builder(name, chip_);
  const TensorId output =
      std::visit([&](const auto& sizes) { return build(sizes, builder); }, operation);
  TESSERA_TRY(auto graph, builder.finish(output));
  const auto network =
      network::network_from_graph(std::move(graph), chip_, {}, network::Edges::kDense);
  if (!network.ok()) return network.error().with_context(fmt::format("operation '{}'", name));
  std::shared_ptr<const NetworkState> state = Network(*network).share();
  const auto place = known_.emplace(operation, LoadedId{}).first;  // no memory is taken behind it
  const auto loaded = guarded("", [&] { return device_.load(std::move(state)); });
  if (loaded.ok()) {
    place->second = *loaded;
  } else {
    known_.erase(place);
  }
  return loaded;
}

Result<SequenceNumber> OperationSet::submit(const OperationSubmission& task, TimePoint deadline) {
  TESSERA_TRY(const LoadedId loaded, prepare(task.operation));
  const std::array inputs = {task.input, task.weights + task.weight_offset};
  const bool product = std::holds_alternative<MatrixProduct>(task.operation);
  return device_.submit({.loaded = loaded,
                         .kernel = task.kernel,
                         .inputs = std::span(inputs).first(product ? 2 : 1),
                         .outputs = std::span(&task.output, 1),
                         .tag = task.tag,
                         .keeps = task.keeps},
                        deadline);
}

std::size_t OperationSet::compiled() const {
  const std::lock_guard lock(mutex_);
  return known_.size();
}

}  // namespace tessera::device
