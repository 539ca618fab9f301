#include "model/onnx_reader.h"

#include <fcntl.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/unknown_field_set.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

#include "model/import_message.h"
#include "model/onnx_wire.h"

namespace tessera::model {
namespace {

constexpr int kStreamBlockBytes = 1 << 20;
constexpr std::int64_t kProtobufBytesMax = std::numeric_limits<std::int32_t>::max();

class FileHandle {
 public:
  explicit FileHandle(int descriptor) : descriptor_(descriptor) {}
  ~FileHandle() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

Error cannot_read(int error_number) {
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("cannot read the file: {}", std::strerror(error_number))};
}

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
  const FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return cannot_read(errno);
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) return cannot_read(errno);
  if (S_ISDIR(status.st_mode)) {
    return Error{ErrorCode::kInvalidArgument, "cannot read the file: it is a folder"};
  }
  if (!S_ISREG(status.st_mode)) {
    return Error{ErrorCode::kInvalidArgument, "cannot read the file: it is not a regular file"};
  }
  TESSERA_RETURN_IF_ERROR(check_size(status.st_size, options));

  google::protobuf::io::FileInputStream stream(file.get(), kStreamBlockBytes);
  const bool parsed = message.ParseFromZeroCopyStream(&stream);
  if (stream.GetErrno() != 0) return cannot_read(stream.GetErrno());
  if (parsed) return check_unknown_fields(options, message);

  message.Clear();
  const int descriptor = file.get();
  const ByteSource source(status.st_size,
                          [descriptor](std::int64_t offset, std::span<std::byte> to) {
                            const auto got = ::pread(descriptor, to.data(), to.size(), offset);
                            return got < 0 ? std::size_t{0} : static_cast<std::size_t>(got);
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
