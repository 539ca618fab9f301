// tessera run of a program (.tprog) or of firmware text (.tasm): once, or a time step for every
// vector that arrives.
#include "tools/run/program.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "device/program_run.h"
#include "network/firmware_file.h"
#include "network/network.h"
#include "package/container.h"
#include "tools/files/tensor_file.h"
#include "tools/run/images.h"
#include "tools/run/output.h"
#include "tools/run/program_stream.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

// Options that belong to a stream.
Status check_unstreamed(const RunArguments& arguments) {
  const char* const option = arguments.framing != "raw"   ? "--framing"
                             : arguments.peers != 1       ? "--peers"
                             : arguments.read_ahead != 16 ? "--read-ahead"
                                                          : nullptr;
  if (option == nullptr) return {};
  return Error{ErrorCode::kInvalidArgument, fmt::format("{} goes with --stream", option)};
}

// Options that belong to a model.
Status check_options(const RunArguments& arguments) {
  TESSERA_RETURN_IF_ERROR(arguments.model.check_program_options());
  const char* const option = arguments.cores.given() != nullptr ? arguments.cores.given()
                             : arguments.cores.split != "auto"  ? "--split"
                             : arguments.serial                 ? "--serial"
                             : !arguments.html.empty()          ? "--html"
                                                                : nullptr;
  if (option != nullptr) return belongs_to_models(arguments.model.model, option);
  if (arguments.stream.empty() != arguments.stream_out.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "--stream and --out belong together: where vectors come from, where they go"};
  }
  if (arguments.stream.empty()) return check_unstreamed(arguments);
  const char* const whole = arguments.timing_only              ? "--timing-only"
                            : !arguments.inputs.empty()        ? "--input"
                            : !arguments.output_folder.empty() ? "--output"
                            : !arguments.trace.empty()         ? "--trace"
                            : arguments.no_host_time           ? "--no-host-time"
                                                               : nullptr;
  if (whole == nullptr) return {};
  return Error{ErrorCode::kInvalidArgument, fmt::format("{} does not go with --stream", whole)};
}

// "; not verified" where nothing was proved, and what it is for.
std::string program_text(const RunArguments& arguments, const isa::CardProgram& program) {
  std::string text = program.cores.front().chip_name;
  if (program.cores.size() > 1) {
    text += fmt::format(", on {} cores of {}", program.cores.size(),
                        program.cards == 1 ? "a card" : fmt::format("{} cards", program.cards));
  }
  if (!arguments.unverified) return text;
  return text + (arguments.check_hazards ? "; not verified, no hazard seen" : "; not verified");
}

// "cores", "cards", "images", where there are several.
void add_cores(const isa::CardProgram& program, const RunResult& result, nlohmann::json& document) {
  if (program.cores.size() == 1) return;
  document["cores"] = program.cores.size();
  document["cards"] = program.cards;
  add_images(result, document);
}

Status run_once(const RunArguments& arguments, const FileRoles& roles, device::ProgramRun& run) {
  const isa::CardProgram& program = run.card_program();
  const auto of_one = [&program](std::vector<TensorDescription> slots) {  // image
    slots.resize(slots.size() / static_cast<std::size_t>(program.images));
    return slots;
  };
  TESSERA_TRY(const ImagePreprocessing preprocessing, parse_preprocessing(arguments.preprocess));
  TESSERA_TRY(const std::vector<Tensor> inputs,
              read_images(arguments.inputs, of_one(run.inputs()), preprocessing, program.images));
  TESSERA_TRY(const RunResult result, run.run(inputs));
  const std::vector<TensorDescription> outputs =
      outputs_of_images(of_one(run.outputs()), program.images);
  TESSERA_TRY(std::vector<std::string> paths,
              write_outputs(arguments.output_folder, outputs, result, roles));
  if (!arguments.trace.empty()) {
    TESSERA_RETURN_IF_ERROR(write_perfetto(arguments.trace, result));
    paths.push_back(arguments.trace);
  }
  if (arguments.model.json) {
    nlohmann::json document = run_json(arguments, outputs, result, paths);
    document["tasks"] = program.task_count();
    document["verified"] = !arguments.unverified;
    add_cores(program, result, document);
    show_lines(json_text(document) + "\n");
  } else {
    show("{} tasks for {}\n", program.task_count(), program_text(arguments, program));
    print_run(outputs, result, paths, host_time_text(arguments, result) + images_text(result));
  }
  return {};
}

// What a stream cannot do with several cores.
Status check_streamed(const RunArguments& arguments, const isa::CardProgram& program) {
  if (arguments.stream.empty() || program.cores.size() == 1) return {};
  return Error{ErrorCode::kUnsupported,
               fmt::format("--stream: '{}' is a program for {} cores; link it for one (without "
                           "--cores)",
                           arguments.model.model, program.cores.size())};
}

}  // namespace

bool is_program(const std::string& path) { return network::is_program_file(path); }

Result<Network> load_program_for_cluster(const RunArguments& arguments, FileRoles& roles) {
  const char* const here = !arguments.stream.empty()       ? "--stream"
                           : !arguments.stream_out.empty() ? "--out"
                           : arguments.unverified          ? "--unverified"
                                                           : nullptr;
  if (here != nullptr) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} is for programs on a device of this machine; the device is {}",
                             here, arguments.device)};
  }
  TESSERA_RETURN_IF_ERROR(check_options(arguments));
  TESSERA_RETURN_IF_ERROR(roles.check());
  const std::string& path = arguments.model.model;
  const std::string arch = arguments.arch_given ? arguments.model.arch : "";
  TESSERA_TRY(
      isa::CardProgram program,
      read_card_program({.path = path, .arch = arch, .weights = arguments.model.weights}, roles));
  TESSERA_RETURN_IF_ERROR(roles.check());
  if (program.cores.size() == 1) {
    return network::network_from_program(std::move(program.cores.front()), path, arch);
  }
  return Error{
      ErrorCode::kUnsupported,
      fmt::format("'{}' is a program for {} cores; a processor of a cluster takes one for "
                  "one core ('tessera link' without --cores), or the package or the model, "
                  "which its node makes ready for the cores that there are",
                  path, program.cores.size())};
}

Status run_program(const RunArguments& asked) {
  TESSERA_RETURN_IF_ERROR(check_options(asked));
  RunArguments arguments = asked;
  const std::string arch = asked.arch_given ? asked.model.arch : "";
  FileRoles roles = file_roles(arguments);
  TESSERA_RETURN_IF_ERROR(roles.check());
  std::string steps_queue;
  TESSERA_TRY(isa::CardProgram program, read_card_program({.path = asked.model.model,
                                                           .arch = arch,
                                                           .weights = asked.model.weights,
                                                           .streaming = !asked.stream.empty(),
                                                           .steps_queue = &steps_queue},
                                                          roles));
  TESSERA_RETURN_IF_ERROR(check_streamed(asked, program));
  TESSERA_RETURN_IF_ERROR(roles.check());
  TESSERA_TRY(const ChipConfig chip, network::chip_of(program.cores.front(), arch));
  arguments.model.arch = chip.name;
  device::ProgramRunOptions options;
  TESSERA_TRY(options.device, device_kind_from_name(arguments.device));
  options.threads = arguments.threads;
  options.timing_only = arguments.timing_only;
  options.check_hazards = arguments.check_hazards;
  options.unverified = arguments.unverified;
  options.trace = !arguments.trace.empty();
  TESSERA_TRY(options.traps, traps_of(arguments));
  TESSERA_TRY(const auto run, device::ProgramRun::create(std::move(program), chip, options));
  if (!arguments.stream.empty()) {
    return run_stream(arguments, *run, {chip.clock_hertz, steps_queue});
  }
  return run_once(arguments, roles, *run);
}

}  // namespace tessera::tools
