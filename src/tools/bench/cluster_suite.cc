#include "tools/bench/cluster_suite.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "arch/architecture_file.h"
#include "cluster/master_client.h"
#include "cluster/messenger.h"
#include "cluster/remote_backend.h"
#include "network/network.h"
#include "network/prepared_cores.h"
#include "tools/bench/scheduler_load.h"
#include "tools/remote/started_cluster.h"
#include "tools/terminal/console.h"
#include "tools/workloads/zoo_graph.h"

namespace tessera::tools {
namespace {

using nlohmann::json;

constexpr const char* kSuiteArch = "cloud16";
constexpr const char* kSuiteNetwork = "mobilenet_v1";
constexpr const char* kSuiteAllocation = "resized";
constexpr std::chrono::seconds kForSuiteCall{60};

// A row of the report. Without a goal it goes with the row before.
struct SuiteFigure {
  std::string what;
  double value = 0;
  const char* unit = "";
  std::optional<double> goal_most = {};
};

double at_share(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto place = static_cast<std::size_t>(share * static_cast<double>(sorted.size()));
  return sorted[std::min(place, sorted.size() - 1)];
}

// ---- a running cluster

// Without what the store took, in milliseconds.
double without_store_ms(const json& times) {
  return (times["total_us"].get<double>() - times["store_us"].get<double>()) / 1e3;
}

// Where the store is slow a master may not lead for a moment.
Result<json> ask_master(cluster::MasterClient& client, const json& request) {
  const auto last = std::chrono::steady_clock::now() + kForSuiteCall;
  for (;;) {
    auto answer = client.call(request, kForSuiteCall);
    const bool is_over = answer.ok() || answer.error().code != ErrorCode::kUnavailable ||
                         std::chrono::steady_clock::now() >= last;
    if (is_over) return answer;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

Status measure_acquire(cluster::MasterClient& client, int repeat,
                       std::vector<SuiteFigure>& figures) {
  std::vector<double> without, store;
  for (int i = 0; i < repeat; ++i) {
    TESSERA_TRY(const json got,
                ask_master(client, {{"call", "acquire"}, {"cores", 4}, {"kept", true}}));
    without.push_back(without_store_ms(got["times"]));
    store.push_back(got["times"]["store_us"].get<double>() / 1e3);
    TESSERA_TRY(const json freed,
                ask_master(client, {{"call", "release"}, {"alloc", got["alloc"]}}));
  }
  std::ranges::sort(without);
  std::ranges::sort(store);
  figures.push_back(
      {"acquire 4 cores, without the store's write: median", at_share(without, 0.5), "ms", 5});
  figures.push_back({"  largest", without.back(), "ms"});
  figures.push_back({"  the store's write: median", at_share(store, 0.5), "ms"});
  return {};
}

// Until the node has made ready what the allocation may be resized to.
Status wait_until_prepared(cluster::MasterClient& client) {
  const auto last = std::chrono::steady_clock::now() + kForSuiteCall;
  while (std::chrono::steady_clock::now() < last) {
    TESSERA_TRY(const json status, ask_master(client, {{"call", "status"}}));
    for (const json& alloc : status["allocs"]) {
      if (alloc["alloc"] != kSuiteAllocation || !alloc.contains("figures")) continue;
      const json& figures = alloc["figures"];
      if (figures["prepared_programs"] > 0 && figures["preparing"] == 0) return {};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return Error{ErrorCode::kUnavailable,
               fmt::format("the node has not made programs ready within {} s; give the machine "
                           "less to do besides",
                           kForSuiteCall.count())};
}

// In milliseconds, of resizes one after the other.
struct ResizeTimes {
  std::vector<double> without_store, link;
};

Status resize(cluster::MasterClient& client, int cores, ResizeTimes& times) {
  TESSERA_TRY(
      const json got,
      ask_master(client, {{"call", "resize"}, {"alloc", kSuiteAllocation}, {"cores", cores}}));
  times.without_store.push_back(without_store_ms(got["times"]));
  times.link.push_back(got["times"]["link_us"].get<double>() / 1e3);
  return {};
}

// A network is loaded on the allocation, on 4 cores: its programs are made for other cores, ahead or when they are
// wanted.
Status measure_resize(cluster::MasterClient& client, int repeat,
                      std::vector<SuiteFigure>& figures) {
  ResizeTimes at_once, first, again;
  TESSERA_RETURN_IF_ERROR(resize(client, 8, at_once));
  TESSERA_RETURN_IF_ERROR(wait_until_prepared(client));
  for (const int cores : {16, 2}) TESSERA_RETURN_IF_ERROR(resize(client, cores, first));
  constexpr std::array<int, 4> kSizes = {4, 8, 16, 2};
  for (int i = 0; i < repeat; ++i) {
    TESSERA_RETURN_IF_ERROR(resize(client, kSizes[static_cast<std::size_t>(i) % 4], again));
  }
  for (ResizeTimes* const times : {&first, &again}) {
    std::ranges::sort(times->without_store);
    std::ranges::sort(times->link);
  }
  figures.push_back(
      {fmt::format("resize with {} loaded, without the store's writes: median", kSuiteNetwork),
       at_share(again.without_store, 0.5), "ms", 5});
  figures.push_back({"  largest", again.without_store.back(), "ms"});
  figures.push_back({"  of which link: median", at_share(again.link, 0.5), "ms", 1});
  figures.push_back({"  the first to a number of cores, which is made ready: larger of two",
                     first.without_store.back(), "ms", 5});
  figures.push_back({"    of which link", first.link.back(), "ms", 1});
  figures.push_back({"  at once after the load", at_once.without_store[0], "ms"});
  figures.push_back({"    of which link", at_once.link[0], "ms"});
  return {};
}

Status measure_cluster(const ClusterSuite& suite, std::vector<SuiteFigure>& figures,
                       bool& has_etcd) {
  TESSERA_TRY(const auto started, StartedCluster::start({.arch = kSuiteArch, .with_etcd = true}));
  has_etcd = started->has_etcd();
  TESSERA_TRY(const auto messenger, cluster::Messenger::create());
  cluster::MasterClient client(*messenger, {started->master()});
  const int repeat = suite.repeat > 0 ? suite.repeat : 20;
  TESSERA_RETURN_IF_ERROR(measure_acquire(client, repeat, figures));
  TESSERA_TRY(const ChipConfig chip, load_chip_config(kSuiteArch));
  TESSERA_TRY(const auto graph, zoo_graph(kSuiteNetwork, chip, {}, 16));
  TESSERA_TRY(const Network made, network::network_from_graph(graph, chip, {}));
  // With templates for the numbers of cores that tenants get.
  TESSERA_TRY(const Network network,
              network::prepare_cores(made, network::usual_core_counts(chip)));
  cluster::ClusterAddress address;
  address.masters = {started->master()};
  address.name = kSuiteAllocation;
  address.cores = 4;
  address.memory_bytes = chip.dram.bytes;
  address.patience = kForSuiteCall;
  TESSERA_TRY(const auto remote, cluster::make_remote_device(address, {.chip = chip}));
  TESSERA_TRY(const auto loaded, remote.device->load(network.share()));
  (void)loaded;
  return measure_resize(client, repeat, figures);
}

// ---- many nodes and tenants

Status measure_scheduler(const ClusterSuite& suite, std::vector<SuiteFigure>& figures,
                         json& fragmentation) {
  const int tenants = 10 * suite.nodes;
  TESSERA_TRY(const SchedulerLoad load,
              run_scheduler_load({.nodes = suite.nodes, .tenants = tenants, .steps = 4 * tenants}));
  const std::string of =
      fmt::format("{} nodes, {} cores, {} tenants: a decision", suite.nodes, load.cores, tenants);
  figures.push_back({of + ", 99 %", at_share(load.choose_us, 0.99) / 1e3, "ms", 1});
  figures.push_back({"  median", at_share(load.choose_us, 0.5) / 1e3, "ms"});
  figures.push_back({"  a request's processor time, with a store in the process",
                     load.request_processor_us / 1e3, "ms"});
  figures.push_back({"  cores in use",
                     1 - static_cast<double>(load.free) / static_cast<double>(load.cores), "of 1"});
  figures.push_back({"  allocations alone in their groups",
                     static_cast<double>(load.alone) /
                         static_cast<double>(std::max<std::int64_t>(1, load.allocations)),
                     "of 1"});
  for (const SchedulerLoad::Size& size : load.sizes) {
    figures.push_back(
        {fmt::format("  fragmentation for {} cores", size.cores), size.fragmentation, "of 1"});
    fragmentation.push_back(
        {{"cores", size.cores}, {"fits", size.fits}, {"fragmentation", size.fragmentation}});
  }
  return {};
}

void print_figures(const std::vector<SuiteFigure>& figures) {
  TextTable table({"cluster", "value", "unit", "goal", "met"});
  for (const SuiteFigure& figure : figures) {
    const auto goal = figure.goal_most;
    table.add({figure.what, fmt::format("{:.3f}", figure.value), figure.unit,
               goal ? fmt::format("<= {}", *goal) : "",
               goal ? (figure.value <= *goal ? "yes" : "no") : ""});
  }
  show_lines(table.text());
}

}  // namespace

Status run_cluster_suite(const ClusterSuite& suite) {
  std::vector<SuiteFigure> figures;
  bool has_etcd = false;
  json fragmentation = json::array();
  TESSERA_RETURN_IF_ERROR(measure_cluster(suite, figures, has_etcd));
  TESSERA_RETURN_IF_ERROR(measure_scheduler(suite, figures, fragmentation));
  double load = 0;
  (void)getloadavg(&load, 1);
  const unsigned threads = std::thread::hardware_concurrency();
  if (!suite.json) {
    print_figures(figures);
    show("on {} threads, load {:.1f} with what else runs\n", threads, load);
    if (!has_etcd)
      show("left out: etcd is not installed; the records are in the master's process\n");
    return {};
  }
  json rows = json::array();
  for (const SuiteFigure& figure : figures) {
    json row = {{"what", figure.what}, {"value", figure.value}, {"unit", figure.unit}};
    row["relation"] = figure.goal_most ? "<=" : "";
    row["goal"] = figure.goal_most ? json(*figure.goal_most) : json();
    rows.push_back(std::move(row));
  }
  show_lines(json_text({{"suite", "cluster"},
                        {"figures", std::move(rows)},
                        {"fragmentation", std::move(fragmentation)},
                        {"load", load},
                        {"threads", threads},
                        {"left_out", has_etcd ? json::array() : json::array({"etcd"})}}) +
             "\n");
  return {};
}

}  // namespace tessera::tools
