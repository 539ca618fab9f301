// tessera compare: two devices, layer by layer, bit by bit.
#include "runtime/compare.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "arch/architecture_file.h"
#include "tools/files/tensor_file.h"
#include "tools/run/cores_arguments.h"
#include "tools/terminal/console.h"
#include "tools/verb.h"

namespace tessera::tools {
namespace {

struct CompareArguments {
  ModelArguments model;
  CoresArguments cores;
  std::string a = "sim", b = "host", fault_node;
  std::vector<std::string> inputs;
  bool all = false;
};

// The graph of a model, or the one that a package carries, with dense edges.
Result<std::shared_ptr<const graph::Graph>> graph_of(const ModelArguments& arguments,
                                                     const ChipConfig& chip) {
  if (package::kind_of_file(arguments.model) != package::FileKind::kOther) {
    TESSERA_TRY(const Network network, arguments.load());
    return network::dense_graph_of(network.state());
  }
  TESSERA_TRY(const LoadOptions options, arguments.load_options());
  return network::load_graph(arguments.model, chip, options);
}

std::vector<TensorDescription> inputs_of(const graph::Graph& graph) {
  std::vector<TensorDescription> inputs;
  for (const graph::TensorId id : graph.inputs) {
    const graph::TensorInfo& info = graph.tensor(id);
    inputs.push_back({info.name, info.format, info.dims});
  }
  return inputs;
}

std::string first_difference(const runtime::LayerComparison& layer) {
  return fmt::format(
      "first difference: layer '{}', tensor '{}' {} [{}], element [{}]: a = {}, "
      "b = {} ({} of {} elements differ)",
      layer.layer, layer.tensor, format_name(layer.format), dims_text(layer.dims),
      fmt::join(layer.first_position, ", "), layer.first_a, layer.first_b, layer.different,
      layer.elements);
}

void print_json(const CompareArguments& arguments, const runtime::Comparison& comparison,
                const std::vector<std::string>& notes) {
  nlohmann::json layers = nlohmann::json::array();
  for (const auto& layer : comparison.layers) {
    nlohmann::json entry = {{"layer", layer.layer},
                            {"tensor", layer.tensor},
                            {"elements", layer.elements},
                            {"different", layer.different}};
    if (layer.different > 0) {
      entry.update(
          {{"first_position", layer.first_position}, {"a", layer.first_a}, {"b", layer.first_b}});
    }
    layers.push_back(std::move(entry));
  }
  nlohmann::json document = {{"values_compared", comparison.values_compared},
                             {"mismatches", comparison.mismatches},
                             {"notes", notes},
                             {"layers", std::move(layers)}};
  arguments.cores.add_to(document);
  if (comparison.first_layer) {
    document["first_layer"] = comparison.layers[*comparison.first_layer].layer;
  }
  show_lines(json_text(document) + "\n");
}

// Several cores are of the side that is sim, of the first where both are.
Status give_cores(const CompareArguments& arguments, runtime::CompareOptions& options) {
  const char* const given = arguments.cores.given();
  if (given == nullptr) return {};
  for (SessionOptions* const side : {&options.a, &options.b}) {
    if (side->device != DeviceKind::kSim) continue;
    arguments.cores.give_to(*side);
    return {};
  }
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("{} belongs to the device sim; the devices are {} and {}", given,
                           arguments.a, arguments.b)};
}

std::string side_name(const CompareArguments& arguments, bool first) {
  const std::string& name = first ? arguments.a : arguments.b;
  const bool of_cores =
      arguments.cores.several() && name == "sim" && (first || arguments.a != "sim");
  return of_cores ? fmt::format("{} ({} cores)", name, arguments.cores.cores) : name;
}

Status compare(const CompareArguments& arguments) {
  FileRoles roles = arguments.model.file_roles();
  roles.read_inputs(arguments.inputs);
  TESSERA_RETURN_IF_ERROR(roles.check());
  runtime::CompareOptions options;
  TESSERA_TRY(options.load, arguments.model.load_options());
  TESSERA_TRY(const ChipConfig chip, load_chip_config(arguments.model.architecture()));
  TESSERA_TRY(options.a.device, device_kind_from_name(arguments.a));
  TESSERA_TRY(options.b.device, device_kind_from_name(arguments.b));
  TESSERA_RETURN_IF_ERROR(give_cores(arguments, options));
  options.fault_node = arguments.fault_node;
  TESSERA_TRY(const auto graph, graph_of(arguments.model, chip));
  TESSERA_RETURN_IF_ERROR(arguments.model.check_format(*graph));
  TESSERA_TRY(const std::vector<Tensor> inputs,
              read_inputs(arguments.inputs, inputs_of(*graph), {}));
  TESSERA_TRY(const runtime::Comparison comparison, runtime::compare(graph, chip, inputs, options));
  if (arguments.model.json) {
    print_json(arguments, comparison, graph->notes);
  } else {
    show_lines(notes_text(graph->notes));
    if (arguments.all) {
      TextTable table({"layer", "tensor", "elements", "different"});
      for (const auto& layer : comparison.layers) {
        table.add({layer.layer, layer.tensor, with_separators(layer.elements),
                   with_separators(layer.different)});
      }
      show_lines(table.text());
    }
    show("{} and {}: {} values in {} tensors compared, {} mismatches\n", side_name(arguments, true),
         side_name(arguments, false), with_separators(comparison.values_compared),
         comparison.layers.size(), with_separators(comparison.mismatches));
  }
  if (!comparison.first_layer) return {};
  return Error{ErrorCode::kInternal, first_difference(comparison.layers[*comparison.first_layer])};
}

}  // namespace

Action compare_verb(CLI::App& app) {
  auto arguments = std::make_shared<CompareArguments>();  // shared with the returned action
  arguments->model.add_to(app);
  arguments->cores.add_to(app);
  app.add_option("--a", arguments->a, "first device: sim, host or ref")->capture_default_str();
  app.add_option("--b", arguments->b, "second device")->capture_default_str();
  app.add_option("--input", arguments->inputs, "NAME=FILE or NAME=random[:seed]");
  app.add_option("--plant-fault", arguments->fault_node,
                 "change this node's weights on side b, to see that the difference is found there");
  app.add_flag("--all", arguments->all, "list every layer");
  return [arguments]() -> Status {
    TESSERA_RETURN_IF_ERROR(arguments->model.feed(arguments->inputs));
    return compare(*arguments);
  };
}

}  // namespace tessera::tools
