#include "tools/verbs/link_cores.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "arch/architecture_file.h"
#include "arch/card_placement.h"
#include "compile/performance_model.h"
#include "isa/encoding.h"
#include "isa/header_operands.h"
#include "isa/verify.h"
#include "link/templates.h"
#include "network/card_program.h"
#include "network/network.h"
#include "package/common_weights.h"
#include "package/container.h"
#include "package/elsewhere.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

// What is said of the program.
struct LinkedCores {
  std::size_t cores = 1, segments = 1;
  int cards = 1, memories = 1, images = 1;
  std::uint64_t tasks = 0, stream_bytes = 0, weights_bytes = 0, weights_bytes_in_file = 0;
  std::int64_t dependencies = 0, remote_dependencies = 0, load_shares = 0, dropped = 0;
  std::string weights_file;
  bool compiled = false;       // anew
  double compile_seconds = 0;  // then: splits chosen, compiled and proved
  std::vector<int> prepared =
      {};  // then: numbers of cores, of as many cards, that the package has templates for
  // What the package's model says of the network, and of the way through its layers that it takes and of the
  // shortest one, at the bandwidth that it is linked for; 0: nothing.
  double model_cycles = 0, path_cycles = 0, shortest_cycles = 0;
};

// Layers are cut anew where that takes so much of the path's time, or less.
constexpr double kAnewWorthIt = 0.98;
using NodeWays = std::vector<std::uint8_t>;

LinkedCores linked(const isa::CardProgram& program) {
  const isa::Program& first = program.cores.front();
  LinkedCores result{.cores = program.cores.size(),
                     .segments = first.segments.size(),
                     .cards = program.cards,
                     .memories = program.memories(),
                     .images = program.images,
                     .tasks = program.task_count(),
                     .weights_bytes = first.weights.size(),
                     .weights_bytes_in_file = first.weights.bytes_of_parts(),
                     .dependencies = program.dependency_count(),
                     .remote_dependencies = program.remote_dependency_count(),
                     .load_shares = program.share_count(),
                     .weights_file = first.weights_file,
                     .compiled = true};
  for (const isa::Program& core : program.cores) {
    result.stream_bytes += core.stream.size();
    result.dropped += core.dependencies_dropped;
  }
  return result;
}

LinkedCores linked(const isa::PreparedCores& prepared, const std::string& weights_file) {
  const isa::Program& first = prepared.first;
  LinkedCores result{.cores = prepared.cores.size(),
                     .segments = first.segments.size(),
                     .cards = prepared.key.cards,
                     .memories = package::memories_of(prepared),
                     .tasks = prepared.tasks(),
                     .stream_bytes = prepared.stream_bytes(),
                     .weights_bytes = first.weights.size(),
                     .weights_bytes_in_file = first.weights.bytes_of_parts(),
                     .dependencies = prepared.dependencies,
                     .remote_dependencies = prepared.remote_dependencies,
                     .load_shares = prepared.load_shares,
                     .weights_file = weights_file};
  for (const isa::CoreTemplates& core : prepared.cores) result.dropped += core.dependencies_dropped;
  return result;
}

// The shortest path through the layers of what is prepared. Its ways, if that is to be compiled.
NodeWays find_path(const isa::PreparedCores& prepared, const LinkCoresArguments& arguments,
                   LinkedCores& linked) {
  if (prepared.model == nullptr) return {};
  const isa::ModelledCores& model = *prepared.model;
  compile::ShortestPath path = compile::shortest_path(model, arguments.bandwidth);
  linked.model_cycles = isa::modelled_network(model, arguments.bandwidth);
  linked.path_cycles = isa::modelled_path(model, arguments.bandwidth);
  linked.shortest_cycles = path.cycles;
  // What is prepared was chosen for the whole of it, by the network's time.
  const bool anew = arguments.bandwidth < 1 && model.cores == prepared.key.cores &&
                    path.cycles <= kAnewWorthIt * linked.path_cycles;
  if (!anew) return {};
  linked.model_cycles *= path.cycles / linked.path_cycles;
  return std::move(path.ways);
}

std::vector<int> prepared_counts(const package::Package& package, int cards) {
  std::set<int> counts;
  if (package.prepared != nullptr) {
    for (const auto& program : package.prepared->programs) {
      if (program->key.cards == cards) counts.insert(program->key.cores);
    }
  }
  return {counts.begin(), counts.end()};
}

// Compiled, and what the package has of it already. Without `ways` they are chosen.
Result<isa::CardProgram> compile_cores(const LinkCoresArguments& arguments, const NodeWays& ways,
                                       LinkedCores& result) {
  TESSERA_TRY(package::Package package, package::load_package(arguments.package));
  TESSERA_TRY(const ChipConfig chip,
              load_chip_config(arguments.arch.empty() ? package.chip_name : arguments.arch));
  TESSERA_TRY(const Network network, network::network_from_package(std::move(package), chip));
  TESSERA_TRY(const CardPlacement placement,
              spread_cores(chip, arguments.cores.cards, arguments.cores.cores));
  result.prepared = prepared_counts(network.state().package, placement.cards);
  const auto begin = std::chrono::steady_clock::now();
  TESSERA_TRY(compile::SharedProgram shared,
              ways.empty() ? network::program_for_cores(network.state(), placement,
                                                        arguments.cores.core_split(),
                                                        arguments.cores.cores_per_image)
                           : network::program_for_ways(network.state(), placement, ways));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  result.compile_seconds = took.count();
  isa::CardProgram program = std::move(shared.card);
  if (arguments.name_operands) {
    for (isa::Program& core : program.cores) {
      for (isa::TaskDescriptor& task : core.tasks) isa::name_operands(task);
      core.stream.clear();
      core.stream_offsets.clear();
      isa::encode_stream(core);
    }
    TESSERA_RETURN_IF_ERROR(isa::verify_card_program(program, chip));
  }
  if (arguments.embed_weights) return program;
  isa::Program& first = program.cores.front();
  TESSERA_TRY(const isa::Unlinked unlinked, package::load_unlinked(arguments.package));
  package::find_in_package(unlinked, network.state().package.weights.bytes(), first);
  if (package::has_parts(first)) {
    first.weights_file = package::path_from(arguments.output, arguments.package);
  }
  return program;
}

// Filled in as it is written; nothing where the package has no templates for it, or other `ways` are better.
Result<std::optional<LinkedCores>> fill_cores(const LinkCoresArguments& arguments, NodeWays& ways,
                                              LinkedCores& modelled) {
  using Linked = std::optional<LinkedCores>;
  const CoresArguments& cores = arguments.cores;
  if (cores.cores_per_image != 0 || arguments.name_operands || arguments.embed_weights) {
    return Linked();
  }
  std::string arch = arguments.arch;
  if (arch.empty()) {
    TESSERA_TRY(arch, package::chip_name_of(arguments.package));
  }
  TESSERA_TRY(const ChipConfig chip, load_chip_config(arch));
  TESSERA_TRY(const CardPlacement placement, spread_cores(chip, cores.cards, cores.cores));
  const isa::PreparedFor key = network::key_of_placement(chip, placement, cores.core_split());
  TESSERA_TRY(const auto source, package::load_prepared(arguments.package, key));
  if (!source) return Linked();
  const isa::PreparedCores& prepared = source->cores();
  TESSERA_RETURN_IF_ERROR(
      network::check_architecture(prepared.first.chip_name, prepared.first.chip_fingerprint, chip));
  ways = find_path(prepared, arguments, modelled);
  if (!ways.empty()) return Linked();
  std::string weights_file;
  if (package::has_parts(prepared.first)) {
    weights_file = package::path_from(arguments.output, arguments.package);
  }
  TESSERA_RETURN_IF_ERROR(package::write_program(
      arguments.output, prepared, weights_file, [&](const auto& texts) -> Status {
        std::vector<link::TextPlace> places;
        for (const auto& [text, words] : texts) places.push_back({text, words});
        return source->for_each_page(
            [&](const isa::TemplatePage& page) { return link::uses_page(page, places); },
            [&](const isa::TemplatePage& page) {
              link::fill_page(source->templates(), page, places);
            });
      }));
  return Linked(linked(prepared, weights_file));
}

std::string how_text(const LinkedCores& program) {
  if (!program.compiled) return "filled in from the package's templates";
  const std::string anew = fmt::format("compiled anew in {:.2f} s: ", program.compile_seconds);
  if (program.path_cycles > 0) {
    return anew + "at this bandwidth layers are better cut in other ways";
  }
  std::string why = anew + "the package has no templates for these cores and options";
  if (program.prepared.empty()) return why;
  return why + fmt::format(", but for {} cores; 'tessera compile --cores' makes others",
                           fmt::join(program.prepared, ", "));
}

nlohmann::json linked_json(const LinkCoresArguments& arguments, const LinkedCores& program) {
  nlohmann::json document = {{"program", arguments.output},
                             {"compiled", program.compiled},
                             {"memories", program.memories},
                             {"images", program.images},
                             {"tasks", program.tasks},
                             {"segments", program.segments},
                             {"dependencies", program.dependencies},
                             {"remote_dependencies", program.remote_dependencies},
                             {"load_shares", program.load_shares},
                             {"dependencies_dropped", program.dropped},
                             {"stream_bytes", program.stream_bytes},
                             {"weights_bytes", program.weights_bytes},
                             {"weights_bytes_in_file", program.weights_bytes_in_file},
                             {"weights_file", program.weights_file}};
  arguments.cores.add_to(document);
  if (program.compiled) {
    document["compile_seconds"] = program.compile_seconds;
    document["prepared_cores"] = program.prepared;
  }
  if (program.path_cycles > 0) {
    document["model"] = {{"bandwidth", arguments.bandwidth},
                         {"cycles", program.model_cycles},
                         {"prepared_path_cycles", program.path_cycles},
                         {"shortest_path_cycles", program.shortest_cycles}};
  }
  return document;
}

void show_linked(const LinkCoresArguments& arguments, const LinkedCores& program) {
  show(
      "wrote {}: {} tasks in {} segments for {} cores of {}, with {}\n"
      "{}\n"
      "{} dependencies within cores, {} between them; {} loads that several cores have in common\n"
      "weights of {} bytes: {}\n",
      arguments.output, program.tasks, program.segments, program.cores,
      program.cards == 1 ? "a card" : fmt::format("{} cards", program.cards),
      program.memories == 1 ? "a memory" : fmt::format("{} memories", program.memories),
      how_text(program), program.dependencies, program.remote_dependencies, program.load_shares,
      program.weights_bytes,
      program.weights_file.empty()
          ? "included"
          : fmt::format("{} in {}, {} included", program.weights_bytes_in_file,
                        program.weights_file,
                        program.weights_bytes - program.weights_bytes_in_file));
  if (program.path_cycles == 0) return;
  show(
      "by the package's performance model, with {:.0f} % of the memories: {:.0f} cycles; the "
      "layers one by one "
      "{:.0f}, on the shortest path {:.0f}\n",
      100 * arguments.bandwidth, program.model_cycles, program.path_cycles,
      program.shortest_cycles);
}

nlohmann::json model_json(const isa::ModelledCores& model) {
  return {{"cores", model.cores},
          {"cycles", model.cycles},
          {"cycles_at_half_the_bandwidth", isa::modelled_network(model, 0.5)},
          {"cycles_at_a_quarter", isa::modelled_network(model, 0.25)},
          {"layers", model.layers.size()}};
}

}  // namespace

nlohmann::json prepared_json(const package::Package& package) {
  nlohmann::json document = nlohmann::json::array();
  if (package.prepared == nullptr) return document;
  for (const auto& prepared : package.prepared->programs) {
    nlohmann::json entry = {{"cores", prepared->key.cores},
                            {"cards", prepared->key.cards},
                            {"memories", package::memories_of(*prepared)},
                            {"tasks", prepared->tasks()},
                            {"stream_bytes", prepared->stream_bytes()},
                            {"value_bytes", prepared->value_bytes()}};
    if (prepared->model != nullptr) entry["model"] = model_json(*prepared->model);
    document.push_back(std::move(entry));
  }
  return document;
}

Status link_for_cores(const LinkCoresArguments& arguments) {
  NodeWays ways;
  LinkedCores modelled;
  TESSERA_TRY(std::optional<LinkedCores> program, fill_cores(arguments, ways, modelled));
  if (!program) {
    TESSERA_TRY(const isa::CardProgram compiled, compile_cores(arguments, ways, modelled));
    TESSERA_RETURN_IF_ERROR(package::write_program(arguments.output, compiled));
    program = linked(compiled);
    program->compile_seconds = modelled.compile_seconds;
    program->prepared = modelled.prepared;
  }
  program->model_cycles = modelled.model_cycles;
  program->path_cycles = modelled.path_cycles;
  program->shortest_cycles = modelled.shortest_cycles;
  if (arguments.json) {
    show_lines(json_text(linked_json(arguments, *program)) + "\n");
  } else {
    show_linked(arguments, *program);
  }
  return {};
}

}  // namespace tessera::tools
