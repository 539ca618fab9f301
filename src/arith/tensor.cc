#include "arith/tensor.h"

#include <utility>

#include "base/check.h"
#include "base/huge_pages.h"

namespace tessera {

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t dim : shape) {
    TESSERA_CHECK(dim >= 0, "a dense tensor has a dimension of {}", dim);
    const bool overflows = __builtin_mul_overflow(count, dim, &count);
    TESSERA_CHECK(!overflows, "a dense tensor has more than 2^63-1 elements");
  }
  return count;
}

Tensor Tensor::zeros(Format format, Shape dims) {
  Tensor tensor;
  tensor.format = format;
  const std::int64_t bytes = element_count(dims) * format_bytes(format);
  tensor.dims = std::move(dims);
  tensor.bytes = zeros_in_huge_pages(static_cast<std::size_t>(bytes));
  return tensor;
}

}  // namespace tessera
