#include "concord/write/packed_constant.h"

#include <cmath>
#include <cstring>
#include <optional>

#include "arith/rounding.h"

namespace tessera::concord {
namespace {

std::optional<Tensor> packed_floats(const Tensor& tensor, Format format) {
  Tensor result = Tensor::zeros(format, tensor.dims);
  for (std::int64_t i = 0; i < element_count(tensor.dims); ++i) {
    const double x =
        arith::read_element(tensor.format, tensor.bytes.data() + i * format_bytes(tensor.format));
    if (!std::isfinite(x) && !format_is_float(format)) return std::nullopt;
    std::byte* element = result.bytes.data() + i * format_bytes(format);
    arith::write_element(format, x, element);
    if (arith::bits_of_f64(arith::read_element(format, element)) != arith::bits_of_f64(x)) {
      return std::nullopt;
    }
  }
  return result;
}

template <typename Small, typename Wide>
std::optional<Tensor> packed_integers(const Tensor& tensor, Format format) {
  Tensor result = Tensor::zeros(format, tensor.dims);
  const auto from = tensor.as<Wide>();
  const auto to = result.as<Small>();
  for (std::size_t i = 0; i < from.size(); ++i) {
    to[i] = static_cast<Small>(from[i]);
    if (static_cast<Wide>(to[i]) != from[i]) return std::nullopt;
  }
  return result;
}

template <typename Wide>
std::optional<Tensor> smallest_integers(const Tensor& tensor) {
  if (auto result = packed_integers<std::uint8_t, Wide>(tensor, Format::kU8)) return result;
  if (auto result = packed_integers<std::int16_t, Wide>(tensor, Format::kI16)) return result;
  if (sizeof(Wide) == 4) return std::nullopt;
  return packed_integers<std::int32_t, Wide>(tensor, Format::kI32);
}

std::optional<Tensor> smallest(const Tensor& tensor) {
  switch (tensor.format) {
    case Format::kF64:
    case Format::kF32:
      for (const Format format : {Format::kI8, Format::kF16, Format::kF32}) {
        if (format == tensor.format) continue;
        if (auto result = packed_floats(tensor, format)) return result;
      }
      return std::nullopt;
    case Format::kI64:
      return smallest_integers<std::int64_t>(tensor);
    case Format::kI32:
      return smallest_integers<std::int32_t>(tensor);
    default:
      return std::nullopt;
  }
}

}  // namespace

Tensor packed(const Tensor& tensor) {
  auto result = smallest(tensor);
  return result ? *std::move(result) : tensor;
}

}  // namespace tessera::concord
