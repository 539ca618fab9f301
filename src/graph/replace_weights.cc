#include "graph/replace_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "arith/rounding.h"

namespace tessera::graph {
namespace {

constexpr std::size_t kNamesShown = 8;

// A constant operand of a product, by the name it is given.
struct Place {
  std::string name;
  std::size_t node = 0;
  std::size_t input = 0;
  bool turned = false;  // [inputs, outputs]
};

std::vector<Place> places_of(const Graph& graph) {
  std::vector<Place> places;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.kind() != NodeKind::kConv && node.kind() != NodeKind::kMatMul) continue;
    for (std::size_t k = 1; k < std::min<std::size_t>(node.inputs.size(), 3); ++k) {
      const TensorInfo& info = graph.tensor(node.inputs[k]);
      const bool matrix = node.kind() == NodeKind::kMatMul && k == 1;
      if (info.constant == nullptr || (matrix && info.dims.size() != 2)) continue;
      places.push_back({node.name + (k == 1 ? ".weight" : ".bias"), i, k, matrix});
    }
  }
  return places;
}

// As many rows, and as long ones: a matrix [outputs, inputs] is a kernel over the whole of its
// input.
bool same_rows(const Shape& a, const Shape& b) {
  if (a.empty() || b.empty()) return a == b;
  return a[0] == b[0] && element_count(a) == element_count(b);
}

std::string names_of(const std::vector<Place>& places) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(places.size(), kNamesShown); ++i) {
    names.push_back("'" + places[i].name + "'");
  }
  const std::size_t more = places.size() - names.size();
  return fmt::format("{}{}", fmt::join(names, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

// An integer is not rounded: it must be one of the format.
Status check_element(const Place& place, Format format, std::int64_t element, double value) {
  if (format_is_float(format)) return {};
  const arith::IntegerRange range = arith::integer_range(format);
  const auto lowest = static_cast<double>(range.lowest);
  const auto highest = static_cast<double>(range.highest);
  if (value >= lowest && value <= highest && value == std::nearbyint(value)) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("weights '{}' have {} as element {}; the layer is in integers, so whole "
                           "numbers from {} to {} are needed",
                           place.name, value, element, range.lowest, range.highest)};
}

Status replace(Graph& graph, const Place& place, const Tensor& weights) {
  Node& node = graph.nodes[place.node];
  const TensorInfo old = graph.tensor(node.inputs[place.input]);
  Shape wanted = old.dims;
  if (place.turned) std::swap(wanted[0], wanted[1]);
  if (!same_rows(weights.dims, wanted)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("weights '{}' have the extents [{}], the model needs [{}]", place.name,
                             fmt::join(weights.dims, ", "), fmt::join(wanted, ", "))};
  }
  auto constant = std::make_shared<Tensor>(Tensor::zeros(old.format, old.dims));
  const std::int64_t columns = old.dims.back();
  for (std::int64_t i = 0; i < element_count(old.dims); ++i) {
    const std::int64_t from = place.turned ? i % columns * old.dims[0] + i / columns : i;
    const double value = arith::read_element(
        weights.format, weights.bytes.data() + from * format_bytes(weights.format));
    TESSERA_RETURN_IF_ERROR(check_element(place, old.format, from, value));
    arith::write_element(old.format, value, constant->bytes.data() + i * format_bytes(old.format));
  }
  // A tensor of its own: others may read the old one.
  node.inputs[place.input] = {static_cast<std::int32_t>(graph.tensors.size())};
  graph.tensors.push_back({place.name + "@replaced", old.format, old.dims, std::move(constant)});
  return {};
}

}  // namespace

Result<Graph> replace_weights(Graph graph, const std::map<std::string, Tensor>& weights) {
  const std::vector<Place> places = places_of(graph);
  for (const auto& [name, tensor] : weights) {
    const auto found = std::find_if(places.begin(), places.end(),
                                    [&](const Place& place) { return place.name == name; });
    if (found == places.end()) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("there is no product with constants '{}'; there are: {}", name,
                               names_of(places))};
    }
    TESSERA_RETURN_IF_ERROR(replace(graph, *found, tensor));
  }
  return graph;
}

}  // namespace tessera::graph
