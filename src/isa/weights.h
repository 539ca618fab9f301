// The weight region of a program: bytes that it holds together with others, or that lie in a file and
// are not read yet.
//
//   held        the bytes, never changed, freed with the last who holds them
//   elsewhere   place, size and digest of bytes of another file's section (package/section_file.h)
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

  // Of the region, in bytes, also where it is elsewhere.
  std::size_t size() const {
    return held_ ? bytes_.size() : static_cast<std::size_t>(part_->bytes);
  }
  bool empty() const { return size() == 0; }
  // Whether the bytes are there; without them there is only size().
  bool held() const { return held_; }
  // Where they lie in the file that the program refers to, if it refers to one; also of those that were
  // read from it.
  const std::optional<SectionPart>& part() const { return part_; }
  // The bytes of part() have come.
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
  // They are the program's own now.
  void forget_part() {
    TESSERA_CHECK(held_, "{} bytes are elsewhere", size());
    part_.reset();
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
  bool held_ = true;
};

}  // namespace tessera::isa
