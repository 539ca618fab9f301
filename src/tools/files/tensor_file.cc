#include "tools/files/tensor_file.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <system_error>

#include "arith/rounding.h"
#include "model/import.h"
#include "package/container.h"
#include "tessera/file.h"
#include "tessera/picture.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

constexpr std::int64_t kTensorBytesMax = std::int64_t{4} << 30;

Error bad(const std::string& path, const std::string& what) {
  return Error{ErrorCode::kInvalidArgument, fmt::format("reading '{}': {}", path, what)};
}

constexpr std::size_t kNpyRankMax = 64;  // NumPy's own

struct NpyType {
  const char* descr;
  Format format;
};
constexpr NpyType kNpyTypes[] = {
    {"<f2", Format::kF16}, {"<f4", Format::kF32}, {"<f8", Format::kF64}, {"|i1", Format::kI8},
    {"|u1", Format::kU8},  {"<i2", Format::kI16}, {"<u2", Format::kU16}, {"<i4", Format::kI32},
    {"<u4", Format::kU32}, {"<i8", Format::kI64}, {"<u8", Format::kU64}, {"|b1", Format::kBool}};

// Elements of `bytes` bytes each, the other way round.
void swap_bytes(std::vector<std::byte>& elements, std::int64_t bytes) {
  for (auto at = elements.begin(); at != elements.end(); at += bytes) std::reverse(at, at + bytes);
}

// Of elements whose first axis is the fastest, those with the last one so.
std::vector<std::byte> last_axis_fastest(const std::vector<std::byte>& elements, const Shape& dims,
                                         std::int64_t bytes) {
  std::vector<std::byte> result(elements.size());
  Shape at(dims.size(), 0);
  for (std::int64_t to = 0; to < std::ssize(elements); to += bytes) {
    std::int64_t from = 0;
    for (std::size_t axis = dims.size(); axis-- > 0;) from = from * dims[axis] + at[axis];
    std::copy_n(elements.begin() + from * bytes, bytes, result.begin() + to);
    for (std::size_t axis = dims.size(); axis-- > 0;) {
      ++at[axis];
      if (at[axis] < dims[axis]) break;
      at[axis] = 0;
    }
  }
  return result;
}

// The text after `key` in a NumPy header such as {'descr': '<f4', 'shape': (1, 3), }.
std::string header_value(const std::string& header, const std::string& key, char open, char close) {
  const std::size_t at = header.find("'" + key + "'");
  const std::size_t begin = at == std::string::npos ? at : header.find(open, at + key.size() + 2);
  const std::size_t end = begin == std::string::npos ? begin : header.find(close, begin + 1);
  return end == std::string::npos ? "" : header.substr(begin + 1, end - begin - 1);
}

Result<Shape> parse_dims(const std::string& text, const std::string& path) {
  Shape dims;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    if (*at == ' ' || *at == ',') {
      ++at;
      continue;
    }
    std::int64_t extent = 0;
    const auto [next, error] = std::from_chars(at, end, extent);
    if (error != std::errc{} || extent < 0) return bad(path, "shape '(" + text + ")'");
    dims.push_back(extent);
    at = next;
  }
  return dims;
}

class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ull;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

double random_value(Format format, std::uint64_t bits) {
  switch (format) {
    case Format::kI8:
      return static_cast<double>(bits >> 56) - 128.0;
    case Format::kU8:
      return static_cast<double>(bits >> 56);
    case Format::kBool:
      return static_cast<double>(bits >> 63);
    default:
      break;
  }
  if (format_is_float(format)) return static_cast<double>(bits >> 40) * 0x1p-23 - 1.0;
  return static_cast<double>((bits >> 33) % 10);
}

Result<Tensor> read_picture_input(const std::string& path, const TensorDescription& wanted,
                                  const ImagePreprocessing& how) {
  TESSERA_TRY(const Picture picture, read_picture(path));
  auto tensor = picture_tensor(picture, wanted, how);
  if (!tensor.ok()) return bad(path, tensor.error().message);
  return tensor;
}

}  // namespace

Result<ImagePreprocessing> parse_preprocessing(const std::string& text) {
  ImagePreprocessing result;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(';', at), text.size());
    const std::string part = text.substr(at, end - at);
    float* values = part.starts_with("mean=")  ? result.mean
                    : part.starts_with("std=") ? result.deviation
                                               : nullptr;
    if (values != nullptr) {
      const std::size_t begin = part.find('=') + 1;
      if (std::sscanf(part.c_str() + begin, "%f,%f,%f", values, values + 1, values + 2) != 3) {
        return Error{ErrorCode::kInvalidArgument,
                     fmt::format("--preprocess: '{}' needs three numbers", part)};
      }
    } else if (part == "order=bgr" || part == "order=rgb") {
      result.bgr = part == "order=bgr";
    } else {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("--preprocess: '{}' is not known; allowed: mean=R,G,B; std=R,G,B; "
                               "order=rgb|bgr",
                               part)};
    }
    at = end + 1;
  }
  return result;
}

Result<Tensor> parse_npy(std::span<const std::byte> bytes, const std::string& path) {
  if (bytes.size() < 12 || std::memcmp(bytes.data(), "\x93NUMPY", 6) != 0) {
    return bad(path, "not a NumPy file");
  }
  const bool wide = static_cast<unsigned>(bytes[6]) >= 2;
  std::uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, wide ? 4 : 2);
  const std::size_t data = (wide ? 12 : 10) + std::size_t{length};
  if (data > bytes.size()) return bad(path, "the header is longer than the file");
  const std::string header(reinterpret_cast<const char*>(bytes.data()) + (wide ? 12 : 10), length);
  const std::string descr = header_value(header, "descr", '\'', '\'');
  const bool is_swapped = descr.starts_with('>');  // the byte of most weight first
  const std::string known = is_swapped ? "<" + descr.substr(1) : descr;
  for (const NpyType& type : kNpyTypes) {
    if (known != type.descr) continue;
    TESSERA_TRY(const Shape dims, parse_dims(header_value(header, "shape", '(', ')'), path));
    if (dims.size() > kNpyRankMax) {
      return bad(path, fmt::format("{} dimensions, allowed {}", dims.size(), kNpyRankMax));
    }
    std::int64_t size = format_bytes(type.format);
    for (const std::int64_t extent : dims) {
      if (__builtin_mul_overflow(size, extent, &size)) return bad(path, "the shape overflows");
    }
    if (static_cast<std::uint64_t>(size) != bytes.size() - data) {
      return bad(path, fmt::format("{} bytes of data, the shape {} needs {}", bytes.size() - data,
                                   dims_text(dims), size));
    }
    std::vector<std::byte> elements(bytes.begin() + static_cast<std::ptrdiff_t>(data), bytes.end());
    if (is_swapped) swap_bytes(elements, format_bytes(type.format));
    if (header.find("'fortran_order': True") != std::string::npos) {
      elements = last_axis_fastest(elements, dims, format_bytes(type.format));
    }
    return Tensor{type.format, dims, std::move(elements)};
  }
  return bad(path, fmt::format("element type '{}' is not known", descr));
}

Result<Tensor> read_npy(const std::string& path) {
  TESSERA_TRY(const std::vector<std::byte> bytes, read_file(path, {.bytes_max = kTensorBytesMax}));
  return parse_npy(bytes, path);
}

Result<std::vector<std::byte>> npy_bytes(const Tensor& tensor, const std::string& path) {
  const char* descr = nullptr;
  for (const NpyType& type : kNpyTypes) {
    if (type.format == tensor.format) descr = type.descr;
  }
  if (descr == nullptr) {
    return Error{ErrorCode::kUnsupported, fmt::format("writing '{}': NumPy has no type for {}",
                                                      path, format_name(tensor.format))};
  }
  std::string dims;
  for (const std::int64_t extent : tensor.dims) dims += std::to_string(extent) + ", ";
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, dims);
  header.resize(static_cast<std::size_t>((10 + header.size() + 1 + 63) / 64 * 64 - 10), ' ');
  header.back() = '\n';
  std::vector<std::byte> bytes(10 + header.size());
  std::memcpy(bytes.data(), "\x93NUMPY\x01\x00", 8);
  const auto length = static_cast<std::uint16_t>(header.size());
  std::memcpy(bytes.data() + 8, &length, 2);
  std::memcpy(bytes.data() + 10, header.data(), header.size());
  bytes.insert(bytes.end(), tensor.bytes.begin(), tensor.bytes.end());
  return bytes;
}

Status write_npy(const std::string& path, const Tensor& tensor) {
  TESSERA_TRY(const std::vector<std::byte> bytes, npy_bytes(tensor, path));
  return write_file(path, bytes);
}

Tensor random_tensor(const TensorDescription& wanted, std::uint64_t seed, std::size_t input_index) {
  SplitMix64 random(seed * 1000003 + input_index);
  Tensor tensor = Tensor::zeros(wanted.format, wanted.dims);
  const std::int64_t element = format_bytes(wanted.format);
  for (std::int64_t i = 0; i < element_count(wanted.dims); ++i) {
    arith::write_element(wanted.format, random_value(wanted.format, random.next()),
                         tensor.bytes.data() + i * element);
  }
  return tensor;
}

namespace {

bool is_random(const std::string& source) {
  return source == "random" || source.starts_with("random:");
}

// Of "random" or "random:SEED".
Result<std::uint64_t> seed_of(const std::string& source) {
  std::uint64_t seed = 0;
  if (source == "random") return seed;
  const char* const begin = source.data() + std::string_view("random:").size();
  const char* const end = source.data() + source.size();
  const auto [rest, problem] = std::from_chars(begin, end, seed);
  if (begin != end && problem == std::errc() && rest == end) return seed;
  return bad(source,
             "the seed must be a whole number from 0 to 18446744073709551615, as in "
             "random:7");
}

}  // namespace

Result<Tensor> read_input(const std::string& source, const TensorDescription& wanted,
                          std::size_t input_index, const ImagePreprocessing& preprocessing) {
  if (is_random(source)) {
    TESSERA_TRY(const std::uint64_t seed, seed_of(source));
    return random_tensor(wanted, seed, input_index);
  }
  const auto has_suffix = [&source](const char* suffix) { return source.ends_with(suffix); };
  if (has_suffix(".png") || has_suffix(".jpg") || has_suffix(".jpeg")) {
    return read_picture_input(source, wanted, preprocessing);
  }
  TESSERA_TRY(Tensor tensor,
              has_suffix(".pb") ? model::import_tensor_file(source) : read_npy(source));
  if (tensor.format != wanted.format || tensor.dims != wanted.dims) {
    return bad(source, fmt::format("found {} {}, input '{}' takes {} {}",
                                   format_name(tensor.format), dims_text(tensor.dims), wanted.name,
                                   format_name(wanted.format), dims_text(wanted.dims)));
  }
  return tensor;
}

Result<std::vector<Tensor>> read_inputs(const std::vector<std::string>& texts,
                                        const std::vector<TensorDescription>& wanted,
                                        const ImagePreprocessing& preprocessing) {
  std::vector<std::optional<std::string>> sources(wanted.size());
  std::optional<std::string> others;  // of the inputs that are not named
  std::string names;
  for (const TensorDescription& input : wanted) names += (names.empty() ? "" : ", ") + input.name;
  for (const std::string& text : texts) {
    std::optional<std::string>* place = nullptr;
    std::string source = text;
    for (std::size_t i = 0; i < wanted.size() && place == nullptr; ++i) {
      if (!text.starts_with(wanted[i].name + "=")) continue;
      place = &sources[i];
      source = text.substr(wanted[i].name.size() + 1);
    }
    if (place == nullptr && sources.size() == 1 && text.find('=') == std::string::npos) {
      place = &sources[0];
    }
    if (place == nullptr && is_random(text)) place = &others;
    if (place == nullptr) {
      return Error{
          ErrorCode::kInvalidArgument,
          fmt::format("--input '{}': expected NAME=FILE, the inputs are: {}", text, names)};
    }
    if (place->has_value()) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("--input '{}': this input is given twice", text)};
    }
    *place = source;
  }
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    TESSERA_TRY(Tensor tensor, read_input(sources[i].value_or(others.value_or("random:0")),
                                          wanted[i], i, preprocessing));
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

}  // namespace tessera::tools
