// Writes layer_shapes.txt: write_layer_shapes MODEL[@INPUT=1x3x48x320] ... > layer_shapes.txt
#include <fmt/format.h>

#include <set>

#include "layer_shapes.h"
#include "network/network.h"

namespace tessera {
namespace {

Status add_layers(const std::string& model, std::set<std::string>& lines) {
  const std::size_t at = model.find('@');
  LoadOptions options;
  if (at != std::string::npos) {
    const std::size_t equals = model.find('=', at);
    Shape dims;
    for (std::size_t place = equals; place != std::string::npos;
         place = model.find('x', place + 1)) {
      dims.push_back(std::stoll(model.substr(place + 1)));
    }
    options.shapes[model.substr(at + 1, equals - at - 1)] = dims;
  }
  TESSERA_TRY(const Network network, Network::load(model.substr(0, at), options));
  const graph::Graph& graph = network.state().graph();
  for (const graph::Node& node : graph.nodes) {
    if (has_layer_line(node)) lines.insert(layer_line(graph, node));
  }
  return {};
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  std::set<std::string> lines;
  for (int i = 1; i < argc; ++i) {
    const tessera::Status status = tessera::add_layers(argv[i], lines);
    if (!status.ok()) fmt::print(stderr, "{}: left out: {}\n", argv[i], status.error().to_string());
  }
  fmt::print(
      "# The distinct layers of the models that are measured and checked; see layer_shapes.h.\n");
  for (const std::string& line : lines) fmt::print("{}\n", line);
  return 0;
}
