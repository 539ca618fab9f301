// Tensors, then the operators on them, then the tables and the steps, layer after layer. Every
// operator works on whole tensors and its every rounding is meant: nothing may be contracted,
// reordered or flushed to zero.
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) || \
    defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) ||                     \
    defined(__NO_SIGNED_ZEROS__) || defined(_M_FP_FAST)
#error "compile without -ffast-math and all of its parts: every rounding in this file is meant"
#endif
#if defined(__clang__)
#pragma clang fp contract(off)
#elif defined(__GNUC__)
#pragma GCC optimize("-ffp-contract=off")
#elif defined(_MSC_VER)
#pragma fp_contract(off)
#endif

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#if FLT_EVAL_METHOD != 0
#error "float must be computed as float and double as double; on 32-bit x86: -msse2 -mfpmath=sse"
#endif

namespace derived {

enum class Format : std::uint8_t {
  kF16,
  kF32,
  kF64,
  kI8,
  kU8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kBool
};

// A tensor that run() takes or gives: little-endian elements, row-major, nothing between them.
struct Port {
  std::string name;
  Format format;
  std::vector<std::int64_t> dims;
  std::size_t bytes;
};
using Bytes = std::vector<unsigned char>;

std::vector<Port> inputs();
std::vector<Port> outputs();
// One block of bytes per port, each of the port's size. Throws std::runtime_error.
std::vector<Bytes> run(const std::vector<Bytes>& given);

namespace {

static_assert(std::numeric_limits<float>::is_iec559 && std::numeric_limits<double>::is_iec559,
              "float and double must be IEEE 754 numbers");

using Dims = std::vector<std::int64_t>;

struct ValueInfo {
  Format format;
  int rank, first;  // its extents in kExtents
};
struct StoredConstant {
  int value;
  Format stored;  // the smallest format that holds every element
  const char* base64;
};
struct StoredNumber {
  int value;
  double number;
};
struct PortInfo {
  int value;
  const char* name;
};

// A step is its operator, the value it makes, and what run_steps() reads behind them.
enum Op : int {
  kFree,  // no operator: gives values back
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMin,
  kMax,
  kAbs,
  kNeg,
  kReciprocal,
  kSqrt,
  kFloor,
  kCeil,
  kRound,
  kSign,
  kClip,
  kIsNaN,
  kEqual,
  kLess,
  kLessOrEqual,
  kAnd,
  kOr,
  kNot,
  kWhere,
  kCast,
  kReshape,
  kTranspose,
  kSlice,
  kConcat,
  kPad,
  kExpand,
  kGather,
  kMatMul,
  kReduceSum,
  kReduceMax,
  kReduceMin,
  kRunningSum,
  kRepeat  // how often, then as run_repeat() reads it
};

// Defined behind this part.
extern const ValueInfo kValues[];
extern const std::int64_t kExtents[];
extern const StoredConstant kConstants[];
extern const StoredNumber kNumbers[];
extern const PortInfo kInputs[], kOutputs[];
extern const std::int64_t kOnceSteps[], kSteps[];  // from constants alone; at every run
extern const int kValueCount, kConstantCount, kNumberCount, kInputCount, kOutputCount;
extern const std::int64_t kOnceLength, kLength;

std::size_t size_of(Format format) {
  switch (format) {
    case Format::kI8:
    case Format::kU8:
    case Format::kBool:
      return 1;
    case Format::kF16:
    case Format::kI16:
    case Format::kU16:
      return 2;
    case Format::kF32:
    case Format::kI32:
    case Format::kU32:
      return 4;
    default:
      return 8;
  }
}

std::int64_t count_of(const Dims& dims) {
  std::int64_t count = 1;
  for (const std::int64_t extent : dims) count *= extent;
  return count;
}

struct Tensor {
  Format format = Format::kF64;
  Dims dims;
  std::shared_ptr<unsigned char> bytes;

  std::int64_t count() const { return count_of(dims); }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(bytes.get());
  }
};

Tensor make_tensor(Format format, const Dims& dims) {
  const std::size_t size = static_cast<std::size_t>(count_of(dims)) * size_of(format);
  return {format, dims,
          std::shared_ptr<unsigned char>(new unsigned char[size + 1],
                                         std::default_delete<unsigned char[]>())};
}

Dims dims_of(int value) {
  const ValueInfo& info = kValues[value];
  return Dims(kExtents + info.first, kExtents + info.first + info.rank);
}

// --- Elements ------------------------------------------------------------------------------------

double double_of_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const double sign = bits >> 15 ? -1.0 : 1.0;
  const int fraction = bits & 1023;
  if (exponent < 31) {
    return sign *
           (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25));
  }
  const std::uint64_t wide = static_cast<std::uint64_t>(bits >> 15) << 63 | 0x7FFull << 52 |
                             static_cast<std::uint64_t>(fraction) << 42;
  double value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

// Of a number that is a half, an infinity or a NaN.
std::uint16_t half_of_double(double value) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const auto sign = static_cast<std::uint16_t>(bits >> 48 & 0x8000);
  const int exponent = static_cast<int>(bits >> 52 & 0x7FF) - 1023;
  const std::uint64_t fraction = bits & 0xFFFFFFFFFFFFFull;
  if (exponent == 1024) {
    return static_cast<std::uint16_t>(sign | 0x7C00 | fraction >> 42);
  }
  if (exponent >= -14) {
    return static_cast<std::uint16_t>(sign | (exponent + 15) << 10 | fraction >> 42);
  }
  return static_cast<std::uint16_t>(sign | static_cast<int>(std::fabs(value) * 0x1p24));
}

double read_double(Format format, const void* from, std::int64_t i) {
  switch (format) {
    case Format::kF16:
      return double_of_half(static_cast<const std::uint16_t*>(from)[i]);
    case Format::kF32:
      return static_cast<double>(static_cast<const float*>(from)[i]);
    case Format::kF64:
      return static_cast<const double*>(from)[i];
    case Format::kI8:
      return static_cast<const std::int8_t*>(from)[i];
    case Format::kU8:
      return static_cast<const std::uint8_t*>(from)[i];
    case Format::kBool:
      return static_cast<const std::uint8_t*>(from)[i] != 0;
    case Format::kI16:
      return static_cast<const std::int16_t*>(from)[i];
    case Format::kU16:
      return static_cast<const std::uint16_t*>(from)[i];
    case Format::kI32:
      return static_cast<const std::int32_t*>(from)[i];
    case Format::kU32:
      return static_cast<const std::uint32_t*>(from)[i];
    case Format::kI64:
      return static_cast<double>(static_cast<const std::int64_t*>(from)[i]);
    case Format::kU64:
      return static_cast<double>(static_cast<const std::uint64_t*>(from)[i]);
  }
  return 0;
}

template <typename Number>  // double or std::int64_t
void write_number(Format format, void* to, std::int64_t i, Number value) {
  switch (format) {
    case Format::kF16:
      static_cast<std::uint16_t*>(to)[i] = half_of_double(static_cast<double>(value));
      break;
    case Format::kF32:
      static_cast<float*>(to)[i] = static_cast<float>(value);
      break;
    case Format::kF64:
      static_cast<double*>(to)[i] = static_cast<double>(value);
      break;
    case Format::kBool:
      static_cast<std::uint8_t*>(to)[i] = value != 0;
      break;
    case Format::kI8:
    case Format::kU8:
      static_cast<std::uint8_t*>(to)[i] =
          static_cast<std::uint8_t>(static_cast<std::int32_t>(value));
      break;
    case Format::kI16:
    case Format::kU16:
      static_cast<std::uint16_t*>(to)[i] =
          static_cast<std::uint16_t>(static_cast<std::int32_t>(value));
      break;
    case Format::kI32:
    case Format::kU32:
      static_cast<std::uint32_t*>(to)[i] =
          static_cast<std::uint32_t>(static_cast<std::int64_t>(value));
      break;
    case Format::kI64:
      static_cast<std::int64_t*>(to)[i] = static_cast<std::int64_t>(value);
      break;
    case Format::kU64:
      static_cast<std::uint64_t*>(to)[i] = static_cast<std::uint64_t>(value);
      break;
  }
}

bool is_float(Format format) {
  return format == Format::kF16 || format == Format::kF32 || format == Format::kF64;
}

void convert(const Tensor& from, const Tensor& to) {
  const std::int64_t count = from.count();
  const void* source = from.bytes.get();
  void* target = to.bytes.get();
  if (from.format == Format::kF32 && to.format == Format::kF64) {
    for (std::int64_t i = 0; i < count; ++i) to.as<double>()[i] = from.as<float>()[i];
  } else if (from.format == Format::kF64 && to.format == Format::kF32) {
    for (std::int64_t i = 0; i < count; ++i) {
      to.as<float>()[i] = static_cast<float>(from.as<double>()[i]);
    }
  } else if (from.format == Format::kI64 || from.format == Format::kU64) {
    for (std::int64_t i = 0; i < count; ++i) {
      if (from.format == Format::kU64 && is_float(to.format)) {
        write_number(to.format, target, i, read_double(from.format, source, i));
      } else {
        write_number(to.format, target, i, from.as<std::int64_t>()[i]);
      }
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      write_number(to.format, target, i, read_double(from.format, source, i));
    }
  }
}

// --- Walks over tensors --------------------------------------------------------------------------

Dims dense_strides(const Dims& dims) {
  Dims strides(dims.size());
  std::int64_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

// How an operand of extents `dims` is read while a result of extents `to` is written.
Dims broadcast_strides(const Dims& dims, const Dims& to) {
  const Dims own = dense_strides(dims);
  Dims strides(to.size(), 0);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != 1) strides[to.size() - dims.size() + i] = own[i];
  }
  return strides;
}

// A box of places and where up to four tensors have them. Neighbouring axes that all tensors step
// over alike are one axis.
struct Walk {
  Dims extents;
  std::vector<Dims> strides;  // one per tensor

  Walk(const Dims& dims, const std::vector<Dims>& all) : strides(all.size()) {
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      if (dims[axis] == 1) continue;
      bool joined = !extents.empty();
      for (std::size_t t = 0; t < all.size() && joined; ++t) {
        joined = strides[t].back() == all[t][axis] * dims[axis];
      }
      if (joined) extents.back() *= dims[axis];
      if (!joined) extents.push_back(dims[axis]);
      for (std::size_t t = 0; t < all.size(); ++t) {
        if (joined) strides[t].back() = all[t][axis];
        if (!joined) strides[t].push_back(all[t][axis]);
      }
    }
    if (!extents.empty()) return;
    extents.push_back(1);
    for (Dims& own : strides) own.push_back(1);
  }

  std::int64_t inner() const { return extents.back(); }
  std::int64_t step(std::size_t tensor) const { return strides[tensor].back(); }

  // work(places): the first place of each tensor in every row of the last axis.
  template <typename Work>
  void rows(Work work) const {
    for (const std::int64_t extent : extents) {
      if (extent == 0) return;
    }
    const std::size_t outer = extents.size() - 1;
    Dims position(outer, 0), places(strides.size(), 0);
    while (true) {
      work(places);
      std::size_t axis = outer;
      while (axis-- > 0) {
        const bool more = ++position[axis] < extents[axis];
        const std::int64_t steps = more ? 1 : 1 - extents[axis];
        for (std::size_t t = 0; t < strides.size(); ++t) places[t] += steps * strides[t][axis];
        if (more) break;
        position[axis] = 0;
      }
      if (axis == static_cast<std::size_t>(-1)) return;
    }
  }
};

template <typename T>
void copy_elements(const Walk& walk, T* to, const T* from) {
  const std::int64_t count = walk.inner(), step_to = walk.step(0), step_from = walk.step(1);
  walk.rows([&](const Dims& places) {
    T* target = to + places[0];
    const T* source = from + places[1];
    if (step_to == 1 && step_from == 1) {
      std::copy_n(source, count, target);
    } else {
      for (std::int64_t i = 0; i < count; ++i) target[i * step_to] = source[i * step_from];
    }
  });
}

// Elements of any format, by the places of `to` and `from` (in elements).
void copy_box(const Dims& dims, const Tensor& to, std::int64_t to_first, const Dims& to_strides,
              const Tensor& from, std::int64_t from_first, const Dims& from_strides) {
  const Walk walk(dims, {to_strides, from_strides});
  switch (size_of(to.format)) {
    case 1:
      return copy_elements(walk, to.as<std::uint8_t>() + to_first,
                           from.as<std::uint8_t>() + from_first);
    case 2:
      return copy_elements(walk, to.as<std::uint16_t>() + to_first,
                           from.as<std::uint16_t>() + from_first);
    case 4:
      return copy_elements(walk, to.as<std::uint32_t>() + to_first,
                           from.as<std::uint32_t>() + from_first);
    default:
      return copy_elements(walk, to.as<std::uint64_t>() + to_first,
                           from.as<std::uint64_t>() + from_first);
  }
}

template <typename R, typename T, typename Function>
void apply_two(const Tensor& result, const Tensor& a, const Tensor& b, Function function) {
  const Walk walk(result.dims, {dense_strides(result.dims), broadcast_strides(a.dims, result.dims),
                                broadcast_strides(b.dims, result.dims)});
  const std::int64_t count = walk.inner(), step_a = walk.step(1), step_b = walk.step(2);
  walk.rows([&](const Dims& places) {
    R* r = result.as<R>() + places[0];
    const T* x = a.as<T>() + places[1];
    const T* y = b.as<T>() + places[2];
    if (step_a == 1 && step_b == 1) {
      for (std::int64_t i = 0; i < count; ++i) r[i] = function(x[i], y[i]);
    } else if (step_a == 1 && step_b == 0) {
      const T number = *y;
      for (std::int64_t i = 0; i < count; ++i) r[i] = function(x[i], number);
    } else {
      for (std::int64_t i = 0; i < count; ++i) r[i] = function(x[i * step_a], y[i * step_b]);
    }
  });
}

// c[rows x columns] = a[rows x terms] b[terms x columns]; the order of the sums does not matter.
template <typename T>
void multiply_matrices(T* c, const T* a, const T* b, std::int64_t rows, std::int64_t terms,
                       std::int64_t columns) {
  constexpr std::int64_t kRows = 4, kColumns = 32;
  for (std::int64_t i = 0; i < rows; i += kRows) {
    const std::int64_t height = std::min(kRows, rows - i);
    for (std::int64_t j = 0; j < columns; j += kColumns) {
      const std::int64_t width = std::min(kColumns, columns - j);
      T sums[kRows][kColumns] = {};
      for (std::int64_t k = 0; k < terms; ++k) {
        const T* line = b + k * columns + j;
        for (std::int64_t y = 0; y < height; ++y) {
          const T factor = a[(i + y) * terms + k];
          for (std::int64_t x = 0; x < width; ++x) sums[y][x] += factor * line[x];
        }
      }
      for (std::int64_t y = 0; y < height; ++y) {
        std::copy_n(sums[y], width, c + (i + y) * columns + j);
      }
    }
  }
}

}  // namespace
}  // namespace derived
