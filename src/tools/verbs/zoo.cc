// tessera zoo: writes networks by structure, with weights generated from a seed.
#include "zoo/zoo.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/terminal/console.h"
#include "tools/verb.h"
#include "tools/workloads/zoo_file.h"

namespace tessera::tools {
namespace {

struct ZooArguments {
  std::string name, output;
  ZooForm form;
  bool list = false, json = false;
};

nlohmann::json to_json(const zoo::ZooNetwork& network, const zoo::Summary& summary) {
  return {{"name", network.name},
          {"description", network.description},
          {"nodes", summary.nodes},
          {"macs", summary.macs},
          {"parameters", summary.parameters}};
}

void list(bool json) {
  nlohmann::json document = nlohmann::json::array();
  TextTable table({"network", "MACs", "parameters", "what it is"});
  for (const zoo::ZooNetwork& network : zoo::networks()) {
    const zoo::Summary summary = zoo::summarise(network);
    document.push_back(to_json(network, summary));
    table.add({network.name, with_separators(summary.macs), with_separators(summary.parameters),
               network.description});
  }
  if (json) {
    show_lines(json_text({{"networks", document}}) + "\n");
  } else {
    show_lines(table.text());
  }
}

Status write(const ZooArguments& arguments) {
  TESSERA_TRY(const zoo::ZooNetwork network, zoo::find_network(arguments.name));
  const std::string path = arguments.output.empty() ? arguments.name + ".onnx" : arguments.output;
  FileRoles roles;
  roles.write("-o", path);
  TESSERA_RETURN_IF_ERROR(roles.check());
  TESSERA_TRY(const zoo::Summary summary, write_zoo_file(network, arguments.form, path));
  if (arguments.json) {
    nlohmann::json document = to_json(network, summary);
    document["seed"] = arguments.form.seed;
    document["bits"] = arguments.form.bits;
    document["file"] = path;
    show_lines(json_text(document) + "\n");
    return {};
  }
  show("wrote {}: {} ({} nodes, {} MACs, {} parameters, seed {}{})\n", path, network.description,
       summary.nodes, with_separators(summary.macs), with_separators(summary.parameters),
       arguments.form.seed, arguments.form.bits == 16 ? "" : ", in 8 bits");
  return {};
}

Status make(const ZooArguments& arguments) {
  if (arguments.list != arguments.name.empty()) {
    return Error{ErrorCode::kInvalidArgument, "give a network's name, or --list"};
  }
  if (!arguments.list) return write(arguments);
  if (!arguments.output.empty()) {
    return Error{ErrorCode::kInvalidArgument, "--list writes no file; leave out --output"};
  }
  list(arguments.json);
  return {};
}

}  // namespace

Action zoo_verb(CLI::App& app) {
  auto arguments = std::make_shared<ZooArguments>();  // shared with the returned action
  app.add_option("name", arguments->name, "network to write");
  app.add_flag("--list", arguments->list, "list the networks with their MACs and parameters");
  app.add_option("--seed", arguments->form.seed, "of the weights")->capture_default_str();
  app.add_option(
         "--bits", arguments->form.bits,
         "of data and weights: 16 (the file has floats) or 8 (the file has integers with scales)")
      ->check(CLI::IsMember({8, 16}))
      ->capture_default_str();
  app.add_option("-o,--output", arguments->output, "file to write (default: NAME.onnx)");
  app.add_flag("--json", arguments->json, "print one JSON object");
  return [arguments] { return make(*arguments); };
}

}  // namespace tessera::tools
