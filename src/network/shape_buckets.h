// Sizes that inputs are padded to, so that few networks serve many shapes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "tessera/network.h"
#include "tessera/tensor.h"

namespace tessera::network {

// Of an input, for each dimension the sizes that there are, in ascending order; none, or behind the last of the
// list: that which comes.
using ShapeBuckets = std::map<std::string, std::vector<std::vector<std::int64_t>>>;

// An error where a list names no input, has more entries than it has dimensions, is not in ascending
// order, or gives sizes to a dimension that the model fixes.
Status check_buckets(const ShapeBuckets& buckets, const std::vector<DeclaredShape>& inputs);

// The shape with each dimension raised to the next size; an error where it is past the last one.
Result<Shape> bucket_of(const std::string& input,
                        const std::vector<std::vector<std::int64_t>>& sizes, const Shape& dims);

// The tensor at the beginning of each dimension of one of `dims`, which are no smaller, and zeros behind it.
Tensor padded(const Tensor& tensor, const Shape& dims);

}  // namespace tessera::network
