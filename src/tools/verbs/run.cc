// tessera run: the whole way from a model file to outputs, cycles and utilisation. Programs and
// firmware texts are run/program.cc's.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cluster/address.h"
#include "tools/files/tensor_file.h"
#include "tools/run/arguments.h"
#include "tools/run/images.h"
#include "tools/run/output.h"
#include "tools/run/parts.h"
#include "tools/run/program.h"
#include "tools/run/shared.h"
#include "tools/terminal/console.h"
#include "tools/verb.h"

namespace tessera::tools {
namespace {

// Options that would do nothing together are refused.
Status check_options(const RunArguments& arguments, DeviceKind device) {
  if (device != DeviceKind::kSim) {
    const char* const option = arguments.timing_only      ? "--timing-only"
                               : arguments.check_hazards  ? "--check-hazards"
                               : arguments.unverified     ? "--unverified"
                               : arguments.serial         ? "--serial"
                               : arguments.no_host_time   ? "--no-host-time"
                               : !arguments.traps.empty() ? "--trap"
                               : !arguments.trace.empty() ? "--trace"
                               : !arguments.html.empty()  ? "--html"
                                                          : arguments.cores.given();
    if (option != nullptr) {
      return Error{
          ErrorCode::kInvalidArgument,
          fmt::format("{} belongs to the device sim; the device is {}", option, arguments.device)};
    }
  }
  if (arguments.timing_only && !arguments.output_folder.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "--output: --timing-only computes no values; leave one of them out"};
  }
  return {};
}

// Several cores run one model together.
Status check_cores(const RunArguments& arguments) {
  return arguments.cores.check_without(!arguments.others.empty() ? "several networks"
                                       : arguments.serial        ? "--serial"
                                                                 : nullptr);
}

// Of a model: options that only programs have.
Status check_no_program_options(const RunArguments& arguments) {
  const char* const option = !arguments.stream.empty()       ? "--stream"
                             : !arguments.stream_out.empty() ? "--out"
                             : arguments.framing != "raw"    ? "--framing"
                             : arguments.peers != 1          ? "--peers"
                             : arguments.read_ahead != 16    ? "--read-ahead"
                             : arguments.unverified          ? "--unverified"
                                                             : nullptr;
  if (option != nullptr) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} runs a program (.tprog) or firmware text (.tasm), '{}' is neither",
                             option, arguments.model.model)};
  }
  return {};
}

Status run(const RunArguments& arguments) {
  DeviceKind device = DeviceKind::kSim;
  const bool is_remote = cluster::is_cluster_address(arguments.device);
  if (!is_remote) {
    TESSERA_TRY(device, device_kind_from_name(arguments.device));
  }
  TESSERA_RETURN_IF_ERROR(check_options(arguments, device));
  TESSERA_RETURN_IF_ERROR(check_cores(arguments));
  if (!arguments.others.empty()) return run_shared(arguments);
  TESSERA_RETURN_IF_ERROR(check_alone(arguments));
  const bool has_program = is_program(arguments.model.model);
  if (has_program && !is_remote) return run_program(arguments);
  if (!has_program) TESSERA_RETURN_IF_ERROR(check_no_program_options(arguments));
  FileRoles roles = file_roles(arguments);
  auto loaded =
      has_program ? load_program_for_cluster(arguments, roles) : arguments.model.load(roles);
  if (!loaded.ok()) {
    if (is_remote || !comes_in_parts(arguments, loaded.error())) return loaded.error();
    return run_in_parts(arguments, device, loaded.error(), std::move(roles));
  }
  const Network& network = *loaded;
  TESSERA_TRY(const ImagePreprocessing preprocessing, parse_preprocessing(arguments.preprocess));
  TESSERA_TRY(
      const std::vector<Tensor> inputs,
      read_images(arguments.inputs, network.inputs(), preprocessing, arguments.cores.images()));
  SessionOptions options;
  options.device = device;
  if (is_remote) options.cluster = arguments.device;
  options.threads = arguments.threads;
  options.timing_only = arguments.timing_only;
  options.check_hazards = arguments.check_hazards;
  options.serial = arguments.serial;
  arguments.cores.give_images_to(options);
  TESSERA_TRY(options.traps, traps_of(arguments));
  options.trace = !arguments.trace.empty() || !arguments.html.empty();
  options.progress = progress_bar();
  TESSERA_TRY(Session session, Session::open(network, options));
  TESSERA_TRY(const RunResult result, session.run(inputs));
  const std::vector<TensorDescription> outputs =
      outputs_of_images(network.outputs(), result.images);
  TESSERA_TRY(std::vector<std::string> paths,
              write_outputs(arguments.output_folder, outputs, result, roles));
  if (!arguments.trace.empty()) {
    TESSERA_RETURN_IF_ERROR(write_perfetto(arguments.trace, result));
    paths.push_back(arguments.trace);
  }
  if (!arguments.html.empty()) {
    TESSERA_RETURN_IF_ERROR(
        write_html_report(arguments.html, arguments.model.model, network, result));
    paths.push_back(arguments.html);
  }
  if (arguments.model.json) {
    nlohmann::json document = run_json(arguments, outputs, result, paths);
    add_images(result, document);
    document.update(placement_json(network.placement()));
    show_lines(json_text(document) + "\n");
  } else {
    show_lines(placement_text(network.placement()));
    print_run(outputs, result, paths, host_time_text(arguments, result) + images_text(result));
  }
  return {};
}

}  // namespace

Action run_verb(CLI::App& app) {
  auto arguments = std::make_shared<RunArguments>();  // shared with the returned action
  arguments->model.add_to(app, kModelOrProgram);
  app.add_option("others", arguments->others,
                 "further networks that share the core with it, each in a part of the memories");
  app.add_option("--priority", arguments->priorities,
                 "of several networks, one for each: higher first (default 0)");
  app.add_option("--arrival", arguments->arrivals,
                 "of several networks: when each is enqueued, as 0, 200us or 1.5ms (default 0)");
  app.add_option("--share", arguments->shares,
                 "of several networks: each one's part of state buffer and kernel memory, as 0.75 "
                 "(default: equal parts)");
  app.add_option(
      "--input", arguments->inputs,
      "NAME=FILE (.npy, .pb, .png, .jpg) or NAME=random[:seed]; random[:seed] for all inputs "
      "that are not named; default random:0; with several networks NETWORK:NAME=..., NETWORK "
      "being 0, 1, ... or the file's name without its ending");
  app.add_option("--preprocess", arguments->preprocess,
                 "for pictures: \"mean=R,G,B;std=R,G,B;order=rgb|bgr\" (default mean 0, std 255)");
  app.add_option("--device", arguments->device,
                 "sim, host, ref, or a processor of a cluster: cluster:HOST:PORT?cores=4")
      ->capture_default_str();
  arguments->cores.add_to(app);
  arguments->cores.add_images_to(app);
  app.add_option("--threads", arguments->threads, "threads of the host device (0: all)")
      ->check(CLI::Range(0, 1024));
  app.add_option("--output", arguments->output_folder, "write outputs to this folder as .npy");
  app.add_option("--trace", arguments->trace, "write the timeline (Perfetto JSON)");
  app.add_option("--html", arguments->html, "write a self-contained HTML report");
  app.add_flag("--timing-only", arguments->timing_only, "skip the values; same cycles");
  app.add_flag("--check-hazards", arguments->check_hazards, "report two tasks that race");
  app.add_flag("--unverified", arguments->unverified,
               "run a program as it is, without the proof that its tasks are in order");
  app.add_option("--trap", arguments->traps,
                 "values that stop a network, with task, step and layer: nan, infinity, range, "
                 "saturation, overflow (the last three), with commas between");
  app.add_flag("--serial", arguments->serial, "one task at a time");
  app.add_flag("--no-host-time", arguments->no_host_time,
               "leave out the time of host steps and of transfers between host and processor");
  app.add_option("--stream", arguments->stream,
                 "a program's time step for every vector that arrives: FILE, -, unix:PATH, "
                 "tcp:HOST:PORT, or listen:unix:PATH, listen:tcp:HOST:PORT for callers");
  app.add_option("--out", arguments->stream_out, "where its vectors go, likewise");
  app.add_option("--framing", arguments->framing,
                 "of a stream: raw (vectors alone) or messages (each behind a header)")
      ->check(CLI::IsMember({"raw", "messages"}))
      ->capture_default_str();
  app.add_option("--peers", arguments->peers,
                 "callers that a listening stream takes, one after the other; 0: until interrupted")
      ->check(CLI::Range(0, 1'000'000'000))
      ->capture_default_str();
  app.add_option("--read-ahead", arguments->read_ahead,
                 "steps whose vectors are read while the processor works")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  return [arguments, &app]() -> Status {
    arguments->arch_given = app.get_option("--arch")->count() > 0;
    arguments->model.in_parts = !cluster::is_cluster_address(arguments->device);
    if (arguments->others.empty()) {
      TESSERA_RETURN_IF_ERROR(arguments->model.feed(arguments->inputs, arguments->preprocess));
    }
    return run(*arguments);
  };
}

}  // namespace tessera::tools
