// tessera watch: a model that runs again and again through a pipeline, behind a live page.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "dashboard/page.h"
#include "tessera/runtime.h"
#include "tools/bench/repeated_inputs.h"
#include "tools/files/tensor_file.h"
#include "tools/service/until_end.h"
#include "tools/terminal/console.h"
#include "tools/terminal/standard_streams.h"
#include "tools/verb.h"

namespace tessera::tools {
namespace {

struct WatchArguments {
  ModelArguments model;
  std::vector<std::string> inputs;  // NAME=SOURCE or SOURCE
  std::string http = "8080", record;
  std::string device = "sim";
  int kernels = 1, functions = 1, threads = 0, jobs = 64;
  double pace = 0, seconds = 0;
  bool timing_only = false, tune = false;
};

// How the tasks ended, by callbacks of the runtime's threads.
struct WatchOutcomes {
  std::mutex mutex;
  std::int64_t ok = 0;
  RepeatedInputs inputs;
  std::optional<Error> error;  // the first

  explicit WatchOutcomes(const std::vector<Tensor>& given) : inputs(given) {}

  void note(TaskOutcome outcome) {
    if (outcome.ok()) inputs.give_back(std::move(outcome.result().runs));
    const std::lock_guard lock(mutex);
    if (outcome.ok()) {
      ++ok;
    } else if (!error) {
      error = outcome.error().error.with_context(fmt::format("task {}", outcome.error().task));
    }
  }
  bool failed() {
    const std::lock_guard lock(mutex);
    return error.has_value();
  }
};

Result<Runtime> open_runtime(const WatchArguments& arguments, const Network& network) {
  DeviceOptions device;
  TESSERA_TRY(device.kind, device_kind_from_name(arguments.device));
  const char* const option = arguments.pace > 0        ? "--pace"
                             : arguments.timing_only   ? "--timing-only"
                             : arguments.functions > 1 ? "--functions"
                                                       : nullptr;
  if (device.kind != DeviceKind::kSim && option != nullptr) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("{} belongs to the device sim; the device is {}", option, arguments.device)};
  }
  device.arch = arguments.model.architecture_for(network);
  device.kernels = arguments.kernels;
  device.threads = arguments.threads;
  device.pace = arguments.pace;
  device.timing_only = arguments.timing_only;
  device.virtual_functions = arguments.functions;
  return Runtime::open({.devices = {device}});
}

// Keeps the pipeline full until it is time, an interrupt, or a failed task.
Status keep_busy(const WatchArguments& arguments, Stream& stream, WatchOutcomes& outcomes) {
  const auto begin = std::chrono::steady_clock::now();
  const auto over = [&] {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    return arguments.seconds > 0 && elapsed.count() >= arguments.seconds;
  };
  while (!was_interrupted() && !over() && !outcomes.failed()) {
    if (!stream.wait_for_room(std::chrono::milliseconds(50))) continue;
    SubmitOptions options;
    options.callback = [&outcomes](TaskOutcome outcome) { outcomes.note(std::move(outcome)); };
    TESSERA_TRY(const Job job, stream.submit_when_room(outcomes.inputs.take(), std::move(options)));
  }
  return {};
}

Status print_start(const WatchArguments& arguments, const std::string& url) {
  if (arguments.model.json) {
    show_lines(json_line({{"url", url}}) + "\n");
  } else {
    show("{}   in a browser, or: tessera top {}   (ends with Ctrl-C)\n", url, url);
  }
  return check_standard_output();
}

Status watch(const WatchArguments& arguments) {
  if (dashboard::page_files().empty()) {
    return Error{ErrorCode::kUnsupported,
                 "this program was built without npm and has no page; install npm, configure and "
                 "build again"};
  }
  FileRoles roles = arguments.model.file_roles();
  roles.read_inputs(arguments.inputs);
  roles.write("--record", arguments.record);
  ModelArguments model_arguments = arguments.model;
  model_arguments.region_share = 1.0 / arguments.functions;
  TESSERA_TRY(Network network, model_arguments.load_with_programs(roles));
  TESSERA_TRY(const std::vector<Tensor> inputs,
              read_inputs(arguments.inputs, network.inputs(), {}));
  TESSERA_TRY(Runtime runtime, open_runtime(arguments, network));
  TESSERA_TRY(const Model model, runtime.load(network));
  PipelineOptions options;
  options.jobs_max = static_cast<std::size_t>(arguments.jobs);
  options.tune = arguments.tune;
  TESSERA_TRY(Pipeline pipeline, runtime.open_pipeline(model, std::move(options)));
  const std::string file = std::filesystem::path(arguments.model.model).filename().string();
  TESSERA_TRY(const LiveView view,
              runtime.open_live_view({.listen = arguments.http,
                                      .title = fmt::format("{} on {}", file, arguments.device),
                                      .pipelines = {pipeline}}));
  std::optional<EventRecording> recording;
  if (!arguments.record.empty()) {
    TESSERA_TRY(recording, runtime.record_events(arguments.record));
  }
  TESSERA_RETURN_IF_ERROR(print_start(arguments, view.url()));
  end_on_signals();
  WatchOutcomes outcomes(inputs);
  const auto begin = std::chrono::steady_clock::now();
  Stream stream = pipeline.open_stream();
  const Status busy = keep_busy(arguments, stream, outcomes);
  pipeline.wait_until_done();
  TESSERA_RETURN_IF_ERROR(busy);
  if (outcomes.error) return *outcomes.error;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  const double rate = static_cast<double>(outcomes.ok) / elapsed.count();
  nlohmann::json document = {
      {"tasks", outcomes.ok}, {"seconds", elapsed.count()}, {"tasks_per_second", rate}};
  std::string text = fmt::format("{} tasks in {:.1f} s: {:.1f} a second\n",
                                 with_separators(outcomes.ok), elapsed.count(), rate);
  Status recorded;
  if (recording) {
    recorded = recording->finish();
    const EventRecording::Progress all = recording->progress();
    document["recorded"] = {{"file", arguments.record}, {"events", all.events}, {"lost", all.lost}};
    text += fmt::format("{} events in {}, {:.1f} MB; {} lost\n", with_separators(all.events),
                        arguments.record, 1e-6 * static_cast<double>(all.bytes),
                        with_separators(all.lost));
  }
  show_lines(arguments.model.json ? json_line(document) + "\n" : text);
  return recorded;
}

}  // namespace

Action watch_verb(CLI::App& app) {
  auto arguments = std::make_shared<WatchArguments>();
  arguments->model.add_to(app, kModelOrProgram);
  app.add_option("--http", arguments->http,
                 "where the page is served: PORT (of this machine only) or ADDRESS:PORT; port 0 "
                 "takes any that is free")
      ->capture_default_str();
  app.add_option("--input", arguments->inputs,
                 "NAME=FILE (.npy, .pb, .png, .jpg) or random[:seed], the same for every task");
  app.add_option("--device", arguments->device, "sim, host or ref")->capture_default_str();
  app.add_option("--kernels", arguments->kernels, "kernels of the device that run side by side")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  add_functions_option(app, arguments->functions);
  app.add_option("--threads", arguments->threads, "host: threads of all kernels (0: all cores)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--pace", arguments->pace,
                 "sim: a run takes its simulated time divided by this on the wall clock (1: real "
                 "time; 0: as fast as it is simulated)")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--timing-only", arguments->timing_only, "sim: skip the values, same cycles");
  app.add_option("--jobs", arguments->jobs, "tasks in flight at most")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--record", arguments->record,
                 "write all events to this file, for `tessera trace`");
  app.add_flag("--tune", arguments->tune, "balance the threads of the stages while running");
  app.add_option("--seconds", arguments->seconds, "end after so long (0: at Ctrl-C)")
      ->check(CLI::NonNegativeNumber);
  return [arguments]() -> Status {
    TESSERA_RETURN_IF_ERROR(arguments->model.feed(arguments->inputs));
    return watch(*arguments);
  };
}

}  // namespace tessera::tools
