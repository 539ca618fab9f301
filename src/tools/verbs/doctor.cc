// tessera doctor: what this installation is made of, and a small network run on every device; or what a cluster
// lacks.
#include <fmt/format.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "arch/architecture_file.h"
#include "arch/chip_config.h"
#include "cluster/address.h"
#include "cluster/messenger.h"
#include "graph/graph.h"
#include "network/network.h"
#include "tools/cluster/cluster_checks.h"
#include "tools/files/tensor_file.h"
#include "tools/service/arguments.h"
#include "tools/terminal/console.h"
#include "tools/verb.h"

namespace tessera::tools {
namespace {

// relu(x) on a small tensor: enough to show that compiler, linker and devices work together.
std::shared_ptr<const graph::Graph> small_graph(const ChipConfig& chip) {
  auto graph = std::make_shared<graph::Graph>();
  graph->name = "doctor";
  graph->vector_format = chip.formats.vector;
  const Shape dims = {1, 8, 6, 5};
  graph->tensors = {{"x", Format::kF32, dims, nullptr}, {"y", chip.formats.vector, dims, nullptr}};
  graph::ElementwiseAttributes relu;
  relu.activation.function = UnaryFunction::kRelu;
  graph->nodes.push_back({"relu", {}, {{0}}, {{1}}, relu});
  graph->inputs = {{0}};
  graph->outputs = {{1}};
  return graph;
}

struct Check {
  std::string name;
  bool ok = false;
  std::string detail;
};

Check check_profile(std::string_view name) {
  const auto chip = load_chip_config(std::string(name));
  if (!chip.ok()) return {fmt::format("architecture {}", name), false, chip.error().to_string()};
  return {fmt::format("architecture {}", name), true,
          fmt::format("{} x {} array, {} neural, {} planar, fingerprint {:016x}", chip->neural.rows,
                      chip->neural.columns, chip->neural.count, chip->planar.count,
                      fingerprint(*chip))};
}

Result<std::string> run_everywhere() {
  TESSERA_TRY(const ChipConfig chip, load_chip_config("tessera128"));
  TESSERA_TRY(const Network network, network::network_from_graph(small_graph(chip), chip, {}));
  const std::vector<Tensor> inputs = {random_tensor(network.inputs()[0], 7, 0)};
  std::vector<Tensor> first;
  std::int64_t cycles = 0;
  for (const DeviceKind kind : {DeviceKind::kRef, DeviceKind::kHost, DeviceKind::kSim}) {
    SessionOptions options;
    options.device = kind;
    options.check_hazards = true;
    TESSERA_TRY(Session session, Session::open(network, options));
    TESSERA_TRY(RunResult result, session.run(inputs));
    if (first.empty()) first = result.outputs;
    if (result.outputs != first) {
      return Error{ErrorCode::kInternal,
                   fmt::format("'{}' gives other bits than 'ref'", device_kind_name(kind))};
    }
    cycles = result.cycles;
  }
  return fmt::format("ref, host and sim give the same bits; {} cycles", cycles);
}

std::vector<Check> all_checks() {
  std::vector<Check> checks;
  checks.push_back({"version", true, version()});
  checks.push_back({"SIMD", true,
                    fmt::format("best target {}", hwy::TargetName(hwy::SupportedTargets() &
                                                                  -hwy::SupportedTargets()))});
  checks.push_back({"threads", true, std::to_string(std::thread::hardware_concurrency())});
  for (const std::string_view name : builtin_chip_names()) checks.push_back(check_profile(name));
  const auto outcome = run_everywhere();
  checks.push_back(
      {"devices", outcome.ok(), outcome.ok() ? *outcome : outcome.error().to_string()});
  return checks;
}

Status doctor(bool json) {
  const std::vector<Check> checks = all_checks();
  bool ok = true;
  nlohmann::json list = nlohmann::json::array();
  for (const Check& check : checks) {
    ok = ok && check.ok;
    list.push_back({{"check", check.name}, {"ok", check.ok}, {"detail", check.detail}});
    if (!json) show("{:<4} {:<26} {}\n", check.ok ? "ok" : "BAD", check.name, check.detail);
  }
  if (json) show_lines(json_text({{"ok", ok}, {"checks", list}}) + "\n");
  if (ok) return {};
  return Error{ErrorCode::kInternal, "a check failed"};
}

struct DoctorArguments {
  ClusterCheckOptions cluster;
  std::string token_file;
  TlsArguments tls;
  double patience = 3;
  bool json = false;
};

Status check_the_cluster(const DoctorArguments& arguments) {
  ClusterCheckOptions options = arguments.cluster;
  options.version = version();
  auto masters = cluster::parse_masters(options.masters);
  if (!masters.ok()) return masters.error().with_context("--cluster");
  options.masters = std::move(*masters);
  options.patience = std::chrono::milliseconds(static_cast<std::int64_t>(1e3 * arguments.patience));
  if (!arguments.token_file.empty()) {
    TESSERA_TRY(options.token, cluster::read_token(arguments.token_file));
  }
  TESSERA_TRY(const cluster::MessengerOptions messenger_options, arguments.tls.messenger());
  TESSERA_TRY(const auto messenger, cluster::Messenger::create(messenger_options));
  const std::vector<ClusterCheck> checks = check_cluster(options, *messenger);
  int errors = 0;
  nlohmann::json list = nlohmann::json::array();
  for (const ClusterCheck& check : checks) {
    errors += check.outcome == ClusterCheck::Outcome::kError ? 1 : 0;
    const char* const outcome = outcome_name(check.outcome);
    list.push_back({{"check", check.check},
                    {"subject", check.subject},
                    {"outcome", outcome},
                    {"detail", check.detail},
                    {"remedy", check.remedy}});
    if (arguments.json) continue;
    show("{:<8} {:<13} {}: {}\n", outcome, check.check, check.subject, check.detail);
    if (!check.remedy.empty()) show("{:<22} {}\n", "", check.remedy);
  }
  if (arguments.json) show_lines(json_text({{"ok", errors == 0}, {"checks", list}}) + "\n");
  if (errors == 0) return {};
  return Error{ErrorCode::kUnavailable,
               fmt::format("{} check{} failed", errors, errors == 1 ? "" : "s")};
}

}  // namespace

Action doctor_verb(CLI::App& app) {
  auto arguments = std::make_shared<DoctorArguments>();  // shared with the returned action
  ClusterCheckOptions& cluster = arguments->cluster;
  app.add_option("--cluster", cluster.masters,
                 "check a cluster instead: HOST:PORT[,HOST:PORT...] of all its masters")
      ->allow_extra_args(false);
  app.add_option("--certificate", cluster.certificates,
                 "of a cluster: a PEM file that must not end soon; once for each");
  app.add_option("--tenant", cluster.tenant, "of a cluster: who asks, where it has no tokens");
  app.add_option("--token-file", arguments->token_file, "of a cluster: an operator's token");
  arguments->tls.add_to(app, "of a cluster: beyond this machine without TLS, if that is meant");
  app.add_option("--patience", arguments->patience, "of a cluster: seconds for each that is asked")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  app.add_flag("--json", arguments->json, "print one JSON object");
  return [arguments]() -> Status {
    if (!arguments->cluster.masters.empty()) return check_the_cluster(*arguments);
    if (arguments->cluster.certificates.empty()) return doctor(arguments->json);
    return Error{ErrorCode::kInvalidArgument, "--certificate belongs to --cluster"};
  };
}

}  // namespace tessera::tools
