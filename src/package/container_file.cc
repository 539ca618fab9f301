#include "package/container_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "base/input_file.h"
#include "base/quantity.h"
#include "package/sha256.h"

namespace tessera::package {
namespace {

constexpr std::size_t kDigestOffset = 40;
constexpr std::size_t kDigestBytes = 32;
constexpr std::size_t kHeaderBytes = kDigestOffset + kDigestBytes;
constexpr std::size_t kFrontDigestOffset = kHeaderBytes;
constexpr std::size_t kFrontDigestEnd = kFrontDigestOffset + kDigestBytes;
constexpr std::int64_t kAlignment = 64;
constexpr std::size_t kPayloadOffset = kContainerHeadBytes;  // kFrontDigestEnd rounded up
constexpr std::uint32_t kHeadDigestedFrom = 3;

constexpr std::array<std::byte, kAlignment> kZeros{};

// Of all but the digest itself; before version 3 of all behind it.
Sha256 digest_of(std::span<const std::byte> bytes, std::uint32_t version) {
  return sha256(
      {bytes.first(version < kHeadDigestedFrom ? 0 : kDigestOffset), bytes.subspan(kHeaderBytes)});
}

Sha256 front_digest(std::span<const std::byte> front) {
  return sha256({front.first(kDigestOffset), front.subspan(kFrontDigestEnd)});
}

bool is_at(const Sha256& digest, std::span<const std::byte> bytes, std::size_t offset) {
  return std::memcmp(bytes.data() + offset, digest.data(), kDigestBytes) == 0;
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

Error refused(const std::string& name, const std::string& what) {
  return Error{ErrorCode::kInvalidModel, fmt::format("'{}': {}", name, what)};
}

Error damaged(const std::string& name, const std::string& what) {
  return refused(name, what + "; the file is damaged");
}

Status check_magic(const char* magic, std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() >= 8 && std::memcmp(bytes.data(), magic, 8) == 0) return {};
  return refused(name, fmt::format("does not begin with the magic '{:.7s}'", magic));
}

// Nothing where a file of `size` bytes is not what its head says.
std::optional<ContainerPlaces> places_of(std::span<const std::byte> head, std::uint64_t size) {
  const auto payload_bytes = get<std::uint64_t>(head, 24);
  const auto section_bytes = get<std::uint64_t>(head, 32);
  if (payload_bytes > size - kPayloadOffset) return std::nullopt;
  const auto section_offset = static_cast<std::uint64_t>(
      round_up(static_cast<std::int64_t>(kPayloadOffset + payload_bytes), kAlignment));
  if (section_offset > size || size - section_offset != section_bytes) return std::nullopt;
  return ContainerPlaces{payload_bytes, section_offset, section_bytes};
}

Error other_size(const std::string& name, std::uint64_t size) {
  return damaged(name, fmt::format("its head does not speak of the {} bytes that it has", size));
}

Status check_version(std::uint32_t version, const std::string& name) {
  if (version > kContainerVersionNewest) {
    return refused(name,
                   fmt::format("container version {} is of a newer Tessera, allowed {} to {}; "
                               "compile the model with this one",
                               version, kContainerVersionOldest, kContainerVersionNewest));
  }
  if (version < kContainerVersionOldest) {
    return refused(name,
                   fmt::format("container version {}, allowed {} to {}; compile the model again",
                               version, kContainerVersionOldest, kContainerVersionNewest));
  }
  return {};
}

}  // namespace

Result<ContainerPlaces> check_container_head(const char* magic, std::span<const std::byte> head,
                                             std::uint64_t size, const std::string& name) {
  TESSERA_RETURN_IF_ERROR(check_magic(magic, head, name));
  if (size < kPayloadOffset) {
    return damaged(name,
                   fmt::format("{} bytes, a container has at least {}", size, kPayloadOffset));
  }
  const auto places = places_of(head, size);
  if (!places) return other_size(name, size);
  return *places;
}

std::uint64_t container_fingerprint(std::span<const std::byte> head) {
  return get<std::uint64_t>(head, 16);
}

std::uint64_t SectionPieces::add(std::span<const std::byte> piece) {
  const auto offset =
      static_cast<std::uint64_t>(round_up(static_cast<std::int64_t>(size_), kAlignment));
  if (offset > size_) pieces_.push_back(std::span(kZeros).first(offset - size_));
  pieces_.push_back(piece);
  size_ = offset + piece.size();
  return offset;
}

std::span<const std::byte> payload_padding(std::size_t payload_bytes) {
  const auto end = static_cast<std::int64_t>(kPayloadOffset + payload_bytes);
  return std::span(kZeros).first(static_cast<std::size_t>(round_up(end, kAlignment) - end));
}

std::vector<std::byte> container_head(const char* magic, const ContainerContents& contents,
                                      std::uint32_t version) {
  const std::uint64_t payload_bytes = contents.payload.size();
  std::uint64_t section_bytes = 0;
  for (const std::span<const std::byte> piece : contents.section) section_bytes += piece.size();
  std::vector<std::byte> head(kContainerHeadBytes);
  put(head, 0, magic, 8);
  put(head, 8, &version, 4);
  put(head, 16, &contents.chip_fingerprint, 8);
  put(head, 24, &payload_bytes, 8);
  put(head, 32, &section_bytes, 8);
  const std::span<const std::byte> whole(head), padding = payload_padding(payload_bytes);
  const bool head_digested = version >= kHeadDigestedFrom;
  if (head_digested) {
    const Sha256 of_front = sha256(
        {whole.first(kDigestOffset), whole.subspan(kFrontDigestEnd), contents.payload, padding});
    put(head, kFrontDigestOffset, of_front.data(), of_front.size());
  }
  std::vector<std::span<const std::byte>> all = {whole.first(head_digested ? kDigestOffset : 0),
                                                 whole.subspan(kHeaderBytes), contents.payload,
                                                 padding};
  all.insert(all.end(), contents.section.begin(), contents.section.end());
  const Sha256 digest = sha256(all);
  put(head, kDigestOffset, digest.data(), digest.size());
  return head;
}

std::vector<std::byte> write_container(const char* magic, const ContainerFile& file,
                                       std::uint32_t version) {
  std::vector<std::byte> bytes = container_head(
      magic, {file.chip_fingerprint, file.payload, std::span(&file.section, 1)}, version);
  for (const auto piece : {file.payload, payload_padding(file.payload.size()), file.section}) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  }
  return bytes;
}

Result<ContainerFile> open_container(const char* magic, std::span<const std::byte> bytes,
                                     const std::string& name) {
  TESSERA_TRY(const ContainerPlaces places, check_container_head(magic, bytes, bytes.size(), name));
  const auto version = get<std::uint32_t>(bytes, 8);
  if (version == 0 || !is_at(digest_of(bytes, version), bytes, kDigestOffset)) {
    return damaged(name, "the digest does not match the contents");
  }
  TESSERA_RETURN_IF_ERROR(check_version(version, name));
  return ContainerFile{get<std::uint64_t>(bytes, 16),
                       bytes.subspan(kPayloadOffset, places.payload_bytes),
                       bytes.subspan(places.section_offset)};
}

Result<std::optional<std::span<const std::byte>>> open_container_front(
    std::span<const std::byte> bytes, const ContainerPlaces& places, const std::string& name) {
  using Payload = std::optional<std::span<const std::byte>>;
  TESSERA_CHECK(bytes.size() == places.section_offset, "{} bytes in front of a section at {}",
                bytes.size(), places.section_offset);
  if (is_at(Sha256{}, bytes, kFrontDigestOffset)) return Payload();
  if (!is_at(front_digest(bytes), bytes, kFrontDigestOffset)) {
    return damaged(name, "the digest does not match the contents");
  }
  TESSERA_RETURN_IF_ERROR(check_version(get<std::uint32_t>(bytes, 8), name));
  return Payload(bytes.subspan(kPayloadOffset, places.payload_bytes));
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
  TESSERA_TRY(const ContainerPlaces places, check_container_head(magic, head, size, path));
  (void)places;
  auto bytes = file->read_rest();
  if (!bytes.ok()) return reading(bytes.error());
  return bytes;
}

}  // namespace tessera::package
