#include "model/import_external.h"

#include <charconv>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/input_file.h"
#include "model/import_message.h"

namespace tessera::model {
namespace {

struct Location {
  std::string file;  // as the model names it
  std::int64_t offset = 0;
  std::optional<std::int64_t> length;
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

Result<InputFile> open_data(const std::string& name, const std::string& folder) {
  if (name.empty()) return invalid_model("external data: no file is named ('location')");
  // check_range() sees to what is taken of it.
  auto file = InputFile::open_below(folder, name, "the model's folder",
                                    {.bytes_max = std::numeric_limits<std::int64_t>::max()});
  if (!file.ok()) {
    return invalid_model("external data: {}: {}", in_quotes(name), file.error().message);
  }
  return file;
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

}  // namespace

Result<std::vector<std::byte>> read_external_data(const onnx::TensorProto& proto,
                                                  std::int64_t bytes, TensorImport& context) {
  TESSERA_TRY(const Location location, parse_location(proto));
  if (context.folder.empty()) {
    return invalid_model(
        "external data: {} cannot be read, because the model did not come from a folder; give one "
        "(LoadOptions::folder)",
        in_quotes(location.file));
  }
  TESSERA_TRY(const InputFile file, open_data(location.file, context.folder));
  TESSERA_RETURN_IF_ERROR(check_range(location, bytes, file.size()));
  if (bytes > context.limits.external_bytes_max - context.external_bytes) {
    return invalid_model("external data: more than {} bytes altogether",
                         context.limits.external_bytes_max);
  }
  context.external_bytes += bytes;
  context.external_files.insert((std::filesystem::path(context.folder) / location.file).string());
  std::vector<std::byte> content(static_cast<std::size_t>(bytes));
  Status read = file.read_at(location.offset, content);
  if (read.ok()) read = file.check_unchanged();
  if (!read.ok()) {
    return invalid_model("external data: {}: {}", in_quotes(location.file), read.error().message);
  }
  return content;
}

}  // namespace tessera::model
