// What operators say of a model that they refuse.
#pragma once

#include <string>

#include "arith/tensor.h"
#include "base/result.h"

namespace tessera::model::ops {

// The model is wrong / asks for something that is refused.
Error invalid(std::string message);
Error unsupported(std::string message);

// "2x3x4"; "scalar" for rank 0.
std::string shape_text(const Shape& dims);

}  // namespace tessera::model::ops
