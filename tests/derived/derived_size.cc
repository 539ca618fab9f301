// The size of derived software: operations per matrix layer, and the ONNX file and the model's.
//
//   derived_size                                        a generated model of the layers that
//                                                       text recognition has
//   derived_size --data FOLDER --text-models FOLDER     every stored model
//
// Ends with 1 where a matrix layer of a float model has more than 40 operations or the derived file
// is more than 3 times the model's; with 77 (skipped) where no stored model is there.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <set>

#include "concord/fold/fold.h"
#include "concord/write/layer_nodes.h"
#include "concord/write/onnx.h"
#include "derived_case.h"
#include "tools/terminal/console.h"
#include "zoo/network_builder.h"

namespace tessera::derived {
namespace {

constexpr std::int64_t kMatrixNodesMax = 40;
constexpr std::uintmax_t kBytesRatioMax = 3;

// Convolutions with strides, one channel-wise, one with asymmetric kernel; then a block of
// attention over the columns, and a product per column with softmax.
Status write_recognition(const std::string& path) {
  zoo::NetworkBuilder b("recognition", 1, true);
  const auto conv = [&](const zoo::Value& x, zoo::Convolution shape) { return b.conv(x, shape); };
  zoo::Value x = b.input("x", {1, 3, 48, 160});
  x = conv(x, {.output_channels = 16, .kernel_h = 3, .kernel_w = 3, .stride = 2});
  x = conv(x, {.output_channels = 16, .kernel_h = 3, .kernel_w = 3, .stride = 1, .groups = 16});
  x = conv(x, {.output_channels = 160, .stride = 2});
  x = conv(x, {.output_channels = 160, .kernel_h = 5, .kernel_w = 5, .stride = 2, .groups = 160});
  x = conv(
      x,
      {.output_channels = 96, .kernel_h = 1, .kernel_w = 3, .activation = zoo::Activation::kNone});
  x = b.average_pool(x, {.kernel = 3, .stride = 2});
  x = conv(x, {.output_channels = 192, .kernel_h = 3, .kernel_w = 3});
  const std::int64_t width = 192, columns = x.dims[2] * x.dims[3], heads = 4;
  x = b.transpose(b.reshape(x, {1, width, columns}), {0, 2, 1});
  const auto split = [&](const zoo::Value& all) {
    return b.transpose(b.reshape(all, {1, columns, heads, width / heads}), {0, 2, 1, 3});
  };
  const zoo::Value normal = b.layer_normalise(x);
  const zoo::Value q = split(b.linear(normal, width)), k = split(b.linear(normal, width));
  const zoo::Value v = split(b.linear(normal, width));
  const zoo::Value scores =
      b.softmax(b.scale(b.matmul(q, b.transpose(k, {0, 1, 3, 2})), 1 / std::sqrt(48.0)));
  const zoo::Value mixed = b.transpose(b.matmul(scores, v), {0, 2, 1, 3});
  x = b.add(x, b.linear(b.reshape(mixed, {1, columns, width}), width));
  x = b.add(x, b.linear(b.gelu(b.linear(b.layer_normalise(x), 2 * width)), width));
  b.output(b.softmax(b.linear(b.layer_normalise(x), 600)), "probabilities");
  return b.write(path);
}

// A row of the table.
Status measure(const Recipe& recipe) {
  TESSERA_TRY(const concord::Software unrolled, derive_recipe(recipe));
  const concord::Software software = concord::folded(unrolled);
  TESSERA_TRY(const std::vector<std::byte> file, concord::write_onnx(software));
  const concord::LayerNodes nodes = concord::count_layer_nodes(software);
  const std::uintmax_t bytes = std::filesystem::file_size(recipe.source);
  fmt::print("{:<31} {:>6} {:>7} {:>6.1f} {:>5} {:>12} {:>12} {:>6.2f}\n", recipe.name,
             nodes.matrix_layers, tools::with_separators(nodes.nodes), nodes.matrix_nodes_mean(),
             nodes.matrix_nodes_max, tools::with_separators(static_cast<std::int64_t>(bytes)),
             tools::with_separators(static_cast<std::int64_t>(file.size())),
             static_cast<double>(file.size()) / static_cast<double>(bytes));
  if (nodes.matrix_layers == 0 || nodes.matrix_nodes_max > kMatrixNodesMax) {
    return Error{
        ErrorCode::kInternal,
        fmt::format("{}: of {} matrix layers one has {} operations, allowed {}", recipe.name,
                    nodes.matrix_layers, nodes.matrix_nodes_max, kMatrixNodesMax)};
  }
  if (file.size() <= kBytesRatioMax * bytes) return {};
  return Error{ErrorCode::kInternal,
               fmt::format("{}: the derived file has {} bytes, allowed {} times {}", recipe.name,
                           file.size(), kBytesRatioMax, bytes)};
}

Result<int> measure_stored(const std::string& data, const std::string& text_models) {
  std::vector<Recipe> recipes;
  const auto text = [&](const char* name, const char* file, const char* shape) {
    recipes.push_back({.name = name,
                       .source = text_models + "/" + file,
                       .arch = "tessera128",
                       .shapes = {std::string("x=") + shape}});
  };
  text("text direction", "ch_ppocr_mobile_v2.0_cls_infer.onnx", "1x3x48x192");
  text("text detection", "ch_PP-OCRv4_det_infer.onnx", "1x3x352x352");
  text("text recognition", "ch_PP-OCRv4_rec_infer.onnx", "1x3x48x320");
  std::set<std::filesystem::path> models;
  std::error_code absent;
  for (const auto& entry : std::filesystem::directory_iterator(data + "/models", absent)) {
    if (entry.path().extension() == ".onnx") models.insert(entry.path());
  }
  for (const std::filesystem::path& model : models) {
    recipes.push_back({.name = model.stem(), .source = model, .arch = "tessera128"});
  }
  int measured = 0;
  for (const Recipe& recipe : recipes) {
    if (!std::filesystem::exists(recipe.source)) {
      fmt::print("{:<31} skipped: it is not there\n", recipe.name);
      continue;
    }
    TESSERA_RETURN_IF_ERROR(measure(recipe));
    ++measured;
  }
  return measured;
}

Result<int> run(const std::string& data, const std::string& text_models) {
  fmt::print("{:<31} {:>6} {:>7} {:>6} {:>5} {:>12} {:>12} {:>6}\n", "model", "matrix", "nodes",
             "mean", "most", "bytes", "derived", "times");
  if (!data.empty()) return measure_stored(data, text_models);
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("recognition_{}.onnx", getpid()))
          .string();
  TESSERA_RETURN_IF_ERROR(write_recognition(path));
  const Status status =
      measure({.name = "generated recognition", .source = path, .arch = "tessera128"});
  std::filesystem::remove(path);
  if (!status.ok()) return status.error();
  return 1;
}

}  // namespace
}  // namespace tessera::derived

int main(int count, char** words) {
  using namespace tessera;
  std::string data, text_models;
  for (int i = 1; i + 1 < count; i += 2) {
    (std::string(words[i]) == "--data" ? data : text_models) = words[i + 1];
  }
  const Result<int> measured = derived::run(data, text_models);
  if (!measured.ok()) {
    fmt::print(stderr, "{}\n", measured.error().to_string());
    return 1;
  }
  return *measured > 0 ? 0 : 77;
}
