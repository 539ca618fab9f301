// Tensors of int4, float8 and similar types are held in the next wider format (arith/narrow.h).
// Readers need not know the type; producers must. So the types are propagated through the graph:
//
//   QuantizeLinear(x, s, zero point: int4)   gets output_dtype = int4
//   CastLike(x, like: int4)                  becomes Cast(x) {to: int4}
//   DequantizeLinear, Cast, Shape, Size      take them
//   Identity, Reshape, Transpose, ...        hand them on
//   anything else                            is refused by name
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "arith/narrow.h"
#include "base/result.h"
#include "model/model.h"

namespace tessera::model {

using NarrowValues = std::map<std::string, arith::Narrow>;

// `values`: inputs and constants of the model's own graph that are of such a type. `graph` is in
// topological order.
Status follow_narrow(Subgraph& graph, NarrowValues values);

// What a Cast or QuantizeLinear says it makes, if that is narrow.
std::optional<arith::Narrow> stated_narrow(const Node& node);

}  // namespace tessera::model
