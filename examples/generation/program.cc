#include "program.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tessera/visible_text.h"

namespace generation {
namespace {

// Where the scripts that fetch models keep them, too.
std::string default_folder() {
  const auto of = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string cache = of("TESSERA_CACHE"); !cache.empty()) return cache + "/networks";
  if (const std::string cache = of("XDG_CACHE_HOME"); !cache.empty()) {
    return cache + "/tessera/networks";
  }
  const std::string home = of("HOME");
  return home.empty() ? "" : home + "/.cache/tessera/networks";
}

}  // namespace

void add_arguments(CLI::App& app, DeviceArguments& arguments) {
  arguments.networks = default_folder();
  app.add_option("--device", arguments.device, "sim, host or ref")->capture_default_str();
  app.add_option("--arch", arguments.arch, "architecture profile or file")->capture_default_str();
  app.add_option("--cores", arguments.cores, "sim: that run each network together")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--threads", arguments.threads, "of the host device (0: all cores)")
      ->check(CLI::Range(0, 1024));
  app.add_option("--networks", arguments.networks,
                 "folder where compiled networks are kept (empty: nowhere)")
      ->capture_default_str();
}

tessera::Result<tessera::SessionOptions> session_options(const DeviceArguments& arguments) {
  tessera::SessionOptions options;
  TESSERA_TRY(options.device, tessera::device_kind_from_name(arguments.device));
  options.threads = arguments.threads;
  options.cores = arguments.cores;
  return options;
}

tessera::DynamicOptions network_options(const DeviceArguments& arguments) {
  tessera::DynamicOptions options;
  options.load.arch = arguments.arch;
  options.cache_folder = arguments.networks;
  options.networks_max = 4;  // a length of the caches is needed once a text
  if (!options.cache_folder.empty()) {
    std::error_code error;  // that of the folder itself is the library's
    std::filesystem::create_directories(options.cache_folder, error);
  }
  return options;
}

int run_program(CLI::App& app, int argc, char** argv, const std::function<tessera::Status()>& run) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  const tessera::Status status = run();
  if (status.ok()) return 0;
  std::fprintf(
      stderr, "%s: %s\n", app.get_name().c_str(),
      tessera::visible_text(status.error().to_string(), tessera::LineBreaks::kIndented).c_str());
  return 1;
}

tessera::Tensor integers_tensor(const std::vector<std::int64_t>& values) {
  tessera::Tensor tensor =
      tessera::Tensor::zeros(tessera::Format::kI64, {1, static_cast<std::int64_t>(values.size())});
  std::ranges::copy(values, tensor.as<std::int64_t>().begin());
  return tensor;
}

std::int64_t largest(std::span<const float> values) {
  return std::ranges::max_element(values) - values.begin();
}

}  // namespace generation
