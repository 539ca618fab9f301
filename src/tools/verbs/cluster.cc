// tessera cluster: a cluster to try, and what there is in one.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>

#include "cluster/address.h"
#include "cluster/master_client.h"
#include "cluster/messenger.h"
#include "tools/cluster/watch_pool.h"
#include "tools/program.h"
#include "tools/service/arguments.h"
#include "tools/terminal/console.h"
#include "tools/verb.h"

namespace tessera::tools {
namespace {

using nlohmann::json;

Error wrong(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

Result<std::vector<std::string>> masters_of(const ClusterArguments& arguments) {
  auto masters = cluster::parse_masters(arguments.masters);
  if (!masters.ok()) return masters.error().with_context("--master");
  return masters;
}

Result<json> ask(const ClusterArguments& arguments, json request) {
  if (!arguments.tenant.empty()) request["tenant"] = arguments.tenant;
  if (!arguments.token_file.empty()) {
    TESSERA_TRY(request["token"], cluster::read_token(arguments.token_file));
  }
  TESSERA_TRY(const cluster::MessengerOptions options, arguments.tls.messenger());
  TESSERA_TRY(const auto messenger, cluster::Messenger::create(options));
  TESSERA_TRY(std::vector<std::string> masters, masters_of(arguments));
  cluster::MasterClient client(*messenger, std::move(masters));
  return client.call(
      request, std::chrono::milliseconds(static_cast<std::int64_t>(1e3 * arguments.patience)));
}

void print_json(const json& document) { show_lines(json_line(document) + "\n"); }

std::string cores_text(const json& cores) {
  return fmt::format("{}", fmt::join(cores.get<std::vector<int>>(), " "));
}

// Of an allocation over several: "card 0 of node n0, card 0 of node n1".
std::string cards_text(const json& cards) {
  std::vector<std::string> texts;
  for (const json& card : cards) {
    texts.push_back(fmt::format("card {} of node {}", card["card"].get<int>(),
                                card["node"].get<std::string>()));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

// ---- what there is ----

void print_nodes(const json& status) {
  TextTable table({"node", "endpoint", "cards", "cores", "on control loss", "state"});
  for (const json& node : status["nodes"]) {
    std::int64_t cores = 0;
    for (const json& card : node["cards"]) cores += card["cores"].get<std::int64_t>();
    table.add({node["node"], node["endpoint"], std::to_string(node["cards"].size()),
               std::to_string(cores), node["on_control_loss"], node["state"]});
  }
  show_lines(table.text());
  show("master {}, epoch {}; records: {}\n", status["master"].get<std::string>(),
       status["epoch"].get<std::int64_t>(), status["store"].get<std::string>());
}

void print_pool(const json& status) {
  TextTable cards({"node", "card", "architecture", "cores", "free", "draining"});
  for (const json& card : status["pool"]) {
    cards.add({card["node"], std::to_string(card["card"].get<int>()), card["arch"],
               std::to_string(card["cores"].get<int>()), std::to_string(card["free"].get<int>()),
               card["draining"].get<bool>() ? "yes" : "-"});
  }
  show_lines(cards.text());
  if (status["allocs"].empty()) return;
  TextTable allocs({"allocation", "tenant", "node", "card", "cores", "epoch", "state"});
  for (const json& alloc : status["allocs"]) {
    if (alloc.contains("cards") && !alloc["cards"].empty()) {
      for (const json& card : alloc["cards"]) {
        allocs.add({alloc["alloc"], alloc["tenant"], card["node"],
                    std::to_string(card["card"].get<int>()), cores_text(card["cores"]),
                    std::to_string(alloc["epoch"].get<std::int64_t>()), alloc["state"]});
      }
      continue;
    }
    allocs.add({alloc["alloc"], alloc["tenant"], alloc["node"],
                std::to_string(alloc["card"].get<int>()), cores_text(alloc["cores"]),
                std::to_string(alloc["epoch"].get<std::int64_t>()), alloc["state"]});
  }
  show_lines("\n" + allocs.text());
}

Status show_status(const ClusterArguments& arguments) {
  TESSERA_TRY(const json status, ask(arguments, {{"call", "status"}}));
  const bool nodes = arguments.action == "nodes";
  if (arguments.json) {
    json shown = {
        {"master", status["master"]}, {"epoch", status["epoch"]}, {"store", status["store"]}};
    for (const char* const key : {"nodes", "pool", "allocs"}) {
      if (nodes == (std::string(key) == "nodes")) shown[key] = status[key];
    }
    print_json(shown);
  } else if (nodes) {
    print_nodes(status);
  } else {
    print_pool(status);
  }
  return {};
}

Status show_events(const ClusterArguments& arguments) {
  TESSERA_TRY(const json answer, ask(arguments, {{"call", "events"}, {"after", arguments.after}}));
  if (arguments.json) {
    print_json(answer);
    return {};
  }
  for (const json& event : answer["events"]) {
    const auto unix_ms = event["unix_ms"].get<std::int64_t>();
    const std::time_t seconds = unix_ms / 1000;
    std::tm utc{};
    gmtime_r(&seconds, &utc);
    show("{:>5}  {:02}:{:02}:{:02}.{:03}  {:<8}  {}\n", event["number"].get<std::int64_t>(),
         utc.tm_hour, utc.tm_min, utc.tm_sec, unix_ms % 1000, event["kind"].get<std::string>(),
         event["text"].get<std::string>());
  }
  return {};
}

// ---- what is to be done ----

Status print_alloc(const ClusterArguments& arguments, json alloc) {
  const std::string device = fmt::format("cluster:{}?alloc={}", fmt::join(arguments.masters, ","),
                                         alloc["alloc"].get<std::string>());
  alloc["device"] = device;
  alloc.erase("ticket");
  if (arguments.json) {
    print_json(alloc);
    return {};
  }
  const std::string name = alloc["alloc"].get<std::string>();
  if (alloc.contains("cards")) {
    show("{}: {} cores on {}\ndevice   {}\n", name, alloc["cores_wanted"].get<int>(),
         cards_text(alloc["cards"]), device);
    return {};
  }
  show("{}: cores {} of card {} on node {}\ndevice   {}\n", name, cores_text(alloc["cores"]),
       alloc["card"].get<int>(), alloc["node"].get<std::string>(), device);
  return {};
}

Status allocate(const ClusterArguments& arguments) {
  json request = {{"call", "acquire"},          {"cores", std::max(arguments.cores, 1)},
                  {"arch", arguments.arch},     {"memory_bytes", arguments.memory_bytes},
                  {"weight", arguments.weight}, {"kept", true}};
  if (!arguments.what.empty()) request["name"] = arguments.what;
  if (!arguments.node.empty()) request["node"] = arguments.node;
  if (arguments.cards > 1) {
    request["cards"] = arguments.cards;
    request["cores"] = arguments.cores;
  }
  TESSERA_TRY(json alloc, ask(arguments, std::move(request)));
  return print_alloc(arguments, std::move(alloc));
}

Status resize(const ClusterArguments& arguments) {
  if (arguments.cores == 0) return wrong("resize takes --cores, how many it is to have");
  TESSERA_TRY(
      json alloc,
      ask(arguments, {{"call", "resize"}, {"alloc", arguments.what}, {"cores", arguments.cores}}));
  return print_alloc(arguments, std::move(alloc));
}

Status release(const ClusterArguments& arguments) {
  TESSERA_TRY(const json freed, ask(arguments, {{"call", "release"}, {"alloc", arguments.what}}));
  if (arguments.json) {
    print_json(freed);
  } else {
    show("{}: given back\n", arguments.what);
  }
  return {};
}

Status drain(const ClusterArguments& arguments) {
  TESSERA_TRY(
      const json drained,
      ask(arguments, {{"call", "drain"}, {"node", arguments.what}, {"on", !arguments.undo}}));
  if (arguments.json) {
    print_json(drained);
    return {};
  }
  show("{}: {}; {} allocations are on it\n", arguments.what,
       arguments.undo ? "in use again" : "gets nothing new", drained["allocs"].get<std::int64_t>());
  return {};
}

struct ClusterAction {
  const char* name;
  const char* takes;  // that it cannot do without; empty: nothing
  Status (*act)(const ClusterArguments&);
};

Status in_service(const ClusterArguments&) { return start_service(); }

Status watch_one(const ClusterArguments& arguments) {
  const PoolQuestion question = [arguments](json request) {
    return ask(arguments, std::move(request));
  };
  return watch_pool({.http = arguments.http,
                     .file = arguments.file,
                     .seconds = arguments.seconds,
                     .json = arguments.json},
                    question);
}

constexpr ClusterAction kActions[] = {
    {"try", "", in_service},
    {"slurm", "", in_service},
    {"nodes", "", show_status},
    {"pool", "", show_status},
    {"watch", "", watch_one},
    {"events", "", show_events},
    {"alloc", "", allocate},
    {"free", "the allocation's name", release},
    {"resize", "the allocation's name", resize},
    {"drain", "the node's name", drain},
};

Status act(const ClusterArguments& arguments) {
  std::vector<std::string> names;
  for (const ClusterAction& action : kActions) {
    names.emplace_back(action.name);
    if (arguments.action != action.name) continue;
    if (*action.takes != '\0' && arguments.what.empty()) {
      return wrong(fmt::format("{} takes {}", action.name, action.takes));
    }
    return action.act(arguments);
  }
  return wrong(
      fmt::format("there is no '{}'; allowed are {}", arguments.action, fmt::join(names, ", ")));
}

}  // namespace

Action cluster_verb(CLI::App& app) {
  auto arguments = std::make_shared<ClusterArguments>();
  arguments->add_to(app);
  return [arguments] { return act(*arguments); };
}

}  // namespace tessera::tools
