// tessera derive: a program as concordant software.
//
//   program ──lift──► graph ──expand──► Software ──► file
//      └─ virtual processor ─┐        evaluator ┘     └─ --with: ONNX Runtime, Python, C++
//                            └── --verify: == ─┴────────────┘
//
// Whatever is given is made into a program first, and nothing but the program is read after that. One of
// several cores is read as a list of all cores' tasks (link/one_list.h), and runs on the cores.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "arch/format_choice.h"
#include "concord/expand/expand.h"
#include "concord/fold/fold.h"
#include "concord/lift/lift.h"
#include "concord/write/layer_nodes.h"
#include "device/program_run.h"
#include "graph/edge_blocks.h"
#include "isa/verify.h"
#include "link/link.h"
#include "link/one_list.h"
#include "network/card_program.h"
#include "network/firmware_file.h"
#include "network/network.h"
#include "tools/derived/check.h"
#include "tools/files/golden.h"
#include "tools/files/tensor_file.h"
#include "tools/run/cores_arguments.h"
#include "tools/terminal/console.h"
#include "tools/verb.h"

namespace tessera::tools {
namespace {

struct DeriveArguments {
  ModelArguments model;
  std::string arch, target = "onnx", output, golden, fault_node;
  std::vector<std::string> inputs, runtimes;
  DerivedRuntimeOptions options;
  int verify = 0;
  CoresArguments cores;
  bool trainable = false;
};

FileRoles file_roles(const DeriveArguments& arguments) {
  FileRoles roles = arguments.model.file_roles();
  roles.read_architecture(arguments.arch);
  roles.read_inputs(arguments.inputs);
  roles.write("-o", arguments.output);
  roles.write("the weights' file", derived_weights_file(arguments.target, arguments.output));
  return roles;
}

// What is read, for the chip that it is checked for.
struct Source {
  isa::Program program;
  ChipConfig chip;
  std::optional<Network> network = {};  // of several cores: what they run
  // Or their program, for their chip.
  std::optional<isa::CardProgram> card = {};
  std::optional<ChipConfig> card_chip = {};
};

Result<Source> source_on_cores(const DeriveArguments& arguments, const Network& network) {
  const ChipConfig& chip = network.state().chip;
  TESSERA_TRY(const CardPlacement placement,
              spread_cores(chip, arguments.cores.cards, arguments.cores.cores));
  TESSERA_TRY(const compile::SharedProgram shared,
              network::program_for_cores(network.state(), placement, arguments.cores.core_split()));
  TESSERA_TRY(link::OneList list, link::in_one_list(shared.card, chip, link::ListOrder::kLayers));
  return Source{
      .program = std::move(list.program), .chip = std::move(list.chip), .network = network};
}

Result<Source> source_of_program(isa::CardProgram program, const std::string& arch) {
  TESSERA_TRY(ChipConfig chip, network::chip_of(program.cores.front(), arch));
  if (program.cores.size() == 1) {
    return Source{.program = std::move(program.cores.front()), .chip = std::move(chip)};
  }
  // A list of all tasks says nothing of what the cores may do wrong.
  TESSERA_RETURN_IF_ERROR(isa::verify_card_program(program, chip));
  TESSERA_TRY(link::OneList list, link::in_one_list(program, chip, link::ListOrder::kLayers));
  return Source{.program = std::move(list.program),
                .chip = std::move(list.chip),
                .card = std::move(program),
                .card_chip = std::move(chip)};
}

Result<Source> source_of(const DeriveArguments& arguments, FileRoles& roles) {
  const std::string& path = arguments.model.model;
  const bool is_program = network::is_program_file(path);
  if (is_program) {
    if (arguments.cores.several()) return belongs_to_models(path, "--cores");
    TESSERA_TRY(
        isa::CardProgram program,
        read_card_program(
            {.path = path, .arch = arguments.arch, .weights = arguments.model.weights}, roles));
    return source_of_program(std::move(program), arguments.arch);
  }
  ModelArguments model = arguments.model;
  if (!arguments.arch.empty()) {
    model.arch = arguments.arch;
  } else if (package::kind_of_file(path) == package::FileKind::kPackage && model.format.empty()) {
    TESSERA_TRY(const package::Package package, package::load_package(path));
    model.arch = package.chip_name;
  }
  TESSERA_TRY(const Network network, model.load(roles));
  if (arguments.cores.several()) return source_on_cores(arguments, network);
  TESSERA_TRY(const isa::Program linked,
              link::link(network.state().package, network.state().chip, {}));
  // By way of its bytes: what they do not say is not derived.
  TESSERA_TRY(isa::Program program, package::parse_program(package::serialise(linked), path));
  TESSERA_TRY(ChipConfig chip, network::chip_of(program, arguments.arch));
  return Source{.program = std::move(program), .chip = std::move(chip)};
}

// What the derived software is compared with: the program, on its core or cores.
class Processor {
 public:
  static Result<Processor> create(const DeriveArguments& arguments, Source source) {
    Processor result;
    if (!source.network) {
      if (source.card) {
        TESSERA_TRY(result.program_,
                    device::ProgramRun::create(std::move(*source.card), *source.card_chip, {}));
      } else {
        TESSERA_TRY(result.program_,
                    device::ProgramRun::create(std::move(source.program), source.chip, {}));
      }
      result.inputs_ = result.program_->inputs();
      return result;
    }
    SessionOptions options;
    arguments.cores.give_to(options);
    TESSERA_TRY(Session session, Session::open(*source.network, options));
    result.session_ = std::make_unique<Session>(std::move(session));
    result.inputs_ = source.network->inputs();
    return result;
  }
  const std::vector<TensorDescription>& inputs() const { return inputs_; }
  Result<RunResult> run(const std::vector<Tensor>& inputs) {
    return program_ != nullptr ? program_->run(inputs) : session_->run(inputs);
  }

 private:
  std::unique_ptr<device::ProgramRun> program_;
  std::unique_ptr<Session> session_;
  std::vector<TensorDescription> inputs_;
};

// Everything --verify and --golden need.
struct Derived {
  std::shared_ptr<const graph::Graph> graph;
  concord::Software software;
  std::optional<Processor> processor;
};

// By the runtimes that were named, or by the evaluator.
Result<Verification> verify(const DeriveArguments& arguments, const Derived& derived,
                            const GoldenSet& set) {
  Verification result;
  const DerivedPair pair = {arguments.model.model, derived.graph, &derived.software};
  if (arguments.runtimes.empty()) {
    TESSERA_RETURN_IF_ERROR(verify_by_evaluator(pair, set.vectors, result));
  }
  for (const std::string& name : arguments.runtimes) {
    TESSERA_TRY(const DerivedRuntime runtime, runtime_from_name(name));
    DerivedProgram program = {pair.name, pair.software, set.vectors};
    if (arguments.target == runtime_target(runtime)) program.file = arguments.output;
    TESSERA_TRY(const auto runs, run_derived(runtime, std::span(&program, 1), arguments.options));
    TESSERA_RETURN_IF_ERROR(
        verify_runs(pair, set.vectors, runtime, runs[0], arguments.options, result));
  }
  return result;
}

// Given inputs first, then random and edge values in turn.
Result<GoldenSet> make_vectors(const DeriveArguments& arguments, Derived& derived) {
  GoldenSet set;
  for (const concord::Port& port : derived.software.inputs) set.input_names.push_back(port.name);
  for (const concord::Port& port : derived.software.outputs) set.output_names.push_back(port.name);
  const std::vector<TensorDescription> wanted = derived.processor->inputs();
  const int count = std::max(arguments.verify, arguments.golden.empty() ? 0 : 1);
  for (int i = 0; i < count; ++i) {
    GoldenVector vector;
    const bool given = i == 0 && !arguments.inputs.empty();
    const bool edges = !given && i % 2 == 1;
    vector.source = given ? "given" : fmt::format("{}:{}", edges ? "edges" : "random", i);
    if (given) {
      TESSERA_TRY(vector.inputs, read_inputs(arguments.inputs, wanted, {}));
    } else {
      for (std::size_t k = 0; k < wanted.size(); ++k) {
        const auto seed = static_cast<std::uint64_t>(edges ? i / 2 : i);
        vector.inputs.push_back(edges ? edge_tensor(wanted[k], seed, k)
                                      : random_tensor(wanted[k], seed, k));
      }
    }
    TESSERA_TRY(RunResult run, derived.processor->run(vector.inputs));
    vector.outputs = std::move(run.outputs);
    set.vectors.push_back(std::move(vector));
  }
  return set;
}

nlohmann::json json_of(const Difference& first) {
  return {{"runtime", first.runtime}, {"layer", first.layer},     {"tensor", first.tensor},
          {"element", first.element}, {"program", first.program}, {"derived", first.derived}};
}

// What the module has for an optimiser.
std::vector<std::string> trained_names(const concord::Software& software) {
  std::vector<std::string> names;
  for (const concord::Value& value : software.values) {
    if (value.trained) names.push_back(value.name);
  }
  return names;
}

struct Summary {
  std::vector<std::string> trained;
  concord::LayerNodes nodes;
  std::size_t bytes = 0;
  std::optional<Verification> verification;
  std::string digest;
};

void print(const DeriveArguments& arguments, const Summary& summary) {
  if (arguments.model.json) {
    nlohmann::json document = {{"file", arguments.output},
                               {"target", arguments.target},
                               {"bytes", summary.bytes},
                               {"layers", summary.nodes.layers},
                               {"nodes", summary.nodes.nodes},
                               {"matrix_layers", summary.nodes.matrix_layers},
                               {"nodes_a_matrix_layer_max", summary.nodes.matrix_nodes_max},
                               {"nodes_a_matrix_layer_mean", summary.nodes.matrix_nodes_mean()}};
    arguments.cores.add_to(document);
    if (arguments.trainable) document["trained"] = summary.trained;
    if (summary.verification) {
      document["values_compared"] = summary.verification->values_compared();
      document["mismatches"] = summary.verification->mismatches();
      document["runtimes"] = nlohmann::json::array();
      for (const RuntimeTally& tally : summary.verification->tallies) {
        document["runtimes"].push_back({{"name", tally.runtime},
                                        {"runs", tally.runs},
                                        {"values_compared", tally.values_compared},
                                        {"mismatches", tally.mismatches}});
      }
      if (summary.verification->first) {
        document["first_difference"] = json_of(*summary.verification->first);
      }
    }
    if (!summary.digest.empty()) document["golden_digest"] = summary.digest;
    show_lines(json_text(document) + "\n");
    return;
  }
  show("wrote {}: {} layers, {} nodes, {} bytes\n", arguments.output, summary.nodes.layers,
       with_separators(summary.nodes.nodes),
       with_separators(static_cast<std::int64_t>(summary.bytes)));
  if (summary.nodes.matrix_layers > 0) {
    show("{} matrix layers, {:.1f} nodes each on average, {} at most\n",
         summary.nodes.matrix_layers, summary.nodes.matrix_nodes_mean(),
         summary.nodes.matrix_nodes_max);
  }
  if (arguments.trainable) {
    show("{} weights and biases can be trained: module.trained()\n", summary.trained.size());
  }
  if (!summary.digest.empty()) {
    show("golden vectors in {}, digest {}\n", arguments.golden, summary.digest);
  }
  if (!summary.verification) return;
  for (const RuntimeTally& tally : summary.verification->tallies) {
    show("program and derived software ({}): {} values compared, {} mismatches{}\n",
         tally.runs == 1 ? tally.runtime : fmt::format("{}, {} runs", tally.runtime, tally.runs),
         with_separators(tally.values_compared), with_separators(tally.mismatches),
         tally.mismatches == 0 ? ": equal" : "");
  }
}

Status check_arguments(const DeriveArguments& arguments) {
  if (!arguments.runtimes.empty() && arguments.verify == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "--with says how --verify runs the software; give --verify N, too"};
  }
  if (!arguments.trainable || arguments.target == "pytorch") return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("--trainable: '{}' is not trained through; write --to pytorch",
                           arguments.target)};
}

// A program does not know of a grid: trained weights would leave it.
Status check_grid(const DeriveArguments& arguments, const ChipConfig& chip) {
  if (!arguments.trainable || chip.formats.weight_grid().kind == arith::WeightGridKind::kNone) {
    return {};
  }
  return Error{
      ErrorCode::kUnsupported,
      fmt::format("--trainable: weights in '{}' are on a grid, which is not trained through; "
                  "derive it in a format such as bfp:{}:{}",
                  format_choice_text(chip.formats), chip.formats.matrix.mantissa_bits_moving,
                  chip.formats.matrix.mantissa_bits_stationary)};
}

Status check_trained(const std::string& source, const Summary& summary) {
  if (!summary.trained.empty()) return {};
  return Error{ErrorCode::kUnsupported,
               fmt::format("--trainable: '{}' has no product with constant weights, so "
                           "there is nothing to train",
                           source)};
}

Status derive(const DeriveArguments& arguments) {
  TESSERA_RETURN_IF_ERROR(check_arguments(arguments));
  FileRoles roles = file_roles(arguments);
  TESSERA_RETURN_IF_ERROR(roles.check());
  TESSERA_TRY(Source source, source_of(arguments, roles));
  TESSERA_RETURN_IF_ERROR(roles.check());
  TESSERA_RETURN_IF_ERROR(check_grid(arguments, source.chip));
  Derived derived;
  TESSERA_TRY(const auto lifted, concord::lift(source.program, source.chip));
  // In the application's form, whatever the processor's is.
  derived.graph = std::make_shared<const graph::Graph>(graph::dense_edges(*lifted));
  TESSERA_TRY(derived.software,
              concord::expand(*derived.graph, {.fault_node = arguments.fault_node,
                                               .trainable = arguments.trainable}));
  Summary summary;
  summary.trained = trained_names(derived.software);
  if (arguments.trainable) {
    TESSERA_RETURN_IF_ERROR(check_trained(arguments.model.model, summary));
  }
  summary.nodes = concord::count_layer_nodes(concord::folded(derived.software));
  GoldenSet set;
  if (arguments.verify > 0 || !arguments.golden.empty()) {
    TESSERA_TRY(derived.processor, Processor::create(arguments, std::move(source)));
    TESSERA_TRY(set, make_vectors(arguments, derived));
  }
  if (!arguments.golden.empty()) {  // first: it may find that -o is one of its files
    TESSERA_RETURN_IF_ERROR(write_golden(arguments.golden, set, roles));
    summary.digest = fmt::format("{:016x}", golden_digest(set));
  }
  TESSERA_TRY(summary.bytes, write_derived(arguments.target, derived.software, arguments.output));
  if (arguments.verify > 0) {
    TESSERA_TRY(summary.verification, verify(arguments, derived, set));
  }
  print(arguments, summary);
  if (!summary.verification || !summary.verification->first) return {};
  return Error{ErrorCode::kInternal,
               "first difference: " + difference_text(*summary.verification->first)};
}

}  // namespace

Action derive_verb(CLI::App& app) {
  auto arguments = std::make_shared<DeriveArguments>();  // shared with the returned action
  app.add_option("source", arguments->model.model,
                 "program (.tprog), firmware (.tasm), package (.tpkg) or ONNX model")
      ->required();
  app.add_option("--to", arguments->target, "what to write")
      ->check(CLI::IsMember({"onnx", "pytorch", "cpp"}))
      ->capture_default_str();
  app.add_option("-o,--output", arguments->output, "file to write")->required();
  app.add_option("--arch", arguments->arch, "architecture (default: the program's or package's)");
  app.add_option(
      "--format", arguments->model.format,
      "number formats to compile a model in, in place of the architecture's: " + format_choices());
  app.add_flag("--trainable", arguments->trainable,
               "with --to pytorch: weights and biases are parameters that an optimiser may change");
  app.add_option(
      "--weights", arguments->model.weights,
      "safetensors file: weights and biases by layer in place of the model's; of a program: the "
      "package that has its weights");
  app.add_option("--shape", arguments->model.shapes,
                 "shape of a model's input with open dimensions: NAME=1x3x48x320");
  add_constant_option(app, arguments->model.constants);
  arguments->cores.add_to(app);
  app.add_option("--verify", arguments->verify,
                 "run this many inputs through program and derived software and compare all bits")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--with", arguments->runtimes,
                 "what --verify runs the software with, in place of the evaluator: onnxruntime "
                 "(every optimisation level, 1 and 2 threads), python, c++; several may be given")
      ->check(CLI::IsMember({"onnxruntime", "python", "c++"}));
  app.add_option("--onnxruntime", arguments->options.onnxruntime,
                 "folder with node_modules/onnxruntime-node (default: where "
                 "scripts/fetch_onnxruntime.sh puts it)");
  app.add_option("--input", arguments->inputs, "the first input: NAME=FILE or NAME=random[:seed]");
  app.add_option("--golden", arguments->golden,
                 "write the inputs, the program's outputs and a digest into this folder");
  app.add_option("--plant-fault", arguments->fault_node,
                 "round this layer's result one bit short, to see that it is found");
  app.add_flag("--json", arguments->model.json, "print one JSON object");
  return [arguments]() -> Status {
    TESSERA_RETURN_IF_ERROR(arguments->model.feed(arguments->inputs));
    return derive(*arguments);
  };
}

}  // namespace tessera::tools
