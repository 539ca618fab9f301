// The weight region of a program: bytes that it holds together with others, or that lie in a file and
// are not read yet.
//
//   held        the bytes, never changed, freed with the last who holds them
//   elsewhere   place, size and digest of bytes of another file's section (package/section_file.h)
//   in parts    ranges are elsewhere; the bytes between them are held
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"

namespace tessera::isa {

using Sha256 = std::array<std::byte, 32>;

// Bytes of the section of a file (docs/formats/container.md).
struct SectionPart {
  std::uint64_t offset = 0, bytes = 0;
  Sha256 digest{};
  friend bool operator==(const SectionPart&, const SectionPart&) = default;
};

// A range of a weight region that is elsewhere.
struct RegionPart {
  std::uint64_t at = 0;  // where it begins in the region: a multiple of kRegionPartAlignment
  SectionPart place;
  friend bool operator==(const RegionPart&, const RegionPart&) = default;
};
// Parts begin and end at multiples of it, but for one at the end of the region.
inline constexpr std::uint64_t kRegionPartAlignment = 64;

// A copy holds the same bytes, not bytes of its own. Copies may be used by several threads.
class Weights {
 public:
  Weights() = default;
  // Holds these.
  Weights(std::vector<std::byte> bytes) {  // NOLINT(google-explicit-constructor)
    auto held = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
    bytes_ = *held;
    owner_ = std::move(held);
  }
  Weights(std::initializer_list<std::byte> bytes) : Weights(std::vector<std::byte>(bytes)) {}
  // Bytes that `owner` keeps.
  Weights(std::shared_ptr<const void> owner, std::span<const std::byte> bytes)
      : owner_(std::move(owner)), bytes_(bytes) {}
  // Elsewhere.
  explicit Weights(const SectionPart& part) : part_(part), held_(false) {}
  // `between` has the bytes between the parts, one behind the other; the parts are in the region's order
  // and apart.
  Weights(Weights between, std::vector<RegionPart> parts)
      : owner_(std::move(between.owner_)),
        bytes_(between.bytes_),
        parts_(std::move(parts)),
        held_(parts_.empty()) {}

  // Of the region, in bytes, also where it is elsewhere.
  std::size_t size() const {
    if (held_) return bytes_.size();
    return part_ ? static_cast<std::size_t>(part_->bytes)
                 : bytes_.size() + static_cast<std::size_t>(bytes_of_parts());
  }
  bool empty() const { return size() == 0; }
  // Whether the bytes are there; without them there is only size().
  bool held() const { return held_; }
  // Where they lie in the file that the program refers to, if it refers to one; also of those that were
  // read from it.
  const std::optional<SectionPart>& part() const { return part_; }
  // The same of ranges, where not all of it lies there.
  const std::vector<RegionPart>& parts() const { return parts_; }
  std::uint64_t bytes_of_parts() const {
    std::uint64_t bytes = 0;
    for (const RegionPart& part : parts_) bytes += part.place.bytes;
    return bytes;
  }
  // What lies between the parts, in the region's order; all of it where there are none.
  std::vector<std::span<const std::byte>> between_parts() const {
    if (!held_) return {bytes_};
    std::vector<std::span<const std::byte>> pieces;
    std::size_t at = 0;
    for (const RegionPart& part : parts_) {
      if (part.at > at) pieces.push_back(bytes_.subspan(at, part.at - at));
      at = part.at + part.place.bytes;
    }
    if (at < bytes_.size() || parts_.empty()) pieces.push_back(bytes_.subspan(at));
    return pieces;
  }
  // The bytes of the whole region have come.
  void hold(Weights bytes) {
    TESSERA_CHECK(bytes.held() && bytes.size() == size(), "{} bytes for {}", bytes.size(), size());
    owner_ = std::move(bytes.owner_);
    bytes_ = bytes.bytes_;
    held_ = true;
  }
  // Held bytes that lie there too.
  void also_at(const SectionPart& part) {
    TESSERA_CHECK(part.bytes == size(), "{} bytes for {}", part.bytes, size());
    part_ = part;
  }
  void also_in(std::vector<RegionPart> parts) {
    TESSERA_CHECK(held_, "{} bytes are elsewhere", size());
    parts_ = std::move(parts);
  }
  // They are the program's own now.
  void forget_part() {
    TESSERA_CHECK(held_, "{} bytes are elsewhere", size());
    part_.reset();
    parts_.clear();
  }

  const std::byte* data() const { return bytes().data(); }
  auto begin() const { return bytes().begin(); }
  auto end() const { return bytes().end(); }
  std::span<const std::byte> bytes() const {
    TESSERA_CHECK(held_, "{} bytes of weights are elsewhere", size());
    return bytes_;
  }
  std::vector<std::byte> copy() const { return {begin(), end()}; }
  friend bool operator==(const Weights& a, const Weights& b) {
    return std::ranges::equal(a.bytes(), b.bytes());
  }

 private:
  std::shared_ptr<const void> owner_;  // of bytes_: shared by all who hold them
  std::span<const std::byte> bytes_;
  std::optional<SectionPart> part_;
  std::vector<RegionPart> parts_;
  bool held_ = true;
};

}  // namespace tessera::isa
