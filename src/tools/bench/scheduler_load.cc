#include "tools/bench/scheduler_load.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "cluster/master.h"
#include "store/in_process_store.h"

namespace tessera::tools {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr int kCoresOfGroup = 4;

// Nodes that do what they are told.
class WillingNodes : public cluster::Caller {
 public:
  Result<json> call(const std::string& endpoint, const json& request,
                    milliseconds /*timeout*/) override {
    if (request.value("call", "") != "list") return json::object();
    return json{{"incarnation", endpoint}, {"allocs", json::array()}};
  }
};

double processor_us() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e6 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_nsec);
}

// Most are small, and some want a whole card.
int random_cores(std::mt19937_64& random) {
  const auto share = random() % 100;
  if (share < 60) return 1;
  if (share < 78) return 2;
  if (share < 93) return 4;
  return share < 99 ? 8 : 16;
}

Status write_nodes(const SchedulerLoadOptions& options, store::Store& store) {
  for (int i = 0; i < options.nodes; ++i) {
    cluster::NodeRecord node;
    node.id = fmt::format("n{:04}", i);
    node.incarnation = node.endpoint = node.id;
    node.cards = {{.arch = "cloud16",
                   .fingerprint = "0123456789abcdef",
                   .groups = options.cores_per_node / kCoresOfGroup,
                   .cores_per_group = kCoresOfGroup,
                   .memory_bytes = std::int64_t{16} << 30}};
    TESSERA_TRY(
        const auto done,
        store.commit({.puts = {{cluster::node_key(node.id), encode(node), 0}}}, milliseconds(0)));
    (void)done;
  }
  return {};
}

json request_of(const char* call, int tenant) {
  return {{"call", call}, {"tenant", fmt::format("t{:05}", tenant)}};
}

struct LoadedMaster {
  store::InProcessStore store{store::StoreTime::kManual};
  WillingNodes nodes;
  cluster::Master master{
      store,
      nodes,
      [this] { return std::chrono::steady_clock::time_point(std::chrono::hours(1)) + store.now(); },
      {.endpoint = "m"}};
  std::map<int, std::string> allocations;  // by tenant

  // Simulated time goes on as if a request came every millisecond.
  void pass(milliseconds time) {
    store.advance(time);
    master.tick();
  }
  Status step(int tenant, std::mt19937_64& random, SchedulerLoad& load);
};

Status LoadedMaster::step(int tenant, std::mt19937_64& random, SchedulerLoad& load) {
  const auto has = allocations.find(tenant);
  if (has == allocations.end()) {
    json request = request_of("acquire", tenant);
    request["cores"] = random_cores(random);
    request["kept"] = true;
    const auto got = master.handle(request);
    if (!got.ok()) {
      if (!master.is_leading()) return got.error();
      ++load.refused;
      return {};
    }
    ++load.acquired;
    load.choose_us.push_back((*got)["times"]["choose_us"]);
    allocations[tenant] = (*got)["alloc"];
    return {};
  }
  if (random() % 2 == 0) return {};
  json request = request_of("release", tenant);
  request["alloc"] = has->second;
  TESSERA_TRY(const json freed, master.handle(request));
  ++load.released;
  allocations.erase(has);
  return {};
}

// Which cores are free, from what the master says.
void look_at_cores(const SchedulerLoadOptions& options, const json& status, SchedulerLoad& load) {
  const auto groups = static_cast<std::size_t>(options.cores_per_node / kCoresOfGroup);
  std::map<std::string, std::vector<int>> users;  // by node and group
  for (const json& card : status["pool"]) {
    users[card["node"]].resize(groups);
    load.cores += card["cores"].get<std::int64_t>();
    load.free += card["free"].get<std::int64_t>();
    for (SchedulerLoad::Size& size : load.sizes) {
      size.fits += card["free"].get<std::int64_t>() / size.cores;
    }
  }
  const auto groups_of = [](const json& alloc) {
    std::vector<std::size_t> of;
    for (const json& core : alloc["cores"]) {
      of.push_back(core.get<std::size_t>() / kCoresOfGroup);
    }
    of.erase(std::unique(of.begin(), of.end()), of.end());
    return of;
  };
  for (const json& alloc : status["allocs"]) {
    for (const std::size_t group : groups_of(alloc)) ++users[alloc["node"]][group];
  }
  for (const json& alloc : status["allocs"]) {
    ++load.allocations;
    const auto of = groups_of(alloc);
    load.alone += std::ranges::all_of(
        of, [&](std::size_t group) { return users[alloc["node"]][group] == 1; });
  }
  for (SchedulerLoad::Size& size : load.sizes) {
    if (load.free == 0) continue;
    size.fragmentation =
        1 - static_cast<double>(size.fits * size.cores) / static_cast<double>(load.free);
  }
}

}  // namespace

Result<SchedulerLoad> run_scheduler_load(const SchedulerLoadOptions& options) {
  LoadedMaster loaded;
  TESSERA_RETURN_IF_ERROR(write_nodes(options, loaded.store));
  while (!loaded.master.is_leading()) loaded.pass(milliseconds(50));
  loaded.pass(milliseconds(300));
  SchedulerLoad load;
  for (const int cores : {1, 2, 4, 8, 16}) load.sizes.push_back({.cores = cores});
  std::mt19937_64 random(options.seed);
  constexpr int kStepsOfTick = 100;
  double spent_us = 0;
  for (int i = 0; i < options.steps; ++i) {
    if (i % kStepsOfTick == 0) loaded.pass(milliseconds(kStepsOfTick));
    const double begin = processor_us();
    TESSERA_RETURN_IF_ERROR(loaded.step(
        static_cast<int>(random() % static_cast<std::uint64_t>(options.tenants)), random, load));
    spent_us += processor_us() - begin;
  }
  load.request_processor_us = spent_us / static_cast<double>(std::max<std::int64_t>(
                                             1, load.acquired + load.refused + load.released));
  std::ranges::sort(load.choose_us);
  TESSERA_TRY(const json status, loaded.master.handle(request_of("status", 0)));
  look_at_cores(options, status, load);
  return load;
}

}  // namespace tessera::tools
