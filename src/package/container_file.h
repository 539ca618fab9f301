// The file around a payload: what is checked before a byte of the payload is used.
//
//   0   magic "TESSPKG\n" or "TESSPRG\n"     8   version (u32)      12  reserved, zero
//   16  architecture fingerprint (u64)       24  payload bytes      32  section bytes
//   40  SHA-256 over everything else: bytes 0 to 39 and all from 72 on
//   128 payload (FlatBuffers), then the section (weights, then constants of graphs)
//
// All numbers little endian; payload and section begin at multiples of 64. The first 72 bytes and
// the digest's rule stay as they are in later versions, so that a damaged file is never taken for a
// newer one. In version 2, which is still read, the digest leaves out the first 72 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace tessera::package {

struct ContainerFile {
  std::uint64_t chip_fingerprint = 0;
  std::span<const std::byte> payload;
  std::span<const std::byte> section;
};

inline constexpr std::uint32_t kContainerVersion = 3;
// Of files with a task of an extended header (isa/task_header.h), which older readers do not know.
inline constexpr std::uint32_t kContainerVersionExtended = 4;
inline constexpr std::uint32_t kContainerVersionNewest = kContainerVersionExtended;
inline constexpr std::uint32_t kContainerVersionOldest = 2;
inline constexpr char kPackageMagic[] = "TESSPKG\n";
inline constexpr char kProgramMagic[] = "TESSPRG\n";

std::vector<std::byte> write_container(const char* magic, const ContainerFile& file,
                                       std::uint32_t version = kContainerVersion);
// Checks magic, digest, version and sizes; the spans point into `bytes`. "Damaged" is said of a
// file that is not as it was written, and of no other.
Result<ContainerFile> open_container(const char* magic, std::span<const std::byte> bytes,
                                     const std::string& name);
// The bytes of a container, for open_container(). What does not begin as one, or is of another size
// than its head says, is refused with open_container()'s words before it takes memory.
Result<std::vector<std::byte>> read_container(const char* magic, const std::string& path);

}  // namespace tessera::package
