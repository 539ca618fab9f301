// The file around a payload: what is checked before a byte of the payload is used.
//
//   0   magic "TESSPKG\n" or "TESSPRG\n"     8   version (u32)      12  reserved, zero
//   16  architecture fingerprint (u64)       24  payload bytes      32  section bytes
//   40  SHA-256 over everything else: bytes 0 to 39 and all from 72 on
//   72  SHA-256 of the front: bytes 0 to 39, and 104 to where the section begins; or zero (older files)
//   128 payload (FlatBuffers), then the section (weights, then constants of graphs)
//
// Who needs no section reads the front alone (package/section_file.h).
//
// All numbers little endian; payload and section begin at multiples of 64. The first 72 bytes and
// the digest's rule stay as they are in later versions, so that a damaged file is never taken for a
// newer one. In version 2, which is still read, the digest leaves out the first 72 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "isa/weights.h"

namespace tessera::package {

struct ContainerFile {
  std::uint64_t chip_fingerprint = 0;
  std::span<const std::byte> payload;
  std::span<const std::byte> section;
};

inline constexpr std::uint32_t kContainerVersion = 3;
// Of files with a task of an extended header (isa/task_header.h), which older readers do not know.
inline constexpr std::uint32_t kContainerVersionExtended = 4;
// Of programs that refer to the section of another file, with extended headers or without.
inline constexpr std::uint32_t kContainerVersionReferring = 5;
// Of programs for several cores, and of those that refer to parts of their weights.
inline constexpr std::uint32_t kContainerVersionCores = 6;
inline constexpr std::uint32_t kContainerVersionNewest = kContainerVersionCores;
inline constexpr std::uint32_t kContainerVersionOldest = 2;
inline constexpr char kPackageMagic[] = "TESSPKG\n";
inline constexpr char kProgramMagic[] = "TESSPRG\n";

// What a section is written of: pieces, each at a multiple of 64, zeros between them. Nothing is copied.
class SectionPieces {
 public:
  // Where it begins.
  std::uint64_t add(std::span<const std::byte> piece);
  std::uint64_t size() const { return size_; }
  std::span<const std::span<const std::byte>> pieces() const { return pieces_; }

 private:
  std::vector<std::span<const std::byte>> pieces_;
  std::uint64_t size_ = 0;
};

struct ContainerContents {
  std::uint64_t chip_fingerprint = 0;
  std::span<const std::byte> payload;
  std::span<const std::span<const std::byte>> section;  // one behind the other
};
// What comes before the payload. Behind that comes its padding, then the section.
std::vector<std::byte> container_head(const char* magic, const ContainerContents& contents,
                                      std::uint32_t version);
std::span<const std::byte> payload_padding(std::size_t payload_bytes);
std::vector<std::byte> write_container(const char* magic, const ContainerFile& file,
                                       std::uint32_t version = kContainerVersion);
// Checks magic, digest, version and sizes; the spans point into `bytes`. "Damaged" is said of a
// file that is not as it was written, and of no other.
Result<ContainerFile> open_container(const char* magic, std::span<const std::byte> bytes,
                                     const std::string& name);

// Sizes that a head gives.
struct ContainerPlaces {
  std::uint64_t payload_bytes = 0, section_offset = 0, section_bytes = 0;
};
inline constexpr std::size_t kContainerHeadBytes = 128;
// Of the first bytes of a file of `size` bytes, with open_container()'s words.
Result<ContainerPlaces> check_container_head(const char* magic, std::span<const std::byte> head,
                                             std::uint64_t size, const std::string& name);
// The payload of a front, which `bytes` is up to the section; checks digest and version. Nothing: it has no
// digest of its own.
Result<std::optional<std::span<const std::byte>>> open_container_front(
    std::span<const std::byte> bytes, const ContainerPlaces& places, const std::string& name);
std::uint64_t container_fingerprint(std::span<const std::byte> head);

// The bytes of a container, for open_container(). What does not begin as one, or is of another size
// than its head says, is refused with open_container()'s words before it takes memory.
Result<std::vector<std::byte>> read_container(const char* magic, const std::string& path);

}  // namespace tessera::package
