#include "graph/constants.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "arith/rounding.h"
#include "arith/vector_ops.h"
#include "base/check.h"

namespace tessera::graph {

std::vector<double> reals(const Tensor& tensor) {
  const std::int64_t size = format_bytes(tensor.format);
  std::vector<double> values(static_cast<std::size_t>(element_count(tensor.dims)));
  // Most weights are binary32: no rounding, so the language's own conversion does.
  if (tensor.format == Format::kF32) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      float value = 0.0f;
      std::memcpy(&value, tensor.bytes.data() + i * sizeof(float), sizeof(float));
      values[i] = value;
    }
    return values;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = arith::read_element(tensor.format,
                                    tensor.bytes.data() + i * static_cast<std::size_t>(size));
  }
  return values;
}

std::vector<std::int64_t> integers(const Tensor& tensor) {
  TESSERA_CHECK(!format_is_float(tensor.format), "a float tensor where integers are read");
  const auto size = static_cast<std::size_t>(format_bytes(tensor.format));
  std::vector<std::int64_t> values(static_cast<std::size_t>(element_count(tensor.dims)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const void* at = tensor.bytes.data() + i * size;
    values[i] = size == 8 ? static_cast<std::int64_t>(arith::read_bits(tensor.format, at))
                          : std::llround(arith::read_element(tensor.format, at));
  }
  return values;
}

double only_real(const Tensor& tensor) {
  const std::vector<double> values = reals(tensor);
  TESSERA_CHECK(values.size() == 1, "one element expected, found {}", values.size());
  return values[0];
}

Constant constant_from_reals(Format format, const Shape& dims, const std::vector<double>& values) {
  Tensor tensor = Tensor::zeros(format, dims);
  const auto size = static_cast<std::size_t>(format_bytes(format));
  TESSERA_CHECK(values.size() * size == tensor.bytes.size(), "{} values for {} bytes",
                values.size(), tensor.bytes.size());
  if (format == Format::kF64 && !values.empty()) {
    std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
    return std::make_shared<const Tensor>(std::move(tensor));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    arith::write_element(format, values[i], tensor.bytes.data() + i * size);
  }
  return std::make_shared<const Tensor>(std::move(tensor));
}

Constant reshaped(const Constant& constant, const Shape& dims) {
  TESSERA_CHECK(element_count(dims) == element_count(constant->dims), "{} elements become {}",
                element_count(constant->dims), element_count(dims));
  Tensor tensor = *constant;
  tensor.dims = dims;
  return std::make_shared<const Tensor>(std::move(tensor));
}

Constant repeated(const Tensor& list, std::int64_t times) {
  auto result =
      std::make_shared<Tensor>(Tensor::zeros(list.format, {times * element_count(list.dims)}));
  for (std::int64_t i = 0; i < times; ++i) {
    std::ranges::copy(list.bytes, result->bytes.begin() + i * std::ssize(list.bytes));
  }
  return result;
}

Constant converted(const Constant& constant, Format format) {
  if (constant->format == format) return constant;
  // Without binary64 in between, which of large weights would take more memory than both formats.
  Tensor tensor = Tensor::zeros(format, constant->dims);
  const std::int64_t count = element_count(constant->dims);
  const auto of_vectors = [](Format of) {
    return of == Format::kF16 || of == Format::kBf16 || of == Format::kF32;
  };
  if (of_vectors(format) && of_vectors(constant->format)) {
    arith::simd::convert({.format = constant->format, .data = constant->bytes.data()},
                         {.format = format, .data = tensor.bytes.data(), .count = count});
    return std::make_shared<const Tensor>(std::move(tensor));
  }
  const auto from = static_cast<std::size_t>(format_bytes(constant->format));
  const auto to = static_cast<std::size_t>(format_bytes(format));
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const double value = arith::read_element(constant->format, constant->bytes.data() + i * from);
    arith::write_element(format, value, tensor.bytes.data() + i * to);
  }
  return std::make_shared<const Tensor>(std::move(tensor));
}

std::uint64_t element_bits(Format format, double value) { return arith::round_to(format, value); }

}  // namespace tessera::graph
