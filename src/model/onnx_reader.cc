#include "model/onnx_reader.h"

#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/input_file.h"
#include "model/import_message.h"
#include "model/onnx_wire.h"

namespace tessera::model {
namespace {

constexpr int kStreamBlockBytes = 1 << 20;
constexpr std::int64_t kProtobufBytesMax = std::numeric_limits<std::int32_t>::max();

Error cannot_read(const Error& reason) { return reason.with_context("cannot read the file"); }

Status check_size(std::int64_t bytes, const ReadOptions& options) {
  if (bytes == 0) return invalid_model("the file is empty");
  if (bytes > options.bytes_max) {
    return invalid_model("the file has {} bytes, allowed are {}; keep weights as external data",
                         bytes, options.bytes_max);
  }
  if (bytes > kProtobufBytesMax) {
    return invalid_model(
        "the file has {} bytes, a protobuf message holds at most {}; keep weights as external data",
        bytes, kProtobufBytesMax);
  }
  return {};
}

Status check_unknown_fields(const ReadOptions& options, const google::protobuf::Message& message) {
  const auto& fields = message.GetReflection()->GetUnknownFields(message);
  for (int i = 0; i < fields.field_count(); ++i) {
    const int number = fields.field(i).number();
    if (std::ranges::find(options.ignored_fields, number) != options.ignored_fields.end()) continue;
    return invalid_model(
        "field number {} is not one of ONNX's {}; the file is of another kind, or "
        "other bytes follow the model",
        number, message.GetDescriptor()->name());
  }
  return {};
}

}  // namespace

Status read_onnx_file(const std::string& path, const ReadOptions& options,
                      google::protobuf::Message& message) {
  // check_size() knows the limits, and the words for them.
  const auto file = InputFile::open(path, {.bytes_max = std::numeric_limits<std::int64_t>::max()});
  if (!file.ok()) return cannot_read(file.error());
  TESSERA_RETURN_IF_ERROR(check_size(file->size(), options));

  google::protobuf::io::FileInputStream stream(file->descriptor(), kStreamBlockBytes);
  const bool parsed = message.ParseFromZeroCopyStream(&stream);
  if (stream.GetErrno() != 0) {
    return cannot_read({ErrorCode::kInvalidArgument, std::strerror(stream.GetErrno())});
  }
  if (const Status same = file->check_unchanged(); !same.ok()) return cannot_read(same.error());
  if (parsed) return check_unknown_fields(options, message);

  message.Clear();
  const ByteSource source(file->size(), [&file](std::int64_t offset, std::span<std::byte> to) {
    return file->read_at(offset, to).ok() ? to.size() : std::size_t{0};
  });
  return invalid_model("{}", explain_parse_failure(source, *message.GetDescriptor()));
}

Status read_onnx_bytes(std::span<const std::byte> bytes, const ReadOptions& options,
                       google::protobuf::Message& message) {
  TESSERA_RETURN_IF_ERROR(check_size(static_cast<std::int64_t>(bytes.size()), options));
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  if (message.ParseFromZeroCopyStream(&stream)) return check_unknown_fields(options, message);

  message.Clear();
  const ByteSource source(
      static_cast<std::int64_t>(bytes.size()),
      [bytes](std::int64_t offset, std::span<std::byte> to) {
        std::ranges::copy(bytes.subspan(static_cast<std::size_t>(offset), to.size()), to.begin());
        return to.size();
      });
  return invalid_model("{}", explain_parse_failure(source, *message.GetDescriptor()));
}

}  // namespace tessera::model
