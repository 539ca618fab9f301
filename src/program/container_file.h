// The file around a payload: what is checked before a byte of the payload is believed.
//
//   0   magic "TESSPKG\n" or "TESSPRG\n"     8   version (u32)      12  reserved, zero
//   16  architecture fingerprint (u64)       24  payload bytes      32  section bytes
//   40  SHA-256 over everything from 72 on   72  payload (FlatBuffers), then the section
//                                                (weights, then constants of graphs)
// All numbers little endian; payload and section begin at multiples of 64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace tessera::program {

struct ContainerFile {
  std::uint64_t chip_fingerprint = 0;
  std::span<const std::byte> payload;
  std::span<const std::byte> section;
};

inline constexpr std::uint32_t kContainerVersion = 2;
inline constexpr char kPackageMagic[] = "TESSPKG\n";
inline constexpr char kProgramMagic[] = "TESSPRG\n";

std::vector<std::byte> write_container(const char* magic, const ContainerFile& file);
// Checks magic, version, sizes and digest; the spans point into `bytes`.
Result<ContainerFile> open_container(const char* magic, std::span<const std::byte> bytes,
                                     const std::string& name);

}  // namespace tessera::program
