// Why bytes are not a protobuf message: a second, slower reading that only runs after the parser
// has failed.
//
//   field = tag (number · 8 + kind) then  varint | 8 bytes | length + that many bytes | 4 bytes
//
// It walks the fields, goes down where the schema has a message, and stops at the first field that
// is cut off or is no field at all.
#pragma once

#include <google/protobuf/descriptor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tessera::model {

// Bytes that can be read at any offset, through a window so that a walk in order is cheap.
class ByteSource {
 public:
  // Fills `to` from `offset`; the number of bytes delivered. Never asked beyond `size`.
  using Read = std::function<std::size_t(std::int64_t offset, std::span<std::byte> to)>;
  ByteSource(std::int64_t size, Read read) : size_(size), read_(std::move(read)) {}

  std::int64_t size() const { return size_; }
  std::optional<std::uint8_t> at(std::int64_t offset) const;

 private:
  const std::int64_t size_;
  const Read read_;
  mutable std::vector<std::byte> window_;
  mutable std::int64_t window_begin_ = 0;
};

// One sentence about the file, without its name. `schema` is the message that was expected.
std::string explain_parse_failure(const ByteSource& source,
                                  const google::protobuf::Descriptor& schema);

}  // namespace tessera::model
