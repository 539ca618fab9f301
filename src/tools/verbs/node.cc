// tessera node: offers the cards of a machine to a cluster.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "arch/architecture_file.h"
#include "cluster/processes.h"
#include "tools/cluster/service_arguments.h"
#include "tools/terminal/standard_streams.h"
#include "tools/verb.h"

namespace tessera::tools {
namespace {

struct NodeArguments {
  ServiceArguments service;
  std::string id, arch = "cloud16", on_control_loss = "fence", owner_log;
  int cards = 1, idle_ms = 5000;
};

Status run_node(const NodeArguments& arguments) {
  const ServiceArguments& service = arguments.service;
  TESSERA_RETURN_IF_ERROR(service.check_address());
  TESSERA_RETURN_IF_ERROR(cluster::check_name("--id", arguments.id));
  TESSERA_TRY(const ChipConfig chip, load_chip_config(arguments.arch));
  cluster::NodeOptions node{.id = arguments.id};
  node.ttl = std::chrono::milliseconds(service.ttl_ms);
  node.store_timeout = node.ttl / 4;
  node.idle_limit = std::chrono::milliseconds(arguments.idle_ms);
  TESSERA_TRY(node.on_control_loss, cluster::on_control_loss_from_name(arguments.on_control_loss));
  TESSERA_TRY(node.log, line_log(arguments.owner_log));
  TESSERA_TRY(const auto store, service.open_store());
  end_on_signals();
  TESSERA_TRY(auto running, cluster::RunningNode::start(
                                *store, {.address = service.address,
                                         .port = service.port,
                                         .advertised = service.advertised,
                                         .cards = std::vector<ChipConfig>(
                                             static_cast<std::size_t>(arguments.cards), chip),
                                         .node = std::move(node)}));
  tell_event(service.json,
             {{"event", "start"}, {"node", arguments.id}, {"endpoint", running->endpoint()}},
             fmt::format("node {} at {}   (ends with Ctrl-C)", arguments.id, running->endpoint()));
  TESSERA_RETURN_IF_ERROR(check_standard_output());
  wait_until_end(service.seconds);
  running.reset();
  tell_event(service.json, {{"event", "end"}}, "ended; what it had is given up");
  return check_standard_output();
}

}  // namespace

Action node_verb(CLI::App& app) {
  auto arguments = std::make_shared<NodeArguments>();
  arguments->service.add_to(app, "--port", 0);
  app.add_option("--id", arguments->id, "its name in the cluster")->required();
  app.add_option("--arch", arguments->arch, "of its cards: profile or architecture file")
      ->capture_default_str();
  app.add_option("--cards", arguments->cards, "that it has")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option(
         "--on-control-loss", arguments->on_control_loss,
         "fence: what runs ends before the lease, and goes elsewhere; keep: it goes on here")
      ->capture_default_str();
  app.add_option("--idle-ms", arguments->idle_ms,
                 "milliseconds after which an allocation is given back that nobody uses")
      ->check(CLI::Range(100, 86400000))
      ->capture_default_str();
  app.add_option("--owner-log", arguments->owner_log,
                 "a line is added for each allocation that it gets and gives up, and each renewal");
  return [arguments] { return run_node(*arguments); };
}

}  // namespace tessera::tools
