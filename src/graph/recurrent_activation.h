// The activations of LSTM, GRU and RNN: a unary function, or one with a scale and an offset around
// it (Affine, ScaledTanh).
#pragma once

#include <optional>
#include <vector>

#include "graph/composer.h"

namespace tessera::graph {

// factor * function(inner * x) + offset; each step that is there rounds to f32, the last one to the
// format asked for.
struct RecurrentActivation {
  float inner = 1.0f;
  Activation activation;
  float factor = 1.0f;
  float offset = 0.0f;
};

// The operator's activations, direction by direction; nothing if one is not known.
std::optional<std::vector<RecurrentActivation>> recurrent_activations(const Op& op,
                                                                      std::int64_t directions);

TensorId apply(Composer& make, const RecurrentActivation& activation, TensorId x, Format format);

}  // namespace tessera::graph
