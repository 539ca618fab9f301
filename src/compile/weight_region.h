// The weight region of a package: kernel images and constant tensors, each once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace tessera::compile {

// Bytes that never change, with a hash that is taken once. Copies are cheap and hold the same bytes.
class WeightBytes {
 public:
  WeightBytes() = default;
  explicit WeightBytes(std::vector<std::byte> bytes);
  // Of somebody whom `owner` keeps.
  WeightBytes(std::shared_ptr<const void> owner, std::span<const std::byte> bytes);

  std::span<const std::byte> bytes() const { return bytes_; }
  std::size_t hash() const { return hash_; }

 private:
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
  std::size_t hash_ = 0;
};

class WeightRegion {
 public:
  // Where these bytes lie; equal bytes are kept once.
  std::int64_t add(WeightBytes bytes);
  // All of it, with zeros between what is aligned.
  std::vector<std::byte> take() const;
  std::int64_t size() const { return size_; }

 private:
  struct Part {
    std::int64_t offset = 0;
    WeightBytes bytes;
  };
  std::int64_t size_ = 0;
  std::vector<Part> parts_;                        // by offset
  std::multimap<std::size_t, std::size_t> known_;  // hash to part
};

}  // namespace tessera::compile
