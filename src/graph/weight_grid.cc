#include "graph/weight_grid.h"

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "arith/rounding.h"
#include "graph/float_nodes.h"

namespace tessera::graph {
namespace {

// How the weights of one output channel lie: `count` of them from `first` on, `stride` apart.
struct ChannelRow {
  std::int64_t first = 0, count = 0, stride = 1;
};

std::vector<ChannelRow> channel_rows(const Shape& dims, bool matrix) {
  std::vector<ChannelRow> rows;
  const std::int64_t elements = element_count(dims);
  if (elements == 0) return rows;
  if (!matrix) {
    const std::int64_t terms = elements / dims[0];
    for (std::int64_t c = 0; c < dims[0]; ++c) rows.push_back({c * terms, terms, 1});
    return rows;
  }
  const std::int64_t columns = dims.back(), terms = dims[dims.size() - 2];
  for (std::int64_t batch = 0; batch < elements / (columns * terms); ++batch) {
    for (std::int64_t c = 0; c < columns; ++c) {
      rows.push_back({batch * columns * terms + c, terms, columns});
    }
  }
  return rows;
}

std::shared_ptr<const Tensor> on_grid(const Tensor& weights, bool matrix,
                                      const arith::WeightGrid& grid) {
  auto result = std::make_shared<Tensor>(weights);
  const std::int64_t bytes = format_bytes(weights.format);
  for (const ChannelRow& row : channel_rows(weights.dims, matrix)) {
    const auto place = [&](std::int64_t i) { return (row.first + i * row.stride) * bytes; };
    std::vector<double> values;
    for (std::int64_t i = 0; i < row.count; ++i) {
      values.push_back(arith::read_element(weights.format, weights.bytes.data() + place(i)));
    }
    values = arith::ref::on_weight_grid(values, weights.format, grid);
    for (std::int64_t i = 0; i < row.count; ++i) {
      arith::write_element(weights.format, values[static_cast<std::size_t>(i)],
                           result->bytes.data() + place(i));
    }
  }
  return result;
}

}  // namespace

void put_weights_on_grid(Graph& graph, const arith::WeightGrid& grid) {
  if (grid.kind == arith::WeightGridKind::kNone) return;
  std::map<std::pair<TensorId, bool>, TensorId> made;
  for (Node& node : graph.nodes) {
    if (!is_float_product(node)) continue;
    const TensorId id = node.inputs[1];
    const TensorInfo info = graph.tensor(id);
    const bool matrix = node.kind() == NodeKind::kMatMul;
    if (info.constant == nullptr || !format_is_vector(info.format)) continue;
    const auto [found, is_new] = made.try_emplace({id, matrix});
    if (is_new) {  // a tensor of its own: others may read the old one
      found->second = {static_cast<std::int32_t>(graph.tensors.size())};
      graph.tensors.push_back({info.name + (matrix ? "@columns_on_grid" : "@on_grid"), info.format,
                               info.dims, on_grid(*info.constant, matrix, grid)});
    }
    node.inputs[1] = found->second;
  }
}

}  // namespace tessera::graph
