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

struct Contender {
  std::string name;
  SessionOptions options;
  std::vector<double> seconds;
  RunResult last;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::vector<Contender> contenders(const BenchArguments& arguments) {
  std::vector<Contender> list(4);
  list[0].name = "host";
  list[0].options.device = DeviceKind::kHost;
  list[0].options.threads = arguments.threads;
  list[1].name = "sim";
  list[2].name = "sim timing-only";
  list[2].options.timing_only = true;
  list[3].name = "sim serial timing-only";
  list[3].options.timing_only = true;
  list[3].options.serial = true;
  return list;
}

Status measure(const Network& network, const std::vector<Tensor>& inputs, int repeat,
               std::vector<Contender>& list) {
  std::vector<Session> sessions;
  for (const Contender& contender : list) {
    TESSERA_TRY(Session session, Session::open(network, contender.options));
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
  return {{"model", arguments.model.model},
          {"repeat", rounds(arguments)},
          {"notes", notes},
          {"devices", std::move(devices)},
          {"sim_per_host", median(list[1].seconds) / median(list[0].seconds)},
          {"values_per_timing_only", median(list[1].seconds) / median(list[2].seconds)},
          {"serial_per_asynchronous_cycles",
           static_cast<double>(list[3].last.cycles) / static_cast<double>(list[2].last.cycles)}};
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
  add("--arch", arguments.model.arch);
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
    return run_roofline_suite({.arch = arguments.model.arch,
                               .networks = arguments.networks,
                               .json = arguments.model.json});
  }
  if (arguments.suite == "transposition") {
    return bench_transposition(arguments.arch_given ? arguments.model.arch : "",
                               arguments.model.json);
  }
  if (!arguments.suite.empty()) return host_vs_ort(arguments);
  TESSERA_TRY(const Network network, arguments.model.load());
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < network.inputs().size(); ++i) {
    inputs.push_back(random_tensor(network.inputs()[i], 0, i));
  }
  std::vector<Contender> list = contenders(arguments);
  TESSERA_RETURN_IF_ERROR(measure(network, inputs, rounds(arguments), list));
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
