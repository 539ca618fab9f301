// How many operations the layers of derived software take; those of a loop count once.
#pragma once

#include <cstdint>

#include "concord/software.h"

namespace tessera::concord {

struct LayerNodes {
  std::int64_t layers = 0, nodes = 0;
  std::int64_t matrix_layers = 0, matrix_nodes = 0;  // convolutions and products of matrices
  std::int64_t matrix_nodes_min = 0, matrix_nodes_max = 0;
  double matrix_nodes_mean() const {
    return matrix_layers == 0
               ? 0.0
               : static_cast<double>(matrix_nodes) / static_cast<double>(matrix_layers);
  }
};

LayerNodes count_layer_nodes(const Software& software);

}  // namespace tessera::concord
