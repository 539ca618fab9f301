#include "concord/write/layer_nodes.h"

#include <algorithm>
#include <vector>

namespace tessera::concord {

LayerNodes count_layer_nodes(const Software& software) {
  LayerNodes result;
  std::vector<std::int64_t> counts(software.layers.size(), 0);
  for_each_operation(software.operations, [&](const Operation& operation) {
    ++result.nodes;
    if (operation.layer >= 0) ++counts[operation.layer];
  });
  for (std::size_t i = 0; i < counts.size(); ++i) {
    ++result.layers;
    if (software.layers[i].kind != "conv" && software.layers[i].kind != "matmul") continue;
    result.matrix_nodes += counts[i];
    result.matrix_nodes_min =
        result.matrix_layers == 0 ? counts[i] : std::min(result.matrix_nodes_min, counts[i]);
    result.matrix_nodes_max = std::max(result.matrix_nodes_max, counts[i]);
    ++result.matrix_layers;
  }
  return result;
}

}  // namespace tessera::concord
