#include "model/testing/attention_model.h"

#include <algorithm>
#include <cmath>

#include "model/testing/model_builder.h"

namespace tessera::model::testing {

Tensor waves(const Shape& dims, int seed) {
  Tensor tensor = Tensor::zeros(Format::kF32, dims);
  int i = seed;
  for (float& value : tensor.as<float>()) value = std::sin(static_cast<float>(++i * 7 % 101));
  return tensor;
}

Tensor attention_token(int step) { return waves({1, kAttentionHeads, 1, kAttentionWidth}, step); }

Tensor attention_mask(std::int64_t rows, std::int64_t seen) {
  Tensor tensor = Tensor::zeros(Format::kF32, {1, 1, 1, rows});
  std::fill(tensor.as<float>().begin() + seen, tensor.as<float>().end(), -30000.0f);
  return tensor;
}

std::string attention_model() {
  ModelBuilder builder(17);
  builder.open_input("x", Format::kF32, {"1", "2", "1", "16"});
  builder.open_input("past.k", Format::kF32, {"batch", "2", "past", "16"});
  builder.open_input("past.v", Format::kF32, {"batch", "2", "past", "16"});
  builder.open_input("mask", Format::kF32, {"1", "1", "1", "all"});
  builder.initializer("w", waves({16, 16}, 3)).initializer("u", waves({16, 16}, 5));
  builder.node("MatMul", {"x", "w"}, {"k"}).node("MatMul", {"x", "u"}, {"v"});
  builder.node("Concat", {"past.k", "k"}, {"present.k"}, {{"axis", std::int64_t{-2}}});
  builder.node("Concat", {"past.v", "v"}, {"present.v"}, {{"axis", std::int64_t{2}}});
  builder.node("Transpose", {"present.k"}, {"kt"}, {{"perm", Ints{0, 1, 3, 2}}});
  builder.node("MatMul", {"x", "kt"}, {"scores"}).node("Add", {"scores", "mask"}, {"masked"});
  builder.node("Softmax", {"masked"}, {"weights"}).node("MatMul", {"weights", "present.v"}, {"y"});
  builder.output("y").output("present.k").output("present.v");
  return builder.bytes();
}

}  // namespace tessera::model::testing
