// A verb of the command line: its options and what it does. Verbs are rows of the table in main.cc.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "package/container.h"
#include "tessera/session.h"
#include "tools/files/roles.h"

namespace tessera::tools {

// Adds the verb's options to its subcommand and returns what to run after parsing. The function
// prints its results to standard output; an error is printed by main() and ends with status 1.
using Action = std::function<Status()>;

Action run_verb(CLI::App& app);
Action compile_verb(CLI::App& app);
Action link_verb(CLI::App& app);
Action inspect_verb(CLI::App& app);
Action asm_verb(CLI::App& app);
Action disasm_verb(CLI::App& app);
Action compare_verb(CLI::App& app);
Action card_verb(CLI::App& app);
Action cluster_verb(CLI::App& app);
Action conform_verb(CLI::App& app);
Action report_verb(CLI::App& app);
Action bench_verb(CLI::App& app);
Action derive_verb(CLI::App& app);
Action doctor_verb(CLI::App& app);
Action master_verb(CLI::App& app);
Action node_verb(CLI::App& app);
Action repro_verb(CLI::App& app);
Action serve_verb(CLI::App& app);
Action sweep_verb(CLI::App& app);
Action watch_verb(CLI::App& app);
Action top_verb(CLI::App& app);
Action trace_verb(CLI::App& app);
Action zoo_verb(CLI::App& app);
Action manual_verb(CLI::App& app);

inline constexpr const char* kModelOrProgram =
    "ONNX model (.onnx), package (.tpkg), program (.tprog) or firmware text (.tasm)";

// Options that every verb with a model takes.
struct ModelArguments {
  std::string model;
  std::string arch = "tessera128";
  std::string format;                  // empty: the architecture's
  std::vector<std::string> shapes;     // NAME=1x3x48x320
  std::vector<std::string> constants;  // NAME=VALUE
  // NAME=FILE of what will be fed: open dimensions that no --shape gives are those of the files.
  std::vector<std::string> fed;
  std::string weights;              // a safetensors file, or empty
  LayerFormats layer_formats = {};  // that --format auto has chosen
  bool formats_chosen = false;      // or is about to
  bool in_parts = false;            // the verb runs models that data takes apart, too
  std::int64_t tile_budget_bytes = 0;
  bool everything_through_dram = false;
  bool no_weight_compression = false;
  bool require_full_offload = false;
  // When loading gives up; the greatest time: never.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  double region_share = 1;  // of the memories, where several networks share a core
  bool json = false;

  void add_to(CLI::App& app, const char* what = "ONNX model (.onnx) or package (.tpkg)");
  // What is read: model, weights, architecture file.
  FileRoles file_roles() const;
  // Loads with a progress bar on a terminal. An option that a package cannot follow is an error.
  Result<Network> load() const;
  // The same for a verb that writes files: `roles`, with the model's external data besides, are
  // checked.
  Result<Network> load(FileRoles& roles) const;
  // The same for a verb that takes a program (.tprog) or firmware text (.tasm), too.
  Result<Network> load_with_programs(FileRoles& roles) const;
  // An option that belongs to a model is an error beside a program.
  Status check_program_options() const;
  // Of devices for the network: a program's own, unless --arch gives it.
  std::string architecture_for(const Network& network) const;
  Result<LoadOptions> load_options() const;
  // Of the inputs that will be fed: open dimensions are those of the files, and inputs that decide what is compiled
  // become constants, which it says. Before anything is loaded.
  // With --format auto, formats are chosen on them.
  Status feed(std::vector<std::string>& inputs, const std::string& preprocess = "");
  // --format auto, or auto:BOUND.
  bool chooses_formats() const;
  // The architecture with the format: "tessera128+mxfp8e4m3".
  std::string architecture() const;
  // With --format int8, the graph of a model whose products are not of integers is an error.
  Status check_format(const graph::Graph& graph) const;
};

// --constant, where a verb does not take all of ModelArguments.
void add_constant_option(CLI::App& app, std::vector<std::string>& constants);

// --functions: virtual functions of the device sim.
void add_functions_option(CLI::App& app, int& functions);

// What is said of `option` beside a program.
Error belongs_to_models(const std::string& path, const char* option);
// A program file, or a firmware text, assembled; the files that it names are read, too.
struct ProgramSource {
  std::string path;
  std::string arch = {};     // in place of the text's or program's
  std::string weights = {};  // of a program whose weights are elsewhere: the file that has them
  bool streaming = false;
  std::string* steps_queue = nullptr;  // firmware/assemble_options.h
};
Result<isa::Program> read_program(const ProgramSource& source, FileRoles& roles);
// The same of one for any number of cores.
Result<isa::CardProgram> read_card_program(const ProgramSource& source, FileRoles& roles);

// The files beside a model that its tensors come from are read, too.
Status check_external(const graph::Graph& graph, FileRoles& roles);

// "NAME=1x3x48x320" to name and dims.
Result<std::pair<std::string, Shape>> parse_shape(const std::string& text);

}  // namespace tessera::tools
