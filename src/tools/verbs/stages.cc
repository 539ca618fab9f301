// tessera compile, link: the stages one by one.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "arch/architecture_file.h"
#include "arch/card_config.h"
#include "arch/chip_config.h"
#include "base/freed_memory.h"
#include "base/output_file.h"
#include "graph/build.h"
#include "graph/graph_text.h"
#include "isa/verify.h"
#include "link/link.h"
#include "model/given_inputs.h"
#include "model/import.h"
#include "network/network.h"
#include "network/prepared_cores.h"
#include "package/container.h"
#include "package/elsewhere.h"
#include "package/weight_use.h"
#include "tools/memory_use.h"
#include "tools/run/cores_arguments.h"
#include "tools/terminal/console.h"
#include "tools/verb.h"
#include "tools/verbs/link_cores.h"

namespace tessera::tools {
namespace {

struct StageArguments {
  std::vector<std::string> inputs;  // of compile: NAME=SOURCE
  std::string preprocess;
  ModelArguments model;
  std::string file, output, dump_passes;
  std::string arch;
  double deadline_seconds = 0;     // of compile; 0: none
  std::string prepared = "usual";  // compile: numbers of cores
  CoresArguments cores;            // link; compile: cards
  double bandwidth = 1;            // link
  bool name_operands = false, embed_weights = false;
  bool json = false;
};

// Writes the graph after each pass to FOLDER/NN_pass.txt.
Status dump_passes(const StageArguments& arguments, FileRoles& roles) {
  TESSERA_TRY(const ChipConfig chip, load_chip_config(arguments.model.architecture()));
  TESSERA_TRY(const LoadOptions load, arguments.model.load_options());
  TESSERA_TRY(model::Model model, model::import_file(arguments.model.model));
  model::give_inputs(model, load.given);
  for (const std::string& file : model.external_files) roles.read("the model's data", file);
  std::error_code error;
  std::filesystem::create_directories(arguments.dump_passes, error);
  graph::BuildOptions options;
  options.vector_format = chip.formats.vector;
  options.matrix = chip.formats.matrix;
  options.quantise_vector_inputs = chip.formats.vector_inputs == VectorInputs::kQuantised;
  options.quantised_bytes = chip.formats.quantised_bytes;
  options.kernel_memory = network::kernel_memory(chip, load.region_share);
  options.state_buffer = network::state_buffer(chip, load.region_share);
  options.lane_elements = chip.planar.elements_per_lane;
  options.infer = network::infer_options(load);
  options.layers = load.layer_formats;
  int index = 0;
  OutputFiles files;
  Status status;
  options.on_pass = [&](const std::string& pass, const graph::Graph& graph) {
    const std::string path = fmt::format("{}/{:02}_{}.txt", arguments.dump_passes, index++, pass);
    const std::string text = graph::dump(graph);
    roles.write("a pass in", path);
    if (status.ok()) status = files.add(path, text);
  };
  TESSERA_TRY(const graph::Graph graph, graph::build(model, options));
  (void)graph;
  TESSERA_RETURN_IF_ERROR(status);
  TESSERA_RETURN_IF_ERROR(roles.check());
  return files.commit();
}

// "usual", "none", "all" or numbers with commas between.
Result<std::vector<network::CoreCount>> counts_to_prepare(const StageArguments& arguments,
                                                          const ChipConfig& chip) {
  const int cards = arguments.cores.cards;
  std::vector<network::CoreCount> counts;
  if (arguments.prepared == "none") return counts;
  if (arguments.prepared == "usual" && cards == 1) return network::usual_core_counts(chip);
  const int most = std::min(cards * chip.card.cores(), kCardCoresMax);
  if (most == 1) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("--cores {}: the card of '{}' has one core; leave that out, or give "
                             "--cards",
                             arguments.prepared, chip.name)};
  }
  if (arguments.prepared == "usual" || arguments.prepared == "all") {
    const int first = arguments.prepared == "all" ? std::max(2, cards) : most;
    for (int cores = first; cores <= most; ++cores) counts.push_back({cores, cards});
    return counts;
  }
  for (const std::string& text : CLI::detail::split(arguments.prepared, ',')) {
    int cores = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cores);
    if (error != std::errc() || end != text.data() + text.size() || cores < std::max(2, cards) ||
        cores > most) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("--cores: '{}', allowed are numbers from {} to {} with commas "
                               "between, or usual, all, none",
                               text, std::max(2, cards), most)};
    }
    counts.push_back({cores, cards});
  }
  return counts;
}

Status compile(const StageArguments& arguments) {
  FileRoles roles = arguments.model.file_roles();
  roles.write("-o", arguments.output);
  TESSERA_RETURN_IF_ERROR(roles.check());
  if (arguments.model.region_share != 1 &&
      package::kind_of_file(arguments.model.model) == package::FileKind::kPackage) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("'{}' is a package, which is compiled already; give --region-share "
                             "with the model it was made from",
                             arguments.model.model)};
  }
  if (!arguments.dump_passes.empty()) TESSERA_RETURN_IF_ERROR(dump_passes(arguments, roles));
  TESSERA_TRY(Network network, arguments.model.load(roles));
  TESSERA_TRY(const auto counts, counts_to_prepare(arguments, network.state().chip));
  if (!counts.empty()) {
    Watch watch(progress_bar(), arguments.model.deadline);
    TESSERA_TRY(network, network::prepare_cores(network, counts, &watch));
  }
  TESSERA_RETURN_IF_ERROR(network.save_package(arguments.output));
  const package::Package& package = network.state().package;
  const package::WeightUse weights = package::weight_use(package);
  if (arguments.model.json) {
    const nlohmann::json document = {{"package", arguments.output},
                                     {"frames", package.frames.size()},
                                     {"weights_bytes", package.weights.size()},
                                     {"workspace_bytes", package.workspace_bytes},
                                     {"state_buffer_peak_bytes", package.state_buffer_peak_bytes},
                                     {"dependencies_dropped", package.dependencies_dropped},
                                     {"weight_bytes_moved", weights.moved_bytes},
                                     {"weight_bytes_saved", weights.saved_bytes()},
                                     {"prepared", prepared_json(package)},
                                     {"nodes_on_processor", network.placement().nodes_on_processor},
                                     {"nodes_on_host", network.placement().nodes_on_host},
                                     {"notes", network.placement().notes}};
    show_lines(json_text(document) + "\n");
  } else {
    show_lines(fmt::format("{}{}\n{}wrote {}: {} frames\n", placement_text(network.placement()),
                           package::weight_use_text(weights), package::prepared_text(package),
                           visible_text(arguments.output), package.frames.size()));
  }
  return {};
}

// Weights stay in the package, which the program names; or they come into the program.
Status place_weights(const StageArguments& arguments, isa::Program& program) {
  if (!package::has_parts(program)) return {};
  if (!arguments.embed_weights) {
    program.weights_file = package::path_from(arguments.output, arguments.file);
    return {};
  }
  if (package::is_unread(program)) {
    TESSERA_TRY(const std::string file,
                package::find_elsewhere(program, arguments.output, {.file = arguments.file}));
    (void)file;
  }
  package::hold_all(program);
  return {};
}

Status link(const StageArguments& arguments) {
  use_little_memory();
  FileRoles roles;
  roles.read("the package", arguments.file);
  roles.read_architecture(arguments.arch);
  roles.write("-o", arguments.output);
  TESSERA_RETURN_IF_ERROR(roles.check());
  TESSERA_RETURN_IF_ERROR(arguments.cores.check());
  if (arguments.cores.several()) {
    return link_for_cores({.package = arguments.file,
                           .output = arguments.output,
                           .arch = arguments.arch,
                           .cores = arguments.cores,
                           .bandwidth = arguments.bandwidth,
                           .name_operands = arguments.name_operands,
                           .embed_weights = arguments.embed_weights,
                           .json = arguments.json});
  }
  TESSERA_TRY(isa::Unlinked package, package::load_unlinked(arguments.file));
  give_back_freed_memory();
  TESSERA_TRY(const ChipConfig chip,
              load_chip_config(arguments.arch.empty() ? package.chip_name : arguments.arch));
  const std::int64_t when_compiled = package.dependencies_dropped;
  TESSERA_TRY(isa::Program program,
              link::link(std::move(package), chip, {.name_operands = arguments.name_operands}));
  give_back_freed_memory();
  TESSERA_RETURN_IF_ERROR(place_weights(arguments, program));
  TESSERA_RETURN_IF_ERROR(isa::verify_program(program, chip));
  const std::size_t tasks = program.tasks.size();
  const std::int64_t dependencies = program.dependency_count();
  // The file has the stream, of which they are the decoded form.
  std::vector<isa::TaskDescriptor>().swap(program.tasks);
  give_back_freed_memory();
  TESSERA_RETURN_IF_ERROR(package::write_program(arguments.output, program));
  const std::int64_t at_link = program.dependencies_dropped - when_compiled;
  if (arguments.json) {
    const nlohmann::json document = {{"program", arguments.output},
                                     {"tasks", tasks},
                                     {"segments", program.segments.size()},
                                     {"dependencies", dependencies},
                                     {"dependencies_dropped", program.dependencies_dropped},
                                     {"dependencies_dropped_at_link", at_link},
                                     {"stream_bytes", program.stream.size()},
                                     {"weights_bytes", program.weights.size()},
                                     {"weights_file", program.weights_file}};
    show_lines(json_text(document) + "\n");
  } else {
    show(
        "wrote {}: {} tasks in {} segments, {} dependencies; weights {}\n"
        "redundant dependencies dropped: {} when compiling, {} when linking\n",
        arguments.output, tasks, program.segments.size(), dependencies,
        program.weights_file.empty() ? "included" : "in " + program.weights_file, when_compiled,
        at_link);
  }
  return {};
}

}  // namespace

Action compile_verb(CLI::App& app) {
  auto arguments = std::make_shared<StageArguments>();  // shared with the returned action
  arguments->model.add_to(app);
  app.add_option("-o,--output", arguments->output, "package to write (.tpkg)")->required();
  app.add_option("--region-share", arguments->model.region_share,
                 "part of state buffer and kernel memory that it may use, as 0.25, for a core that "
                 "several networks share (default: all)");
  app.add_option("--cores", arguments->prepared,
                 "numbers of cores that the package has programs for, as 4,16: usual (2, 4, 8, ... "
                 "up to those of a card), all or none; for others, linking compiles anew")
      ->capture_default_str();
  app.add_option("--cards", arguments->cores.cards, "cards that these cores are on")
      ->check(CLI::Range(1, kCardCoresMax))
      ->capture_default_str();
  app.add_option("--dump-passes", arguments->dump_passes,
                 "write the graph after each pass into this folder");
  app.add_option(
      "--input", arguments->inputs,
      "what it will be fed: NAME=FILE (.npy, .pb, .png, .jpg); open dimensions are those of "
      "the file, and --format auto chooses formats on it");
  app.add_option("--preprocess", arguments->preprocess, "for pictures, as in 'tessera run'");
  app.add_option("--deadline", arguments->deadline_seconds,
                 "time after which it gives up and says which pass it was in, as 60s, 500ms, 5m "
                 "(default: none)")
      ->transform(CLI::AsNumberWithUnit(
          std::map<std::string, double>{{"ms", 0.001}, {"s", 1}, {"m", 60}, {"h", 3600}},
          CLI::AsNumberWithUnit::CASE_SENSITIVE, "TIME"))
      ->check(CLI::Range(1e-9, 1e9));
  return [arguments]() -> Status {
    if (arguments->deadline_seconds > 0) {
      arguments->model.deadline = std::chrono::steady_clock::now() +
                                  std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                      std::chrono::duration<double>(arguments->deadline_seconds));
    }
    TESSERA_RETURN_IF_ERROR(arguments->model.feed(arguments->inputs, arguments->preprocess));
    return compile(*arguments);
  };
}

Action link_verb(CLI::App& app) {
  auto arguments = std::make_shared<StageArguments>();  // shared with the returned action
  app.add_option("package", arguments->file, "package (.tpkg)")->required();
  app.add_option("-o,--output", arguments->output, "program to write (.tprog)")->required();
  arguments->cores.add_to(app);
  arguments->cores.add_images_to(app);
  app.add_option("--arch", arguments->arch, "architecture (default: the package's)");
  app.add_option(
         "--bandwidth", arguments->bandwidth,
         "part of the memories' bandwidth that several cores may count on, as 0.5: layers are "
         "cut anew where that is better by the package's performance model")
      ->check(CLI::Range(0.01, 1.0))
      ->capture_default_str();
  app.add_flag("--name-operands", arguments->name_operands,
               "descriptors' headers name the registers and base addresses of their operands");
  app.add_flag("--embed-weights", arguments->embed_weights,
               "write the weights into the program, which then needs no other file (default: it "
               "refers to the package, for all that lies there)");
  app.add_flag("--json", arguments->json, "print one JSON object");
  return [arguments] { return link(*arguments); };
}

}  // namespace tessera::tools
