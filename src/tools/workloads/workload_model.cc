#include "tools/workloads/workload_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/check.h"

namespace tessera::tools {
namespace {

using repro::Workload;
using repro::WorkloadKind;

constexpr std::int64_t kOpset = 22;  // the first whose convolutions take bfloat16

// Bits of a value from 1 to 2 in the format's highest byte or two.
void fill(Tensor& tensor) {
  const std::int64_t element = format_bytes(tensor.format);
  const std::int64_t count = static_cast<std::int64_t>(tensor.bytes.size()) / element;
  const std::uint32_t one = tensor.format == Format::kF16 ? 0x3c00 : 0x3f80;
  const int varied = tensor.format == Format::kF16 ? 10 : 7;  // bits of the mantissa
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t mixed = static_cast<std::uint32_t>(i) * 2'654'435'769U;
    const auto bits = static_cast<std::uint16_t>(one | mixed >> (32 - varied));
    std::memcpy(tensor.bytes.data() + (i + 1) * element - 2, &bits, sizeof(bits));
  }
}

class ModelMaker {
 public:
  ModelMaker(const std::string& name, Format format) : format_(format) {
    model_.path = name;
    model_.ir_version = 10;
    model_.opsets[""] = kOpset;
    model_.graph.name = name;
  }

  void input(const std::string& name, const Shape& dims) {
    model_.graph.inputs.push_back(value(name, dims));
  }
  void weights(const std::string& name, const Shape& dims) {
    Tensor tensor = Tensor::zeros(format_, dims);
    fill(tensor);
    model_.graph.initializers.emplace(name, std::move(tensor));
  }
  void scalar(const std::string& name, float number) {
    // bf16 is the upper half of f32; f16 is taken from the nearest power of two.
    Tensor tensor = Tensor::zeros(format_, {});
    if (format_ == Format::kF16) {
      const auto bits = static_cast<std::uint16_t>((15 + std::lround(std::log2(number))) << 10);
      std::memcpy(tensor.bytes.data(), &bits, sizeof(bits));
    } else {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &number, sizeof(bits));
      if (format_ == Format::kBf16) bits >>= 16;
      std::memcpy(tensor.bytes.data(), &bits, tensor.bytes.size());
    }
    model_.graph.initializers.emplace(name, std::move(tensor));
  }
  void node(const std::string& type, const std::vector<std::string>& inputs,
            const std::string& output, const model::Attributes& attributes = {}) {
    model::Node node;
    node.name = output + "_" + type;
    node.op_type = type;
    node.inputs = inputs;
    node.outputs = {output};
    node.attributes = attributes;
    model_.graph.nodes.push_back(std::move(node));
  }
  void split(const std::string& input, std::int64_t axis, const std::vector<std::int64_t>& sizes,
             const std::vector<std::string>& outputs) {
    Tensor tensor = Tensor::zeros(Format::kI64, {static_cast<std::int64_t>(sizes.size())});
    std::memcpy(tensor.bytes.data(), sizes.data(), tensor.bytes.size());
    model_.graph.initializers.emplace(input + "_sizes", std::move(tensor));
    node("Split", {input, input + "_sizes"}, outputs.front(), {{"axis", axis}});
    model_.graph.nodes.back().outputs = outputs;
  }
  model::Model finish(const std::string& output) {
    model::ValueInfo info;
    info.name = output;
    info.format = format_;
    model_.graph.outputs.push_back(std::move(info));
    return std::move(model_);
  }

 private:
  model::ValueInfo value(const std::string& name, const Shape& dims) const {
    model::ValueInfo info;
    info.name = name;
    info.format = format_;
    info.has_shape = true;
    for (const std::int64_t extent : dims) info.dims.push_back({extent, ""});
    return info;
  }

  const Format format_;
  model::Model model_;
};

// `name` cut along an axis into parts of about the same size; their names.
std::vector<std::string> split(ModelMaker& maker, const std::string& name, std::int64_t axis,
                               std::int64_t extent, std::int64_t parts) {
  if (parts == 1) return {name};
  std::vector<std::int64_t> sizes;
  std::vector<std::string> names;
  for (std::int64_t part = 0; part < parts; ++part) {
    sizes.push_back(extent * (part + 1) / parts - extent * part / parts);
    names.push_back(name + "_" + std::to_string(part));
  }
  maker.split(name, axis, sizes, names);
  return names;
}

// Parts of a sum, added up.
model::Model sum(ModelMaker& maker, const std::vector<std::string>& parts) {
  std::string so_far = parts.front();
  for (std::size_t part = 1; part < parts.size(); ++part) {
    maker.node("Add", {so_far, parts[part]}, parts[part] + "_sum");
    so_far = parts[part] + "_sum";
  }
  return maker.finish(so_far);
}

std::int64_t size_of_part(std::int64_t extent, std::size_t part, std::size_t parts) {
  const auto border = [&](std::size_t i) {
    return extent * static_cast<std::int64_t>(i) / static_cast<std::int64_t>(parts);
  };
  return border(part + 1) - border(part);
}

model::Model product(const Workload& workload, std::int64_t parts, ModelMaker& maker) {
  const std::vector<std::int64_t>& e = workload.extents;
  maker.input("a", {e[0], e[1]});
  const std::vector<std::string> moving = split(maker, "a", 1, e[1], std::min(parts, e[1]));
  std::vector<std::string> results;
  for (std::size_t part = 0; part < moving.size(); ++part) {
    const std::string weights = "b_" + std::to_string(part);
    maker.weights(weights, {size_of_part(e[1], part, moving.size()), e[2]});
    results.push_back(moving[part] + "_c");
    maker.node("MatMul", {moving[part], weights}, results.back());
  }
  return sum(maker, results);
}

model::Model convolution(const Workload& workload, std::int64_t parts, ModelMaker& maker) {
  const std::vector<std::int64_t>& e = workload.extents;
  maker.input("images", {e[0], e[3], e[1], e[2]});
  const std::vector<std::string> images = split(maker, "images", 1, e[3], std::min(parts, e[3]));
  const model::Attributes attributes = {
      {"strides", std::vector<std::int64_t>{e[6], e[6]}},
      {"kernel_shape", std::vector<std::int64_t>{e[5], e[5]}},
      {"pads", std::vector<std::int64_t>{e[7], e[7], e[7], e[7]}}};
  std::vector<std::string> results;
  for (std::size_t part = 0; part < images.size(); ++part) {
    const std::string kernels = "kernels_" + std::to_string(part);
    maker.weights(kernels, {e[4], size_of_part(e[3], part, images.size()), e[5], e[5]});
    results.push_back(images[part] + "_features");
    maker.node("Conv", {images[part], kernels}, results.back(), attributes);
  }
  return sum(maker, results);
}

std::string join(ModelMaker& maker, const std::vector<std::string>& parts, std::int64_t axis,
                 const std::string& name) {
  if (parts.size() == 1) return parts.front();
  maker.node("Concat", parts, name, {{"axis", axis}});
  return name;
}

// Heads first, then the queries of each head.
model::Model attention(const Workload& workload, std::int64_t parts, ModelMaker& maker) {
  const std::vector<std::int64_t>& e = workload.extents;
  for (const char* const name : {"queries", "keys", "values"}) {
    maker.input(name, {e[0], e[1], e[2]});
  }
  maker.scalar("factor", 1 / std::sqrt(static_cast<float>(e[2])));
  const std::int64_t groups = std::min(parts, e[0]);
  const std::int64_t bands = std::clamp<std::int64_t>(parts / groups, 1, e[1]);
  const std::vector<std::string> queries = split(maker, "queries", 0, e[0], groups);
  const std::vector<std::string> keys = split(maker, "keys", 0, e[0], groups);
  const std::vector<std::string> values = split(maker, "values", 0, e[0], groups);
  std::vector<std::string> results;
  for (std::size_t group = 0; group < queries.size(); ++group) {
    const std::string turned = keys[group] + "_turned";
    maker.node("Transpose", {keys[group]}, turned, {{"perm", std::vector<std::int64_t>{0, 2, 1}}});
    std::vector<std::string> mixed;
    for (const std::string& band : split(maker, queries[group], 1, e[1], bands)) {
      maker.node("MatMul", {band, turned}, band + "_scores");
      maker.node("Mul", {band + "_scores", "factor"}, band + "_scaled");
      maker.node("Softmax", {band + "_scaled"}, band + "_shares", {{"axis", std::int64_t{-1}}});
      maker.node("MatMul", {band + "_shares", values[group]}, band + "_mixed");
      mixed.push_back(band + "_mixed");
    }
    results.push_back(join(maker, mixed, 1, queries[group] + "_group"));
  }
  return maker.finish(join(maker, results, 0, "mixed"));
}

model::Model along_rows(const Workload& workload, std::int64_t parts, ModelMaker& maker) {
  const bool norm = workload.kind == WorkloadKind::kLayerNorm;
  maker.input("x", workload.extents);
  if (norm) {
    maker.weights("gain", {workload.extents.back()});
    maker.weights("offset", {workload.extents.back()});
  }
  const std::int64_t rows = workload.extents.size() > 1 ? workload.extents.front() : 1;
  std::vector<std::string> results;
  for (const std::string& part : split(maker, "x", 0, rows, std::min(parts, rows))) {
    results.push_back(part + "_y");
    const model::Attributes last = {{"axis", std::int64_t{-1}}};
    if (norm) {
      maker.node("LayerNormalization", {part, "gain", "offset"}, results.back(), last);
    } else {
      maker.node("Softmax", {part}, results.back(), last);
    }
  }
  return maker.finish(join(maker, results, 0, "y"));
}

}  // namespace

model::Model workload_model(const Workload& workload, Format format, std::int64_t parts) {
  ModelMaker maker(workload.name, format);
  switch (workload.kind) {
    case WorkloadKind::kProduct:
      return product(workload, parts, maker);
    case WorkloadKind::kConvolution:
      return convolution(workload, parts, maker);
    case WorkloadKind::kAttention:
      return attention(workload, parts, maker);
    case WorkloadKind::kLayerNorm:
    case WorkloadKind::kSoftmax:
      return along_rows(workload, parts, maker);
    case WorkloadKind::kNetwork:
      break;
  }
  TESSERA_CHECK(false, "'{}' is a network", workload.name);
  return {};
}

std::int64_t workload_intermediates(const Workload& workload) {
  const std::vector<std::int64_t>& e = workload.extents;
  if (workload.kind == WorkloadKind::kAttention) return e[0] * e[1] * e[1];
  if (workload.kind != WorkloadKind::kLayerNorm && workload.kind != WorkloadKind::kSoftmax)
    return 0;
  if (e.size() == 1) return 0;
  return std::accumulate(e.begin(), e.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t workload_depth(const Workload& workload) {
  const std::vector<std::int64_t>& e = workload.extents;
  if (workload.kind == WorkloadKind::kProduct) return e[1];
  if (workload.kind == WorkloadKind::kConvolution) return e[3] * e[5] * e[5];
  return 0;
}

std::int64_t workload_weights(const Workload& workload) {
  const std::vector<std::int64_t>& e = workload.extents;
  if (workload.kind == WorkloadKind::kProduct) return e[1] * e[2];
  if (workload.kind == WorkloadKind::kConvolution) return e[3] * e[4] * e[5] * e[5];
  return 0;
}

}  // namespace tessera::tools
