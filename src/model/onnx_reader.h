// Bytes -> protobuf message, and, when that fails, a reason a person can act on.
//
//   file or memory ─► stream ─► protobuf parser ─► message
//                                    └─ no ─► head of the file: text? archive? other format?
//                                             field by field: cut off here? not a field there?
//
// A file is parsed as it is read, so the only copy of the weights in memory is the message itself.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/result.h"

namespace tessera::model {

struct ReadOptions {
  std::int64_t bytes_max = 0;  // larger input is refused unread
  // Field numbers at the top that our schema does not have and that may be ignored. Any other such
  // field means that the bytes are something else.
  std::initializer_list<int> ignored_fields;
};

// `path` must be a regular file. Messages do not repeat the path.
Status read_onnx_file(const std::string& path, const ReadOptions& options,
                      google::protobuf::Message& message);
Status read_onnx_bytes(std::span<const std::byte> bytes, const ReadOptions& options,
                       google::protobuf::Message& message);

}  // namespace tessera::model
