#include "tools/run/output.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "arith/rounding.h"
#include "base/output_file.h"
#include "report/core_waits.h"
#include "tools/files/tensor_file.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

// A file name without characters that a shell or file system dislikes.
std::string safe_name(const std::string& name) {
  std::string result = name;
  for (char& c : result) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '-') c = '_';
  }
  return result;
}

std::string values_text(const Tensor& tensor) {
  constexpr std::int64_t kShown = 8;
  const std::int64_t count = element_count(tensor.dims);
  const std::int64_t element = format_bytes(tensor.format);
  std::string text;
  for (std::int64_t i = 0; i < std::min(count, kShown); ++i) {
    text += fmt::format(" {:.6g}",
                        arith::read_element(tensor.format, tensor.bytes.data() + i * element));
  }
  return text + (count > kShown ? " ..." : "");
}

// That have begun a step.
std::size_t cores_with_work(const RunResult& run) {
  std::set<std::int32_t> cores;
  for (const EngineUse& engine : run.engines) {
    if (engine.core >= 0 && engine.steps > 0) cores.insert(engine.core);
  }
  return cores.size();
}

// Of a run on several cores.
std::string idle_cores_text(const RunResult& run) {
  const std::size_t working = cores_with_work(run);
  if (run.cores.size() < 2 || working == run.cores.size()) return "";
  return fmt::format(
      "{} of {} cores have work; more would wait for each other longer than they save\n", working,
      run.cores.size());
}

}  // namespace

nlohmann::json placement_json(const Placement& placement) {
  nlohmann::json host_steps = nlohmann::json::array();
  for (const HostStepNote& step : placement.host_steps) {
    host_steps.push_back(
        {{"node", step.node}, {"operator", step.operator_name}, {"reason", step.reason}});
  }
  return {{"nodes_on_processor", placement.nodes_on_processor},
          {"nodes_on_host", placement.nodes_on_host},
          {"host_steps", std::move(host_steps)},
          {"notes", placement.notes}};
}

nlohmann::json engines_json(const RunResult& run) {
  nlohmann::json engines = nlohmann::json::array();
  for (const EngineUse& e : run.engines) {
    engines.push_back({{"name", e.name},
                       {"kind", e.kind},
                       {"index", e.index},
                       {"core", e.core},
                       {"busy", e.busy},
                       {"blocked_dependency", e.blocked_dependency},
                       {"blocked_memory", e.blocked_memory},
                       {"blocked_ports", e.blocked_ports},
                       {"idle", e.idle},
                       {"tasks", e.tasks},
                       {"steps", e.steps},
                       {"macs", e.macs},
                       {"dram_bytes_read", e.dram_bytes_read},
                       {"dram_bytes_written", e.dram_bytes_written}});
    if (e.blocked_message > 0 || e.message_bytes > 0) {
      engines.back()["blocked_message"] = e.blocked_message;
      engines.back()["message_bytes"] = e.message_bytes;
    }
    if (e.share_cycles > 0) engines.back()["share_cycles"] = e.share_cycles;
    if (e.wire_bytes > 0) engines.back()["wire_bytes"] = e.wire_bytes;
  }
  return engines;
}

Result<std::vector<std::string>> write_outputs(const std::string& folder,
                                               const std::vector<TensorDescription>& outputs,
                                               const RunResult& run, FileRoles roles) {
  std::vector<std::string> paths;
  if (folder.empty() || run.outputs.empty()) return paths;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("--output '{}': {}", folder, error.message())};
  }
  for (std::size_t i = 0; i < run.outputs.size(); ++i) {
    paths.push_back(folder + "/" + safe_name(outputs[i].name) + ".npy");
    roles.write(fmt::format("output '{}' in", outputs[i].name), paths.back());
  }
  TESSERA_RETURN_IF_ERROR(roles.check());
  OutputFiles files;
  for (std::size_t i = 0; i < run.outputs.size(); ++i) {
    TESSERA_TRY(const std::vector<std::byte> bytes, npy_bytes(run.outputs[i], paths[i]));
    TESSERA_RETURN_IF_ERROR(files.add(paths[i], bytes));
  }
  TESSERA_RETURN_IF_ERROR(files.commit());
  return paths;
}

nlohmann::json value_notes_json(const std::vector<ValueNote>& notes) {
  nlohmann::json list = nlohmann::json::array();
  for (const ValueNote& note : notes) {
    list.push_back({{"layer", note.layer},
                    {"trouble", value_trouble_name(note.trouble)},
                    {"format", format_name(note.format)}});
  }
  return list;
}

// A line for each of the first layers; and what the array met, which no layer's results show.
std::string value_notes_text(const RunResult& run) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < run.value_notes.size() && i < kShown; ++i) {
    text += fmt::format("values: {}\n", value_note_text(run.value_notes[i]));
  }
  if (run.value_notes.size() > kShown) {
    text += fmt::format("values: and {} layers more (--json has all)\n",
                        run.value_notes.size() - kShown);
  }
  if ((run.status_flags & 1u) != 0) text += "values: a NaN among a product's operands, read as 0\n";
  if ((run.status_flags & 2u) != 0) {
    text += "values: an infinity among a product's operands, read as the largest number\n";
  }
  if (!text.empty()) {
    text +=
        "        `tessera report --accuracy` says what it does to the outputs, and what would "
        "help\n";
  }
  return text;
}

nlohmann::json run_json(const RunArguments& arguments,
                        const std::vector<TensorDescription>& outputs, const RunResult& run,
                        const std::vector<std::string>& paths) {
  nlohmann::json list = nlohmann::json::array();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    nlohmann::json output = {{"name", outputs[i].name},
                             {"format", format_name(outputs[i].format)},
                             {"dims", outputs[i].dims}};
    if (i < paths.size()) output["file"] = paths[i];
    list.push_back(std::move(output));
  }
  nlohmann::json document = {{"model", arguments.model.model},
                             {"arch", arguments.model.architecture()},
                             {"device", arguments.device},
                             {"cycles", run.cycles},
                             {"clock_hertz", run.clock_hertz},
                             {"status_flags", run.status_flags},
                             {"value_notes", value_notes_json(run.value_notes)},
                             {"idle_engine_cycles", idle_engine_cycles(run.engines)},
                             {"engines", engines_json(run)},
                             {"outputs", std::move(list)}};
  arguments.cores.add_to(document);
  if (run.cores.size() > 1) {
    document["cores_with_work"] = cores_with_work(run);
    document["waits"] = report::waits_json(run);
  }
  if (arguments.no_host_time) {
    document["not_counted"] = {"host steps", "transfers"};
  } else {
    document["host_cycles"] = run.host_cycles;
    document["transfer_cycles"] = run.transfer_cycles;
  }
  return document;
}

std::string host_time_text(const RunArguments& arguments, const RunResult& run) {
  if (arguments.no_host_time) return "; not counted: host steps, transfers";
  const auto microseconds = [&run](std::int64_t cycles) {
    return static_cast<double>(cycles) * 1e6 / static_cast<double>(run.clock_hertz);
  };
  return fmt::format(" + {:.1f} us transfers + {:.1f} us host steps = {:.1f} us",
                     microseconds(run.transfer_cycles), microseconds(run.host_cycles),
                     microseconds(run.cycles + run.transfer_cycles + run.host_cycles));
}

void print_run(const std::vector<TensorDescription>& outputs, const RunResult& run,
               const std::vector<std::string>& paths, const std::string& behind_time) {
  for (std::size_t i = 0; i < run.outputs.size(); ++i) {
    show("output {} {} {}:{}\n", outputs[i].name, format_name(outputs[i].format),
         dims_text(outputs[i].dims), values_text(run.outputs[i]));
  }
  for (const std::string& path : paths) show("wrote {}\n", path);
  show_lines(value_notes_text(run));
  if (run.engines.empty()) return;
  show_lines(
      fmt::format("{} cycles, {:.1f} us at {} MHz{}\n{}", with_separators(run.cycles),
                  static_cast<double>(run.cycles) * 1e6 / static_cast<double>(run.clock_hertz),
                  run.clock_hertz / 1'000'000, behind_time, engine_table(run)));
  show_lines(idle_cores_text(run));
}

}  // namespace tessera::tools
