#include "streaming.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tessera/visible_text.h"

namespace streaming {
namespace {

double seconds_of(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

// How much of the run its kernels worked.
double busy_share(const tessera::DeviceStatus& device, double seconds) {
  return seconds > 0 ? seconds_of(device.busy) / (seconds * device.kernels) : 0;
}

double busy_share(const tessera::StageStatus& stage) {
  return seconds_of(stage.busy) / std::max(seconds_of(stage.thread_time), 1e-9);
}

}  // namespace

void add_arguments(CLI::App& app, Arguments& arguments, int models) {
  app.add_option("--device", arguments.kinds,
                 models > 1 ? "sim, host or ref; two: one a model" : "sim, host or ref")
      ->delimiter(',')
      ->expected(1, models)
      ->capture_default_str();
  app.add_option("--arch", arguments.arch, "architecture profile or file")->capture_default_str();
  app.add_option("--kernels", arguments.kernels, "of each device, side by side")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--threads", arguments.threads, "of all host devices together (0: all cores)")
      ->check(CLI::Range(0, 1024));
  app.add_option("--pace", arguments.pace,
                 "sim: simulated time on the wall clock; 1: real time, 0: as fast as can be")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--http", arguments.http,
                 "[ADDRESS:]PORT of a live page of stages and devices (0: any free port)");
  app.add_option("--trace", arguments.trace, "what ran when (Perfetto JSON)");
}

tessera::Result<std::vector<tessera::DeviceOptions>> device_options(const Arguments& arguments) {
  const auto host_devices =
      static_cast<int>(std::count(arguments.kinds.begin(), arguments.kinds.end(), "host"));
  const int threads = arguments.threads > 0
                          ? arguments.threads
                          : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  std::vector<tessera::DeviceOptions> devices;
  for (const std::string& kind : arguments.kinds) {
    tessera::DeviceOptions device;
    TESSERA_TRY(device.kind, tessera::device_kind_from_name(kind));
    device.name = kind + std::to_string(devices.size());
    device.arch = arguments.arch;
    device.kernels = arguments.kernels;
    if (device.kind == tessera::DeviceKind::kHost) {
      device.threads = std::max(1, threads / host_devices);
    }
    if (device.kind == tessera::DeviceKind::kSim) device.pace = arguments.pace;
    devices.push_back(std::move(device));
  }
  return devices;
}

tessera::Result<std::optional<tessera::LiveView>> show(tessera::Runtime& runtime,
                                                       const tessera::Pipeline& pipeline,
                                                       const std::string& http,
                                                       const std::string& title) {
  std::optional<tessera::LiveView> view;
  if (http.empty()) return view;
  TESSERA_TRY(view,
              runtime.open_live_view({.listen = http, .title = title, .pipelines = {pipeline}}));
  std::fprintf(stderr, "live page: %s\n", tessera::visible_text(view->url()).c_str());
  return view;
}

void print_use(const Use& use) {
  std::printf("\n  %-10s %8s %8s %10s %12s %12s\n", "device", "kernels", "busy", "runs", "MB in",
              "MB out");
  for (const tessera::DeviceStatus& device : use.devices) {
    std::printf(
        "  %-10s %8d %6.1f %% %10lld %12.3f %12.3f\n", tessera::visible_text(device.name).c_str(),
        device.kernels, 100 * busy_share(device, use.seconds), static_cast<long long>(device.runs),
        static_cast<double>(device.bytes_in) / 1e6, static_cast<double>(device.bytes_out) / 1e6);
  }
  for (const tessera::DeviceStatus& device : use.devices) {
    if (device.late_runs == 0) continue;
    std::printf(
        "  %s: %lld of %lld runs took this machine longer than the modelled processor; a smaller "
        "--pace avoids it\n",
        tessera::visible_text(device.name).c_str(), static_cast<long long>(device.late_runs),
        static_cast<long long>(device.runs));
  }
  std::printf("\n  %-22s %8s %8s %10s\n", "stage", "threads", "busy", "tasks");
  for (const tessera::StageStatus& stage : use.pipeline.stages) {
    std::printf("  %-22s %8d %6.1f %% %10lld\n", tessera::visible_text(stage.name).c_str(),
                stage.threads, 100 * busy_share(stage), static_cast<long long>(stage.tasks));
  }
}

std::string json_text(const nlohmann::ordered_json& document) {
  return tessera::visible_json(
      document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

void print_error(const char* program, const tessera::Error& error) {
  std::fprintf(stderr, "%s: %s\n", program,
               tessera::visible_text(error.to_string(), tessera::LineBreaks::kIndented).c_str());
}

std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  // No range leaves out what is neither below nor above it.
  const CLI::Validator number(
      [](const std::string& text) {
        return std::isnan(std::strtod(text.c_str(), nullptr)) ? text + " is no number" : "";
      },
      "");
  for (CLI::Option* const option : app.get_options()) {
    if (option->get_type_name().starts_with("FLOAT")) option->check(number);
  }
  try {
    app.parse(argc, argv);
    return {};
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    const int status = app.exit(error, out, err);
    std::fputs(out.str().c_str(), stdout);
    std::fputs(tessera::visible_text(err.str(), tessera::LineBreaks::kKept).c_str(), stderr);
    return status;
  }
}

nlohmann::ordered_json use_json(const Use& use) {
  nlohmann::ordered_json devices = nlohmann::ordered_json::array();
  for (const tessera::DeviceStatus& device : use.devices) {
    devices.push_back({{"name", device.name},
                       {"kind", tessera::device_kind_name(device.kind)},
                       {"kernels", device.kernels},
                       {"runs", device.runs},
                       {"late_runs", device.late_runs},
                       {"busy", busy_share(device, use.seconds)},
                       {"bytes_in", device.bytes_in},
                       {"bytes_out", device.bytes_out},
                       {"weight_bytes", device.weight_bytes},
                       {"bytes_copied", device.bytes_copied}});
  }
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (const tessera::StageStatus& stage : use.pipeline.stages) {
    stages.push_back({{"name", stage.name},
                      {"threads", stage.threads},
                      {"busy", busy_share(stage)},
                      {"tasks", stage.tasks}});
  }
  return {{"seconds", use.seconds}, {"devices", devices}, {"stages", stages}};
}

tessera::Status check_trace(const std::string& trace, const std::vector<std::string>& read) {
  for (const std::string& file : read) {
    std::error_code error;
    if (trace.empty() || !std::filesystem::equivalent(trace, file, error)) continue;
    return tessera::Error{tessera::ErrorCode::kInvalidArgument,
                          "--trace '" + trace + "' is the same file as '" + file +
                              "', which is read; nothing was done, choose another name"};
  }
  return {};
}

void begin_standard_output() { std::signal(SIGPIPE, SIG_IGN); }

tessera::Status finish_standard_output() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return {};
  return tessera::Error{tessera::ErrorCode::kUnavailable,
                        std::string("writing standard output: ") +
                            (errno == 0 ? "not all of it could be written" : std::strerror(errno))};
}

}  // namespace streaming
