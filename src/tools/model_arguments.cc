#include <fmt/format.h>

#include <charconv>

#include "arch/format_choice.h"
#include "network/firmware_file.h"
#include "network/network.h"
#include "tools/files/automatic_formats.h"
#include "tools/files/model_inputs.h"
#include "tools/files/safetensors.h"
#include "tools/terminal/console.h"
#include "tools/verb.h"

namespace tessera::tools {

Result<std::pair<std::string, Shape>> parse_shape(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  const Error error{ErrorCode::kInvalidArgument,
                    fmt::format("--shape '{}': expected NAME=1x3x48x320", text)};
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) return error;
  Shape dims;
  const char* at = text.data() + equals + 1;
  const char* const end = text.data() + text.size();
  while (true) {
    std::int64_t extent = 0;
    const auto [next, status] = std::from_chars(at, end, extent);
    if (status != std::errc{} || extent < 0) return error;
    dims.push_back(extent);
    if (next == end) break;
    if (*next != 'x') return error;
    at = next + 1;
  }
  return std::pair{text.substr(0, equals), dims};
}

void add_constant_option(CLI::App& app, std::vector<std::string>& constants) {
  app.add_option(
      "--constant", constants,
      "value of a model's input, known at compile time: NAME=16000, NAME=1,3,48,320, NAME=true "
      "or NAME=FILE (.npy, .pb); the network has no such input then");
}

void ModelArguments::add_to(CLI::App& app, const char* what) {
  app.add_option("model", model, what)->required();
  app.add_option("--arch", arch, "architecture: a profile's name or a .toml file")
      ->capture_default_str();
  app.add_option(
      "--format", format,
      "number formats in place of the architecture's: " + format_choices() +
          ", int8 (what a quantised model has itself), or auto[:COSINE] (values out of range "
          "in f32; with a bound such as 0.9995 the cheapest mantissas by layer that reach "
          "it; on --input)");
  app.add_option("--shape", shapes, "shape of an input with open dimensions: NAME=1x3x48x320");
  add_constant_option(app, constants);
  app.add_option("--weights", weights,
                 "safetensors file: weights and biases by layer in place of the model's (what a "
                 "derived PyTorch module saves); of a program: the package that has its weights");
  app.add_option("--tile-budget", tile_budget_bytes,
                 "state-buffer bytes a partition that one task may use (0: the compiler chooses)")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--through-dram", everything_through_dram,
               "keep no tensor in the state buffer between layers");
  app.add_flag("--no-weight-compression", no_weight_compression,
               "store every kernel as it is, also where a palette or a zero mask saves bytes");
  app.add_flag("--require-full-offload", require_full_offload, "a host step is an error");
  app.add_flag("--json", json, "print one JSON object");
}

std::string ModelArguments::architecture() const {
  return format.empty() || format == "int8" || chooses_formats() ? arch : arch + "+" + format;
}

Status ModelArguments::check_format(const graph::Graph& graph) const {
  if (format != "int8") return {};
  for (const graph::Node& node : graph.nodes) {
    const MatrixFormat* matrix = nullptr;
    if (node.kind() == graph::NodeKind::kConv) {
      matrix = &node.as<graph::ConvAttributes>().matrix;
    } else if (node.kind() == graph::NodeKind::kMatMul) {
      matrix = &node.as<graph::MatMulAttributes>().matrix;
    }
    if (matrix == nullptr || matrix->kind == MatrixKind::kInteger) continue;
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("--format int8: product '{}' of '{}' takes floats; give a quantised "
                             "(QDQ or QLinear) model, or another format: {}",
                             node.name, model, format_choices())};
  }
  return {};
}

bool ModelArguments::chooses_formats() const { return is_automatic(format); }

Result<LoadOptions> ModelArguments::load_options() const {
  if (chooses_formats() && !formats_chosen) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("--format {}: formats are chosen on inputs, and this verb takes none; "
                             "compile and run take --input",
                             format)};
  }
  LoadOptions options;
  options.arch = architecture();
  for (const std::string& text : shapes) {
    TESSERA_TRY(const auto shape, parse_shape(text));
    options.shapes[shape.first] = shape.second;
  }
  TESSERA_TRY(options.constants, parse_constants(model, constants));
  if (!fed.empty()) options.open_shape = shapes_of_files(fed);
  options.given = names_of(fed);
  if (!weights.empty()) {
    TESSERA_TRY(options.weights, read_safetensors(weights));
  }
  options.tile_budget_bytes = tile_budget_bytes;
  options.resident = !everything_through_dram;
  options.compress_weights = !no_weight_compression;
  options.require_full_offload = require_full_offload;
  options.region_share = region_share;
  options.deadline = deadline;
  options.layer_formats = layer_formats;
  options.progress = progress_bar();
  return options;
}

Status ModelArguments::feed(std::vector<std::string>& inputs, const std::string& preprocess) {
  fed = inputs;
  if (network::is_program_file(model) ||
      package::kind_of_file(model) != package::FileKind::kOther) {
    return {};
  }
  const auto taken = take_deciding(model, [this] { return load_options(); }, inputs, constants);
  for (const std::string& name : taken) {
    show(stderr, "note: {}: a constant of the network, since its value decides what is computed\n",
         name);
  }
  if (!chooses_formats()) return {};
  formats_chosen = true;
  FileRoles roles = file_roles();
  TESSERA_TRY(const LoadOptions load, load_options());
  TESSERA_TRY(layer_formats,
              automatic_formats(model, format, load,
                                {.inputs = inputs, .folder = "", .preprocess = preprocess},
                                in_parts, roles));
  return {};
}

FileRoles ModelArguments::file_roles() const {
  FileRoles roles;
  roles.read("the model", model);
  roles.read("--weights", weights);
  for (const std::string& text : constants)
    roles.read("--constant", text.substr(text.rfind('=') + 1));
  roles.read_architecture(arch);
  return roles;
}

Status check_external(const graph::Graph& graph, FileRoles& roles) {
  for (const std::string& file : graph.external_files) roles.read("the model's data", file);
  return roles.check();
}

Result<Network> ModelArguments::load(FileRoles& roles) const {
  TESSERA_RETURN_IF_ERROR(roles.check());
  TESSERA_TRY(Network network, load());
  TESSERA_RETURN_IF_ERROR(check_external(network.state().graph(), roles));
  return network;
}

Result<Network> ModelArguments::load() const {
  if (network::is_program_file(model)) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("'{}' is a {}; give the package or the model it was made from", model,
                    package::kind_of_file(model) == package::FileKind::kProgram ? "linked program"
                                                                                : "firmware text")};
  }
  if (package::kind_of_file(model) == package::FileKind::kPackage) {
    const char* const fixed = !shapes.empty()           ? "--shape"
                              : !constants.empty()      ? "--constant"
                              : !weights.empty()        ? "--weights"
                              : tile_budget_bytes != 0  ? "--tile-budget"
                              : everything_through_dram ? "--through-dram"
                              : no_weight_compression   ? "--no-weight-compression"
                                                        : nullptr;
    if (fixed != nullptr) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("'{}' is a package, which is compiled already; give {} to 'tessera "
                               "compile'",
                               model, fixed)};
    }
  }
  TESSERA_TRY(const LoadOptions options, load_options());
  TESSERA_TRY(Network network, Network::load(model, options));
  TESSERA_RETURN_IF_ERROR(check_format(network.state().graph()));
  const Placement& placement = network.placement();
  if (require_full_offload && placement.nodes_on_host > 0) {  // of a package
    const HostStepNote& step = placement.host_steps.front();
    return Error{ErrorCode::kUnsupported,
                 fmt::format("'{}': node '{}' ({}) runs on the host ({}), and full offload is "
                             "required",
                             model, step.node, step.operator_name, step.reason)};
  }
  return network;
}

void add_functions_option(CLI::App& app, int& functions) {
  app.add_option("--functions", functions,
                 "sim: virtual functions; each is a device with its part of the memories, and "
                 "tasks of several run together on a core")
      ->check(CLI::Range(1, 16));
}

Error belongs_to_models(const std::string& path, const char* option) {
  return {
      ErrorCode::kInvalidArgument,
      fmt::format("'{}' is a program, which is compiled already; {} is for models", path, option)};
}

Status ModelArguments::check_program_options() const {
  const char* const option = !shapes.empty()           ? "--shape"
                             : !constants.empty()      ? "--constant"
                             : !format.empty()         ? "--format"
                             : tile_budget_bytes != 0  ? "--tile-budget"
                             : everything_through_dram ? "--through-dram"
                             : no_weight_compression   ? "--no-weight-compression"
                             : require_full_offload    ? "--require-full-offload"
                                                       : nullptr;
  if (option != nullptr) return belongs_to_models(model, option);
  return {};
}

namespace {

// What the program leaves in another file.
Status read_weights(const ProgramSource& source, isa::Program& program, FileRoles& roles) {
  TESSERA_TRY(const std::string file,
              package::find_elsewhere(program, source.path,
                                      {source.weights, package::folder_of(source.path)}));
  if (source.weights.empty()) roles.read("the program's weights", file);
  return {};
}

// Of a firmware text. `assemble`: of network/firmware_file.h.
template <typename Assemble>
auto assembled(Assemble&& assemble, const ProgramSource& source, FileRoles& roles)
    -> decltype(assemble(source.path, source.arch, false, nullptr, nullptr)) {
  if (!source.weights.empty()) return belongs_to_models(source.path, "--weights");
  std::vector<std::string> files;
  auto program = assemble(source.path, source.arch, source.streaming, &files, source.steps_queue);
  for (const std::string& file : files) roles.read("a file of the text", file);
  return program;
}

}  // namespace

Result<isa::Program> read_program(const ProgramSource& source, FileRoles& roles) {
  if (package::kind_of_file(source.path) == package::FileKind::kProgram) {
    TESSERA_TRY(isa::Program program, package::load_program_alone(source.path));
    TESSERA_RETURN_IF_ERROR(read_weights(source, program, roles));
    return program;
  }
  return assembled(network::assemble_file, source, roles);
}

Result<isa::CardProgram> read_card_program(const ProgramSource& source, FileRoles& roles) {
  if (package::kind_of_file(source.path) == package::FileKind::kProgram) {
    TESSERA_TRY(isa::CardProgram card, package::load_card_program_alone(source.path));
    TESSERA_RETURN_IF_ERROR(read_weights(source, card.cores.front(), roles));
    return card;
  }
  return assembled(network::assemble_card_file, source, roles);
}

Result<Network> ModelArguments::load_with_programs(FileRoles& roles) const {
  if (!network::is_program_file(model)) return load(roles);
  TESSERA_RETURN_IF_ERROR(check_program_options());
  TESSERA_RETURN_IF_ERROR(roles.check());
  const std::string asked = arch == ModelArguments{}.arch ? "" : arch;
  TESSERA_TRY(isa::Program program,
              read_program({.path = model, .arch = asked, .weights = weights}, roles));
  TESSERA_RETURN_IF_ERROR(roles.check());
  return network::network_from_program(std::move(program), model, asked);
}

std::string ModelArguments::architecture_for(const Network& network) const {
  const bool own = network.state().program != nullptr && arch == ModelArguments{}.arch;
  return own ? network.state().chip.name : architecture();
}

}  // namespace tessera::tools
