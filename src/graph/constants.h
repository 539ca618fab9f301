// Constant tensors as real numbers and back: what folding at compile time needs. Every rounding is
// arith's (rounding.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "arith/tensor.h"

namespace tessera::graph {

using Constant = std::shared_ptr<const Tensor>;

// The elements as binary64 (64-bit integers beyond 2^53 are rounded).
std::vector<double> reals(const Tensor& tensor);
// The elements of an integer (or boolean) tensor, exactly.
std::vector<std::int64_t> integers(const Tensor& tensor);
// The only element of a tensor.
double only_real(const Tensor& tensor);

// One rounding each; `values` has element_count(dims) elements.
Constant constant_from_reals(Format format, const Shape& dims, const std::vector<double>& values);
// The same bytes under another shape.
Constant reshaped(const Constant& constant, const Shape& dims);
// A list `times` times behind itself.
Constant repeated(const Tensor& list, std::int64_t times);
// The elements rounded to another format.
Constant converted(const Constant& constant, Format format);
// The bits of `value` in `format`.
std::uint64_t element_bits(Format format, double value);

}  // namespace tessera::graph
