#include "program/container_file.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <cstring>

#include "base/check.h"
#include "base/quantity.h"

namespace tessera::program {
namespace {

constexpr std::size_t kDigestOffset = 40;
constexpr std::size_t kDigestBytes = 32;
constexpr std::size_t kHeaderBytes = kDigestOffset + kDigestBytes;
constexpr std::int64_t kAlignment = 64;
constexpr std::size_t kPayloadOffset = 128;  // kHeaderBytes rounded up

using Digest = std::array<unsigned char, kDigestBytes>;

Digest sha256(std::span<const std::byte> bytes) {
  Digest digest{};
  unsigned int length = 0;
  const int ok =
      EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_sha256(), nullptr);
  TESSERA_CHECK(ok == 1 && length == kDigestBytes, "SHA-256 gave {} bytes", length);
  return digest;
}

void put(std::vector<std::byte>& bytes, std::size_t offset, const void* value, std::size_t size) {
  std::memcpy(bytes.data() + offset, value, size);
}

template <typename T>
T get(std::span<const std::byte> bytes, std::size_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

Error bad(const std::string& name, const std::string& what) {
  return Error{ErrorCode::kInvalidModel, fmt::format("'{}': {}", name, what)};
}

}  // namespace

std::vector<std::byte> write_container(const char* magic, const ContainerFile& file) {
  const auto section_offset = static_cast<std::size_t>(
      round_up(static_cast<std::int64_t>(kPayloadOffset + file.payload.size()), kAlignment));
  std::vector<std::byte> bytes(section_offset + file.section.size());
  const std::uint64_t payload_bytes = file.payload.size();
  const std::uint64_t section_bytes = file.section.size();
  put(bytes, 0, magic, 8);
  put(bytes, 8, &kContainerVersion, 4);
  put(bytes, 16, &file.chip_fingerprint, 8);
  put(bytes, 24, &payload_bytes, 8);
  put(bytes, 32, &section_bytes, 8);
  if (!file.payload.empty()) put(bytes, kPayloadOffset, file.payload.data(), file.payload.size());
  if (!file.section.empty()) put(bytes, section_offset, file.section.data(), file.section.size());
  const Digest digest = sha256(std::span(bytes).subspan(kHeaderBytes));
  put(bytes, kDigestOffset, digest.data(), digest.size());
  return bytes;
}

Result<ContainerFile> open_container(const char* magic, std::span<const std::byte> bytes,
                                     const std::string& name) {
  if (bytes.size() < kPayloadOffset) {
    return bad(name,
               fmt::format("{} bytes, a container has at least {}", bytes.size(), kPayloadOffset));
  }
  if (std::memcmp(bytes.data(), magic, 8) != 0) {
    return bad(name, fmt::format("does not begin with the magic '{:.7s}'", magic));
  }
  const auto version = get<std::uint32_t>(bytes, 8);
  if (version != kContainerVersion) {
    return bad(name, fmt::format("container version {}, allowed {}; compile the model again",
                                 version, kContainerVersion));
  }
  const auto payload_bytes = get<std::uint64_t>(bytes, 24);
  const auto section_bytes = get<std::uint64_t>(bytes, 32);
  const std::uint64_t available = bytes.size() - kPayloadOffset;
  if (payload_bytes > available) {
    return bad(name, fmt::format("payload of {} bytes, {} are there", payload_bytes, available));
  }
  const auto section_offset = static_cast<std::uint64_t>(
      round_up(static_cast<std::int64_t>(kPayloadOffset + payload_bytes), kAlignment));
  if (section_offset > bytes.size() || bytes.size() - section_offset != section_bytes) {
    return bad(name, fmt::format("section of {} bytes at {}, the file has {} bytes", section_bytes,
                                 section_offset, bytes.size()));
  }
  const Digest digest = sha256(bytes.subspan(kHeaderBytes));
  if (std::memcmp(bytes.data() + kDigestOffset, digest.data(), kDigestBytes) != 0) {
    return bad(name, "the digest does not match the contents; the file is damaged");
  }
  return ContainerFile{get<std::uint64_t>(bytes, 16), bytes.subspan(kPayloadOffset, payload_bytes),
                       bytes.subspan(section_offset)};
}

}  // namespace tessera::program
