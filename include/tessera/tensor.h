// A dense tensor in host memory: row-major elements of one format. The currency between files,
// the importer, host steps and the devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tessera/format.h"

namespace tessera {

using Shape = std::vector<std::int64_t>;  // rank 0 is a scalar

std::int64_t element_count(const Shape& shape);  // product; 1 for a scalar

// A value: copies have bytes of their own.
struct Tensor {
  Format format = Format::kF32;
  Shape dims;
  std::vector<std::byte> bytes;  // element_count(dims) * format_bytes(format), little endian

  // A tensor of zeros.
  static Tensor zeros(Format format, Shape dims);

  // The elements as values of type T, which has the size of the format.
  template <typename T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  // The same, not to be changed.
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  friend bool operator==(const Tensor&, const Tensor&) = default;  // bits
};

}  // namespace tessera
