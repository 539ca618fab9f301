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
  std::string id, arch = "cloud16", on_control_loss = "fence", owner_log, audit_file,
                  shared_memory = "auto";
  int cards = 1, idle_ms = 5000;
  bool ucx = false;
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
  TESSERA_TRY(node.audit, line_log(arguments.audit_file));
  TESSERA_TRY(const auto store, service.open_store());
  cluster::RunningNodeOptions options{
      .address = service.address, .port = service.port, .advertised = service.advertised};
  TESSERA_TRY(options.messenger, service.tls.messenger());
  if (arguments.shared_memory != "none") {
    const bool is_named = arguments.shared_memory != "auto";
    options.shared_memory_folder = is_named ? arguments.shared_memory : shared_memory_folder();
  }
  options.ucx = arguments.ucx;
  options.cards.assign(static_cast<std::size_t>(arguments.cards), chip);
  options.node = std::move(node);
  end_on_signals();
  TESSERA_TRY(auto running, cluster::RunningNode::start(*store, std::move(options)));
  tell_event(service.json,
             {{"event", "start"},
              {"node", arguments.id},
              {"endpoint", running->endpoint()},
              {"port", running->port()}},
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
  app.add_option("--shared-memory", arguments->shared_memory,
                 "folder of the socket by which this user's clients on this machine come by shared "
                 "memory; auto: XDG_RUNTIME_DIR or that of temporary files; none: by TCP alone")
      ->capture_default_str();
  app.add_flag("--ucx", arguments->ucx, "clients may come by UCX (RDMA), too; it has no TLS");
  app.add_option(
      "--audit-file", arguments->audit_file,
      "a line is added for each request that is refused, since its tenant sends too many");
  app.add_option("--owner-log", arguments->owner_log,
                 "a line is added for each allocation that it gets and gives up, and each renewal");
  return [arguments] { return run_node(*arguments); };
}

}  // namespace tessera::tools
