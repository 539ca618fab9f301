#include "compile/weight_region.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/quantity.h"
#include "compile/surface_conventions.h"

namespace tessera::compile {

namespace {

std::size_t hash_of(std::span<const std::byte> bytes) {
  return std::hash<std::string_view>{}({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

bool equal(const WeightBytes& a, const WeightBytes& b) {
  if (a.bytes().data() == b.bytes().data() && a.bytes().size() == b.bytes().size()) return true;
  return std::ranges::equal(a.bytes(), b.bytes());
}

}  // namespace

WeightBytes::WeightBytes(std::vector<std::byte> bytes) {
  auto held = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  bytes_ = *held;
  owner_ = std::move(held);
  hash_ = hash_of(bytes_);
}

WeightBytes::WeightBytes(std::shared_ptr<const void> owner, std::span<const std::byte> bytes)
    : owner_(std::move(owner)), bytes_(bytes), hash_(hash_of(bytes)) {}

std::int64_t WeightRegion::add(WeightBytes bytes) {
  const auto [first, last] = known_.equal_range(bytes.hash());
  for (auto it = first; it != last; ++it) {
    const Part& part = parts_[it->second];
    if (equal(part.bytes, bytes)) return part.offset;
  }
  const std::int64_t offset = round_up(size_, kAlignmentBytes);
  size_ = offset + std::ssize(bytes.bytes());
  known_.emplace(bytes.hash(), parts_.size());
  parts_.push_back({offset, std::move(bytes)});
  return offset;
}

std::vector<std::byte> WeightRegion::take() const {
  std::vector<std::byte> result(static_cast<std::size_t>(size_));
  for (const Part& part : parts_) {
    const std::span<const std::byte> bytes = part.bytes.bytes();
    if (bytes.empty()) continue;
    std::memcpy(result.data() + part.offset, bytes.data(), bytes.size());
  }
  return result;
}

}  // namespace tessera::compile
