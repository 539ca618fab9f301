#include "package/section_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "package/sha256.h"

namespace tessera::package {
namespace {

Error reading(const Error& error, const std::string& path) {
  return error.with_context(fmt::format("reading '{}'", path));
}

}  // namespace

Result<SectionFile> SectionFile::open(const std::string& path) {
  auto file = InputFile::open(path);
  if (!file.ok()) return reading(file.error(), path);
  const auto size = static_cast<std::uint64_t>(file->size());
  std::vector<std::byte> head(std::min<std::uint64_t>(size, kContainerHeadBytes));
  if (const Status read = file->read_at(0, head); !read.ok()) return reading(read.error(), path);
  const bool program = head.size() >= 8 && std::memcmp(head.data(), kProgramMagic, 8) == 0;
  TESSERA_TRY(const ContainerPlaces places,
              check_container_head(program ? kProgramMagic : kPackageMagic, head, size, path));
  return SectionFile(path, std::move(*file), places, !program);
}

bool SectionFile::is_package() const { return package_; }

Result<std::optional<SectionFile::Front>> SectionFile::front() const {
  Front front;
  front.bytes.resize(places_.section_offset);
  if (const Status read = file_.read_at(0, front.bytes); !read.ok()) {
    return reading(read.error(), path_);
  }
  if (const Status same = file_.check_unchanged(); !same.ok()) return reading(same.error(), path_);
  TESSERA_TRY(const auto payload, open_container_front(front.bytes, places_, path_));
  if (!payload) return std::optional<Front>();
  front.chip_fingerprint = container_fingerprint(front.bytes);
  front.payload = *payload;
  return std::optional<Front>(std::move(front));
}

Result<std::vector<std::byte>> SectionFile::read(const isa::SectionPart& part) const {
  if (part.offset > places_.section_bytes || part.bytes > places_.section_bytes - part.offset) {
    return Error{ErrorCode::kInvalidModel,
                 fmt::format("'{}': its section has {} bytes, wanted are {} at {}", path_,
                             places_.section_bytes, part.bytes, part.offset)};
  }
  std::vector<std::byte> bytes(part.bytes);
  const auto offset = static_cast<std::int64_t>(places_.section_offset + part.offset);
  if (const Status read = file_.read_at(offset, bytes); !read.ok()) {
    return reading(read.error(), path_);
  }
  const Sha256 digest = sha256(bytes);
  if (digest == part.digest) return bytes;
  return Error{
      ErrorCode::kInvalidModel,
      fmt::format("'{}': the {} bytes at {} of its section have the digest {}, not {}", path_,
                  part.bytes, part.offset, sha256_text(digest), sha256_text(part.digest))};
}

}  // namespace tessera::package
