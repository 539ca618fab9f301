// Every stored model on its stored cases: one row per model.
//
//   check_models DATA EXPLAINED [MODEL...] [--arch A] [--quick] [--sim-mmacs N]
//                [--verbose] [--json]
//
//   compiled   without any option, with the file alone; open dimensions
//              take their stated defaults
//   f32        the profile `f32`: largest error as a share of rtol 1e-3 + atol 1e-4 of the output's
//              range (float16 models: 1e-2), 1 or less passes. Models of integer operators are
//              judged by what they find: the stored results ran their layers in float32.
//   cosine     the default profile against the stored results, the least of all outputs. Below
//              0.9995 the file EXPLAINED has a line on the model, and a line that is no longer
//              needed is an error. Models below the goal of 0.999 are named at the end.
//   sim        one case of models of at most N million products on the virtual processor: same bits
//   task       what the model is for: as stored / found in float32 / found with the default profile
//
// Status 0 if all passed, 1 if not, 77 (skipped) where DATA is absent.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "model_case.h"
#include "model_runner.h"
#include "tasks.h"
#include "tools/terminal/console.h"

namespace {

using namespace tessera;  // a test program

constexpr double kRelative = 1e-3, kOfRange = 1e-4, kHalfRelative = 1e-2;
constexpr double kCosineMin = 0.999, kCosineUnexplained = 0.9995;
constexpr std::size_t kQuickCases = 1, kQuickSeries = 12;

struct Arguments {
  std::string data, explained, arch = "tessera128";
  std::vector<std::string> models;
  bool quick = false, json = false, verbose = false;
  double sim_million_macs = 0;
};

// One model with one profile.
struct ProfileResult {
  std::string error;  // why it did not run; empty if it did
  std::int64_t on_processor = 0, on_host = 0;
  std::map<std::string, int> host_steps;  // "LSTM: why" -> how many
  std::vector<std::string> notes;
  std::size_t cases = 0;
  double worst = 0;  // error over allowed
  double cosine = 1;
  std::vector<std::string> lines;  // each output of each case
  std::vector<cases::Finding> findings;
};

struct ModelResult {
  cases::ModelRow row;
  bool integer = false;
  ProfileResult single, narrow;  // profiles f32 and tessera128
  std::string sim = "-";         // "equal", "DIFFERS", or not run
  std::string explanation;
  std::vector<std::string> failures;
};

bool is_integer_model(const cases::ModelRow& row) {
  for (const char* op :
       {"DequantizeLinear", "QLinearConv", "QLinearMatMul", "MatMulInteger", "ConvInteger"}) {
    if (row.has_operator(op)) return true;
  }
  return false;
}

Result<std::vector<cases::CaseOutcome>> run_cases(const Arguments& arguments,
                                                  const std::vector<cases::ModelCase>& list,
                                                  cases::ModelRunner& runner) {
  std::vector<cases::CaseOutcome> outcomes;
  for (const cases::ModelCase& one : list) {
    cases::CaseOutcome outcome{&one, {}, {}, {}};
    for (const auto& row : one.inputs) {
      TESSERA_TRY(Tensor tensor, cases::read_case_input(arguments.data, row));
      outcome.inputs.push_back(std::move(tensor));
    }
    for (const auto& row : one.outputs) {
      TESSERA_TRY(Tensor tensor, cases::read_case_output(arguments.data, row));
      outcome.expected.push_back(std::move(tensor));
    }
    TESSERA_TRY(outcome.found, runner.run(one.model, outcome.inputs));
    outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

// Compares values; false if an output has another shape than the stored one.
bool measure(const std::vector<cases::CaseOutcome>& outcomes, bool half, ProfileResult& result) {
  result.cases = outcomes.size();
  for (const cases::CaseOutcome& outcome : outcomes) {
    for (std::size_t i = 0; i < outcome.expected.size(); ++i) {
      if (outcome.found[i].dims != outcome.expected[i].dims) return false;
      const auto found = cases::values_of(outcome.found[i]);
      const auto expected = cases::values_of(outcome.expected[i]);
      const double relative = half ? kHalfRelative : kRelative;
      const double of_range = half ? kHalfRelative : kOfRange;
      const double worst = cases::error_over_allowed(found, expected, relative, of_range);
      const double cosine = cases::cosine(found, expected);
      result.worst = std::max(result.worst, worst);
      result.cosine = std::min(result.cosine, cosine);
      result.lines.push_back(fmt::format("{}, {}: error {:.3g} of what is allowed, cosine {:.6f}",
                                         outcome.one->name, outcome.one->outputs[i].tensor, worst,
                                         cosine));
    }
  }
  return true;
}

Status run_profile(const Arguments& arguments, const cases::ModelRow& row,
                   const std::vector<cases::ModelCase>& list, cases::ModelRunner& runner,
                   ProfileResult& result) {
  TESSERA_TRY(const cases::LoadedModel* loaded, runner.load(row.name));
  TESSERA_TRY(const auto outcomes, run_cases(arguments, list, runner));
  const Placement& placement = loaded->placement();
  result.on_processor = placement.nodes_on_processor;
  result.on_host = placement.nodes_on_host;
  for (const HostStepNote& step : placement.host_steps) {
    ++result.host_steps[step.operator_name + ": " + step.reason];
  }
  result.notes = placement.notes;
  if (!measure(outcomes, row.half, result)) {
    return Error{ErrorCode::kInvalidArgument, "an output has another shape than the stored one"};
  }
  const bool exact = runner.arch() == "f32" && !is_integer_model(row);
  cases::TaskContext context{arguments.data, row, runner, outcomes, exact};
  if (arguments.quick) context.series_max = kQuickSeries;
  TESSERA_TRY(result.findings, cases::run_tasks(context));
  return {};
}

// The first case on the virtual processor against the host, with the default profile.
Result<std::string> run_on_sim(const Arguments& arguments, const cases::ModelCase& one,
                               cases::ModelRunner& host) {
  cases::ModelRunner sim(arguments.data, host.arch(), DeviceKind::kSim);
  TESSERA_TRY(const auto a, run_cases(arguments, {one}, host));
  TESSERA_TRY(const auto b, run_cases(arguments, {one}, sim));
  return std::string(a[0].found == b[0].found ? "equal" : "DIFFERS");
}

// "model<TAB>why its cosine is below 0.9995"; lines that begin with # are comments.
std::map<std::string, std::string> read_explained(const std::string& path) {
  std::map<std::string, std::string> explained;
  for (const std::string& line : cases::read_lines(path)) {
    const std::size_t tab = line.find('\t');
    if (line.starts_with("#") || tab == std::string::npos) continue;
    explained[line.substr(0, tab)] = line.substr(tab + 1);
  }
  return explained;
}

void judge_explanation(const Arguments& arguments, ModelResult& result,
                       const std::map<std::string, std::string>& explained) {
  const auto found = explained.find(result.row.name);
  if (found != explained.end()) result.explanation = found->second;
  const bool needed = result.narrow.cosine < kCosineUnexplained;
  if (needed && found == explained.end()) {
    result.failures.push_back(fmt::format("cosine {:.6f} is below {} and '{}' says nothing on it",
                                          result.narrow.cosine, kCosineUnexplained,
                                          arguments.explained));
  }
  // A quick run may not have met the case that needs it.
  if (!needed && found != explained.end() && !arguments.quick) {
    result.failures.push_back(fmt::format("'{}' explains a cosine of {:.6f}, which needs none",
                                          arguments.explained, result.narrow.cosine));
  }
}

void judge(const Arguments& arguments, ModelResult& result,
           const std::map<std::string, std::string>& explained) {
  for (const auto* profile : {&result.single, &result.narrow}) {
    const char* const name = profile == &result.single ? "f32" : "default";
    if (!profile->error.empty()) {
      result.failures.push_back(std::string(name) + ": " + profile->error);
      continue;
    }
    for (const cases::Finding& finding : profile->findings) {
      if (finding.ok) continue;
      result.failures.push_back(fmt::format("{}: {}: stored {}, found {} ({})", name, finding.what,
                                            finding.stored, finding.found, finding.detail));
    }
  }
  if (!result.failures.empty()) return;
  if (!result.integer && !(result.single.worst <= 1)) {
    result.failures.push_back(
        fmt::format("f32: error is {:.3g} times what is allowed", result.single.worst));
  }
  if (result.sim == "DIFFERS") result.failures.push_back("sim and host differ");
  judge_explanation(arguments, result, explained);
}

ModelResult check_model(const Arguments& arguments, const cases::ModelRow& row,
                        const std::map<std::string, std::string>& explained) {
  ModelResult result;
  result.row = row;
  result.integer = is_integer_model(row);
  auto list = cases::read_cases(arguments.data, row.name);
  if (!list.ok()) {
    result.failures.push_back(list.error().to_string());
    return result;
  }
  if (arguments.quick) list->resize(std::min(list->size(), kQuickCases));
  cases::ModelRunner single(arguments.data, "f32", DeviceKind::kHost);
  cases::ModelRunner narrow(arguments.data, arguments.arch, DeviceKind::kHost);
  Status status = run_profile(arguments, row, *list, single, result.single);
  if (!status.ok()) result.single.error = status.error().to_string();
  single.forget();
  status = run_profile(arguments, row, *list, narrow, result.narrow);
  if (!status.ok()) result.narrow.error = status.error().to_string();
  if (status.ok() && row.million_macs <= arguments.sim_million_macs) {
    auto sim = run_on_sim(arguments, list->front(), narrow);
    result.sim = sim.ok() ? *sim : "DIFFERS";
    if (!sim.ok()) result.failures.push_back("sim: " + sim.error().to_string());
  }
  judge(arguments, result, explained);
  return result;
}

// "voiced of 343 chunks 233 / 233 / 232"
std::string findings_text(const ModelResult& result) {
  std::string text;
  for (std::size_t i = 0; i < result.narrow.findings.size(); ++i) {
    const cases::Finding& narrow = result.narrow.findings[i];
    if (i > 0) text += "; ";
    text += narrow.what + " " + narrow.stored;
    if (i < result.single.findings.size()) text += " / " + result.single.findings[i].found;
    text += " / " + narrow.found;
  }
  return text;
}

void print_details(const ModelResult& result) {
  for (const auto* profile : {&result.single, &result.narrow}) {
    const char* const name = profile == &result.single ? "f32" : "default";
    for (const std::string& note : profile->notes) std::printf("    %s: %s\n", name, note.c_str());
    for (const auto& [step, count] : profile->host_steps) {
      std::printf("    %s: on the host: %d x %s\n", name, count, step.c_str());
    }
    for (const std::string& line : profile->lines) std::printf("    %s: %s\n", name, line.c_str());
    for (const cases::Finding& finding : profile->findings) {
      if (!finding.detail.empty()) std::printf("    %s: %s\n", name, finding.detail.c_str());
    }
  }
}

void print_row(const Arguments& arguments, const ModelResult& result) {
  const ProfileResult& narrow = result.narrow;
  const std::string nodes = fmt::format("{}+{}", narrow.on_processor, narrow.on_host);
  const std::string error =
      result.single.error.empty() ? fmt::format("{:.2g}", result.single.worst) : std::string("-");
  std::printf("%-6s %-31s %7s %5zu %7s%s %8.6f %5s  %s\n",
              result.failures.empty() ? "ok" : "FAILED", result.row.name.c_str(), nodes.c_str(),
              narrow.cases, error.c_str(), result.integer ? "i" : " ",
              narrow.error.empty() ? narrow.cosine : 0, result.sim.c_str(),
              findings_text(result).c_str());
  for (const std::string& failure : result.failures)
    std::printf("    FAILED %s\n", failure.c_str());
  if (!result.explanation.empty()) std::printf("    why: %s\n", result.explanation.c_str());
  if (arguments.verbose) print_details(result);
  std::fflush(stdout);
}

nlohmann::json profile_json(const ProfileResult& profile) {
  nlohmann::json findings = nlohmann::json::array();
  for (const cases::Finding& finding : profile.findings) {
    findings.push_back({{"what", finding.what},
                        {"stored", finding.stored},
                        {"found", finding.found},
                        {"ok", finding.ok},
                        {"detail", finding.detail}});
  }
  return {{"error", profile.error},           {"nodes_on_processor", profile.on_processor},
          {"nodes_on_host", profile.on_host}, {"defaults", profile.notes},
          {"cases", profile.cases},           {"error_over_allowed", profile.worst},
          {"cosine_min", profile.cosine},     {"findings", findings}};
}

nlohmann::json model_json(const ModelResult& result) {
  return {{"model", result.row.name},
          {"ok", result.failures.empty()},
          {"integer", result.integer},
          {"f32", profile_json(result.single)},
          {"default", profile_json(result.narrow)},
          {"sim", result.sim},
          {"explanation", result.explanation},
          {"failures", result.failures}};
}

bool parse(int argc, char** argv, Arguments& arguments) {
  if (argc < 3) return false;
  arguments.data = argv[1];
  arguments.explained = argv[2];
  for (int i = 3; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--quick")
      arguments.quick = true;
    else if (word == "--json")
      arguments.json = true;
    else if (word == "--verbose")
      arguments.verbose = true;
    else if (word == "--arch" && i + 1 < argc)
      arguments.arch = argv[++i];
    else if (word == "--sim-mmacs" && i + 1 < argc)
      arguments.sim_million_macs = std::stod(argv[++i]);
    else if (word.starts_with("--"))
      return false;
    else
      arguments.models.push_back(word);
  }
  return true;
}

int check(const Arguments& arguments) {
  const auto rows = cases::read_models(arguments.data);
  if (!rows.ok()) {
    std::fprintf(stderr, "check_models: %s\n", rows.error().to_string().c_str());
    return 1;
  }
  const auto explained = read_explained(arguments.explained);
  nlohmann::json models = nlohmann::json::array();
  std::size_t passed = 0, failed = 0;
  std::string below;
  if (!arguments.json) {
    std::printf("%-6s %-31s %7s %5s %8s %8s %5s  %s\n", "", "model", "nodes", "cases", "f32 err ",
                "cosine", "sim", "task: stored / f32 / default");
  }
  for (const cases::ModelRow& row : *rows) {
    const auto& wanted = arguments.models;
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), row.name) == wanted.end()) {
      continue;
    }
    const ModelResult result = check_model(arguments, row, explained);
    result.failures.empty() ? ++passed : ++failed;
    if (!(result.narrow.cosine >= kCosineMin)) below += " " + row.name;
    if (arguments.json) {
      models.push_back(model_json(result));
    } else {
      print_row(arguments, result);
    }
  }
  if (arguments.json) {
    const nlohmann::json all = {
        {"passed", passed}, {"failed", failed}, {"below_goal", below}, {"models", models}};
    std::printf("%s\n", tools::json_text(all).c_str());
  } else {
    std::printf(
        "nodes: on the processor + on the host. f32 err: 1 is what is allowed; i: a model of "
        "integers.\n%zu passed, %zu failed\n",
        passed, failed);
  }
  return failed == 0 && passed > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (!parse(argc, argv, arguments)) {
    std::fprintf(stderr,
                 "usage: %s DATA EXPLAINED [MODEL...] [--arch A] [--quick] [--sim-mmacs N] "
                 "[--verbose] [--json]\n",
                 argv[0]);
    return 2;
  }
  if (!std::filesystem::exists(arguments.data + "/cases/CASES.tsv")) {
    std::printf("skipped: '%s' has no cases/CASES.tsv\n", arguments.data.c_str());
    return 77;
  }
  return check(arguments);
}
