// How `tessera run` tells what came out; a model and a program share it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/run/arguments.h"

namespace tessera::tools {

// Of every engine; of several cores also what they have in common.
nlohmann::json engines_json(const RunResult& run);
// Where the nodes run, and the notes.
nlohmann::json placement_json(const Placement& placement);
// None of `roles` is written over.
Result<std::vector<std::string>> write_outputs(const std::string& folder,
                                               const std::vector<TensorDescription>& outputs,
                                               const RunResult& run, FileRoles roles);
// What every run has: architecture, device, cycles, engines, outputs.
// Layers whose values left their range: [{"layer", "trouble", "format"}].
nlohmann::json value_notes_json(const std::vector<ValueNote>& notes);
nlohmann::json run_json(const RunArguments& arguments,
                        const std::vector<TensorDescription>& outputs, const RunResult& run,
                        const std::vector<std::string>& paths);
// What stands behind the processor's time: that of transfers and of host steps, and all of them
// together; or that they are not counted.
std::string host_time_text(const RunArguments& arguments, const RunResult& run);
void print_run(const std::vector<TensorDescription>& outputs, const RunResult& run,
               const std::vector<std::string>& paths, const std::string& behind_time);

}  // namespace tessera::tools
