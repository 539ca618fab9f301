// Nodes made at random: any operator with any attributes, extreme ones included, on small tensors
// of any format. A node may be refused or be in error; it may not crash, and what it answers agrees
// with the shape function.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "model/evaluate.h"
#include "model/ops/apply.h"
#include "model/ops/operators.h"

namespace tessera::model {
namespace {

using Integers = std::vector<std::int64_t>;

class Maker {
 public:
  explicit Maker(std::uint64_t seed) : random_(seed) {}

  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(limit));
  }

  std::int64_t integer() {
    static constexpr std::array<std::int64_t, 12> kExtremes{INT64_MIN,
                                                            INT64_MIN + 1,
                                                            -(std::int64_t{1} << 31),
                                                            INT32_MIN,
                                                            -1000,
                                                            1000,
                                                            INT32_MAX,
                                                            std::int64_t{1} << 31,
                                                            std::int64_t{1} << 32,
                                                            std::int64_t{1} << 40,
                                                            INT64_MAX - 1,
                                                            INT64_MAX};
    if (below(20) == 0) return kExtremes[static_cast<std::size_t>(below(kExtremes.size()))];
    return below(7) - 2;
  }

  Integers integers(std::int64_t most) {
    Integers values(static_cast<std::size_t>(below(most + 1)));
    for (std::int64_t& value : values) value = integer();
    return values;
  }

  Tensor tensor() {
    Shape dims(static_cast<std::size_t>(below(5)));
    for (std::int64_t& dim : dims) dim = below(20) == 0 ? 0 : 1 + below(3);
    return filled(format(), dims);
  }

  // Formats that meet often, so that a good part of the nodes are valid.
  Format format() {
    if (below(2) == 0) return Format::kF32;
    if (below(3) == 0) return Format::kI64;
    return static_cast<Format>(below(kFormatCount));
  }

  Tensor filled(Format format, const Shape& dims) {
    Tensor tensor = Tensor::zeros(format, dims);
    if (format == Format::kI64) {
      for (std::int64_t& value : tensor.as<std::int64_t>()) value = integer();
    } else if (format == Format::kF32) {
      for (float& value : tensor.as<float>()) value = static_cast<float>(integer());
    } else {
      for (std::byte& byte : tensor.bytes) {
        byte = static_cast<std::byte>(below(format == Format::kBool ? 2 : 256));
      }
    }
    return tensor;
  }

  // Mostly of the same format, often of the same shape, sometimes a vector of small integers.
  Tensor like(const Tensor& other) {
    if (below(4) == 0) return filled(Format::kI64, {below(4)});
    if (below(4) == 0) return filled(other.format, {1 + below(4)});
    return filled(other.format, other.dims);
  }

  // "axis:i", "mode:s=a|b", ...: about half of the operator's attributes.
  Attributes attributes(std::string_view declared) {
    Attributes result;
    while (!declared.empty()) {
      const std::string_view entry = declared.substr(0, declared.find(' '));
      declared.remove_prefix(std::min(declared.size(), entry.size() + 1));
      if (below(2) == 0) continue;
      const std::size_t colon = entry.find(':');
      const std::size_t equals = std::min(entry.find('='), entry.size());
      const std::string name(entry.substr(0, colon));
      const std::string_view type = entry.substr(colon + 1, equals - colon - 1);
      if (type == "i") result[name] = integer();
      if (type == "f") result[name] = static_cast<float>(integer());
      if (type == "is") result[name] = integers(8);
      if (type == "t") result[name] = tensor();
      if (type == "fs") result[name] = std::vector<float>(static_cast<std::size_t>(below(4)), 1.5F);
      if (type == "ss") result[name] = std::vector<std::string>(1, "Relu");
      if (type == "s") result[name] = choice(entry.substr(std::min(entry.size(), equals + 1)));
    }
    return result;
  }

 private:
  std::string choice(std::string_view choices) {
    if (choices.empty()) return below(2) == 0 ? "...i,i" : "ij,jk->ik";  // Einsum's equation
    std::vector<std::string> all;
    while (!choices.empty()) {
      all.emplace_back(choices.substr(0, choices.find('|')));
      choices.remove_prefix(std::min(choices.size(), all.back().size() + 1));
    }
    return all[static_cast<std::size_t>(below(static_cast<std::int64_t>(all.size())))];
  }

  std::mt19937_64 random_;
};

struct Sample {
  Node node;
  std::int64_t opset = 0;
  std::vector<Tensor> tensors;
};

Sample make_sample(Maker& maker) {
  const auto rows = ops::operators();
  const ops::Operator& row =
      rows[static_cast<std::size_t>(maker.below(static_cast<std::int64_t>(rows.size())))];
  Sample sample;
  sample.opset = maker.below(4) == 0 ? 1 + maker.below(21) : 13 + maker.below(9);
  sample.node.name = "n";
  sample.node.op_type = std::string(row.name);
  sample.node.attributes = maker.attributes(row.attributes);
  const int most = std::min(row.inputs_max, row.inputs_min + 3);
  const auto count = row.inputs_min + maker.below(most - row.inputs_min + 1);
  const bool alike = maker.below(4) > 0;
  for (std::int64_t i = 0; i < count; ++i) {
    sample.node.inputs.push_back(
        i >= row.inputs_min && maker.below(6) == 0 ? "" : fmt::format("x{}", i));
    const bool like_first = alike && i > 0 && maker.below(3) > 0;
    sample.tensors.push_back(like_first ? maker.like(sample.tensors[0]) : maker.tensor());
  }
  for (std::int64_t i = 0; i < (maker.below(4) == 0 ? 3 : 1); ++i) {
    sample.node.outputs.push_back(fmt::format("y{}", i));
  }
  return sample;
}

// Shapes without elements must be found equal, or refused.
void compare_shapes(const Sample& sample, const std::vector<Tensor>& outputs) {
  std::vector<ops::Argument> arguments;
  for (std::size_t i = 0; i < sample.tensors.size(); ++i) {
    const Tensor& tensor = sample.tensors[i];
    arguments.push_back({!sample.node.inputs[i].empty(), tensor.format, &tensor.dims, nullptr});
  }
  const auto shapes = ops::apply_shape(sample.node, sample.opset, arguments);
  if (!shapes.ok()) {
    EXPECT_EQ(shapes.error().code, ErrorCode::kUnsupported) << shapes.error().to_string();
    return;
  }
  ASSERT_EQ(shapes->size(), outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_EQ((*shapes)[i].dims, outputs[i].dims);
    EXPECT_EQ((*shapes)[i].format, outputs[i].format);
  }
}

TEST(EvaluateRandom, AnyNodeIsAnsweredOrRefused) {
  const char* given = std::getenv("TESSERA_SEED");
  const std::uint64_t seed = given == nullptr ? 20 : std::strtoull(given, nullptr, 10);
  std::cout << "seed " << seed << "\n";
  Maker maker(seed);
  int answered = 0;
  constexpr int kNodes = 20'000;
  for (int i = 0; i < kNodes && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(fmt::format("node {}", i));
    Sample sample = make_sample(maker);
    std::vector<const Tensor*> inputs;
    for (std::size_t k = 0; k < sample.tensors.size(); ++k) {
      inputs.push_back(sample.node.inputs[k].empty() ? nullptr : &sample.tensors[k]);
    }
    SCOPED_TRACE(sample.node.op_type);
    const auto outputs = evaluate(sample.node, sample.opset, inputs);
    if (!outputs.ok()) continue;
    ++answered;
    compare_shapes(sample, *outputs);
  }
  std::cout << fmt::format("{} of {} nodes answered\n", answered, kNodes);
  EXPECT_GT(answered, 1000);
}

}  // namespace
}  // namespace tessera::model
