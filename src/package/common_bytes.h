// Ranges that two weight regions have in common, found by their bytes.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace tessera::package {

// Begins at a multiple of isa::kRegionPartAlignment in both; ends at one, or at the region's end.
struct CommonBytes {
  std::size_t at = 0, from = 0, bytes = 0;  // in the region, in the other one
};

class CommonBytesFinder {
 public:
  // `there` stays.
  explicit CommonBytesFinder(std::span<const std::byte> there);

  // In the region's order and apart; the longest ones where there are more than `most`. Ranges below 1 KiB
  // are left out.
  std::vector<CommonBytes> find(std::span<const std::byte> region, std::size_t most) const;

 private:
  // With the region's block at `at`, from `begin` on.
  CommonBytes around(std::span<const std::byte> region, std::size_t at, std::size_t begin) const;

  std::span<const std::byte> there_;
  std::vector<std::pair<std::size_t, std::size_t>> blocks_;  // hash and place
};

}  // namespace tessera::package
