// What `tessera run` was asked for, and how it tells what came out; a model and a program share it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/file_roles.h"
#include "tools/verb.h"

namespace tessera::tools {

struct RunArguments {
  ModelArguments model;
  std::vector<std::string> inputs;  // NAME=SOURCE or SOURCE
  std::string preprocess;
  std::string device = "sim";
  std::string output_folder;
  std::string trace, html;
  std::string stream, stream_out;
  int cores = 1;
  int threads = 0;
  bool timing_only = false, check_hazards = false, serial = false;
  bool arch_given = false;
};

// What the arguments name.
FileRoles file_roles(const RunArguments& arguments);
// None of `roles` is written over.
Result<std::vector<std::string>> write_outputs(const std::string& folder,
                                               const std::vector<TensorDescription>& outputs,
                                               const RunResult& run, FileRoles roles);
// What every run has: architecture, device, cycles, engines, outputs.
nlohmann::json run_json(const RunArguments& arguments,
                        const std::vector<TensorDescription>& outputs, const RunResult& run,
                        const std::vector<std::string>& paths);
void print_run(const std::vector<TensorDescription>& outputs, const RunResult& run,
               const std::vector<std::string>& paths);

// A program (.tprog) or firmware text (.tasm) in place of a model.
bool is_program(const std::string& path);
Status run_program(const RunArguments& arguments);

}  // namespace tessera::tools
