#include "package/container_file.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <optional>

#include "base/check.h"
#include "base/input_file.h"
#include "base/quantity.h"

namespace tessera::package {
namespace {

constexpr std::size_t kDigestOffset = 40;
constexpr std::size_t kDigestBytes = 32;
constexpr std::size_t kHeaderBytes = kDigestOffset + kDigestBytes;
constexpr std::int64_t kAlignment = 64;
constexpr std::size_t kPayloadOffset = 128;  // kHeaderBytes rounded up
constexpr std::uint32_t kHeadDigestedFrom = 3;

using Digest = std::array<unsigned char, kDigestBytes>;

// Of all but the digest itself; before version 3 of all behind it.
Digest digest_of(std::span<const std::byte> bytes, std::uint32_t version) {
  const auto head = bytes.first(version < kHeadDigestedFrom ? 0 : kDigestOffset);
  const auto rest = bytes.subspan(kHeaderBytes);
  Digest digest{};
  unsigned int length = 0;
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  const bool ok = context != nullptr &&
                  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1 &&
                  EVP_DigestUpdate(context.get(), head.data(), head.size()) == 1 &&
                  EVP_DigestUpdate(context.get(), rest.data(), rest.size()) == 1 &&
                  EVP_DigestFinal_ex(context.get(), digest.data(), &length) == 1;
  if (!ok) throw std::bad_alloc();  // what it is short of
  TESSERA_CHECK(length == kDigestBytes, "SHA-256 gave {} bytes", length);
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

Error damaged(const std::string& name, const std::string& what) {
  return bad(name, what + "; the file is damaged");
}

Status check_magic(const char* magic, std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() >= 8 && std::memcmp(bytes.data(), magic, 8) == 0) return {};
  return bad(name, fmt::format("does not begin with the magic '{:.7s}'", magic));
}

struct Places {
  std::uint64_t payload_bytes = 0, section_offset = 0;
};

// Nothing where a file of `size` bytes is not what its head says.
std::optional<Places> places_of(std::span<const std::byte> head, std::uint64_t size) {
  const auto payload_bytes = get<std::uint64_t>(head, 24);
  const auto section_bytes = get<std::uint64_t>(head, 32);
  if (payload_bytes > size - kPayloadOffset) return std::nullopt;
  const auto section_offset = static_cast<std::uint64_t>(
      round_up(static_cast<std::int64_t>(kPayloadOffset + payload_bytes), kAlignment));
  if (section_offset > size || size - section_offset != section_bytes) return std::nullopt;
  return Places{payload_bytes, section_offset};
}

Error other_size(const std::string& name, std::uint64_t size) {
  return damaged(name, fmt::format("its head does not speak of the {} bytes that it has", size));
}

// Of the first bytes of a file of `size` bytes.
Result<Places> check_head(const char* magic, std::span<const std::byte> head, std::uint64_t size,
                          const std::string& name) {
  TESSERA_RETURN_IF_ERROR(check_magic(magic, head, name));
  if (size < kPayloadOffset) {
    return damaged(name,
                   fmt::format("{} bytes, a container has at least {}", size, kPayloadOffset));
  }
  const auto places = places_of(head, size);
  if (!places) return other_size(name, size);
  return *places;
}

}  // namespace

std::vector<std::byte> write_container(const char* magic, const ContainerFile& file,
                                       std::uint32_t version) {
  const auto section_offset = static_cast<std::size_t>(
      round_up(static_cast<std::int64_t>(kPayloadOffset + file.payload.size()), kAlignment));
  std::vector<std::byte> bytes(section_offset + file.section.size());
  const std::uint64_t payload_bytes = file.payload.size();
  const std::uint64_t section_bytes = file.section.size();
  put(bytes, 0, magic, 8);
  put(bytes, 8, &version, 4);
  put(bytes, 16, &file.chip_fingerprint, 8);
  put(bytes, 24, &payload_bytes, 8);
  put(bytes, 32, &section_bytes, 8);
  if (!file.payload.empty()) put(bytes, kPayloadOffset, file.payload.data(), file.payload.size());
  if (!file.section.empty()) put(bytes, section_offset, file.section.data(), file.section.size());
  const Digest digest = digest_of(bytes, version);
  put(bytes, kDigestOffset, digest.data(), digest.size());
  return bytes;
}

Result<ContainerFile> open_container(const char* magic, std::span<const std::byte> bytes,
                                     const std::string& name) {
  TESSERA_TRY(const Places places, check_head(magic, bytes, bytes.size(), name));
  const auto version = get<std::uint32_t>(bytes, 8);
  const Digest digest = digest_of(bytes, version);
  if (version == 0 || std::memcmp(bytes.data() + kDigestOffset, digest.data(), kDigestBytes) != 0) {
    return damaged(name, "the digest does not match the contents");
  }
  if (version > kContainerVersionNewest) {
    return bad(name, fmt::format("container version {} is of a newer Tessera, allowed {} to {}; "
                                 "compile the model with this one",
                                 version, kContainerVersionOldest, kContainerVersionNewest));
  }
  if (version < kContainerVersionOldest) {
    return bad(name, fmt::format("container version {}, allowed {} to {}; compile the model again",
                                 version, kContainerVersionOldest, kContainerVersionNewest));
  }
  return ContainerFile{get<std::uint64_t>(bytes, 16),
                       bytes.subspan(kPayloadOffset, places.payload_bytes),
                       bytes.subspan(places.section_offset)};
}

Result<std::vector<std::byte>> read_container(const char* magic, const std::string& path) {
  const auto reading = [&](const Error& error) {
    return error.with_context(fmt::format("reading '{}'", path));
  };
  auto file = InputFile::open(path);
  if (!file.ok()) return reading(file.error());
  const auto size = static_cast<std::uint64_t>(file->size());
  std::vector<std::byte> head(std::min<std::uint64_t>(size, kPayloadOffset));
  if (const Status read = file->read_at(0, head); !read.ok()) return reading(read.error());
  TESSERA_TRY(const Places places, check_head(magic, head, size, path));
  (void)places;
  auto bytes = file->read_rest();
  if (!bytes.ok()) return reading(bytes.error());
  return bytes;
}

}  // namespace tessera::package
