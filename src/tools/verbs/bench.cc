// tessera bench: a load on a model through the pipeline, or one of the suites.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tools/bench/card_model.h"
#include "tools/bench/cluster_suite.h"
#include "tools/bench/devices.h"
#include "tools/bench/load.h"
#include "tools/bench/pipeline.h"
#include "tools/bench/roofline.h"
#include "tools/bench/sensitivity.h"
#include "tools/bench/transposition.h"
#include "tools/files/tensor_file.h"
#include "tools/program.h"
#include "tools/run/cores_arguments.h"
#include "tools/verb.h"

namespace tessera::tools {
namespace {

struct BenchArguments {
  ModelArguments model;
  CoresArguments cores;
  std::string suite, packages, networks;
  std::vector<std::string> models;       // folders; of host-vs-ort any number, of others one
  std::string ocr_models, instructions;  // host-vs-ort
  int repeat = 0;                        // 0: the suite's own number
  int nodes = 0;                         // cluster: of the one in simulation
  int random = 0;                        // card-model: choices of splits
  int threads = 0;
  bool arch_given = false;
  LoadBench load;
  std::vector<std::string> devices = {"host"};
  int kernels = 1, functions = 1;
  double pace = 0;
  bool timing_only = false;
  std::string handover = "free-flow", hint = "throughput", tune = "off";
};

// A program of the source tree's bench/, which an installation does not have, takes this process's place.
Status become_benchmark(const std::string& suite, const std::string& name,
                        std::vector<std::string> words) {
  const std::string program = find_program({name, "../../bench/" + name});
  if (program.empty()) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("--suite {}: there is no program '{}' beside '{}'; "
                             "build the source tree and run its tessera, or scripts/bench.sh",
                             suite, name, program_folder())};
  }
  words.insert(words.begin(), program);
  return become(std::move(words));
}

// It runs ONNX Runtime under Node.js.
Status host_vs_ort(const BenchArguments& arguments) {
  std::vector<std::string> words;
  const auto add = [&words](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  for (const std::string& folder : arguments.models) add("--models", folder);
  add("--ocr-models", arguments.ocr_models);
  add("--instructions", arguments.instructions);
  add("--onnxruntime", arguments.packages);
  add("--arch", arguments.model.architecture());
  if (arguments.repeat > 0) add("--repeat", std::to_string(arguments.repeat));
  if (arguments.threads > 0) add("--threads", std::to_string(arguments.threads));
  if (arguments.model.json) words.emplace_back("--json");
  return become_benchmark("host-vs-ort", "host_vs_ort", std::move(words));
}

// It loads `tessera serve` with programs of others.
Status serve_suite(const BenchArguments& arguments) {
  std::vector<std::string> words = {program_folder() + "/tessera"};
  if (arguments.repeat > 0) {
    words.insert(words.end(), {"--seconds", std::to_string(arguments.repeat)});
  }
  if (arguments.model.json) words.emplace_back("--json");
  return become_benchmark("serve", "serve_bench", std::move(words));
}

Status bench_load(const BenchArguments& arguments) {
  LoadBench load = arguments.load;
  load.json = arguments.model.json;
  load.handover = arguments.handover == "lock-step" ? Handover::kLockStep : Handover::kFreeFlow;
  load.hint = arguments.hint == "latency" ? Hint::kLatency : Hint::kThroughput;
  load.tune = arguments.tune == "auto";
  FileRoles roles = arguments.model.file_roles();
  roles.write("--trace", load.trace);
  roles.write("--events", load.events);
  ModelArguments model = arguments.model;
  model.region_share = 1.0 / arguments.functions;
  if (arguments.functions > 1 &&
      std::ranges::find(arguments.devices, "sim") == arguments.devices.end()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("--functions belongs to the device sim; --device names {}",
                             fmt::join(arguments.devices, ", "))};
  }
  if (const char* const given = arguments.cores.given();
      given != nullptr && std::ranges::find(arguments.devices, "sim") == arguments.devices.end()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} belongs to the device sim; --device names {}", given,
                             fmt::join(arguments.devices, ", "))};
  }
  TESSERA_TRY(const Network network, model.load_with_programs(roles));
  for (const std::string& device : arguments.devices) {
    DeviceOptions options;
    TESSERA_TRY(options.kind, device_kind_from_name(device));
    options.arch = arguments.model.architecture_for(network);
    options.kernels = arguments.kernels;
    options.threads = arguments.threads;
    if (options.kind == DeviceKind::kSim) {
      options.pace = arguments.pace;
      options.timing_only = arguments.timing_only;
      options.virtual_functions = arguments.functions;
      arguments.cores.give_to(options);
    }
    load.devices.push_back(std::move(options));
  }
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < network.inputs().size(); ++i) {
    inputs.push_back(random_tensor(network.inputs()[i], 0, i));
  }
  return run_load_bench(network, inputs, load);
}

// Of a suite that takes one folder; "" = none.
Result<std::string> only_folder(const BenchArguments& arguments) {
  if (arguments.models.empty()) return std::string();
  if (arguments.models.size() == 1) return arguments.models[0];
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("--suite {} takes one folder of --models, got {}", arguments.suite,
                           arguments.models.size())};
}

Status bench_card_model(const BenchArguments& arguments) {
  TESSERA_TRY(const std::string models, only_folder(arguments));
  if (arguments.cores.cards > 1 || arguments.cores.split != "auto") {
    return Error{ErrorCode::kInvalidArgument,
                 "--suite card-model is for one card, and splits as they are chosen"};
  }
  return run_card_model_suite(
      {.arch = arguments.arch_given ? arguments.model.architecture() : "cloud16",
       .networks = arguments.networks,
       .models = models,
       .cores = arguments.cores.cores > 1 ? arguments.cores.cores : 0,
       .random = arguments.random,
       .json = arguments.model.json});
}

Status bench(const BenchArguments& arguments) {
  const bool of_model = arguments.suite.empty() || arguments.suite == "devices";
  if (of_model == arguments.model.model.empty()) {
    return Error{ErrorCode::kInvalidArgument, "give a model, or --suite"};
  }
  const bool of_cores = of_model || arguments.suite == "card-model";
  if (!of_cores && arguments.cores.given() != nullptr) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("{} is for a model, or for --suite devices or card-model; the suite is {}",
                    arguments.cores.given(), arguments.suite)};
  }
  if (arguments.suite == "devices") {
    return run_device_bench(
        {arguments.model, arguments.cores, arguments.repeat, arguments.threads});
  }
  if (arguments.suite == "card-model") return bench_card_model(arguments);
  if (arguments.suite == "roofline") {
    TESSERA_TRY(const std::string models, only_folder(arguments));
    return run_roofline_suite({.arch = arguments.model.architecture(),
                               .networks = arguments.networks,
                               .models = models,
                               .json = arguments.model.json});
  }
  if (arguments.suite == "sensitivity") {
    return run_sensitivity_suite({.arch = arguments.model.architecture(),
                                  .networks = arguments.networks,
                                  .json = arguments.model.json});
  }
  if (arguments.suite == "transposition") {
    return bench_transposition(arguments.arch_given ? arguments.model.architecture() : "",
                               arguments.model.json);
  }
  if (arguments.suite == "pipeline") return run_pipeline_suite({.json = arguments.model.json});
  if (arguments.suite == "unequal") return run_unequal_suite({.json = arguments.model.json});
  if (arguments.suite == "outcomes") return run_outcome_suite({.json = arguments.model.json});
  if (arguments.suite == "tuning") return run_tuning_suite({.json = arguments.model.json});
  if (arguments.suite == "serve") return serve_suite(arguments);
  if (arguments.suite == "cluster") {
    return run_cluster_suite({.repeat = arguments.repeat,
                              .nodes = arguments.nodes > 0 ? arguments.nodes : 1000,
                              .json = arguments.model.json});
  }
  if (!arguments.suite.empty()) return host_vs_ort(arguments);
  return bench_load(arguments);
}

void add_load_options(CLI::App& app, BenchArguments& arguments) {
  LoadBench& load = arguments.load;
  app.add_option("--device", arguments.devices, "host, sim or ref; several with commas between")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--kernels", arguments.kernels, "kernels of each device that run side by side")
      ->check(CLI::Range(1, 64));
  add_functions_option(app, arguments.functions);
  app.add_option("--pace", arguments.pace,
                 "sim: a run takes its simulated time divided by this (1: real time; 0: no pace)")
      ->check(CLI::Range(0.0, 1e9));
  app.add_flag("--timing-only", arguments.timing_only, "sim: no values, the same cycles");
  app.add_option("--seconds", load.seconds, "how long tasks are offered")
      ->check(CLI::Range(0.01, 1e6))
      ->capture_default_str();
  app.add_option("--tasks", load.tasks, "how many tasks, in place of --seconds")
      ->check(CLI::Range(1, 1'000'000'000));
  app.add_option("--streams", load.streams, "streams that submit side by side")
      ->check(CLI::Range(1, 1024));
  app.add_option("--rate", load.rate, "tasks a second offered (0: as fast as there is room)")
      ->check(CLI::Range(0.0, 1e9));
  app.add_option("--in-flight", load.in_flight, "tasks in the pipeline at most")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--handover", arguments.handover, "how packets go from stage to stage")
      ->check(CLI::IsMember({"free-flow", "lock-step"}))
      ->capture_default_str();
  app.add_option(
         "--hint", arguments.hint,
         "throughput: short runs are given to a kernel in advance; latency: one run at most")
      ->check(CLI::IsMember({"throughput", "latency"}))
      ->capture_default_str();
  app.add_option("--tune", arguments.tune, "auto: balance the stages' threads while running")
      ->check(CLI::IsMember({"auto", "off"}))
      ->capture_default_str();
  app.add_flag("--device-form", load.device_form,
               "the host converts at the network's edges: fewer bytes over the link, and cycles");
  app.add_option("--stage-threads", load.stage_threads, "threads of a stage: pre=2")
      ->delimiter(',');
  app.add_option("--compare-every", load.compare_every,
                 "compare one task in this many with the host, layer by layer")
      ->check(CLI::Range(1, 1'000'000'000));
  app.add_option("--trace", load.trace, "write the timeline (Perfetto / Chrome trace JSON)");
  app.add_option("--events", load.events, "write every event as JSON lines");
}

}  // namespace

Action bench_verb(CLI::App& app) {
  auto arguments = std::make_shared<BenchArguments>();  // shared with the returned action
  arguments->model.add_to(app, kModelOrProgram);
  app.get_option("model")->required(false);
  app.add_option(
         "--suite", arguments->suite,
         "devices: the devices side by side on the model; pipeline: the pipeline in front "
         "of a processor with real time behaviour; tuning: the same from a bad start; "
         "unequal: devices of unequal speed, one of them hanging; outcomes: how soon deadlines "
         "and cancel() end jobs, and when results come; "
         "host-vs-ort: the host device against ONNX Runtime on well-known models; roofline: "
         "the zoo's networks, or a folder's models, against what their work and traffic take at "
         "least; sensitivity: "
         "what changes of the processor bring, and why; "
         "transposition: matrices turned by the array, the planar engine and DMA; card-model: the "
         "model that splits are chosen by against the virtual card; serve: tessera serve under "
         "load by "
         "programs of others; cluster: what allocations cost, and the scheduler of a large cluster")
      ->check(CLI::IsMember({"devices", "pipeline", "tuning", "unequal", "outcomes", "host-vs-ort",
                             "roofline", "sensitivity", "transposition", "card-model", "serve",
                             "cluster"}));
  arguments->cores.add_to(app);
  const std::vector<CLI::Option*> others = app.get_options();
  add_load_options(app, *arguments);
  std::vector<const CLI::Option*> of_load;
  for (const CLI::Option* option : app.get_options()) {
    if (std::ranges::find(others, option) == others.end()) of_load.push_back(option);
  }
  app.add_option("--networks", arguments->networks,
                 "roofline, sensitivity, card-model: names with commas between (default: all of "
                 "the zoo, or some "
                 "of different kinds)");
  app.add_option(
      "--models", arguments->models,
      "host-vs-ort: measure every model of this folder in place of well-known ones, with the "
      "inputs "
      "of its cases/CASES.tsv, where there is one; may be given several times; "
      "roofline, card-model: a folder of models in place of the zoo (roofline: in the shapes "
      "of its cases/CASES.tsv, where there is one)");
  app.add_option("--ocr-models", arguments->ocr_models,
                 "host-vs-ort: the folder of the OCR models (default: fetched)");
  app.add_option("--random", arguments->random,
                 "card-model: so many choices of splits at random to compare the choice with")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option(
         "--nodes", arguments->nodes,
         "cluster: of the one in simulation (default 1000), with 16 cores and 10 tenants each")
      ->check(CLI::Range(1, 100'000));
  app.add_option("--instructions", arguments->instructions,
                 "host-vs-ort: of the host device: all, avx512vnni (no AMX), avx512 (no VNNI "
                 "either), avx2");
  app.add_option("--onnxruntime", arguments->packages,
                 "suite: the folder with node_modules (default: fetched)");
  app.add_option("--repeat", arguments->repeat,
                 "measured rounds (default 5, suite 15; serve: seconds of each measurement)")
      ->check(CLI::Range(1, 1000));
  app.add_option("--threads", arguments->threads, "threads of the host device (0: all)")
      ->check(CLI::Range(0, 1024));
  const CLI::Option* arch = app.get_option("--arch");
  return [arguments, arch, of_load]() -> Status {
    arguments->arch_given = arch->count() > 0;
    for (const CLI::Option* option : of_load) {
      if (arguments->suite.empty() || option->count() == 0) continue;
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{} is for the load on a model; --suite {} does not take it",
                               option->get_name(), arguments->suite)};
    }
    return bench(*arguments);
  };
}

}  // namespace tessera::tools
