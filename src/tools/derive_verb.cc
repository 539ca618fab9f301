// tessera derive: a program as concordant software.
//
//   program ──lift──► graph ──expand──► Software ──► file
//      └─ virtual processor ─┐                 └─ evaluator ─┐
//                            └──────── --verify: == ─────────┘
//
// Whatever is given is made into a program first, and nothing but the program is read after that.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "arch/format_choice.h"
#include "arith/rounding.h"
#include "concord/cpp_writer.h"
#include "concord/expand.h"
#include "concord/interpret.h"
#include "concord/layer_nodes.h"
#include "concord/lift.h"
#include "concord/onnx_writer.h"
#include "concord/pytorch_writer.h"
#include "concord/tensorflow_writer.h"
#include "host/executor.h"
#include "link/link.h"
#include "runtime/network.h"
#include "runtime/program_run.h"
#include "tools/console.h"
#include "tools/firmware_file.h"
#include "tools/golden.h"
#include "tools/tensor_file.h"
#include "tools/verb.h"

namespace tessera::tools {
namespace {

struct DeriveArguments {
  ModelArguments model;
  std::string arch, target = "onnx", output, golden, fault_node;
  std::vector<std::string> inputs;
  int verify = 0;
  int cores = 1;
  bool trainable = false;
};

Result<program::Program> program_of(const DeriveArguments& arguments) {
  const std::string& path = arguments.model.model;
  if (path.ends_with(".tasm")) return assemble_file(path, arguments.arch);
  if (kind_of_file(path) == program::FileKind::kProgram) {
    TESSERA_TRY(const std::vector<std::byte> bytes, program::read_file(path));
    return program::parse_program(bytes, path);
  }
  ModelArguments model = arguments.model;
  if (!arguments.arch.empty()) {
    model.arch = arguments.arch;
  } else if (kind_of_file(path) == program::FileKind::kPackage && model.format.empty()) {
    TESSERA_TRY(const std::vector<std::byte> bytes, program::read_file(path));
    TESSERA_TRY(const program::Package package, program::parse_package(bytes, path));
    model.arch = package.chip_name;
  }
  TESSERA_TRY(const Network network, model.load());
  TESSERA_TRY(
      const program::Program linked,
      link::link(network.state().package, network.state().chip, {.cores = arguments.cores}));
  // By way of its bytes: what they do not say is not derived.
  return program::parse_program(program::serialise(linked), path);
}

// Everything --verify and --golden need.
struct Derived {
  std::shared_ptr<const graph::Graph> graph;
  concord::Software software;
  std::unique_ptr<runtime::ProgramRun> processor;
};

struct Difference {
  std::string layer, tensor;
  std::int64_t element = 0;
  double program = 0, derived = 0;
};

struct Verification {
  std::int64_t values_compared = 0, mismatches = 0;
  std::optional<Difference> first;
};

double element(const Tensor& tensor, std::int64_t i) {
  return arith::read_element(tensor.format, tensor.bytes.data() + i * format_bytes(tensor.format));
}

std::optional<Difference> difference(const std::string& layer, const std::string& name,
                                     const Tensor& expected, const Tensor& actual) {
  for (std::int64_t i = 0; i < element_count(expected.dims); ++i) {
    const double a = element(expected, i), b = element(actual, i);
    if (arith::bits_of_f64(a) == arith::bits_of_f64(b) || (std::isnan(a) && std::isnan(b)))
      continue;
    return Difference{layer, name, i, a, b};
  }
  return std::nullopt;
}

// The first layer whose value is not the one that the lifted graph has there.
Result<std::optional<Difference>> first_layer(const Derived& derived,
                                              const std::vector<Tensor>& inputs) {
  std::map<std::string, Tensor> expected;
  TESSERA_TRY(const auto host, host::make_host_executor(derived.graph));
  const auto keep = [&](const graph::Node&, graph::TensorId id, const Tensor& value) {
    expected[derived.graph->tensor(id).name] = value;
  };
  TESSERA_TRY(const std::vector<Tensor> outputs, host->run(inputs, keep));
  (void)outputs;
  std::map<std::int32_t, const concord::Layer*> layers;
  for (const concord::Layer& layer : derived.software.layers) {
    if (!layer.tensor.empty()) layers[layer.result.value] = &layer;
  }
  std::optional<Difference> found;
  const auto check = [&](concord::ValueId id, const Tensor& value) {
    const auto layer = layers.find(id.value);
    if (found || layer == layers.end()) return;
    const auto wanted = expected.find(layer->second->tensor);
    if (wanted == expected.end()) return;
    found = difference(layer->second->name, layer->second->tensor, wanted->second, value);
  };
  TESSERA_TRY(const std::vector<Tensor> results,
              concord::interpret(derived.software, inputs, check));
  (void)results;
  return found;
}

Status compare_vector(const Derived& derived, const GoldenVector& vector, Verification& result) {
  TESSERA_TRY(const std::vector<Tensor> actual,
              concord::interpret(derived.software, vector.inputs));
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const Tensor& wanted = vector.outputs[i];
    const auto size = static_cast<std::size_t>(format_bytes(wanted.format));
    const std::int64_t count = element_count(wanted.dims);
    result.values_compared += count;
    for (std::int64_t k = 0; k < count; ++k) {
      const std::size_t at = static_cast<std::size_t>(k) * size;
      if (std::memcmp(&wanted.bytes[at], &actual[i].bytes[at], size) == 0) continue;
      ++result.mismatches;
      if (result.first) continue;
      TESSERA_TRY(result.first, first_layer(derived, vector.inputs));
      if (!result.first) {
        result.first = Difference{"outputs", derived.software.outputs[i].name, k,
                                  element(wanted, k), element(actual[i], k)};
      }
    }
  }
  return {};
}

// Given inputs first, then random and edge values in turn.
Result<GoldenSet> make_vectors(const DeriveArguments& arguments, Derived& derived) {
  GoldenSet set;
  for (const concord::Port& port : derived.software.inputs) set.input_names.push_back(port.name);
  for (const concord::Port& port : derived.software.outputs) set.output_names.push_back(port.name);
  const std::vector<TensorDescription> wanted = derived.processor->inputs();
  const int count = std::max(arguments.verify, arguments.golden.empty() ? 0 : 1);
  for (int i = 0; i < count; ++i) {
    GoldenVector vector;
    const bool given = i == 0 && !arguments.inputs.empty();
    const bool edges = !given && i % 2 == 1;
    vector.source = given ? "given" : fmt::format("{}:{}", edges ? "edges" : "random", i);
    if (given) {
      TESSERA_TRY(vector.inputs, read_inputs(arguments.inputs, wanted, {}));
    } else {
      for (std::size_t k = 0; k < wanted.size(); ++k) {
        const auto seed = static_cast<std::uint64_t>(edges ? i / 2 : i);
        vector.inputs.push_back(edges ? edge_tensor(wanted[k], seed, k)
                                      : random_tensor(wanted[k], seed, k));
      }
    }
    TESSERA_TRY(RunResult run, derived.processor->run(vector.inputs));
    vector.outputs = std::move(run.outputs);
    set.vectors.push_back(std::move(vector));
  }
  return set;
}

nlohmann::json json_of(const Difference& first) {
  return {{"layer", first.layer},
          {"tensor", first.tensor},
          {"element", first.element},
          {"program", first.program},
          {"derived", first.derived}};
}

// What the module has for an optimiser.
std::vector<std::string> trained_names(const concord::Software& software) {
  std::vector<std::string> names;
  for (const concord::Value& value : software.values) {
    if (value.trained) names.push_back(value.name);
  }
  return names;
}

struct Summary {
  std::vector<std::string> trained;
  concord::LayerNodes nodes;
  std::size_t bytes = 0;
  std::optional<Verification> verification;
  std::string digest;
};

void print(const DeriveArguments& arguments, const Summary& summary) {
  if (arguments.model.json) {
    nlohmann::json document = {{"file", arguments.output},
                               {"target", arguments.target},
                               {"bytes", summary.bytes},
                               {"layers", summary.nodes.layers},
                               {"nodes", summary.nodes.nodes},
                               {"matrix_layers", summary.nodes.matrix_layers},
                               {"nodes_a_matrix_layer_max", summary.nodes.matrix_nodes_max},
                               {"nodes_a_matrix_layer_mean", summary.nodes.matrix_nodes_mean()}};
    if (arguments.trainable) document["trained"] = summary.trained;
    if (summary.verification) {
      document["values_compared"] = summary.verification->values_compared;
      document["mismatches"] = summary.verification->mismatches;
      if (summary.verification->first) {
        document["first_difference"] = json_of(*summary.verification->first);
      }
    }
    if (!summary.digest.empty()) document["golden_digest"] = summary.digest;
    fmt::print("{}\n", json_text(document));
    return;
  }
  fmt::print("wrote {}: {} layers, {} nodes, {} bytes\n", arguments.output, summary.nodes.layers,
             with_separators(summary.nodes.nodes),
             with_separators(static_cast<std::int64_t>(summary.bytes)));
  if (summary.nodes.matrix_layers > 0) {
    fmt::print("{} matrix layers, {:.1f} nodes each on average, {} at most\n",
               summary.nodes.matrix_layers, summary.nodes.matrix_nodes_mean(),
               summary.nodes.matrix_nodes_max);
  }
  if (arguments.trainable) {
    fmt::print("{} weights and biases can be trained: module.trained()\n", summary.trained.size());
  }
  if (!summary.digest.empty()) {
    fmt::print("golden vectors in {}, digest {}\n", arguments.golden, summary.digest);
  }
  if (!summary.verification) return;
  fmt::print("program and derived software: {} values compared, {} mismatches{}\n",
             with_separators(summary.verification->values_compared),
             with_separators(summary.verification->mismatches),
             summary.verification->mismatches == 0 ? ": equal" : "");
}

Result<std::vector<std::byte>> write_text(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

// The file's bytes; a Python module's weights are written beside it.
Result<std::vector<std::byte>> write_target(const DeriveArguments& arguments,
                                            const concord::Software& software) {
  if (arguments.target == "onnx") return concord::write_onnx(software);
  if (arguments.target == "cpp") {
    TESSERA_TRY(const std::string text, concord::write_cpp(software));
    return write_text(text);
  }
  const std::filesystem::path weights =
      std::filesystem::path(arguments.output).replace_extension(".weights");
  const auto write =
      arguments.target == "pytorch" ? concord::write_pytorch : concord::write_tensorflow;
  TESSERA_TRY(const concord::PythonModule module, write(software, weights.filename().string()));
  TESSERA_RETURN_IF_ERROR(program::write_file(weights.string(), module.weights));
  return write_text(module.text);
}

Status check_arguments(const DeriveArguments& arguments) {
  if (!arguments.trainable || arguments.target == "pytorch") return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("--trainable: '{}' is not trained through; write --to pytorch",
                           arguments.target)};
}

Status check_trained(const std::string& source, const Summary& summary) {
  if (!summary.trained.empty()) return {};
  return Error{ErrorCode::kUnsupported,
               fmt::format("--trainable: '{}' has no product of quantised floats with constant "
                           "weights, so there is nothing to train",
                           source)};
}

Status derive(const DeriveArguments& arguments) {
  TESSERA_RETURN_IF_ERROR(check_arguments(arguments));
  TESSERA_TRY(program::Program program, program_of(arguments));
  TESSERA_TRY(const ChipConfig chip, chip_of(program, arguments.arch));
  Derived derived;
  TESSERA_TRY(derived.graph, concord::lift(program, chip));
  TESSERA_TRY(derived.software,
              concord::expand(*derived.graph, {.fault_node = arguments.fault_node,
                                               .trainable = arguments.trainable}));
  Summary summary;
  summary.trained = trained_names(derived.software);
  if (arguments.trainable) {
    TESSERA_RETURN_IF_ERROR(check_trained(arguments.model.model, summary));
  }
  TESSERA_TRY(const std::vector<std::byte> file, write_target(arguments, derived.software));
  TESSERA_RETURN_IF_ERROR(program::write_file(arguments.output, file));
  summary.nodes = concord::count_layer_nodes(derived.software);
  summary.bytes = file.size();
  if (arguments.verify > 0 || !arguments.golden.empty()) {
    TESSERA_TRY(derived.processor, runtime::ProgramRun::create(std::move(program), chip, {}));
    TESSERA_TRY(const GoldenSet set, make_vectors(arguments, derived));
    if (!arguments.golden.empty()) {
      TESSERA_RETURN_IF_ERROR(write_golden(arguments.golden, set));
      summary.digest = fmt::format("{:016x}", golden_digest(set));
    }
    if (arguments.verify > 0) {
      summary.verification.emplace();
      for (const GoldenVector& vector : set.vectors) {
        TESSERA_RETURN_IF_ERROR(compare_vector(derived, vector, *summary.verification));
      }
    }
  }
  print(arguments, summary);
  if (!summary.verification || !summary.verification->first) return {};
  const Difference& first = *summary.verification->first;
  return Error{ErrorCode::kInternal,
               fmt::format("first difference: layer '{}', tensor '{}', element {}: the program has "
                           "{}, the derived software {}",
                           first.layer, first.tensor, first.element, first.program, first.derived)};
}

}  // namespace

Action derive_verb(CLI::App& app) {
  auto arguments = std::make_shared<DeriveArguments>();  // shared with the returned action
  app.add_option("source", arguments->model.model,
                 "program (.tprog), firmware (.tasm), package (.tpkg) or ONNX model")
      ->required();
  app.add_option("--to", arguments->target, "what to write")
      ->check(CLI::IsMember({"onnx", "pytorch", "cpp", "tensorflow"}))
      ->capture_default_str();
  app.add_option("-o,--output", arguments->output, "file to write")->required();
  app.add_option("--arch", arguments->arch, "architecture (default: the program's or package's)");
  app.add_option(
      "--format", arguments->model.format,
      "number formats to compile a model in, in place of the architecture's: " + format_choices());
  app.add_flag("--trainable", arguments->trainable,
               "with --to pytorch: weights and biases are parameters that an optimiser may change");
  app.add_option("--weights", arguments->model.weights,
                 "safetensors file: weights and biases by layer in place of the model's");
  app.add_option("--shape", arguments->model.shapes,
                 "shape of a model's input with open dimensions: NAME=1x3x48x320");
  app.add_option("--cores", arguments->cores, "cores to link a model or package for")
      ->capture_default_str();
  app.add_option("--verify", arguments->verify,
                 "run this many inputs through program and derived software and compare all bits")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--input", arguments->inputs, "the first input: NAME=FILE or NAME=random[:seed]");
  app.add_option("--golden", arguments->golden,
                 "write the inputs, the program's outputs and a digest into this folder");
  app.add_option("--plant-fault", arguments->fault_node,
                 "round this layer's result one bit short, to see that it is found");
  app.add_flag("--json", arguments->model.json, "print one JSON object");
  return [arguments] { return derive(*arguments); };
}

}  // namespace tessera::tools
