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
  // Where these bytes lie; equal bytes are kept once.
  std::int64_t add(std::span<const std::byte> bytes);
  std::vector<std::byte> take() { return std::move(bytes_); }
  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }

 private:
  std::vector<std::byte> bytes_;
  std::multimap<std::size_t, std::pair<std::int64_t, std::size_t>> known_;  // hash to offset, size
};

}  // namespace tessera::compile
