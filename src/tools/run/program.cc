// tessera run of a program (.tprog) or of firmware text (.tasm): once, or a time step for every
// vector that arrives.
#include "tools/run/program.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "device/program_run.h"
#include "network/firmware_file.h"
#include "package/container.h"
#include "tools/files/tensor_file.h"
#include "tools/run/output.h"
#include "tools/run/vector_stream.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

// Options that belong to a model.
Status check_options(const RunArguments& arguments) {
  TESSERA_RETURN_IF_ERROR(arguments.model.check_program_options());
  const char* const option = arguments.serial          ? "--serial"
                             : !arguments.html.empty() ? "--html"
                                                       : nullptr;
  if (option != nullptr) return belongs_to_models(arguments.model.model, option);
  if (arguments.stream.empty() != arguments.stream_out.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "--stream and --out belong together: where vectors come from, where they go"};
  }
  if (arguments.stream.empty()) return {};
  const char* const whole = arguments.timing_only              ? "--timing-only"
                            : !arguments.inputs.empty()        ? "--input"
                            : !arguments.output_folder.empty() ? "--output"
                            : !arguments.trace.empty()         ? "--trace"
                                                               : nullptr;
  if (whole == nullptr) return {};
  return Error{ErrorCode::kInvalidArgument, fmt::format("{} does not go with --stream", whole)};
}

Status run_once(const RunArguments& arguments, const FileRoles& roles, device::ProgramRun& run) {
  TESSERA_TRY(const ImagePreprocessing preprocessing, parse_preprocessing(arguments.preprocess));
  TESSERA_TRY(const std::vector<Tensor> inputs,
              read_inputs(arguments.inputs, run.inputs(), preprocessing));
  TESSERA_TRY(const RunResult result, run.run(inputs));
  const std::vector<TensorDescription> outputs = run.outputs();
  TESSERA_TRY(std::vector<std::string> paths,
              write_outputs(arguments.output_folder, outputs, result, roles));
  if (!arguments.trace.empty()) {
    TESSERA_RETURN_IF_ERROR(write_perfetto(arguments.trace, result));
    paths.push_back(arguments.trace);
  }
  if (arguments.model.json) {
    nlohmann::json document = run_json(arguments, outputs, result, paths);
    document["tasks"] = run.program().tasks.size();
    document["verified"] = !arguments.unverified;
    show_lines(json_text(document) + "\n");
  } else {
    show("{} tasks for {}{}\n", run.program().tasks.size(), run.program().chip_name,
         !arguments.unverified     ? ""
         : arguments.check_hazards ? "; not verified, no hazard seen"
                                   : "; not verified");
    print_run(outputs, result, paths);
  }
  return {};
}

struct Streamed {
  std::int64_t vectors = 0;
  std::int64_t begin_cycles = 0, step_cycles = 0;  // of all steps
};

// Vectors of all inputs, concatenated, for each step; results likewise.
Result<Streamed> pass_vectors(const RunArguments& arguments, device::ProgramRun& run) {
  TESSERA_TRY(const VectorStream::Ends ends,
              VectorStream::open(arguments.stream, arguments.stream_out));
  std::vector<Tensor> inputs;
  for (const TensorDescription& input : run.inputs()) {
    inputs.push_back(Tensor::zeros(input.format, input.dims));
  }
  if (inputs.empty() || run.outputs().empty()) {
    return Error{ErrorCode::kInvalidArgument, "the program takes no vectors, or gives none"};
  }
  Streamed streamed;
  TESSERA_TRY(const RunResult begun, run.begin());
  streamed.begin_cycles = begun.cycles;
  while (true) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      TESSERA_TRY(const bool there, ends.in->read(inputs[i].bytes));
      if (there) continue;
      if (i == 0) {
        TESSERA_RETURN_IF_ERROR(ends.out->finish());
        return streamed;
      }
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("'{}' ends between the inputs of a step", arguments.stream)};
    }
    TESSERA_TRY(const RunResult step, run.step(inputs));
    streamed.step_cycles += step.cycles;
    ++streamed.vectors;
    for (const Tensor& output : step.outputs) {
      TESSERA_RETURN_IF_ERROR(ends.out->write(output.bytes));
    }
  }
}

Status run_stream(const RunArguments& arguments, device::ProgramRun& run,
                  std::int64_t clock_hertz) {
  TESSERA_TRY(const Streamed streamed, pass_vectors(arguments, run));
  // Standard output may be the vectors'.
  std::FILE* const console = arguments.stream_out == "-" ? stderr : stdout;
  if (arguments.model.json) {
    const nlohmann::json document = {
        {"program", arguments.model.model},     {"arch", arguments.model.arch},
        {"vectors", streamed.vectors},          {"cycles_begin", streamed.begin_cycles},
        {"cycles_steps", streamed.step_cycles}, {"clock_hertz", clock_hertz}};
    show_lines(console, json_text(document) + "\n");
    return {};
  }
  show(console, "{} vectors in {} cycles", streamed.vectors, with_separators(streamed.step_cycles));
  if (streamed.vectors > 0) {
    const double each =
        static_cast<double>(streamed.step_cycles) / static_cast<double>(streamed.vectors);
    show(console, ", {:.1f} us a step at {} MHz", each * 1e6 / static_cast<double>(clock_hertz),
         clock_hertz / 1'000'000);
  }
  show(console, "; {} cycles in front\n", with_separators(streamed.begin_cycles));
  return {};
}

}  // namespace

bool is_program(const std::string& path) { return network::is_program_file(path); }

Status run_program(const RunArguments& asked) {
  TESSERA_RETURN_IF_ERROR(check_options(asked));
  RunArguments arguments = asked;
  const std::string arch = asked.arch_given ? asked.model.arch : "";
  FileRoles roles = file_roles(arguments);
  TESSERA_RETURN_IF_ERROR(roles.check());
  TESSERA_TRY(isa::Program program,
              read_program(asked.model.model, arch, !asked.stream.empty(), roles));
  TESSERA_RETURN_IF_ERROR(roles.check());
  TESSERA_TRY(const ChipConfig chip, network::chip_of(program, arch));
  arguments.model.arch = chip.name;
  device::ProgramRunOptions options;
  TESSERA_TRY(options.device, device_kind_from_name(arguments.device));
  options.threads = arguments.threads;
  options.timing_only = arguments.timing_only;
  options.check_hazards = arguments.check_hazards;
  options.unverified = arguments.unverified;
  options.trace = !arguments.trace.empty();
  TESSERA_TRY(const auto run, device::ProgramRun::create(std::move(program), chip, options));
  if (!arguments.stream.empty()) return run_stream(arguments, *run, chip.clock_hertz);
  return run_once(arguments, roles, *run);
}

}  // namespace tessera::tools
