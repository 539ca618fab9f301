// The weight region of a package: kernel images and constant tensors, each once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace tessera::compile {

class WeightRegion {
 public:
  explicit WeightRegion(bool compress_kernels = true) : compress_kernels_(compress_kernels) {}
  // Whether kernels may be stored compressed.
  bool compress_kernels() const { return compress_kernels_; }
  // Where these bytes lie; equal bytes are kept once.
  std::int64_t add(std::span<const std::byte> bytes);
  std::vector<std::byte> take() { return std::move(bytes_); }
  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }

 private:
  bool compress_kernels_;
  std::vector<std::byte> bytes_;
  std::multimap<std::size_t, std::pair<std::int64_t, std::size_t>> known_;  // hash to offset, size
};

}  // namespace tessera::compile
