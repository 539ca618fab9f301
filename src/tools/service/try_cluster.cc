// tessera cluster try: a cluster on this machine, to try.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "arch/architecture_file.h"
#include "cluster/master_client.h"
#include "cluster/messenger.h"
#include "cluster/processes.h"
#include "store/etcd_store.h"
#include "store/in_process_store.h"
#include "store/local_etcd.h"
#include "tools/service/actions.h"
#include "tools/service/arguments.h"
#include "tools/service/process.h"
#include "tools/service/slurm_cluster.h"
#include "tools/service/until_end.h"
#include "tools/terminal/standard_streams.h"

namespace tessera::tools {
namespace {

// A folder that goes with it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tessera-etcd-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct TryStore {
  std::string name;  // as `tessera node --store` has it; empty: only this process has it
  std::optional<TemporaryFolder> folder;
  std::unique_ptr<store::LocalEtcd> etcd;
  std::unique_ptr<store::Store> store;
};

Status open_store(bool etcd, TryStore& made) {
  if (!etcd) {
    made.store = std::make_unique<store::InProcessStore>();
    return {};
  }
  made.folder.emplace();
  if (made.folder->path().empty()) {
    return Error{ErrorCode::kUnavailable, "there is no room for a temporary folder"};
  }
  store::LocalEtcdOptions options;
  options.folder = made.folder->path();
  TESSERA_TRY(made.etcd, store::LocalEtcd::start(options));
  store::EtcdOptions to;
  to.endpoints = made.etcd->endpoints();
  TESSERA_TRY(made.store, store::connect_etcd(to));
  made.name = "etcd:" + to.endpoints.front();
  return {};
}

// Until the master has all of them.
Status wait_for_cards(const std::string& master, int cards) {
  TESSERA_TRY(const auto messenger, cluster::Messenger::create());
  cluster::MasterClient client(*messenger, {master});
  constexpr std::chrono::seconds kForStart{30};
  const auto last = std::chrono::steady_clock::now() + kForStart;
  while (std::chrono::steady_clock::now() < last) {
    TESSERA_TRY(const nlohmann::json status, client.call({{"call", "status"}}, kForStart));
    if (std::ssize(status["pool"]) == cards) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return Error{ErrorCode::kUnavailable,
               fmt::format("the cluster has not started in {} s", kForStart.count())};
}

// Runs until it is time, or a signal.
Status try_cluster(const ClusterArguments& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  if (arguments.nodes == 0 && !arguments.etcd) {
    return Error{
        ErrorCode::kInvalidArgument,
        "--nodes 0 without --etcd: no node can join records that are in this process; give "
        "--etcd, or 1 to 64 nodes"};
  }
  TESSERA_TRY(const ChipConfig chip,
              load_chip_config(arguments.arch.empty() ? "cloud16" : arguments.arch));
  end_on_signals();
  TryStore store;
  TESSERA_RETURN_IF_ERROR(open_store(arguments.etcd, store));
  TESSERA_TRY(auto master, cluster::RunningMaster::start(
                               *store.store, {.port = arguments.port, .facts = facts_of({})}));
  std::vector<std::unique_ptr<cluster::RunningNode>> nodes;
  for (int i = 0; i < arguments.nodes; ++i) {
    cluster::RunningNodeOptions options;
    options.shared_memory_folder = shared_memory_folder();
    options.cards.assign(static_cast<std::size_t>(arguments.cards), chip);
    options.node.id = fmt::format("n{}", i);
    options.is_timed = arguments.is_timed;
    options.facts = facts_of({});
    TESSERA_TRY(nodes.emplace_back(), cluster::RunningNode::start(*store.store, options));
  }
  TESSERA_RETURN_IF_ERROR(wait_for_cards(master->endpoint(), arguments.nodes * arguments.cards));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const std::string name = fmt::format("cluster:{}?cores=4", master->endpoint());
  nlohmann::json event = {{"event", "start"},         {"master", master->endpoint()},
                          {"nodes", arguments.nodes}, {"store", store.store->describe()},
                          {"device", name},           {"seconds", took.count()}};
  std::string text = fmt::format("{} nodes of {} card{} '{}', after {:.2f} s; records: {}\n",
                                 arguments.nodes, arguments.cards, arguments.cards == 1 ? "" : "s",
                                 chip.name, took.count(), store.store->describe());
  if (!store.name.empty()) {
    event["node_store"] = store.name;
    text += fmt::format("nodes    tessera node --store {} --id NAME\n", store.name);
  }
  tell_event(arguments.json, event, text + fmt::format("device   {}   (ends with Ctrl-C)", name));
  TESSERA_RETURN_IF_ERROR(check_standard_output());
  wait_until_end(arguments.seconds);
  nodes.clear();
  master.reset();
  tell_event(arguments.json, {{"event", "end"}}, "ended");
  return check_standard_output();
}

}  // namespace

Action cluster_action(CLI::App& app) {
  auto arguments = std::make_shared<ClusterArguments>();
  arguments->add_to(app);
  return [arguments]() -> Status {
    if (arguments->action == "try") return try_cluster(*arguments);
    if (arguments->action == "slurm") return run_in_slurm(*arguments);
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("tessera-service has no '{}'; allowed are try and slurm", arguments->action)};
  };
}

}  // namespace tessera::tools
