// tessera conform: every ONNX backend test below a folder; passed, refused with reason, wrong.
#include "runtime/conform.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "arch/architecture_file.h"
#include "base/utf8.h"
#include "tools/terminal/console.h"
#include "tools/verb.h"

namespace tessera::tools {
namespace {

struct ConformArguments {
  std::string folder, arch = "f32", device = "sim";
  runtime::ConformTolerance tolerance;
  bool json = false, verbose = false, require_full_offload = false;
};

// With --require-full-offload a test that passed with the host's help counts as refused.
void refuse_host_steps(runtime::ConformResult& result) {
  if (result.verdict != runtime::Verdict::kPassed || result.nodes_on_host == 0) return;
  result.verdict = runtime::Verdict::kRefused;
  result.reason = fmt::format("host steps: {}; full offload is required", result.nodes_on_host);
}

const char* verdict_name(runtime::Verdict verdict) {
  switch (verdict) {
    case runtime::Verdict::kPassed:
      return "passed";
    case runtime::Verdict::kRefused:
      return "refused";
    case runtime::Verdict::kWrong:
      break;
  }
  return "wrong";
}

std::int64_t count(const std::vector<runtime::ConformResult>& results, runtime::Verdict verdict) {
  return std::count_if(results.begin(), results.end(),
                       [verdict](const auto& result) { return result.verdict == verdict; });
}

// A refusal without the names of one model, so that like reasons are counted together.
std::string reason_class(const std::string& reason) {
  std::string text;
  bool quoted = false;
  for (std::size_t i = 0; i < reason.size(); ++i) {
    // An apostrophe inside a word opens nothing.
    const bool mark = reason[i] == '\'' && (quoted || i == 0 || reason[i - 1] == ' ' ||
                                            reason[i - 1] == '(' || reason[i - 1] == '"');
    if (mark) quoted = !quoted;
    if (!quoted && !mark) text += reason[i];
  }
  for (const std::string_view prefix : {"importing : ", "compiling : ", "node "}) {
    if (text.starts_with(prefix)) text.erase(0, prefix.size());
  }
  std::string single;
  for (const char c : text) {
    if (c != ' ' || (!single.empty() && single.back() != ' ')) single += c;
  }
  return single;
}

std::map<std::string, std::int64_t> refusal_classes(
    const std::vector<runtime::ConformResult>& results) {
  std::map<std::string, std::int64_t> classes;
  for (const auto& result : results) {
    if (result.verdict == runtime::Verdict::kRefused) ++classes[reason_class(result.reason)];
  }
  return classes;
}

void print_refusals(const std::vector<runtime::ConformResult>& results) {
  std::vector<std::pair<std::int64_t, std::string>> rows;
  for (const auto& [reason, number] : refusal_classes(results)) rows.push_back({-number, reason});
  std::sort(rows.begin(), rows.end());
  for (const auto& [number, reason] : rows) {
    show("{:>6} refused: {}\n", -number,
         reason.size() > 84 ? std::string(first_bytes(reason, 81)) + "..." : reason);
  }
}

void print_json(const std::vector<runtime::ConformResult>& results) {
  nlohmann::json tests = nlohmann::json::array();
  for (const auto& result : results) {
    tests.push_back({{"test", result.test},
                     {"verdict", verdict_name(result.verdict)},
                     {"reason", result.reason},
                     {"nodes_on_host", result.nodes_on_host},
                     {"nodes_on_processor", result.nodes_on_processor},
                     {"inputs_bound", result.inputs_bound}});
  }
  const nlohmann::json document = {{"passed", count(results, runtime::Verdict::kPassed)},
                                   {"refused", count(results, runtime::Verdict::kRefused)},
                                   {"wrong", count(results, runtime::Verdict::kWrong)},
                                   {"refusals", refusal_classes(results)},
                                   {"tests", std::move(tests)}};
  show_lines(json_text(document) + "\n");
}

Status conform(const ConformArguments& arguments) {
  TESSERA_TRY(const ChipConfig chip, load_chip_config(arguments.arch));
  SessionOptions session;
  TESSERA_TRY(session.device, device_kind_from_name(arguments.device));
  TESSERA_TRY(const std::vector<std::string> tests, runtime::find_tests(arguments.folder));
  const ProgressCallback progress = progress_bar();
  std::vector<runtime::ConformResult> results;
  for (const std::string& test : tests) {
    if (progress) {
      progress("conform", static_cast<double>(results.size()) / static_cast<double>(tests.size()));
    }
    results.push_back(runtime::run_test(test, chip, session, arguments.tolerance));
    if (arguments.require_full_offload) refuse_host_steps(results.back());
  }
  if (progress) progress("conform", 1);
  const std::int64_t wrong = count(results, runtime::Verdict::kWrong);
  if (arguments.json) {
    print_json(results);
  } else {
    for (const auto& result : results) {
      const bool shown = arguments.verbose || result.verdict == runtime::Verdict::kWrong;
      if (!shown) continue;
      show("{:<8} {}{}{}\n", verdict_name(result.verdict), result.test,
           result.reason.empty() ? "" : ": ", result.reason);
    }
    print_refusals(results);
    const auto passed_with = [&](auto&& property) {
      return std::count_if(results.begin(), results.end(), [&](const auto& result) {
        return result.verdict == runtime::Verdict::kPassed && property(result);
      });
    };
    show(
        "{} tests: {} passed, {} refused, {} wrong\n"
        "of those that passed, {} have host steps, and {} have inputs bound at compile time\n"
        "because a shape depends on them\n",
        results.size(), count(results, runtime::Verdict::kPassed),
        count(results, runtime::Verdict::kRefused), wrong,
        passed_with([](const auto& result) { return result.nodes_on_host > 0; }),
        passed_with([](const auto& result) { return result.inputs_bound > 0; }));
  }
  if (wrong == 0) return {};
  return Error{ErrorCode::kInternal, fmt::format("{} tests gave wrong results", wrong)};
}

}  // namespace

Action conform_verb(CLI::App& app) {
  auto arguments = std::make_shared<ConformArguments>();  // shared with the returned action
  app.add_option("folder", arguments->folder, "folder with test directories below it")->required();
  app.add_option("--arch", arguments->arch, "architecture")->capture_default_str();
  app.add_option("--device", arguments->device, "sim, host or ref")->capture_default_str();
  app.add_option("--rtol", arguments->tolerance.relative, "relative tolerance of float outputs")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--atol", arguments->tolerance.absolute, "absolute tolerance of float outputs")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_flag("--verbose", arguments->verbose, "print every test with its reason");
  app.add_flag("--require-full-offload", arguments->require_full_offload,
               "a test with a host step counts as refused");
  app.add_flag("--json", arguments->json, "print one JSON object");
  return [arguments] { return conform(*arguments); };
}

}  // namespace tessera::tools
