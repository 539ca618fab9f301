#include "tools/files/golden.h"

#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "arith/rounding.h"
#include "base/output_file.h"
#include "package/container.h"
#include "tools/files/tensor_file.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

// A folder and what is written into it.
struct GoldenFiles {
  const std::string& folder;
  FileRoles& roles;
  OutputFiles files;

  Status add(const std::string& name, std::span<const std::byte> bytes) {
    const std::string path = folder + "/" + name;
    roles.write("golden file", path);
    return files.add(path, bytes);
  }
};

// Every kEdgeStride-th element of an edge tensor is an edge value.
constexpr std::int64_t kEdgeStride = 3;

std::uint64_t mix(std::uint64_t hash, const Tensor& tensor) {
  for (const std::byte byte : tensor.bytes) {
    hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001B3;
  }
  return hash;
}

Result<nlohmann::json> write_tensors(const std::string& stem, const std::vector<std::string>& names,
                                     const std::vector<Tensor>& tensors, GoldenFiles& golden) {
  nlohmann::json entries = nlohmann::json::array();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string file = fmt::format("{}{}.bin", stem, i);
    TESSERA_RETURN_IF_ERROR(golden.add(file, tensors[i].bytes));
    entries.push_back({{"name", names[i]},
                       {"format", format_name(tensors[i].format)},
                       {"dims", tensors[i].dims},
                       {"file", file}});
  }
  return entries;
}

}  // namespace

std::uint64_t golden_digest(const GoldenSet& set) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const GoldenVector& vector : set.vectors) {
    for (const Tensor& tensor : vector.inputs) hash = mix(hash, tensor);
    for (const Tensor& tensor : vector.outputs) hash = mix(hash, tensor);
  }
  return hash;
}

Status write_golden(const std::string& folder, const GoldenSet& set, FileRoles roles) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("cannot make folder '{}': {}", folder, error.message())};
  }
  GoldenFiles golden{folder, roles, {}};
  nlohmann::json vectors = nlohmann::json::array();
  for (std::size_t i = 0; i < set.vectors.size(); ++i) {
    const GoldenVector& vector = set.vectors[i];
    const std::string stem = fmt::format("vector{}_", i);
    TESSERA_TRY(nlohmann::json inputs,
                write_tensors(stem + "input", set.input_names, vector.inputs, golden));
    TESSERA_TRY(nlohmann::json outputs,
                write_tensors(stem + "output", set.output_names, vector.outputs, golden));
    vectors.push_back({{"source", vector.source}, {"inputs", inputs}, {"outputs", outputs}});
  }
  const nlohmann::json document = {{"digest", fmt::format("{:016x}", golden_digest(set))},
                                   {"vectors", std::move(vectors)}};
  const std::string text = json_text(document) + "\n";
  TESSERA_RETURN_IF_ERROR(golden.add("golden.json", std::as_bytes(std::span(text))));
  TESSERA_RETURN_IF_ERROR(roles.check());
  return golden.files.commit();
}

Tensor edge_tensor(const TensorDescription& wanted, std::uint64_t seed, std::size_t input_index) {
  Tensor tensor = random_tensor(wanted, seed, input_index);
  if (!format_is_float(wanted.format)) return tensor;
  const bool f16 = wanted.format == Format::kF16;
  const double values[] = {0.0,
                           -0.0,
                           0x1p-24,
                           -0x1.8p-24,
                           0x1p-14,
                           -0x1.ffcp-15,
                           2048.0,
                           -0.5,
                           65504.0,
                           -65504.0,
                           f16 ? 1.0 : 0x1p-140,
                           f16 ? -1.0 : 3.4028234663852886e38,
                           std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::quiet_NaN()};
  // Odd seeds without NaN and infinities, which would drown the rest.
  const std::size_t count = std::size(values) - (seed % 2 == 0 ? 0 : 3);
  std::size_t next = static_cast<std::size_t>(seed);
  for (std::int64_t i = 0; i < element_count(wanted.dims); i += kEdgeStride) {
    arith::write_element(wanted.format, values[next++ % count],
                         tensor.bytes.data() + i * format_bytes(wanted.format));
  }
  return tensor;
}

}  // namespace tessera::tools
