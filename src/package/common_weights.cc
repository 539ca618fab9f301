#include "package/common_weights.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "package/package_check.h"
#include "package/sha256.h"

namespace tessera::package {
namespace {

using isa::RegionPart;

constexpr std::size_t kBlock = isa::kRegionPartAlignment;
// A shorter range is not worth its digest and its reading.
constexpr std::size_t kPartBytesMin = 1024;

struct Common {
  std::size_t at = 0, from = 0, bytes = 0;  // in the region, in the package
};

class Finder {
 public:
  Finder(std::span<const std::byte> package, std::span<const std::byte> region)
      : package_(package), region_(region) {
    for (std::size_t at = 0; at + kBlock <= package.size(); at += kBlock) {
      blocks_.emplace_back(hash(package.subspan(at, kBlock)), at);
    }
    std::ranges::sort(blocks_);
  }

  std::vector<Common> run() const {
    std::vector<Common> found;
    std::size_t end = 0;  // of what is found
    for (std::size_t at = 0; at + kBlock <= region_.size();) {
      const Common common = around(at, end);
      if (common.bytes < kPartBytesMin) {
        at += kBlock;
        continue;
      }
      found.push_back(common);
      end = common.at + common.bytes;
      at = (end + kBlock - 1) / kBlock * kBlock;
    }
    if (found.size() > kWeightPartsMax) {  // the longest ones
      std::ranges::sort(found, std::greater(), &Common::bytes);
      found.resize(kWeightPartsMax);
      std::ranges::sort(found, std::less(), &Common::at);
    }
    return found;
  }

 private:
  static std::size_t hash(std::span<const std::byte> block) {
    return std::hash<std::string_view>()(
        {reinterpret_cast<const char*>(block.data()), block.size()});
  }

  bool same_block(std::size_t at, std::size_t from) const {
    return std::memcmp(region_.data() + at, package_.data() + from, kBlock) == 0;
  }

  // The range from `begin` on with the region's block at `at`, which the package has too.
  Common around(std::size_t at, std::size_t begin) const {
    const std::size_t wanted = hash(region_.subspan(at, kBlock));
    const auto place = std::ranges::lower_bound(blocks_, std::pair(wanted, std::size_t{0}));
    if (place == blocks_.end() || place->first != wanted) return {};
    std::size_t first = at, from = place->second, bytes = 0;
    if (!same_block(first, from)) return {};
    while (first >= begin + kBlock && from >= kBlock && same_block(first - kBlock, from - kBlock)) {
      first -= kBlock;
      from -= kBlock;
      bytes += kBlock;
    }
    while (first + bytes + kBlock <= region_.size() && from + bytes + kBlock <= package_.size() &&
           same_block(first + bytes, from + bytes)) {
      bytes += kBlock;
    }
    // The region's end.
    const std::size_t rest = region_.size() - first - bytes;
    if (rest < kBlock && from + bytes + rest <= package_.size() &&
        std::memcmp(region_.data() + first + bytes, package_.data() + from + bytes, rest) == 0) {
      bytes += rest;
    }
    return {first, from, bytes};
  }

  const std::span<const std::byte> package_, region_;
  std::vector<std::pair<std::size_t, std::size_t>> blocks_;  // hash and place, in the package
};

void find_weights(const isa::Unlinked& unlinked, std::span<const std::byte> weights,
                  isa::Program& program) {
  if (!unlinked.weights.part()) return;  // none
  const std::uint64_t begin = unlinked.weights.part()->offset;
  std::vector<RegionPart> parts;
  for (const Common& common : Finder(weights, program.weights.bytes()).run()) {
    const auto bytes = weights.subspan(common.from, common.bytes);
    parts.push_back({common.at, {begin + common.from, common.bytes, sha256(bytes)}});
  }
  program.weights.also_in(std::move(parts));
}

void find_constant(const isa::HostStep& step, isa::StepConstant& constant) {
  const auto there = std::ranges::find(step.constants, constant.name, &isa::StepConstant::name);
  if (there == step.constants.end() || !there->part) return;
  const isa::TensorPart& part = *there->part;
  if (part.format == constant.value->format && part.dims == constant.value->dims &&
      part.place.digest == sha256(constant.value->bytes)) {
    constant.part = part;
  }
}

}  // namespace

void find_in_package(const isa::Unlinked& unlinked, std::span<const std::byte> weights,
                     isa::Program& program) {
  find_weights(unlinked, weights, program);
  std::map<std::int32_t, const isa::HostStep*> steps;  // by node
  for (const isa::HostStep& step : unlinked.host_steps) steps.emplace(step.node, &step);
  for (isa::Segment& segment : program.segments) {
    for (isa::HostStep& step : segment.host_steps) {
      const auto there = steps.find(step.node);
      if (there == steps.end()) continue;
      for (isa::StepConstant& constant : step.constants) find_constant(*there->second, constant);
    }
  }
}

}  // namespace tessera::package
