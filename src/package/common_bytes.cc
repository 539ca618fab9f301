#include "package/common_bytes.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>

#include "isa/weights.h"

namespace tessera::package {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t kBlock = isa::kRegionPartAlignment;
// A shorter range is not worth its digest and its reading.
constexpr std::size_t kPartBytesMin = 1024;

std::size_t hash(Bytes block) {
  return std::hash<std::string_view>()({reinterpret_cast<const char*>(block.data()), block.size()});
}

bool same_block(Bytes a, std::size_t at, Bytes b, std::size_t from) {
  return std::memcmp(a.data() + at, b.data() + from, kBlock) == 0;
}

}  // namespace

CommonBytesFinder::CommonBytesFinder(Bytes there) : there_(there) {
  blocks_.reserve(there.size() / kBlock);
  for (std::size_t at = 0; at + kBlock <= there.size(); at += kBlock) {
    blocks_.emplace_back(hash(there.subspan(at, kBlock)), at);
  }
  std::ranges::sort(blocks_);
}

std::vector<CommonBytes> CommonBytesFinder::find(Bytes region, std::size_t most) const {
  std::vector<CommonBytes> found;
  std::size_t end = 0;  // of what is found
  for (std::size_t at = 0; at + kBlock <= region.size();) {
    const CommonBytes common = around(region, at, end);
    if (common.bytes < kPartBytesMin) {
      at += kBlock;
      continue;
    }
    found.push_back(common);
    end = common.at + common.bytes;
    at = (end + kBlock - 1) / kBlock * kBlock;
  }
  if (found.size() > most) {
    std::ranges::sort(found, std::greater(), &CommonBytes::bytes);
    found.resize(most);
    std::ranges::sort(found, std::less(), &CommonBytes::at);
  }
  return found;
}

CommonBytes CommonBytesFinder::around(Bytes region, std::size_t at, std::size_t begin) const {
  const std::size_t wanted = hash(region.subspan(at, kBlock));
  const auto place = std::ranges::lower_bound(blocks_, std::pair(wanted, std::size_t{0}));
  if (place == blocks_.end() || place->first != wanted) return {};
  std::size_t first = at, from = place->second, bytes = 0;
  if (!same_block(region, first, there_, from)) return {};
  while (first >= begin + kBlock && from >= kBlock &&
         same_block(region, first - kBlock, there_, from - kBlock)) {
    first -= kBlock;
    from -= kBlock;
    bytes += kBlock;
  }
  while (first + bytes + kBlock <= region.size() && from + bytes + kBlock <= there_.size() &&
         same_block(region, first + bytes, there_, from + bytes)) {
    bytes += kBlock;
  }
  // The region's end.
  const std::size_t rest = region.size() - first - bytes;
  if (rest < kBlock && from + bytes + rest <= there_.size() &&
      std::memcmp(region.data() + first + bytes, there_.data() + from + bytes, rest) == 0) {
    bytes += rest;
  }
  return {first, from, bytes};
}

}  // namespace tessera::package
