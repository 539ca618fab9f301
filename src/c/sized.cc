#include "c/sized.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/session.h"

namespace tessera::c {
namespace {

// No structure will ever have more; what is larger is no size.
constexpr std::size_t kSizeMax = 4096;

}  // namespace

Result<std::size_t> size_of(const void* structure, const char* name) {
  std::size_t size = 0;
  std::memcpy(&size, structure, sizeof size);
  if (size == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}: size is 0; set it to the structure's: options = {{.size = sizeof "
                             "options, ...}}",
                             name)};
  }
  if (size > kSizeMax || size % alignof(std::size_t) != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}: size is {}, which no version of it has; set it to the "
                             "structure's: options = {{.size = sizeof options, ...}}",
                             name, size)};
  }
  return size;
}

Status check_unknown(const void* structure, std::size_t known, const char* name) {
  TESSERA_TRY(const std::size_t size, size_of(structure, name));
  const auto* const bytes = static_cast<const std::byte*>(structure);
  const auto* const end = bytes + std::max(size, known);
  const auto* const set =
      std::find_if(bytes + known, end, [](std::byte byte) { return byte != std::byte{0}; });
  if (set == end) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("{}: size is {}, this library ({}) knows {} bytes, and byte {} is set: "
                           "a newer member; leave it 0 or take a newer library",
                           name, size, version(), known, set - bytes)};
}

Status check_count(std::size_t count, std::size_t count_max, const std::string& what) {
  if (count <= count_max) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("{} has {} entries; allowed are at most {}", what, count, count_max)};
}

}  // namespace tessera::c
