// tessera bench: how long the devices take, side by side in one run.
//
// Host speed is weather: what counts are the ratios, between devices that ran alternately in this
// process. Cycles are facts and are printed as such.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tools/bench_transposition.h"
#include "tools/console.h"
#include "tools/divided_clock.h"
#include "tools/roofline_suite.h"
#include "tools/tensor_file.h"
#include "tools/verb.h"

namespace tessera::tools {
namespace {

struct BenchArguments {
  ModelArguments model;
  std::string suite, models, packages, networks;
  int repeat = 0;  // 0: 5 rounds, or the suite's own number
  int threads = 0;
  bool arch_given = false;
};

constexpr int kClockDivider = 10;

struct Contender {
  std::string name;
  Network network;
  SessionOptions options;
  std::vector<double> seconds;
  RunResult last;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The last one is left out for a package, whose architecture is settled.
Result<std::vector<Contender>> contenders(const BenchArguments& arguments, const Network& network) {
  SessionOptions host;
  host.device = DeviceKind::kHost;
  host.threads = arguments.threads;
  SessionOptions timing_only;
  timing_only.timing_only = true;
  SessionOptions serial = timing_only;
  serial.serial = true;
  std::vector<Contender> list = {{"host", network, host, {}, {}},
                                 {"sim", network, {}, {}, {}},
                                 {"sim timing-only", network, timing_only, {}, {}},
                                 {"sim serial timing-only", network, serial, {}, {}}};
  if (kind_of_file(arguments.model.model) != program::FileKind::kPackage) {
    TESSERA_TRY(const Network slower, load_with_divided_clock(arguments.model, kClockDivider));
    list.push_back(
        {fmt::format("sim timing-only, clocks / {}", kClockDivider), slower, timing_only, {}, {}});
  }
  return list;
}

Status measure(const std::vector<Tensor>& inputs, int repeat, std::vector<Contender>& list) {
  std::vector<Session> sessions;
  for (const Contender& contender : list) {
    TESSERA_TRY(Session session, Session::open(contender.network, contender.options));
    sessions.push_back(std::move(session));
  }
  const ProgressCallback progress = progress_bar();
  for (int round = 0; round <= repeat; ++round) {  // round 0 warms up
    if (progress) progress("bench", static_cast<double>(round) / repeat);
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto begin = std::chrono::steady_clock::now();
      auto result = sessions[i].run(inputs);
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
      if (!result.ok()) return result.error().with_context(list[i].name);
      if (round > 0) list[i].seconds.push_back(elapsed.count());
      list[i].last = std::move(result).value();
    }
  }
  return {};
}

int rounds(const BenchArguments& arguments) { return arguments.repeat > 0 ? arguments.repeat : 5; }

nlohmann::json to_json(const BenchArguments& arguments, const std::vector<std::string>& notes,
                       const std::vector<Contender>& list) {
  nlohmann::json devices = nlohmann::json::array();
  for (const Contender& contender : list) {
    devices.push_back({{"name", contender.name},
                       {"seconds_median", median(contender.seconds)},
                       {"seconds_min", *std::ranges::min_element(contender.seconds)},
                       {"seconds_max", *std::ranges::max_element(contender.seconds)},
                       {"cycles", contender.last.cycles}});
  }
  const auto cycles = [&](std::size_t i) { return static_cast<double>(list[i].last.cycles); };
  const auto seconds = [&](std::size_t i) { return median(list[i].seconds); };
  nlohmann::json document = {{"model", arguments.model.model},
                             {"repeat", rounds(arguments)},
                             {"notes", notes},
                             {"devices", std::move(devices)},
                             {"sim_per_host", seconds(1) / seconds(0)},
                             {"values_per_timing_only", seconds(1) / seconds(2)},
                             {"serial_per_asynchronous_cycles", cycles(3) / cycles(2)}};
  if (list.size() > 4) {
    document["divided_clock"] = {{"divider", kClockDivider},
                                 {"cycles_ratio", cycles(4) / cycles(2)},
                                 {"seconds_ratio", seconds(4) / seconds(2)}};
  }
  return document;
}

// Starts the program `host_vs_ort`, which takes this process's place. It belongs to the source
// tree: it runs ONNX Runtime under Node.js, which an installation does not need.
Status host_vs_ort(const BenchArguments& arguments) {
  std::error_code error;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  std::string program;
  for (const char* const place : {"host_vs_ort", "../../bench/host_vs_ort"}) {
    const auto candidate = folder / place;
    if (program.empty() && std::filesystem::exists(candidate, error)) program = candidate.string();
  }
  if (program.empty()) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("--suite host-vs-ort: there is no program 'host_vs_ort' beside '{}'; "
                             "build the source tree and run its tessera, or scripts/bench.sh",
                             folder.string())};
  }
  std::vector<std::string> words = {program};
  const auto add = [&words](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  add("--models", arguments.models);
  add("--onnxruntime", arguments.packages);
  add("--arch", arguments.model.architecture());
  if (arguments.repeat > 0) add("--repeat", std::to_string(arguments.repeat));
  if (arguments.threads > 0) add("--threads", std::to_string(arguments.threads));
  if (arguments.model.json) words.emplace_back("--json");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  return Error{ErrorCode::kUnavailable,
               fmt::format("cannot start '{}': {}", program, std::strerror(errno))};
}

Status bench(const BenchArguments& arguments) {
  if (arguments.suite.empty() == arguments.model.model.empty()) {
    return Error{ErrorCode::kInvalidArgument, "give a model, or --suite"};
  }
  if (arguments.suite == "roofline") {
    return run_roofline_suite({.arch = arguments.model.architecture(),
                               .networks = arguments.networks,
                               .json = arguments.model.json});
  }
  if (arguments.suite == "transposition") {
    return bench_transposition(arguments.arch_given ? arguments.model.architecture() : "",
                               arguments.model.json);
  }
  if (!arguments.suite.empty()) return host_vs_ort(arguments);
  TESSERA_TRY(const Network network, arguments.model.load());
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < network.inputs().size(); ++i) {
    inputs.push_back(random_tensor(network.inputs()[i], 0, i));
  }
  TESSERA_TRY(std::vector<Contender> list, contenders(arguments, network));
  TESSERA_RETURN_IF_ERROR(measure(inputs, rounds(arguments), list));
  const std::vector<std::string>& notes = network.placement().notes;
  const nlohmann::json document = to_json(arguments, notes, list);
  if (arguments.model.json) {
    fmt::print("{}\n", json_text(document));
    return {};
  }
  fmt::print("{}", notes_text(notes));
  Table table({"device", "median ms", "min ms", "max ms", "runs/s", "cycles"});
  for (const Contender& contender : list) {
    const double seconds = median(contender.seconds);
    table.add({contender.name, fmt::format("{:.3f}", seconds * 1e3),
               fmt::format("{:.3f}", *std::ranges::min_element(contender.seconds) * 1e3),
               fmt::format("{:.3f}", *std::ranges::max_element(contender.seconds) * 1e3),
               fmt::format("{:.1f}", 1 / seconds),
               contender.last.cycles > 0 ? with_separators(contender.last.cycles) : "-"});
  }
  fmt::print(
      "{}\nsim / host                        {:.2f}\nvalues / timing-only              {:.1f}\n"
      "serial / asynchronous cycles      {:.3f}\n",
      table.text(), document["sim_per_host"].get<double>(),
      document["values_per_timing_only"].get<double>(),
      document["serial_per_asynchronous_cycles"].get<double>());
  if (const auto slower = document.find("divided_clock"); slower != document.end()) {
    fmt::print("clocks / {}: cycles x {:.2f}, time x {:.2f}\n", kClockDivider,
               (*slower)["cycles_ratio"].get<double>(), (*slower)["seconds_ratio"].get<double>());
  }
  return {};
}

}  // namespace

Action bench_verb(CLI::App& app) {
  auto arguments = std::make_shared<BenchArguments>();  // shared with the returned action
  arguments->model.add_to(app);
  app.get_option("model")->required(false);
  app.add_option("--suite", arguments->suite,
                 "host-vs-ort: the host device against ONNX Runtime on the OCR models; roofline: "
                 "the zoo's networks against what their work and traffic take at least; "
                 "transposition: matrices turned by the array, the planar engine and DMA")
      ->check(CLI::IsMember({"host-vs-ort", "roofline", "transposition"}));
  app.add_option("--networks", arguments->networks,
                 "roofline: names with commas between (default: all of the zoo)");
  app.add_option("--models", arguments->models, "suite: the models' folder (default: fetched)");
  app.add_option("--onnxruntime", arguments->packages,
                 "suite: the folder with node_modules (default: fetched)");
  app.add_option("--repeat", arguments->repeat, "measured rounds (default 5, suite 15)")
      ->check(CLI::Range(1, 1000));
  app.add_option("--threads", arguments->threads, "threads of the host device (0: all)")
      ->check(CLI::Range(0, 1024));
  const CLI::Option* arch = app.get_option("--arch");
  return [arguments, arch] {
    arguments->arch_given = arch->count() > 0;
    return bench(*arguments);
  };
}

}  // namespace tessera::tools
