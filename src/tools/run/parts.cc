#include "tools/run/parts.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "model/given_inputs.h"
#include "model/import.h"
#include "model/infer.h"
#include "network/network.h"
#include "package/container.h"
#include "tessera/dynamic_network.h"
#include "tools/files/tensor_file.h"
#include "tools/run/output.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

// Open dimensions are those of --shape or of the file, else 1.
TensorDescription description_of(const DeclaredShape& input, const LoadOptions& options) {
  TensorDescription description{input.name, input.format, input.dims};
  std::optional<Shape> given;
  const auto shape = options.shapes.find(input.name);
  if (shape != options.shapes.end()) given = shape->second;
  if (!given && options.open_shape) given = options.open_shape(input);
  if (given && !input.has_shape) description.dims = *given;
  for (std::size_t axis = 0; axis < description.dims.size(); ++axis) {
    std::int64_t& extent = description.dims[axis];
    const bool known = given && given->size() == description.dims.size();
    if (extent < 0) extent = known ? (*given)[axis] : 1;
  }
  return description;
}

Status check_options(const RunArguments& arguments, const Error& reason) {
  const char* const option = arguments.timing_only                  ? "--timing-only"
                             : !arguments.traps.empty()             ? "--trap"
                             : !arguments.trace.empty()             ? "--trace"
                             : !arguments.html.empty()              ? "--html"
                             : !arguments.model.weights.empty()     ? "--weights"
                             : arguments.model.require_full_offload ? "--require-full-offload"
                                                                    : arguments.cores.given();
  if (option == nullptr) return {};
  return Error{reason.code,
               fmt::format("{} is for a single network, and {}", option, reason.message)};
}

}  // namespace

bool comes_in_parts(const RunArguments& arguments, const Error& error) {
  const std::string& path = arguments.model.model;
  if (error.code != ErrorCode::kUnsupported ||
      package::kind_of_file(path) != package::FileKind::kOther) {
    return false;
  }
  auto model = model::import_file(path);
  const auto options = arguments.model.load_options();
  if (!model.ok() || !options.ok()) return false;
  model::give_inputs(*model, options->given);
  return model::node_that_data_decides(*model, network::infer_options(*options)).has_value();
}

Status run_in_parts(const RunArguments& arguments, DeviceKind device, const Error& reason,
                    FileRoles roles) {
  TESSERA_RETURN_IF_ERROR(check_options(arguments, reason));
  TESSERA_TRY(const LoadOptions load, arguments.model.load_options());
  TESSERA_TRY(const DynamicNetwork network,
              DynamicNetwork::open(arguments.model.model, {.load = load}));
  TESSERA_TRY(const ImagePreprocessing preprocessing, parse_preprocessing(arguments.preprocess));
  std::vector<TensorDescription> taken;
  for (const DeclaredShape& input : network.inputs()) taken.push_back(description_of(input, load));
  TESSERA_TRY(const std::vector<Tensor> inputs,
              read_inputs(arguments.inputs, taken, preprocessing));
  SessionOptions options;
  options.device = device;
  options.threads = arguments.threads;
  options.check_hazards = arguments.check_hazards;
  options.serial = arguments.serial;
  TESSERA_TRY(DynamicSession session, DynamicSession::open(network, options));
  TESSERA_TRY(const RunResult result, session.run(inputs));
  std::vector<TensorDescription> outputs;
  for (std::size_t i = 0; i < result.outputs.size(); ++i) {
    outputs.push_back(
        {session.output_names()[i], result.outputs[i].format, result.outputs[i].dims});
  }
  TESSERA_TRY(const std::vector<std::string> paths,
              write_outputs(arguments.output_folder, outputs, result, std::move(roles)));
  if (arguments.model.json) {
    nlohmann::json document = run_json(arguments, outputs, result, paths);
    document.update(placement_json(session.placement()));
    show_lines(json_text(document) + "\n");
  } else {
    show_lines(placement_text(session.placement()));
    print_run(outputs, result, paths, host_time_text(arguments, result));
  }
  return {};
}

}  // namespace tessera::tools
