#include "tools/workloads/workload_model.h"

#include <cmath>
#include <cstring>

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

model::Model product(const Workload& workload, ModelMaker& maker) {
  const std::vector<std::int64_t>& e = workload.extents;
  maker.input("a", {e[0], e[1]});
  maker.weights("b", {e[1], e[2]});
  maker.node("MatMul", {"a", "b"}, "c");
  return maker.finish("c");
}

model::Model convolution(const Workload& workload, ModelMaker& maker) {
  const std::vector<std::int64_t>& e = workload.extents;
  maker.input("images", {e[0], e[3], e[1], e[2]});
  maker.weights("kernels", {e[4], e[3], e[5], e[5]});
  const std::int64_t padding = e[7];
  maker.node("Conv", {"images", "kernels"}, "features",
             {{"strides", std::vector<std::int64_t>{e[6], e[6]}},
              {"kernel_shape", std::vector<std::int64_t>{e[5], e[5]}},
              {"pads", std::vector<std::int64_t>{padding, padding, padding, padding}}});
  return maker.finish("features");
}

model::Model attention(const Workload& workload, ModelMaker& maker) {
  const std::vector<std::int64_t>& e = workload.extents;
  for (const char* const name : {"queries", "keys", "values"})
    maker.input(name, {e[0], e[1], e[2]});
  maker.scalar("factor", 1 / std::sqrt(static_cast<float>(e[2])));
  maker.node("Transpose", {"keys"}, "keys_turned", {{"perm", std::vector<std::int64_t>{0, 2, 1}}});
  maker.node("MatMul", {"queries", "keys_turned"}, "scores");
  maker.node("Mul", {"scores", "factor"}, "scaled");
  maker.node("Softmax", {"scaled"}, "shares", {{"axis", std::int64_t{-1}}});
  maker.node("MatMul", {"shares", "values"}, "mixed");
  return maker.finish("mixed");
}

model::Model layer_norm(const Workload& workload, ModelMaker& maker) {
  maker.input("x", workload.extents);
  const Shape along = {workload.extents.back()};
  maker.weights("gain", along);
  maker.weights("offset", along);
  maker.node("LayerNormalization", {"x", "gain", "offset"}, "y", {{"axis", std::int64_t{-1}}});
  return maker.finish("y");
}

model::Model softmax(const Workload& workload, ModelMaker& maker) {
  maker.input("x", workload.extents);
  maker.node("Softmax", {"x"}, "y", {{"axis", std::int64_t{-1}}});
  return maker.finish("y");
}

}  // namespace

model::Model workload_model(const Workload& workload, Format format) {
  ModelMaker maker(workload.name, format);
  switch (workload.kind) {
    case WorkloadKind::kProduct:
      return product(workload, maker);
    case WorkloadKind::kConvolution:
      return convolution(workload, maker);
    case WorkloadKind::kAttention:
      return attention(workload, maker);
    case WorkloadKind::kLayerNorm:
      return layer_norm(workload, maker);
    case WorkloadKind::kSoftmax:
      return softmax(workload, maker);
    case WorkloadKind::kNetwork:
      break;
  }
  TESSERA_CHECK(false, "'{}' is a network", workload.name);
  return {};
}

std::int64_t workload_weights(const Workload& workload) {
  const std::vector<std::int64_t>& e = workload.extents;
  if (workload.kind == WorkloadKind::kProduct) return e[1] * e[2];
  if (workload.kind == WorkloadKind::kConvolution) return e[3] * e[4] * e[5] * e[5];
  return 0;
}

}  // namespace tessera::tools
