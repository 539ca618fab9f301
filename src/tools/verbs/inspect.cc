// tessera inspect: what a package, a program or an ONNX model holds.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "arch/architecture_file.h"
#include "arch/chip_config.h"
#include "base/input_file.h"
#include "graph/graph_text.h"
#include "model/import.h"
#include "model/infer.h"
#include "network/network.h"
#include "package/container.h"
#include "tools/terminal/console.h"
#include "tools/verb.h"
#include "tools/verbs/link_cores.h"

namespace tessera::tools {
namespace {

struct InspectArguments {
  ModelArguments model;  // `model.model` may be any of the three kinds of file
  bool graph = false;
};

// What is printed, in both forms.
struct Description {
  std::string text;
  nlohmann::json document;
};

// "batch x 3 x ? x 320"; an open dimension has its name.
std::string declared_text(const model::ValueInfo& value) {
  if (!value.has_shape) return "shape not stated";
  std::vector<std::string> dims;
  for (const model::Dimension& dim : value.dims) {
    dims.push_back(dim.value >= 0     ? std::to_string(dim.value)
                   : dim.name.empty() ? "?"
                                      : visible_text(dim.name));
  }
  return dims.empty() ? "scalar" : fmt::format("{}", fmt::join(dims, " x "));
}

// Operators by name ("com.x.Name" outside ai.onnx), with those of subgraphs.
void count_operators(const model::Subgraph& graph, std::map<std::string, std::int64_t>& counts) {
  for (const model::Node& node : graph.nodes) {
    ++counts[node.domain.empty() ? node.op_type : node.domain + "." + node.op_type];
    for (const auto& [name, value] : node.attributes) {
      const auto* body = std::get_if<std::shared_ptr<const model::Subgraph>>(&value);
      if (body != nullptr) count_operators(**body, counts);
    }
  }
}

// Declared shapes, and the constant ones that inference finds (absent where it fails).
Description describe_values(const char* what, const std::vector<model::ValueInfo>& values,
                            const model::InferredModel* inferred) {
  Description result{"", nlohmann::json::array()};
  for (const model::ValueInfo& value : values) {
    const model::TypedValue* found = nullptr;
    if (inferred != nullptr && inferred->values.contains(value.name)) {
      found = &inferred->values.at(value.name);
    }
    const std::string format(found != nullptr   ? format_name(found->format)
                             : value.has_format ? format_name(value.format)
                                                : "unknown");
    nlohmann::json entry = {
        {"name", value.name}, {"format", format}, {"declared", declared_text(value)}};
    if (found != nullptr) entry["dims"] = found->dims;
    result.text +=
        fmt::format("{:<10} {} {} {} (declared {})\n", what, visible_text(value.name), format,
                    found != nullptr ? dims_text(found->dims) : "?", declared_text(value));
    result.document.push_back(std::move(entry));
  }
  return result;
}

Result<Description> inspect_model(const InspectArguments& arguments) {
  const std::string& path = arguments.model.model;
  TESSERA_TRY(const LoadOptions load, arguments.model.load_options());
  if (arguments.graph) {
    TESSERA_TRY(const ChipConfig chip, load_chip_config(load.arch));
    TESSERA_TRY(const auto graph, network::load_graph(path, chip, load));
    return Description{graph::dump(*graph),
                       {{"kind", "model"}, {"arch", chip.name}, {"nodes", graph->nodes.size()}}};
  }
  TESSERA_TRY(const model::Model model, model::import_file(path));
  const auto inferred = model::infer(model, network::infer_options(load));
  const model::InferredModel* const shapes = inferred.ok() ? &inferred.value() : nullptr;
  const Description inputs = describe_values("input", model.graph.inputs, shapes);
  const Description outputs = describe_values("output", model.graph.outputs, shapes);
  std::map<std::string, std::int64_t> operators;
  count_operators(model.graph, operators);
  std::int64_t constant_bytes = 0;
  for (const auto& [name, tensor] : model.graph.initializers) {
    constant_bytes += static_cast<std::int64_t>(tensor.bytes.size());
  }
  std::string opsets;
  nlohmann::json opset_list = nlohmann::json::object();
  for (const auto& [domain, version] : model.opsets) {
    const std::string name = domain.empty() ? "ai.onnx" : domain;
    opsets += fmt::format("{}{} {}", opsets.empty() ? "" : ", ", name, version);
    opset_list[name] = version;
  }
  TextTable table({"operator", "count"});
  std::int64_t nodes = 0;
  for (const auto& [name, count] : operators) {
    table.add({name, with_separators(count)});
    nodes += count;
  }
  const std::vector<std::string> notes =
      shapes == nullptr ? std::vector<std::string>{} : shapes->defaulted;
  Description result;
  result.text =
      fmt::format("{:<10} {}\n{:<10} {}\n{:<10} {}\n{:<10} {} tensors, {} bytes\n", "model",
                  visible_text(path), "IR version", model.ir_version, "opset", visible_text(opsets),
                  "constants", model.graph.initializers.size(), with_separators(constant_bytes));
  result.text += inputs.text + outputs.text + notes_text(notes);
  if (shapes == nullptr) {
    result.text += fmt::format("note: shapes are not known: {}\n",
                               visible_text(inferred.error().to_string(), LineBreaks::kIndented));
  }
  result.text += fmt::format("{} nodes\n{}", with_separators(nodes), table.text());
  result.document = {{"kind", "model"},
                     {"ir_version", model.ir_version},
                     {"opsets", std::move(opset_list)},
                     {"inputs", inputs.document},
                     {"outputs", outputs.document},
                     {"constants", model.graph.initializers.size()},
                     {"constant_bytes", constant_bytes},
                     {"nodes", nodes},
                     {"operators", operators},
                     {"notes", notes}};
  if (shapes == nullptr) result.document["shape_error"] = inferred.error().to_string();
  return result;
}

// Of all cores together; what they are beside it where there are several.
nlohmann::json program_json(const isa::CardProgram& program) {
  const isa::Program& first = program.cores.front();
  std::int64_t dropped = 0;
  for (const isa::Program& core : program.cores) dropped += core.dependencies_dropped;
  nlohmann::json document = {{"kind", "program"},
                             {"arch", first.chip_name},
                             {"tasks", program.task_count()},
                             {"dependencies", program.dependency_count()},
                             {"dependencies_dropped", dropped},
                             {"segments", first.segments.size()},
                             {"weights_bytes", first.weights.size()},
                             {"weights_file", first.weights_file}};
  if (program.cores.size() == 1) return document;
  document["cores"] = program.cores.size();
  document["cards"] = program.cards;
  document["images"] = program.images;
  document["memories"] = program.memories();
  document["remote_dependencies"] = program.remote_dependency_count();
  document["load_shares"] = program.share_count();
  document["weights_bytes_in_file"] = first.weights.bytes_of_parts();
  return document;
}

Result<Description> inspect_file(const InspectArguments& arguments) {
  const std::string& path = arguments.model.model;
  switch (package::kind_of_file(path)) {
    case package::FileKind::kPackage: {
      TESSERA_TRY(const package::Package package, package::load_package(path));
      return Description{arguments.graph
                             ? graph::dump(*package.graph)
                             : notes_text(package.graph->notes) + package::inspect(package),
                         {{"kind", "package"},
                          {"arch", package.chip_name},
                          {"frames", package.frames.size()},
                          {"hints", package.hints.size()},
                          {"weights_bytes", package.weights.size()},
                          {"prepared", prepared_json(package)},
                          {"notes", package.graph->notes}}};
    }
    case package::FileKind::kProgram: {
      TESSERA_TRY(const isa::CardProgram program, package::load_card_program_alone(path));
      return Description{package::inspect(program), program_json(program)};
    }
    case package::FileKind::kOther:
      break;
  }
  if (const auto file = InputFile::open(path); !file.ok()) {
    return file.error().with_context(fmt::format("reading '{}'", path));
  }
  auto described = inspect_model(arguments);
  if (described.ok() || path.ends_with(".onnx")) return described;
  return described.error().with_context(
      fmt::format("'{}' is neither a package nor a program; read as a model", path));
}

Status inspect(const InspectArguments& arguments) {
  TESSERA_RETURN_IF_ERROR(arguments.model.file_roles().check());
  TESSERA_TRY(Description description, inspect_file(arguments));
  description.document["file"] = arguments.model.model;
  show_lines(arguments.model.json ? json_text(description.document) + "\n" : description.text);
  return {};
}

}  // namespace

Action inspect_verb(CLI::App& app) {
  auto arguments = std::make_shared<InspectArguments>();  // shared with the returned action
  ModelArguments& model = arguments->model;
  app.add_option("file", model.model, "model (.onnx), package (.tpkg) or program (.tprog)")
      ->required();
  app.add_option("--shape", model.shapes,
                 "model: shape of an input with open dimensions: NAME=1x3x48x320");
  add_constant_option(app, model.constants);
  app.add_option("--arch", model.arch, "model with --graph: architecture")->capture_default_str();
  app.add_flag("--graph", arguments->graph, "print the typed graph instead (model or package)");
  app.add_flag("--json", model.json, "print one JSON object");
  const CLI::Option* arch = app.get_option("--arch");
  return [arguments, arch]() -> Status {
    if (arch->count() > 0 && !arguments->graph) {
      return Error{ErrorCode::kInvalidArgument, "--arch: it belongs to --graph"};
    }
    return inspect(*arguments);
  };
}

}  // namespace tessera::tools
