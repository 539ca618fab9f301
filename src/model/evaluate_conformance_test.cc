// ONNX's own conformance cases (package libonnx-testdata), node by node through import, infer and
// evaluate: each case passes, is refused with a reason, or is wrong; none may be wrong.
//
// Tolerance for floats: |found - expected| <= 1e-7 + 1e-3 * |expected|; integers are equal.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "arith/rounding.h"
#include "model/evaluate.h"
#include "model/import.h"
#include "model/infer.h"

namespace tessera::model {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTestData = "/usr/share/libonnx-testdata/data";

using Values = std::map<std::string, Tensor>;

// Runs nodes in order. Only If is not evaluate()'s own business.
Status run_nodes(const Model& model, const Subgraph& graph, Values& values) {
  const auto found = model.opsets.find("");
  const std::int64_t opset = found == model.opsets.end() ? 1 : found->second;
  for (const auto& [name, tensor] : graph.initializers) values[name] = tensor;
  for (const Node& node : graph.nodes) {
    if (node.op_type == "If" && node.domain.empty()) {
      const bool taken = values.at(node.inputs[0]).bytes[0] != std::byte{0};
      const auto& branch = std::get<std::shared_ptr<const Subgraph>>(
          node.attributes.at(taken ? "then_branch" : "else_branch"));
      TESSERA_RETURN_IF_ERROR(run_nodes(model, *branch, values));
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        values[node.outputs[i]] = Tensor(values.at(branch->outputs[i].name));
      }
      continue;
    }
    std::vector<const Tensor*> inputs;
    for (const std::string& name : node.inputs) {
      inputs.push_back(name.empty() ? nullptr : &values.at(name));
    }
    TESSERA_TRY(std::vector<Tensor> outputs, evaluate(node, opset, inputs));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!node.outputs[i].empty()) values[node.outputs[i]] = std::move(outputs[i]);
    }
  }
  return {};
}

// Empty, or the first difference.
std::string difference(const Tensor& found, const Tensor& expected) {
  if (found.format != expected.format || found.dims != expected.dims) {
    return "format or shape differs";
  }
  if (!format_is_float(found.format)) return found == expected ? "" : "integers differ";
  const std::int64_t count = element_count(found.dims);
  const std::int64_t width = format_bytes(found.format);
  for (std::int64_t i = 0; i < count; ++i) {
    const double a = arith::read_element(found.format, found.bytes.data() + i * width);
    const double b = arith::read_element(found.format, expected.bytes.data() + i * width);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    // f16 saturates here (docs/numbers.md) where ONNX gives an infinity.
    if (found.format == Format::kF16 && std::isinf(b) && a == std::copysign(65504.0, b)) continue;
    // The package's bf16 values were cut off, not rounded: one unit in the last place.
    const double relative = found.format == Format::kBf16 ? 0x1p-7 : 1e-3;
    if (!(std::fabs(a - b) <= 1e-7 + relative * std::fabs(b))) {
      return fmt::format("element {} is {}, expected {}", i, a, b);
    }
  }
  return "";
}

struct Tally {
  std::vector<std::string> passed;
  std::map<std::string, std::vector<std::string>> refused;  // reason -> cases
  std::vector<std::string> wrong;
  int inferred = 0;
};

// input_0.pb, input_1.pb, ... in their order.
std::vector<fs::path> numbered(const fs::path& folder, const std::string& stem) {
  std::vector<fs::path> files;
  for (int i = 0;; ++i) {
    const fs::path file = folder / fmt::format("{}_{}.pb", stem, i);
    if (!fs::exists(file)) return files;
    files.push_back(file);
  }
}

// Shapes and formats that infer() finds must be those of the values.
std::string inference_difference(const Model& model, const Values& inputs, const Values& values,
                                 int& inferred) {
  InferOptions options;
  for (const ValueInfo& input : model.graph.inputs) {
    const Shape& dims = inputs.at(input.name).dims;
    // Where the file declares another rank than it comes with, the declared shape is taken.
    if (!input.has_shape || dims.size() == input.dims.size()) options.shapes[input.name] = dims;
  }
  const auto result = infer(model, options);
  if (!result.ok()) {
    if (result.error().code == ErrorCode::kUnsupported) return "";
    return "infer: " + result.error().to_string();
  }
  ++inferred;
  for (const auto& [name, typed] : result->values) {
    if (inputs.contains(name)) continue;
    const auto found = values.find(name);
    if (found == values.end()) continue;  // made where control flow was taken apart
    if (found->second.dims != typed.dims || found->second.format != typed.format) {
      return fmt::format("infer: '{}' has another format or shape", name);
    }
    if (typed.constant != nullptr && *typed.constant != found->second) {
      return fmt::format("infer: '{}' has another value", name);
    }
  }
  return "";
}

// Some of the package's files hold bf16 elements under the name of u16.
Result<Tensor> read_tensor(const fs::path& file, const ValueInfo& declared) {
  TESSERA_TRY(Tensor tensor, import_tensor_file(file.string()));
  if (declared.format == Format::kBf16 && tensor.format == Format::kU16) {
    tensor.format = Format::kBf16;
  }
  return tensor;
}

// "" if a set of inputs and outputs passes; an Error where the case is refused.
Result<std::string> run_set(const Model& model, const fs::path& folder, int& inferred) {
  Values inputs;
  const std::vector<fs::path> files = numbered(folder, "input");
  for (std::size_t i = 0; i < std::min(files.size(), model.graph.inputs.size()); ++i) {
    const ValueInfo& declared = model.graph.inputs[i];
    if (declared.kind != ValueKind::kTensor) {
      return Error{ErrorCode::kUnsupported, "an input is no tensor"};
    }
    TESSERA_TRY(inputs[declared.name], read_tensor(files[i], declared));
  }
  Values values = inputs;
  for (const ValueInfo& input : model.graph.inputs) {
    if (!inputs.contains(input.name)) return std::string("input file is missing");
  }
  TESSERA_RETURN_IF_ERROR(run_nodes(model, model.graph, values));
  const std::vector<fs::path> expected = numbered(folder, "output");
  for (std::size_t i = 0; i < expected.size(); ++i) {
    TESSERA_TRY(const Tensor tensor, read_tensor(expected[i], model.graph.outputs[i]));
    std::string text = difference(values.at(model.graph.outputs[i].name), tensor);
    if (!text.empty()) return fmt::format("output {}: {}", i, text);
  }
  return inference_difference(model, inputs, values, inferred);
}

// The message from the last "node 'x' (Op): " on, so that equal reasons are counted together.
std::string reason_of(const Error& error) {
  const std::size_t at = error.message.rfind("): ");
  const std::size_t slash = error.message.rfind(".onnx': ");
  if (at != std::string::npos) return error.message.substr(error.message.rfind('(', at));
  return slash == std::string::npos ? error.message : error.message.substr(slash + 8);
}

void run_case(const fs::path& folder, Tally& tally) {
  const std::string name = folder.filename().string();
  const auto model = import_file((folder / "model.onnx").string());
  if (!model.ok()) {
    if (model.error().code == ErrorCode::kUnsupported) {
      tally.refused[reason_of(model.error())].push_back(name);
    } else {
      tally.wrong.push_back(name + ": " + model.error().to_string());
    }
    return;
  }
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_directory()) continue;
    const auto text = run_set(*model, entry.path(), tally.inferred);
    if (!text.ok()) {
      if (text.error().code == ErrorCode::kUnsupported) {
        tally.refused[reason_of(text.error())].push_back(name);
      } else {
        tally.wrong.push_back(name + ": " + text.error().to_string());
      }
      return;
    }
    if (!text->empty()) {
      tally.wrong.push_back(name + ": " + *text);
      return;
    }
  }
  tally.passed.push_back(name);
}

Tally run_all(const std::vector<std::string>& groups) {
  Tally tally;
  for (const std::string& group : groups) {
    std::vector<fs::path> folders;
    for (const auto& entry : fs::directory_iterator(fs::path(kTestData) / group)) {
      if (fs::exists(entry.path() / "model.onnx")) folders.push_back(entry.path());
    }
    std::sort(folders.begin(), folders.end());
    for (const fs::path& folder : folders) run_case(folder, tally);
  }
  return tally;
}

void print(const Tally& tally) {
  std::size_t refused = 0;
  for (const auto& [reason, cases] : tally.refused) {
    refused += cases.size();
    std::cout << fmt::format("refused {:3}: {}   e.g. {}\n", cases.size(), reason, cases[0]);
  }
  for (const std::string& wrong : tally.wrong) std::cout << "wrong: " << wrong << "\n";
  std::cout << fmt::format("passed {}, refused {}, wrong {}; {} sets inferred\n",
                           tally.passed.size(), refused, tally.wrong.size(), tally.inferred);
}

TEST(EvaluateConformance, NoOnnxCaseIsWrongAndMostPass) {
  if (!fs::exists(kTestData)) GTEST_SKIP() << kTestData << " is not installed";
  const Tally tally = run_all({"node", "simple", "pytorch-converted", "pytorch-operator"});
  print(tally);
  EXPECT_EQ(tally.wrong.size(), 0U);
  EXPECT_GE(tally.passed.size(), 700U);
}

}  // namespace
}  // namespace tessera::model
