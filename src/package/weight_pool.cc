#include "package/weight_pool.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/quantity.h"
#include "package/package_check.h"
#include "package/sha256.h"

namespace tessera::package {
namespace {

using Bytes = std::span<const std::byte>;
using isa::RegionPart;

// Between n ranges that are found there are n + 1 others.
constexpr std::size_t kFoundMax = kWeightPartsMax / 4 - 1;

RegionPart part(std::size_t at, std::uint64_t offset, Bytes bytes) {
  return {at, {offset, bytes.size(), sha256(bytes)}};
}

}  // namespace

std::uint64_t pool_begin(std::uint64_t weight_bytes) {
  return static_cast<std::uint64_t>(round_up(static_cast<std::int64_t>(weight_bytes),
                                             static_cast<std::int64_t>(isa::kRegionPartAlignment)));
}

std::vector<RegionPart> WeightPool::add(Bytes region) {
  std::vector<RegionPart> parts;
  const auto found = in_weights_.find(region, kFoundMax);
  std::vector<std::pair<std::size_t, std::size_t>> others;  // begin, end
  std::size_t end = 0;
  for (const CommonBytes& common : found) {
    parts.push_back(part(common.at, common.from, region.subspan(common.at, common.bytes)));
    if (common.at > end) others.emplace_back(end, common.at);
    end = common.at + common.bytes;
  }
  if (end < region.size()) others.emplace_back(end, region.size());
  const std::uint64_t begin = pool_begin(weights_.size());
  std::vector<std::pair<std::size_t, std::size_t>> added;
  {
    const CommonBytesFinder in_pool{Bytes(pool_)};
    std::size_t left = kFoundMax;
    for (const auto& [first, last] : others) {
      end = first;
      for (const CommonBytes& common : in_pool.find(region.subspan(first, last - first), left)) {
        const std::size_t at = first + common.at;
        parts.push_back(part(at, begin + common.from, region.subspan(at, common.bytes)));
        if (at > end) added.emplace_back(end, at);
        end = at + common.bytes;
        --left;
      }
      if (end < last) added.emplace_back(end, last);
    }
  }
  for (const auto& [first, last] : added) {
    const Bytes bytes = region.subspan(first, last - first);
    pool_.resize(static_cast<std::size_t>(pool_begin(pool_.size())));
    parts.push_back(part(first, begin + pool_.size(), bytes));
    pool_.insert(pool_.end(), bytes.begin(), bytes.end());
  }
  std::ranges::sort(parts, std::less(), &RegionPart::at);
  return parts;
}

isa::Weights region_of_parts(Bytes weights, Bytes pool, const std::vector<RegionPart>& parts) {
  std::vector<std::byte> region;
  if (!parts.empty()) region.reserve(parts.back().at + parts.back().place.bytes);
  const std::uint64_t begin = pool_begin(weights.size());
  for (const RegionPart& one : parts) {
    TESSERA_CHECK(one.at == region.size(), "a part at {}, the last one ends at {}", one.at,
                  region.size());
    const bool pooled = one.place.offset >= begin;
    const Bytes from = pooled ? pool : weights;
    const std::uint64_t at = pooled ? one.place.offset - begin : one.place.offset;
    TESSERA_CHECK(at <= from.size() && one.place.bytes <= from.size() - at, "{} bytes at {} of {}",
                  one.place.bytes, at, from.size());
    const Bytes bytes = from.subspan(at, one.place.bytes);
    region.insert(region.end(), bytes.begin(), bytes.end());
  }
  return isa::Weights(std::move(region));
}

}  // namespace tessera::package
