#include "tools/files/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "package/container.h"
#include "tessera/file.h"

namespace tessera::tools {
namespace {

constexpr std::int64_t kFileBytesMax = std::int64_t{16} << 30;
constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kRankMax = 8;

struct Type {
  std::string_view name;
  Format format;
};
constexpr Type kTypes[] = {{"F32", Format::kF32}, {"F16", Format::kF16}, {"I32", Format::kI32},
                           {"I16", Format::kI16}, {"U16", Format::kU16}, {"I8", Format::kI8},
                           {"U8", Format::kU8}};

struct Entry {
  Format format = Format::kF32;
  Shape dims;
  std::uint64_t begin = 0, end = 0;
};

// The whole numbers of a JSON array, all at least 0; false where it is something else.
bool read_numbers(const nlohmann::json& list, std::size_t count_max,
                  std::vector<std::int64_t>& numbers) {
  if (!list.is_array() || list.size() > count_max) return false;
  for (const nlohmann::json& number : list) {
    if (!number.is_number_integer() || number.is_number_float()) return false;
    if (number.is_number_unsigned() && number.get<std::uint64_t>() > std::uint64_t{1} << 60) {
      return false;
    }
    if (number.get<std::int64_t>() < 0) return false;
    numbers.push_back(number.get<std::int64_t>());
  }
  return true;
}

Result<Entry> read_entry(const nlohmann::json& json, const std::string& place,
                         std::uint64_t data_bytes) {
  const auto wrong = [&](const std::string& what) -> Error {
    return {ErrorCode::kInvalidArgument, fmt::format("{}: {}", place, what)};
  };
  if (!json.is_object() || !json.contains("dtype") || !json.contains("shape") ||
      !json.contains("data_offsets") || !json["dtype"].is_string()) {
    return wrong("needs \"dtype\", \"shape\" and \"data_offsets\"");
  }
  Entry entry;
  const auto type = json["dtype"].get<std::string>();
  const auto found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const Type& known) { return known.name == type; });
  if (found == std::end(kTypes)) {
    return wrong(
        fmt::format("dtype '{}' is not read; save F32, F16, I32, I16, U16, I8 or U8", type));
  }
  entry.format = found->format;
  std::vector<std::int64_t> offsets;
  if (!read_numbers(json["shape"], kRankMax, entry.dims)) {
    return wrong(fmt::format("\"shape\" must be at most {} whole numbers", kRankMax));
  }
  if (!read_numbers(json["data_offsets"], 2, offsets) || offsets.size() != 2) {
    return wrong("\"data_offsets\" must be two whole numbers");
  }
  entry.begin = static_cast<std::uint64_t>(offsets[0]);
  entry.end = static_cast<std::uint64_t>(offsets[1]);
  if (entry.begin > entry.end || entry.end > data_bytes) {
    return wrong(fmt::format("bytes {} to {} do not lie within the {} bytes of data", entry.begin,
                             entry.end, data_bytes));
  }
  std::uint64_t bytes = static_cast<std::uint64_t>(format_bytes(entry.format));
  bool fits = true;
  for (const std::int64_t extent : entry.dims) {
    fits &= extent == 0 || bytes <= data_bytes / static_cast<std::uint64_t>(extent);
    bytes = fits ? bytes * static_cast<std::uint64_t>(extent) : 0;
  }
  if (!fits || bytes != entry.end - entry.begin) {
    return wrong(fmt::format("{} bytes do not fit its shape", entry.end - entry.begin));
  }
  return entry;
}

}  // namespace

Result<std::map<std::string, Tensor>> parse_safetensors(std::span<const std::byte> bytes,
                                                        const std::string& path) {
  const auto wrong = [&](const char* what) -> Error {
    return {ErrorCode::kInvalidArgument,
            fmt::format("'{}' is no safetensors file: {}", path, what)};
  };
  if (bytes.size() < kLengthBytes) return wrong("it is shorter than 8 bytes");
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  }
  if (length > bytes.size() - kLengthBytes) return wrong("its header is longer than the file");
  const auto* const text = reinterpret_cast<const char*>(bytes.data()) + kLengthBytes;
  const nlohmann::json header = nlohmann::json::parse(text, text + length, nullptr, false);
  if (!header.is_object()) return wrong("its header is no JSON object");
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + length);
  std::map<std::string, Tensor> tensors;
  std::size_t bytes_of_all = 0;
  for (const auto& [name, json] : header.items()) {
    if (name == "__metadata__") continue;
    TESSERA_TRY(Entry entry,
                read_entry(json, fmt::format("'{}': tensor '{}'", path, name), data.size()));
    bytes_of_all += entry.end - entry.begin;
    if (bytes_of_all > data.size()) return wrong("its tensors lie over each other");
    Tensor tensor = Tensor::zeros(entry.format, std::move(entry.dims));
    std::copy_n(data.begin() + static_cast<std::ptrdiff_t>(entry.begin), entry.end - entry.begin,
                tensor.bytes.begin());
    tensors.emplace(name, std::move(tensor));
  }
  return tensors;
}

Result<std::map<std::string, Tensor>> read_safetensors(const std::string& path) {
  TESSERA_TRY(const std::vector<std::byte> bytes, read_file(path, {.bytes_max = kFileBytesMax}));
  return parse_safetensors(bytes, path);
}

}  // namespace tessera::tools
