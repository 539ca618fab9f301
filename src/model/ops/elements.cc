#include "model/ops/elements.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "arith/rounding.h"
#include "base/check.h"
#include "model/ops/errors.h"

namespace tessera::model::ops {

namespace {

template <typename W, typename T>
W read_plain(const std::byte* base, std::int64_t index) {
  T value;
  std::memcpy(&value, base + static_cast<std::size_t>(index) * sizeof(T), sizeof(T));
  if constexpr (std::is_floating_point_v<T> && std::is_integral_v<W>) {
    return static_cast<W>(double_to_integer(static_cast<double>(value)));
  } else {
    return static_cast<W>(value);
  }
}

template <typename W, typename T>
void write_plain(std::byte* base, std::int64_t index, W value) {
  T stored;
  if constexpr (std::is_floating_point_v<W> && std::is_integral_v<T>) {
    // The upper half of uint64 is beyond double_to_integer().
    const bool upper = std::is_same_v<T, std::uint64_t> && value >= 9223372036854775808.0 &&
                       value < 18446744073709551616.0;
    stored = upper ? static_cast<T>(static_cast<std::uint64_t>(value))
                   : static_cast<T>(double_to_integer(value));
  } else {
    stored = static_cast<T>(value);
  }
  std::memcpy(base + static_cast<std::size_t>(index) * sizeof(T), &stored, sizeof(T));
}

// Short floats, and every rounding, go through arith. Size is the element's.
template <typename W, Format F>
W read_short_float(const std::byte* base, std::int64_t index) {
  const double value = arith::read_element(F, base + static_cast<std::size_t>(index) * 2);
  if constexpr (std::is_integral_v<W>) {
    return static_cast<W>(double_to_integer(value));
  } else {
    return value;
  }
}

template <typename W, Format F, std::size_t Size>
void write_float(std::byte* base, std::int64_t index, W value) {
  std::byte* const element = base + static_cast<std::size_t>(index) * Size;
  if constexpr (F == Format::kF32) {
    const float rounded = arith::f32_from_f64(static_cast<double>(value));
    std::memcpy(element, &rounded, sizeof(rounded));
  } else {
    arith::write_element(F, static_cast<double>(value), element);
  }
}

template <typename W>
void write_bool(std::byte* base, std::int64_t index, W value) {
  base[index] = std::byte{value != W{0} ? std::uint8_t{1} : std::uint8_t{0}};
}

template <typename W>
W read_bool(const std::byte* base, std::int64_t index) {
  return base[index] != std::byte{0} ? W{1} : W{0};
}

}  // namespace

std::int64_t double_to_integer(double value) {
  if (std::isnan(value)) return 0;
  if (value >= 9223372036854775808.0) return std::numeric_limits<std::int64_t>::max();
  if (value < -9223372036854775808.0) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(value);
}

template <typename W>
ReadFunction<W> read_function(Format format) {
  switch (format) {
    case Format::kF16:
      return read_short_float<W, Format::kF16>;
    case Format::kBf16:
      return read_short_float<W, Format::kBf16>;
    case Format::kF32:
      return read_plain<W, float>;
    case Format::kF64:
      return read_plain<W, double>;
    case Format::kI8:
      return read_plain<W, std::int8_t>;
    case Format::kU8:
      return read_plain<W, std::uint8_t>;
    case Format::kI16:
      return read_plain<W, std::int16_t>;
    case Format::kU16:
      return read_plain<W, std::uint16_t>;
    case Format::kI32:
      return read_plain<W, std::int32_t>;
    case Format::kU32:
      return read_plain<W, std::uint32_t>;
    case Format::kI64:
      return read_plain<W, std::int64_t>;
    case Format::kU64:
      return read_plain<W, std::uint64_t>;
    case Format::kBool:
      return read_bool<W>;
  }
  TESSERA_CHECK(false, "format {}", static_cast<int>(format));
  return nullptr;
}

template <typename W>
WriteFunction<W> write_function(Format format) {
  switch (format) {
    case Format::kF16:
      return write_float<W, Format::kF16, 2>;
    case Format::kBf16:
      return write_float<W, Format::kBf16, 2>;
    case Format::kF32:
      return write_float<W, Format::kF32, 4>;
    case Format::kF64:
      return write_float<W, Format::kF64, 8>;
    case Format::kI8:
      return write_plain<W, std::int8_t>;
    case Format::kU8:
      return write_plain<W, std::uint8_t>;
    case Format::kI16:
      return write_plain<W, std::int16_t>;
    case Format::kU16:
      return write_plain<W, std::uint16_t>;
    case Format::kI32:
      return write_plain<W, std::int32_t>;
    case Format::kU32:
      return write_plain<W, std::uint32_t>;
    case Format::kI64:
      return write_plain<W, std::int64_t>;
    case Format::kU64:
      return write_plain<W, std::uint64_t>;
    case Format::kBool:
      return write_bool<W>;
  }
  TESSERA_CHECK(false, "format {}", static_cast<int>(format));
  return nullptr;
}

template ReadFunction<double> read_function<double>(Format);
template ReadFunction<std::int64_t> read_function<std::int64_t>(Format);
template ReadFunction<std::uint64_t> read_function<std::uint64_t>(Format);
template WriteFunction<double> write_function<double>(Format);
template WriteFunction<std::int64_t> write_function<std::int64_t>(Format);
template WriteFunction<std::uint64_t> write_function<std::uint64_t>(Format);

Tensor integer_vector(const std::vector<std::int64_t>& values) {
  Tensor tensor = Tensor::zeros(Format::kI64, {static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.as<std::int64_t>().begin());
  return tensor;
}

Tensor integer_scalar(std::int64_t value) {
  Tensor tensor = Tensor::zeros(Format::kI64, {});
  tensor.as<std::int64_t>()[0] = value;
  return tensor;
}

std::vector<std::int64_t> strides_of(const Shape& dims) {
  std::vector<std::int64_t> strides(dims.size(), 0);
  std::int64_t step = 1;
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    strides[axis] = step;
    // A tensor without elements has no positions; keep the product small all the same.
    step = dims[axis] == 0 ? 0 : step * dims[axis];
  }
  return strides;
}

std::vector<std::int64_t> broadcast_strides(const Shape& from, const Shape& to) {
  const std::vector<std::int64_t> own = strides_of(from);
  std::vector<std::int64_t> strides(to.size(), 0);
  TESSERA_CHECK(from.size() <= to.size(), "{} to {}", shape_text(from), shape_text(to));
  const std::size_t lead = to.size() - from.size();
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    TESSERA_CHECK(from[axis] == 1 || from[axis] == to[lead + axis], "{} to {}", shape_text(from),
                  shape_text(to));
    strides[lead + axis] = from[axis] == 1 ? 0 : own[axis];
  }
  return strides;
}

Result<Shape> broadcast_shapes(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()), 1);
  for (std::size_t back = 1; back <= result.size(); ++back) {
    const std::int64_t left = back <= a.size() ? a[a.size() - back] : 1;
    const std::int64_t right = back <= b.size() ? b[b.size() - back] : 1;
    if (left != right && left != 1 && right != 1) {
      return invalid(fmt::format("shapes {} and {} cannot be broadcast together", shape_text(a),
                                 shape_text(b)));
    }
    result[result.size() - back] = left == 1 ? right : left;
  }
  return result;
}

template <typename T>
void copy_strided_of(const Tensor& in, std::int64_t start, const std::vector<std::int64_t>& strides,
                     Tensor& out) {
  const std::byte* const from = in.bytes.data();
  std::byte* const to = out.bytes.data();
  walk<1>(out.dims, {strides}, [&](std::int64_t position, const auto& offsets) {
    std::memcpy(to + static_cast<std::size_t>(position) * sizeof(T),
                from + static_cast<std::size_t>(start + offsets[0]) * sizeof(T), sizeof(T));
  });
}

void copy_strided(const Tensor& in, std::int64_t start, const std::vector<std::int64_t>& strides,
                  Tensor& out) {
  switch (format_bytes(out.format)) {
    case 1:
      return copy_strided_of<std::uint8_t>(in, start, strides, out);
    case 2:
      return copy_strided_of<std::uint16_t>(in, start, strides, out);
    case 4:
      return copy_strided_of<std::uint32_t>(in, start, strides, out);
    default:
      TESSERA_CHECK(format_bytes(out.format) == 8, "{}", format_name(out.format));
      return copy_strided_of<std::uint64_t>(in, start, strides, out);
  }
}

AxisView view_axis(const Shape& dims, std::int64_t axis) {
  AxisView view;
  const auto middle = static_cast<std::size_t>(axis);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (i < middle) view.outer *= dims[i];
    if (i == middle) view.length = dims[i];
    if (i > middle) view.inner *= dims[i];
  }
  return view;
}

}  // namespace tessera::model::ops
