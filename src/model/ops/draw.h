// Operators that draw at random: RandomNormal, RandomUniform and those of them that take the shape of a tensor. A network has
// one sample, which is a function of the node's name and its attribute `seed` alone, so that all devices and derived software
// have the same bits.
#pragma once

#include "base/result.h"
#include "model/model.h"

namespace tessera::model::ops {

bool draws_at_random(const Node& node);
// `like` is the node's input, where it has one. The error names an attribute.
Result<Tensor> sample(const Node& node, const TypedValue* like);

}  // namespace tessera::model::ops
