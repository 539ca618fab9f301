#include "tools/verbs/link_cores.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "arch/architecture_file.h"
#include "arch/card_placement.h"
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
  bool compiled = false;  // anew
};

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

// Compiled, and what the package has of it already.
Result<isa::CardProgram> compile_cores(const LinkCoresArguments& arguments) {
  TESSERA_TRY(package::Package package, package::load_package(arguments.package));
  TESSERA_TRY(const ChipConfig chip,
              load_chip_config(arguments.arch.empty() ? package.chip_name : arguments.arch));
  TESSERA_TRY(const Network network, network::network_from_package(std::move(package), chip));
  TESSERA_TRY(const CardPlacement placement,
              spread_cores(chip, arguments.cores.cards, arguments.cores.cores));
  TESSERA_TRY(compile::SharedProgram shared,
              network::program_for_cores(network.state(), placement, arguments.cores.core_split(),
                                         arguments.cores.cores_per_image));
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

// Filled in as it is written; nothing where the package has no templates for it.
Result<std::optional<LinkedCores>> fill_cores(const LinkCoresArguments& arguments) {
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
      program.compiled ? "compiled anew: the package has no templates for these cores and options"
                       : "filled in from the package's templates",
      program.dependencies, program.remote_dependencies, program.load_shares, program.weights_bytes,
      program.weights_file.empty()
          ? "included"
          : fmt::format("{} in {}, {} included", program.weights_bytes_in_file,
                        program.weights_file,
                        program.weights_bytes - program.weights_bytes_in_file));
}

}  // namespace

nlohmann::json prepared_json(const package::Package& package) {
  nlohmann::json document = nlohmann::json::array();
  if (package.prepared == nullptr) return document;
  for (const auto& prepared : package.prepared->programs) {
    document.push_back({{"cores", prepared->key.cores},
                        {"cards", prepared->key.cards},
                        {"memories", package::memories_of(*prepared)},
                        {"tasks", prepared->tasks()},
                        {"stream_bytes", prepared->stream_bytes()},
                        {"value_bytes", prepared->value_bytes()}});
  }
  return document;
}

Status link_for_cores(const LinkCoresArguments& arguments) {
  TESSERA_TRY(std::optional<LinkedCores> program, fill_cores(arguments));
  if (!program) {
    TESSERA_TRY(const isa::CardProgram compiled, compile_cores(arguments));
    TESSERA_RETURN_IF_ERROR(package::write_program(arguments.output, compiled));
    program = linked(compiled);
  }
  if (arguments.json) {
    show_lines(json_text(linked_json(arguments, *program)) + "\n");
  } else {
    show_linked(arguments, *program);
  }
  return {};
}

}  // namespace tessera::tools
