#include "model/import_external.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "model/import_message.h"

namespace tessera::model {
namespace {

namespace fs = std::filesystem;

struct Location {
  std::string file;  // as the model names it
  std::int64_t offset = 0;
  std::optional<std::int64_t> length;
};

class OpenFile {
 public:
  explicit OpenFile(int descriptor) : descriptor_(descriptor) {}
  ~OpenFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  OpenFile(OpenFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

Result<std::int64_t> parse_count(std::string_view key, std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    return invalid_model("external data: '{}' is {}, allowed is a whole number of bytes", key,
                         in_quotes(text));
  }
  return value;
}

Result<Location> parse_location(const onnx::TensorProto& proto) {
  Location location;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") {
      location.file = entry.value();
    } else if (entry.key() == "offset") {
      TESSERA_TRY(location.offset, parse_count("offset", entry.value()));
    } else if (entry.key() == "length") {
      TESSERA_TRY(location.length, parse_count("length", entry.value()));
    } else if (entry.key() != "checksum" && entry.key() != "basepath") {
      return invalid_model("external data: the key {} is not known", in_quotes(entry.key()));
    }
  }
  return location;
}

// A relative path without "..", so that joining it to the folder stays below the folder (apart
// from symbolic links, which resolve() looks at).
Status check_name(const std::string& file) {
  if (file.empty()) return invalid_model("external data: no file is named ('location')");
  if (file.find('\0') != std::string::npos) {
    return invalid_model("external data: the file name {} holds a zero byte", in_quotes(file));
  }
  const fs::path path(file);
  if (path.is_absolute()) {
    return invalid_model(
        "external data: {} is an absolute path, allowed is one inside the model's "
        "folder",
        in_quotes(file));
  }
  if (std::ranges::find(path, fs::path("..")) != path.end()) {
    return invalid_model(
        "external data: {} contains '..', allowed is a path inside the model's "
        "folder",
        in_quotes(file));
  }
  return {};
}

Result<fs::path> resolve(const std::string& file, const std::string& folder) {
  std::error_code error;
  const fs::path root = fs::canonical(folder, error);
  if (error) {
    return invalid_model("external data: cannot read the folder {}: {}", in_quotes(folder),
                         error.message());
  }
  const fs::path target = fs::canonical(root / file, error);
  if (error) {
    return invalid_model("external data: cannot read {}: {}", in_quotes(file), error.message());
  }
  const auto [end, unused] = std::mismatch(root.begin(), root.end(), target.begin(), target.end());
  if (end != root.end()) {
    return invalid_model("external data: {} is a link that leaves the model's folder",
                         in_quotes(file));
  }
  return target;
}

struct OpenedData {
  OpenFile file;
  std::int64_t bytes = 0;
};

Result<OpenedData> open_data(const std::string& name, const fs::path& path) {
  // The path has no links any more; O_NOFOLLOW keeps it so if the folder changes meanwhile.
  OpenFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status = {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) {
    return invalid_model("external data: cannot read {}: {}", in_quotes(name),
                         std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    return invalid_model("external data: {} is not a regular file", in_quotes(name));
  }
  return OpenedData{std::move(file), status.st_size};
}

Status check_range(const Location& location, std::int64_t wanted, std::int64_t file_bytes) {
  if (location.length && *location.length != wanted) {
    return invalid_model("external data: 'length' is {}, the shape asks for {}", *location.length,
                         count_text(wanted, "byte"));
  }
  if (location.offset > file_bytes || wanted > file_bytes - location.offset) {
    return invalid_model("external data: {} from offset {} asked for, {} has {}",
                         count_text(wanted, "byte"), location.offset, in_quotes(location.file),
                         count_text(file_bytes, "byte"));
  }
  return {};
}

Status read_all(const OpenFile& file, std::int64_t offset, std::vector<std::byte>& to) {
  std::size_t done = 0;
  while (done < to.size()) {
    const auto got = ::pread(file.get(), to.data() + done, to.size() - done,
                             offset + static_cast<std::int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return invalid_model("external data: cannot read: {}", std::strerror(errno));
    if (got == 0) return invalid_model("external data: the file became shorter while it was read");
    done += static_cast<std::size_t>(got);
  }
  return {};
}

}  // namespace

Result<std::vector<std::byte>> read_external_data(const onnx::TensorProto& proto,
                                                  std::int64_t bytes, TensorImport& context) {
  TESSERA_TRY(const Location location, parse_location(proto));
  TESSERA_RETURN_IF_ERROR(check_name(location.file));
  if (context.folder.empty()) {
    return invalid_model(
        "external data: {} cannot be read, because the model did not come from a "
        "folder",
        in_quotes(location.file));
  }
  TESSERA_TRY(const fs::path path, resolve(location.file, context.folder));
  TESSERA_TRY(const OpenedData data, open_data(location.file, path));
  TESSERA_RETURN_IF_ERROR(check_range(location, bytes, data.bytes));
  if (bytes > context.limits.external_bytes_max - context.external_bytes) {
    return invalid_model("external data: more than {} bytes altogether",
                         context.limits.external_bytes_max);
  }
  context.external_bytes += bytes;
  std::vector<std::byte> content(static_cast<std::size_t>(bytes));
  TESSERA_RETURN_IF_ERROR(read_all(data.file, location.offset, content));
  return content;
}

}  // namespace tessera::model
