#include "compile/weight_region.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/quantity.h"
#include "compile/surface_conventions.h"

namespace tessera::compile {

std::int64_t WeightRegion::add(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::size_t hash = std::hash<std::string_view>{}(text);
  const auto [first, last] = known_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const auto [offset, size] = it->second;
    const auto there = std::span(bytes_).subspan(static_cast<std::size_t>(offset), size);
    if (std::ranges::equal(there, bytes)) return offset;
  }
  const std::int64_t offset = round_up(static_cast<std::int64_t>(bytes_.size()), kAlignmentBytes);
  bytes_.resize(static_cast<std::size_t>(offset) + bytes.size());
  if (!bytes.empty()) std::memcpy(bytes_.data() + offset, bytes.data(), bytes.size());
  known_.emplace(hash, std::make_pair(offset, bytes.size()));
  return offset;
}

}  // namespace tessera::compile
