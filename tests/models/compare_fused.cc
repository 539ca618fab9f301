// Our integer layers against ONNX Runtime's fused integer operators, layer by layer and bit by bit.
//
//   compare_fused DATA SCRIPT PACKAGES SCRATCH [MODEL...] [--verbose] [--json]
//
//   model.onnx ─► ONNX Runtime's optimiser ─► QLinearConv, QLinearAdd, ... with every tensor as an
//                                             output ─► run ─► the bits of every tensor
//   model.onnx ─► our typed graph; each tensor that both have is computed by our nodes from ONNX
//                 Runtime's values of the tensors before it, so that no difference is carried on
//
// Tensors are paired by name, or else by the ONNX node that makes them: the optimiser stores bytes
// of a signed model as u8, with the zero point moved by 128 and under a new name; they are moved
// back.
//
// Every layer that is not equal is listed and fails the check; every byte tensor that only ONNX
// Runtime has is listed with what our graph does instead, and fails it if there is nothing. Status
// 77 (skipped) where DATA or PACKAGES is absent.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "arch/architecture_file.h"
#include "host/executor.h"
#include "model/import.h"
#include "model_case.h"
#include "network/network.h"
#include "tools/terminal/console.h"

namespace {

using namespace tessera;  // a test program

struct Arguments {
  std::string data, script, packages, scratch;
  std::vector<std::string> models;
  bool verbose = false, json = false;
};

// What ONNX Runtime computed: tensors by name, the operator that made each, and its node's name.
struct FusedRun {
  std::map<std::string, Tensor> values;
  std::map<std::string, std::string> made_by;
  std::map<std::string, std::string> node_of;
};

// A byte tensor that only ONNX Runtime has; an empty reason is none.
struct FusedOnly {
  std::string tensor, fused_operator, reason;
};

struct LayerResult {
  std::string tensor, fused_operator;
  std::size_t elements = 0, different = 0;
  double largest = 0;  // steps of an integer, or a difference of floats
  bool equal() const { return different == 0; }
};

struct ModelResult {
  std::string name;
  std::vector<LayerResult> layers;
  std::size_t moved = 0;  // u8 layers paired with our i8
  std::vector<FusedOnly> fused_only;
};

// Runs node; its standard error is the error's text.
Status run_script(const Arguments& arguments, const std::string& verb, const std::string& model,
                  const std::string& target) {
  const pid_t child = fork();
  if (child == 0) {
    execlp("node", "node", arguments.script.c_str(), arguments.packages.c_str(), verb.c_str(),
           model.c_str(), target.c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
      WEXITSTATUS(status) != 0) {
    return Error{ErrorCode::kUnavailable, "node " + arguments.script + " " + verb + " failed"};
  }
  return {};
}

std::string varint(std::size_t number) {
  std::string bytes;
  for (; number >= 128; number >>= 7) bytes += static_cast<char>((number & 127) | 128);
  return bytes + static_cast<char>(number);
}

// A length-delimited field of a protocol buffer.
std::string field(int number, const std::string& content) {
  return varint(static_cast<std::size_t>(number) * 8 + 2) + varint(content.size()) + content;
}

// Two messages one after the other merge: what is appended to a model adds outputs to its graph.
Status append_outputs(const std::string& path, const std::set<std::string>& names) {
  std::string outputs;
  for (const std::string& name : names) outputs += field(12, field(1, name));
  const std::string bytes = field(7, outputs);
  std::ofstream out(path, std::ios::binary | std::ios::app);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out) return Error{ErrorCode::kUnavailable, "cannot write '" + path + "'"};
  return {};
}

struct ScriptType {
  const char* name;
  Format format;
};
constexpr ScriptType kScriptTypes[] = {{"float32", Format::kF32}, {"uint8", Format::kU8},
                                       {"int8", Format::kI8},     {"int32", Format::kI32},
                                       {"int64", Format::kI64},   {"bool", Format::kBool}};

Status write_feeds(const std::string& folder, const std::vector<cases::CaseTensor>& rows,
                   const std::vector<Tensor>& inputs) {
  nlohmann::json feeds = nlohmann::json::array();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string file = fmt::format("feed_{}.bin", i);
    std::ofstream out(folder + "/" + file, std::ios::binary);
    out.write(reinterpret_cast<const char*>(inputs[i].bytes.data()),
              static_cast<std::streamsize>(inputs[i].bytes.size()));
    std::string type;
    for (const ScriptType& row : kScriptTypes) {
      if (row.format == inputs[i].format) type = row.name;
    }
    feeds.push_back(
        {{"name", rows[i].tensor}, {"type", type}, {"dims", inputs[i].dims}, {"file", file}});
  }
  std::ofstream(folder + "/feeds.json") << feeds.dump();
  return {};
}

Status read_results(const std::string& folder, FusedRun& run) {
  std::ifstream in(folder + "/results.json");
  const nlohmann::json list = nlohmann::json::parse(in, nullptr, false);
  if (!list.is_array()) return Error{ErrorCode::kInternal, "results.json is damaged"};
  for (const auto& row : list) {
    for (const ScriptType& type : kScriptTypes) {
      if (row["type"] != type.name) continue;
      Tensor tensor = Tensor::zeros(type.format, row["dims"].get<Shape>());
      std::ifstream bytes(folder + "/" + row["file"].get<std::string>(), std::ios::binary);
      bytes.read(reinterpret_cast<char*>(tensor.bytes.data()),
                 static_cast<std::streamsize>(tensor.bytes.size()));
      run.values[row["name"]] = std::move(tensor);
    }
  }
  return {};
}

Result<FusedRun> run_fused(const Arguments& arguments, const cases::ModelCase& one,
                           const std::vector<Tensor>& inputs) {
  const std::string folder = arguments.scratch + "/" + one.model;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string optimised = folder + "/optimised.onnx";
  TESSERA_RETURN_IF_ERROR(run_script(arguments, "optimise",
                                     arguments.data + "/models/" + one.model + ".onnx", optimised));
  TESSERA_TRY(const model::Model fused, model::import_file(optimised, {.contrib_operators = true}));
  FusedRun run;
  std::set<std::string> names, outputs;
  for (const auto& output : fused.graph.outputs) outputs.insert(output.name);
  for (const model::Node& node : fused.graph.nodes) {
    for (const std::string& output : node.outputs) {
      if (output.empty()) continue;
      run.made_by[output] = node.op_type;
      run.node_of[output] = node.name;
      if (!outputs.contains(output)) names.insert(output);
    }
  }
  TESSERA_RETURN_IF_ERROR(append_outputs(optimised, names));
  TESSERA_RETURN_IF_ERROR(write_feeds(folder, one.inputs, inputs));
  TESSERA_RETURN_IF_ERROR(run_script(arguments, "run", optimised, folder));
  TESSERA_RETURN_IF_ERROR(read_results(folder, run));
  for (std::size_t i = 0; i < inputs.size(); ++i) run.values[one.inputs[i].tensor] = inputs[i];
  std::filesystem::remove_all(folder);
  return run;
}

// The part of a graph that makes one tensor from tensors whose values are known.
class Cone {
 public:
  Cone(const graph::Graph& graph, const FusedRun& run) : graph_(graph), run_(run) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const graph::TensorId id : graph.nodes[i].outputs) producers_[id] = i;
    }
  }

  // The value that our nodes give `id`.
  Result<Tensor> compute(graph::TensorId id) {
    nodes_.clear();
    inputs_.clear();
    seen_.clear();
    collect(id, true);
    auto part = std::make_shared<graph::Graph>();
    part->name = graph_.name;
    part->vector_format = graph_.vector_format;
    part->tensors = graph_.tensors;
    for (const std::size_t node : nodes_) part->nodes.push_back(graph_.nodes[node]);
    part->inputs = inputs_;
    part->outputs = {id};
    std::vector<Tensor> values;
    for (const graph::TensorId input : inputs_) {
      values.push_back(run_.values.at(graph_.tensor(input).name));
    }
    TESSERA_TRY(auto executor, host::make_host_executor(part));
    TESSERA_TRY(auto outputs, executor->run(values));
    return std::move(outputs[0]);
  }

 private:
  bool is_known(graph::TensorId id) const {
    const graph::TensorInfo& info = graph_.tensor(id);
    const auto found = run_.values.find(info.name);
    return found != run_.values.end() && found->second.format == info.format &&
           found->second.dims == info.dims;
  }

  void collect(graph::TensorId id, bool wanted) {
    if (graph_.tensor(id).constant != nullptr || !seen_.insert(id).second) return;
    const auto producer = producers_.find(id);
    if (producer == producers_.end() || (!wanted && is_known(id))) {
      inputs_.push_back(id);
      return;
    }
    const std::size_t node = producer->second;
    for (const graph::TensorId input : graph_.nodes[node].inputs) collect(input, false);
    if (std::find(nodes_.begin(), nodes_.end(), node) == nodes_.end()) nodes_.push_back(node);
  }

  const graph::Graph& graph_;
  const FusedRun& run_;
  std::map<graph::TensorId, std::size_t> producers_;
  std::vector<std::size_t> nodes_;
  std::vector<graph::TensorId> inputs_;
  std::set<graph::TensorId> seen_;
};

LayerResult compare(const std::string& name, const FusedRun& run, const Tensor& found) {
  const Tensor& expected = run.values.at(name);
  LayerResult layer;
  layer.tensor = name;
  layer.fused_operator = run.made_by.at(name);
  const std::vector<double> a = cases::values_of(found), b = cases::values_of(expected);
  layer.elements = a.size();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    ++layer.different;
    layer.largest = std::max(layer.largest, std::abs(a[i] - b[i]));
  }
  return layer;
}

// Integers, and the float results of integer products.
bool is_compared(const graph::TensorInfo& info, const FusedRun& run) {
  if (format_is_integer(info.format)) return true;
  const auto made = run.made_by.find(info.name);
  return made != run.made_by.end() &&
         (made->second == "MatMulIntegerToFloat" || made->second == "DynamicQuantizeMatMul" ||
          made->second == "DequantizeLinear");
}

bool is_byte(Format format) { return format == Format::kI8 || format == Format::kU8; }

bool has_origin(const graph::Node& node, const std::string& name) {
  return std::find(node.origins.begin(), node.origins.end(), name) != node.origins.end();
}

// Gives ONNX Runtime's byte tensors under names that we do not have our names, if a node of ours
// stands for the ONNX node that makes them; u8 for our i8 is moved back by 128, and counted. ONNX
// Runtime's names of them are returned.
std::set<std::string> pair_by_node(const graph::Graph& graph, FusedRun& run, std::size_t& moved) {
  std::set<std::string> paired;
  for (const graph::Node& node : graph.nodes) {
    if (node.kind() == graph::NodeKind::kMove || node.outputs.size() != 1) continue;
    const graph::TensorInfo& info = graph.tensor(node.outputs[0]);
    if (!is_byte(info.format) || run.values.contains(info.name)) continue;
    std::string match;
    for (const auto& [tensor, name] : run.node_of) {
      const Tensor& value = run.values.at(tensor);
      const bool fits =
          value.dims == info.dims && (value.format == info.format || value.format == Format::kU8);
      if (fits && !paired.contains(tensor) && has_origin(node, name)) match = tensor;
    }
    if (match.empty()) continue;
    Tensor value = run.values.at(match);
    if (value.format != info.format) {
      for (std::byte& byte : value.bytes) byte ^= std::byte{0x80};
      value.format = info.format;
      ++moved;
    }
    run.values[info.name] = std::move(value);
    run.made_by[info.name] = run.made_by.at(match);
    paired.insert(match);
  }
  return paired;
}

// Whether the node pads what it reads.
bool has_padding(const graph::Node& node) {
  if (node.kind() == graph::NodeKind::kPool) {
    const auto& pool = node.as<graph::PoolAttributes>();
    return pool.pad_top + pool.pad_left > 0;
  }
  if (node.kind() != graph::NodeKind::kConv) return false;
  const auto& conv = node.as<graph::ConvAttributes>();
  return conv.pad_top + conv.pad_left + conv.pad_bottom + conv.pad_right > 0;
}

// Why our graph has no such tensor: only copies, and values that are padded, may be part of another node.
std::string reason_of_absence(const graph::Graph& graph, const FusedRun& run,
                              const std::string& tensor) {
  const std::string& made_by = run.made_by.at(tensor);
  const bool copies = made_by == "Reshape" || made_by == "Transpose" || made_by == "Squeeze" ||
                      made_by == "Unsqueeze" || made_by == "Flatten" || made_by == "Slice";
  for (const graph::Node& node : graph.nodes) {
    if (made_by == "QuantizeLinear" && has_padding(node) &&
        has_origin(node, run.node_of.at(tensor))) {
      return fmt::format("padded; a part of our '{}'", node.name);
    }
  }
  if (!copies) return "";
  for (const graph::Node& node : graph.nodes) {
    if (has_origin(node, run.node_of.at(tensor))) {
      return fmt::format("copies bytes only; a part of our '{}'", node.name);
    }
  }
  return "copies bytes only; keeps their order, so our graph reads the operand itself";
}

Result<ModelResult> check_model(const Arguments& arguments, const std::string& name) {
  TESSERA_TRY(const auto list, cases::read_cases(arguments.data, name));
  std::vector<Tensor> inputs;
  LoadOptions load;
  for (const auto& row : list[0].inputs) {
    TESSERA_TRY(Tensor tensor, cases::read_case_input(arguments.data, row));
    load.shapes[row.tensor] = tensor.dims;
    inputs.push_back(std::move(tensor));
  }
  TESSERA_TRY(const ChipConfig chip, load_chip_config("f32"));
  TESSERA_TRY(const auto graph,
              network::load_graph(arguments.data + "/models/" + name + ".onnx", chip, load));
  TESSERA_TRY(FusedRun run, run_fused(arguments, list[0], inputs));
  ModelResult result;
  result.name = name;
  std::set<std::string> ours = pair_by_node(*graph, run, result.moved);
  Cone cone(*graph, run);
  for (const graph::Node& node : graph->nodes) {
    for (const graph::TensorId id : node.outputs) {
      const graph::TensorInfo& info = graph->tensor(id);
      const auto fused = run.values.find(info.name);
      if (fused == run.values.end() || !is_compared(info, run)) continue;
      if (fused->second.format != info.format || fused->second.dims != info.dims) continue;
      if (info.format == Format::kI64) continue;  // shapes
      ours.insert(info.name);
      TESSERA_TRY(const Tensor found, cone.compute(id));
      result.layers.push_back(compare(info.name, run, found));
    }
  }
  for (const auto& [tensor, value] : run.values) {
    const bool absent = run.node_of.contains(tensor) && !ours.contains(tensor);
    if (!absent || !is_byte(value.format)) continue;
    result.fused_only.push_back(
        {tensor, run.made_by.at(tensor), reason_of_absence(*graph, run, tensor)});
  }
  return result;
}

// One line per operator, per layer that is not equal and per tensor without partner. How many fail.
std::size_t print_model(const Arguments& arguments, const ModelResult& result) {
  std::map<std::string, std::array<std::size_t, 2>> counts;  // equal, all
  for (const LayerResult& layer : result.layers) {
    counts[layer.fused_operator][0] += layer.equal() ? 1 : 0;
    ++counts[layer.fused_operator][1];
  }
  std::printf("%s: %zu layers", result.name.c_str(), result.layers.size());
  if (result.moved > 0) std::printf(", %zu of them u8 for our i8 (+128)", result.moved);
  std::printf("; %zu byte tensors only in ONNX Runtime's graph\n", result.fused_only.size());
  for (const auto& [op_type, count] : counts) {
    std::printf("  %-24s %3zu of %3zu layers equal\n", op_type.c_str(), count[0], count[1]);
  }
  std::size_t failures = 0;
  for (const LayerResult& layer : result.layers) {
    if (layer.equal() && !arguments.verbose) continue;
    failures += layer.equal() ? 0 : 1;
    std::printf("    %s (%s): %zu of %zu differ, by %.3g at most\n", layer.tensor.c_str(),
                layer.fused_operator.c_str(), layer.different, layer.elements, layer.largest);
  }
  for (const FusedOnly& one : result.fused_only) {
    failures += one.reason.empty() ? 1 : 0;
    std::printf("    %s (%s) is only there: %s\n", one.tensor.c_str(), one.fused_operator.c_str(),
                one.reason.empty() ? "NO REASON KNOWN" : one.reason.c_str());
  }
  return failures;
}

nlohmann::json model_json(const ModelResult& result) {
  nlohmann::json layers = nlohmann::json::array();
  for (const LayerResult& layer : result.layers) {
    layers.push_back({{"tensor", layer.tensor},
                      {"fused_operator", layer.fused_operator},
                      {"elements", layer.elements},
                      {"different", layer.different},
                      {"largest", layer.largest}});
  }
  nlohmann::json only = nlohmann::json::array();
  for (const FusedOnly& one : result.fused_only) {
    only.push_back(
        {{"tensor", one.tensor}, {"fused_operator", one.fused_operator}, {"reason", one.reason}});
  }
  return {
      {"model", result.name}, {"layers", layers}, {"moved", result.moved}, {"fused_only", only}};
}

bool parse(int argc, char** argv, Arguments& arguments) {
  if (argc < 5) return false;
  arguments.data = argv[1];
  arguments.script = argv[2];
  arguments.packages = argv[3];
  arguments.scratch = argv[4];
  for (int i = 5; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--verbose")
      arguments.verbose = true;
    else if (word == "--json")
      arguments.json = true;
    else if (word.starts_with("--"))
      return false;
    else
      arguments.models.push_back(word);
  }
  return true;
}

Status check(const Arguments& arguments, std::size_t& failures) {
  TESSERA_TRY(const auto rows, cases::read_models(arguments.data));
  nlohmann::json models = nlohmann::json::array();
  for (const cases::ModelRow& row : rows) {
    const auto& wanted = arguments.models;
    const bool integer = row.has_operator("QuantizeLinear") || row.has_operator("QLinearConv") ||
                         row.has_operator("MatMulInteger") || row.has_operator("ConvInteger");
    const bool chosen =
        wanted.empty() || std::find(wanted.begin(), wanted.end(), row.name) != wanted.end();
    if (!integer || !chosen) continue;
    TESSERA_TRY(const ModelResult result, check_model(arguments, row.name));
    if (result.layers.empty()) ++failures;
    if (arguments.json) {
      models.push_back(model_json(result));
    } else {
      failures += print_model(arguments, result);
    }
  }
  if (arguments.json) std::printf("%s\n", tools::json_text(models).c_str());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (!parse(argc, argv, arguments)) {
    std::fprintf(stderr, "usage: %s DATA SCRIPT PACKAGES SCRATCH [MODEL...] [--verbose] [--json]\n",
                 argv[0]);
    return 2;
  }
  for (const std::string& needed :
       {arguments.data + "/cases/CASES.tsv", arguments.packages + "/complete"}) {
    if (std::filesystem::exists(needed)) continue;
    std::printf("skipped: '%s' is missing\n", needed.c_str());
    return 77;
  }
  std::size_t failures = 0;
  const Status status = check(arguments, failures);
  if (!status.ok()) {
    std::fprintf(stderr, "compare_fused: %s\n", status.error().to_string().c_str());
    return 1;
  }
  return failures == 0 ? 0 : 1;
}
