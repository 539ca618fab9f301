#include "tools/remote/card_daemons.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "arch/architecture_file.h"
#include "cluster/master_client.h"
#include "cluster/messenger.h"
#include "network/network.h"
#include "repro/card_tables.h"
#include "tessera/session.h"
#include "tools/child_process.h"
#include "tools/remote/background_process.h"
#include "tools/workloads/run_card.h"
#include "tools/workloads/zoo_graph.h"

namespace tessera::tools {
namespace {

using nlohmann::json;

// Longer than a busy machine keeps a daemon from renewing its lease.
constexpr const char* kTtlMilliseconds = "30000";
constexpr std::chrono::seconds kForStart{60};

struct Setting {
  const char* name;
  repro::CardCase (*make)(const std::string& network, int cores, int cards);
};
constexpr Setting kSettings[] = {{"ours", repro::our_case},
                                 {"strong baseline", repro::strong_case},
                                 {"baseline as published", repro::published_case}};

// etcd and a master, for nodes that come and go.
struct Cluster {
  std::unique_ptr<BackgroundProcess> master;
  std::string endpoint() const { return master->start_event().value("master", ""); }
  std::string store() const { return master->start_event().value("node_store", ""); }
};
using Nodes = std::vector<std::unique_ptr<BackgroundProcess>>;

Result<Cluster> start_cluster() {
  Cluster cluster;
  TESSERA_TRY(cluster.master, BackgroundProcess::start_tessera(
                                  {"cluster", "try", "--etcd", "--nodes", "0", "--port", "0"}));
  return cluster;
}

// Until the master has the cards of all of them, and of no others.
Result<Nodes> start_nodes(const Cluster& cluster, const std::string& name,
                          const std::string& arch_file, int count) {
  Nodes nodes;
  for (int node = 0; node < count; ++node) {
    TESSERA_TRY(nodes.emplace_back(),
                BackgroundProcess::start_tessera({"node", "--store", cluster.store(), "--id",
                                                  fmt::format("{}-n{}", name, node), "--arch",
                                                  arch_file, "--ttl-ms", kTtlMilliseconds}));
  }
  TESSERA_TRY(const auto messenger, cluster::Messenger::create());
  cluster::MasterClient client(*messenger, {cluster.endpoint()});
  const auto last = std::chrono::steady_clock::now() + kForStart;
  while (std::chrono::steady_clock::now() < last) {
    TESSERA_TRY(const json status, client.call({{"call", "status"}}, kForStart));
    const auto here = std::ranges::count_if(status["pool"], [&](const json& card) {
      return card.value("node", "").starts_with(name + "-");
    });
    if (here == count && std::ssize(status["pool"]) == count) return nodes;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return Error{ErrorCode::kUnavailable, fmt::format("{} nodes have not joined the cluster in {} s",
                                                    count, kForStart.count())};
}

Result<Cycles> cycles_over(const Cluster& cluster, const Network& network, const ChipConfig& chip,
                           const repro::CardCase& one) {
  std::vector<Tensor> inputs;
  for (const TensorDescription& input : network.inputs()) {
    inputs.push_back(Tensor::zeros(input.format, input.dims));
  }
  SessionOptions options;
  options.timing_only = true;
  options.cluster =
      fmt::format("cluster:{}?cores={}&cards={}", cluster.endpoint(), one.cores, one.cards);
  // Several cards are taken as a whole; of one it has all memory, as in this process.
  if (one.cards == 1) options.cluster += fmt::format("&memory={}", chip.dram.bytes);
  TESSERA_TRY(Session session, Session::open(network, options));
  TESSERA_TRY(const RunResult result, session.run(inputs));
  return result.cycles;
}

std::vector<DaemonsRow> wanted_rows(const std::vector<std::string>& networks,
                                    const std::vector<int>& cards, int cores_of_card) {
  std::vector<DaemonsRow> rows;
  for (const std::string& network : networks) {
    for (const int count : cards) {
      for (const int gigabits : {100, 200}) {
        if (count == 1 && gigabits != 100) continue;
        for (const Setting& setting : kSettings) {
          DaemonsRow row{
              setting.make(network, count * cores_of_card, count), setting.name, 0, 0, {}};
          row.one.gigabits_per_second = gigabits;
          rows.push_back(std::move(row));
        }
      }
    }
  }
  return rows;
}

// The rows of one speed of the network, for which their programs are made: run_card_cases() makes one program for all
// speeds, as the published tables have it, and nodes make it for their own.
Status run_in_process(int gigabits, std::vector<DaemonsRow>& rows) {
  std::vector<repro::CardCase> cases;
  for (const DaemonsRow& row : rows) {
    if (row.one.gigabits_per_second == gigabits) cases.push_back(row.one);
  }
  TESSERA_TRY(const std::vector<repro::CardRun> runs, run_card_cases(cases, {}));
  auto run = runs.begin();
  for (DaemonsRow& row : rows) {
    if (row.one.gigabits_per_second == gigabits) row.in_process = (run++)->cycles;
  }
  return {};
}

// Rows whose nodes have the same cards.
struct Group {
  std::string name;
  ChipConfig chip;
  std::vector<DaemonsRow*> rows;
};

std::vector<Group> groups_of(std::vector<DaemonsRow>& rows, const ChipConfig& cloud) {
  std::map<std::pair<std::string, int>, Group> groups;
  for (DaemonsRow& row : rows) {
    Group& group = groups[{row.setting, row.one.gigabits_per_second}];
    group.chip = cloud;
    group.chip.card.features = row.one.features;
    group.chip.card.network.gigabits_per_second = row.one.gigabits_per_second;
    group.rows.push_back(&row);
  }
  std::vector<Group> list;
  for (auto& [key, group] : groups) {
    group.name = fmt::format("g{}", list.size());
    list.push_back(std::move(group));
  }
  return list;
}

// Made for one core, which all of the cards have.
class Networks {
 public:
  explicit Networks(const ChipConfig& chip) : chip_(chip) {}
  Result<Network> of(const repro::CardCase& one) {
    const auto found = networks_.find({one.network, one.eight_bits});
    if (found != networks_.end()) return found->second;
    LoadOptions options;
    options.require_full_offload = true;
    TESSERA_TRY(const auto graph, zoo_graph(one.network, chip_, options, one.eight_bits ? 8 : 16));
    TESSERA_TRY(Network network, network::network_from_graph(graph, chip_, {}));
    networks_.emplace(std::pair(one.network, one.eight_bits), network);
    return network;
  }

 private:
  const ChipConfig& chip_;
  std::map<std::pair<std::string, bool>, Network> networks_;
};

Status run_group(const Cluster& cluster, const ScratchFolder& folder, const Group& group,
                 Networks& networks, const std::function<void(const DaemonsRow&)>& done) {
  const std::string arch_file = folder.path(group.name + ".toml");
  std::ofstream(arch_file) << describe(group.chip);
  int cards = 1;
  for (const DaemonsRow* const row : group.rows) cards = std::max(cards, row->one.cards);
  TESSERA_TRY(const Nodes nodes, start_nodes(cluster, group.name, arch_file, cards));
  for (DaemonsRow* const row : group.rows) {
    TESSERA_TRY(const Network network, networks.of(row->one));
    const auto cycles = cycles_over(cluster, network, group.chip, row->one);
    if (cycles.ok()) row->over_daemons = *cycles;
    if (!cycles.ok()) row->failure = cycles.error().to_string();
    done(*row);
  }
  return {};
}

}  // namespace

Result<std::vector<DaemonsRow>> compare_over_daemons(const std::vector<std::string>& networks,
                                                     const std::vector<int>& cards,
                                                     const ProgressCallback& progress) {
  TESSERA_TRY(const ChipConfig cloud, load_chip_config("cloud16"));
  TESSERA_TRY(const ScratchFolder folder, ScratchFolder::make());
  // Before there are threads.
  TESSERA_TRY(const Cluster cluster, start_cluster());
  std::vector<DaemonsRow> rows = wanted_rows(networks, cards, cloud.card.cores());
  constexpr double kHalf = 0.5;
  const auto heard = [&](const std::string& what, double share) {
    if (progress) progress(fmt::format("{:<13}", what), share);
  };
  for (const int gigabits : {100, 200}) {
    TESSERA_RETURN_IF_ERROR(run_in_process(gigabits, rows));
    heard("in process", gigabits == 100 ? kHalf / 2 : kHalf);
  }
  Networks made(cloud);
  std::size_t done = 0;
  for (const Group& group : groups_of(rows, cloud)) {
    TESSERA_RETURN_IF_ERROR(run_group(cluster, folder, group, made, [&](const DaemonsRow& row) {
      const double share = static_cast<double>(++done) / static_cast<double>(rows.size());
      heard(row.one.network, kHalf + kHalf * share);
    }));
  }
  return rows;
}

}  // namespace tessera::tools
