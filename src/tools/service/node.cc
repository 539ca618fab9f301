// tessera node: offers the cards of a machine to a cluster.
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "arch/architecture_file.h"
#include "cluster/processes.h"
#include "tools/service/actions.h"
#include "tools/service/arguments.h"
#include "tools/service/process.h"
#include "tools/service/service_manager.h"
#include "tools/service/until_end.h"
#include "tools/terminal/standard_streams.h"

namespace tessera::tools {
namespace {

// A node that is started again waits as one with the id of another does: until the lease of the one before ends.
void tell_if_id_is_taken(const cluster::RunningNode& node, const NodeArguments& arguments) {
  using std::chrono::steady_clock;
  const auto last = steady_clock::now() + std::chrono::seconds(1);
  while (!node.is_registered() && !node.is_id_taken() && steady_clock::now() < last) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (node.is_registered() || !node.is_id_taken()) return;
  tell_event(arguments.service.json, {{"event", "waits"}, {"node", arguments.id}},
             fmt::format("a node '{}' is registered already: this one waits until that one's lease "
                         "ends; two that are to live together need two ids (--id)",
                         arguments.id));
}

Status run_node(const NodeArguments& arguments) {
  const ServiceArguments& service = arguments.service;
  TESSERA_RETURN_IF_ERROR(check_address(service));
  TESSERA_RETURN_IF_ERROR(cluster::check_name("--id", arguments.id));
  TESSERA_TRY(const ChipConfig chip, load_chip_config(arguments.arch));
  cluster::NodeOptions node{.id = arguments.id};
  node.ttl = std::chrono::milliseconds(service.ttl_ms);
  node.store_timeout = node.ttl / 4;
  node.idle_limit = std::chrono::milliseconds(arguments.idle_ms);
  TESSERA_TRY(node.on_control_loss, cluster::on_control_loss_from_name(arguments.on_control_loss));
  TESSERA_TRY(node.log, line_log(arguments.owner_log));
  TESSERA_TRY(node.audit, line_log(arguments.audit_file));
  TESSERA_TRY(const auto store, open_store(service));
  cluster::RunningNodeOptions options{
      .address = service.address, .port = service.port, .advertised = service.advertised};
  TESSERA_TRY(options.messenger, service.tls.messenger());
  if (arguments.shared_memory != "none") {
    const bool is_named = arguments.shared_memory != "auto";
    options.shared_memory_folder = is_named ? arguments.shared_memory : shared_memory_folder();
  }
  options.ucx = arguments.ucx;
  options.is_timed = arguments.is_timed;
  options.cards.assign(static_cast<std::size_t>(arguments.cards), chip);
  options.node = std::move(node);
  options.facts = facts_of({arguments.owner_log, arguments.audit_file});
  end_on_signals();
  TESSERA_TRY(auto running, cluster::RunningNode::start(*store, std::move(options)));
  tell_event(service.json,
             {{"event", "start"},
              {"node", arguments.id},
              {"endpoint", running->endpoint()},
              {"port", running->port()}},
             fmt::format("node {} at {}   (ends with Ctrl-C)", arguments.id, running->endpoint()));
  tell_if_id_is_taken(*running, arguments);
  TESSERA_RETURN_IF_ERROR(check_standard_output());
  tell_service_manager("READY=1");
  wait_until_end(service.seconds, service.end_with_input);
  tell_service_manager("STOPPING=1");
  running.reset();
  tell_event(service.json, {{"event", "end"}}, "ended; what it had is given up");
  return check_standard_output();
}

}  // namespace

Action node_action(CLI::App& app) {
  auto arguments = std::make_shared<NodeArguments>();
  arguments->add_to(app);
  return [arguments] { return run_node(*arguments); };
}

}  // namespace tessera::tools
