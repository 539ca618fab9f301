// Elements of a tensor of any format, read and written as one of three working types:
//
//   f16 bf16 f32 f64 ──► double         i8 i16 i32 i64 bool ──► int64         u8 .. u64 ──► uint64
//
// Writing a float rounds once to the format; writing an integer keeps the low bits, as C does.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "arith/format.h"
#include "arith/rounding.h"
#include "arith/tensor.h"
#include "base/result.h"

namespace tessera::model::ops {

// How one element is fetched and stored; W is double, int64_t or uint64_t. Any format may be read
// as any working type, with C's conversion (and its limits: see double_to_integer).
template <typename W>
using ReadFunction = W (*)(const std::byte* base, std::int64_t index);
template <typename W>
using WriteFunction = void (*)(std::byte* base, std::int64_t index, W value);

template <typename W>
ReadFunction<W> read_function(Format format);
template <typename W>
WriteFunction<W> write_function(Format format);

// Whether a working value is NaN (integers never are).
template <typename W>
bool is_nan_value(W value) {
  if constexpr (std::is_floating_point_v<W>) {
    return std::isnan(value);
  } else {
    return false;
  }
}

// An order of all values: NaN is above all numbers, and equal to itself.
template <typename W>
bool is_below(W a, W b) {
  if (is_nan_value(a) || is_nan_value(b)) return !is_nan_value(a) && is_nan_value(b);
  return a < b;
}

// Truncates toward zero; NaN gives 0, and what does not fit gives the nearest end of int64.
std::int64_t double_to_integer(double value);

template <typename W>
class Reader {
 public:
  explicit Reader(const Tensor& tensor)
      : base_(tensor.bytes.data()), read_(read_function<W>(tensor.format)) {}
  W operator[](std::int64_t index) const { return read_(base_, index); }

 private:
  const std::byte* base_;
  ReadFunction<W> read_;
};

template <typename W>
class Writer {
 public:
  explicit Writer(Tensor& tensor)
      : base_(tensor.bytes.data()), write_(write_function<W>(tensor.format)) {}
  void set(std::int64_t index, W value) const { write_(base_, index, value); }

 private:
  std::byte* base_;
  WriteFunction<W> write_;
};

// Reader<double> and Writer<double> of f32 without a call for each element, for the loops that long constants go through.
class F32Reader {
 public:
  explicit F32Reader(const Tensor& tensor) : base_(tensor.bytes.data()) {}
  double operator[](std::int64_t index) const {
    float value;
    std::memcpy(&value, base_ + static_cast<std::size_t>(index) * sizeof(float), sizeof(float));
    return static_cast<double>(value);
  }

 private:
  const std::byte* base_;
};

class F32Writer {
 public:
  explicit F32Writer(Tensor& tensor) : base_(tensor.bytes.data()) {}
  void set(std::int64_t index, double value) const {
    const float rounded = arith::f32_from_f64(value);
    std::memcpy(base_ + static_cast<std::size_t>(index) * sizeof(float), &rounded, sizeof(float));
  }

 private:
  std::byte* base_;
};

// Calls f(reader, ..., writer) with F32 readers and writer where all tensors are f32 and W is double, else with those of any
// format. The same values either way.
template <typename W, typename F, typename... In>
void with_elements(F&& f, Tensor& out, const In&... in) {
  if constexpr (std::is_same_v<W, double>) {
    if (out.format == Format::kF32 && ((in.format == Format::kF32) && ...)) {
      f(F32Reader(in)..., F32Writer(out));
      return;
    }
  }
  f(Reader<W>(in)..., Writer<W>(out));
}

// All elements at once.
template <typename W>
std::vector<W> load(const Tensor& tensor) {
  const Reader<W> reader(tensor);
  std::vector<W> values(static_cast<std::size_t>(element_count(tensor.dims)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = reader[static_cast<std::int64_t>(i)];
  return values;
}

// Calls f.template operator()<W>() with the working type of `format`.
template <typename F>
auto with_working_type(Format format, F&& f) {
  if (format_is_float(format)) return f.template operator()<double>();
  switch (format) {
    case Format::kU8:
    case Format::kU16:
    case Format::kU32:
    case Format::kU64:
      return f.template operator()<std::uint64_t>();
    default:
      return f.template operator()<std::int64_t>();
  }
}

// A tensor of rank 0 or 1 from integers.
Tensor integer_vector(const std::vector<std::int64_t>& values);
Tensor integer_scalar(std::int64_t value);

// --- Positions -----------------------------------------------------------------------------------

// Row-major strides in elements.
std::vector<std::int64_t> strides_of(const Shape& dims);
// Strides of `from` when it is broadcast to `to` (0 along repeated axes). The shapes must agree.
std::vector<std::int64_t> broadcast_strides(const Shape& from, const Shape& to);
// The common shape, or an error that shows both.
Result<Shape> broadcast_shapes(const Shape& a, const Shape& b);

// Visits every index of `dims` in row-major order, with one offset for each set of strides:
// f(position, offsets). Strides may be 0 or negative.
template <std::size_t K, typename F>
void walk(const Shape& dims, const std::array<std::vector<std::int64_t>, K>& strides, F&& f) {
  const std::int64_t count = element_count(dims);
  const std::size_t outer = dims.empty() ? 0 : dims.size() - 1;
  const std::int64_t row = dims.empty() ? 1 : dims.back();
  std::vector<std::int64_t> index(outer, 0);
  std::array<std::int64_t, K> starts{};  // of the row
  std::array<std::int64_t, K> steps{};   // along it
  for (std::size_t k = 0; k < K && !dims.empty(); ++k) steps[k] = strides[k].back();
  for (std::int64_t position = 0; position < count;) {
    std::array<std::int64_t, K> offsets = starts;
    for (std::int64_t i = 0; i < row; ++i) {
      f(position++, offsets);
      for (std::size_t k = 0; k < K; ++k) offsets[k] += steps[k];
    }
    for (std::size_t axis = outer; axis-- > 0;) {
      ++index[axis];
      for (std::size_t k = 0; k < K; ++k) starts[k] += strides[k][axis];
      if (index[axis] < dims[axis]) break;
      for (std::size_t k = 0; k < K; ++k) starts[k] -= strides[k][axis] * dims[axis];
      index[axis] = 0;
    }
  }
}

// The same with the index itself: f(position, index).
template <typename F>
void walk_indices(const Shape& dims, F&& f) {
  const std::int64_t count = element_count(dims);
  std::vector<std::int64_t> index(dims.size(), 0);
  for (std::int64_t position = 0; position < count; ++position) {
    f(position, index);
    for (std::size_t axis = dims.size(); axis-- > 0;) {
      if (++index[axis] < dims[axis]) break;
      index[axis] = 0;
    }
  }
}

// Copies single elements between tensors of one format.
class Copier {
 public:
  Copier(const Tensor& from, Tensor& to)
      : from_(from.bytes.data()),
        to_(to.bytes.data()),
        width_(static_cast<std::size_t>(format_bytes(to.format))) {}
  void copy(std::int64_t from, std::int64_t to, std::int64_t count = 1) const {
    std::memcpy(to_ + static_cast<std::size_t>(to) * width_,
                from_ + static_cast<std::size_t>(from) * width_,
                static_cast<std::size_t>(count) * width_);
  }

 private:
  const std::byte* from_;
  std::byte* to_;
  std::size_t width_;
};

// out[i] = in[start + i * strides], for every index i of the output.
void copy_strided(const Tensor& in, std::int64_t start, const std::vector<std::int64_t>& strides,
                  Tensor& out);

// A shape seen as [outer, axis, inner].
struct AxisView {
  std::int64_t outer = 1;
  std::int64_t length = 1;
  std::int64_t inner = 1;
};
AxisView view_axis(const Shape& dims, std::int64_t axis);

}  // namespace tessera::model::ops
