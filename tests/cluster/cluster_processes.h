// Masters, nodes and an etcd as processes of their own, which a test kills and pauses.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "breaking_proxy.h"
#include "store/local_etcd.h"

namespace tessera::testing {

// `tessera VERB ... --json` in the background.
class BackgroundProgram {
 public:
  // `before` stands in front of the program ("ip", "netns", "exec", ...); `environment` are "KEY=VALUE" for it alone.
  explicit BackgroundProgram(const std::vector<std::string>& arguments,
                             const std::vector<std::string>& before = {},
                             const std::vector<std::string>& environment = {});
  ~BackgroundProgram();  // kills it
  BackgroundProgram(const BackgroundProgram&) = delete;
  BackgroundProgram& operator=(const BackgroundProgram&) = delete;

  // The next event that it says; waits.
  nlohmann::json event();
  void signal(int number) const;
  void kill();  // and waits for its end
  pid_t process() const { return process_; }

 private:
  pid_t process_ = -1;
  std::FILE* output_ = nullptr;
};

struct ClusterProcessesOptions {
  int masters = 1, nodes = 2;
  int etcd_members = 1;
  int ttl_ms = 2000;
  int idle_ms = 600;
  std::vector<std::string> node_options = {}, master_options = {};
  std::vector<std::string> environment = {};  // of both
  // Nodes and masters come to the store, its members to each other, and clients and masters to the nodes, through
  // proxies that can break.
  bool has_proxies = false;
};

class ClusterProcesses {
 public:
  explicit ClusterProcesses(const ClusterProcessesOptions& options);
  ~ClusterProcesses();

  // Empty; or why it cannot run here, as there is no etcd.
  static std::string why_not();

  const std::string& folder() const { return folder_; }
  const std::vector<std::string>& endpoints() const { return endpoints_; }  // of masters
  std::string log_path(std::size_t node) const;
  std::string address(const std::string& rest) const;
  Result<nlohmann::json> ask(const nlohmann::json& request, int patience_ms = 30000) const;
  // Until `is_so(status)`; false: not within two minutes.
  template <typename Condition>
  bool wait_for(const Condition& is_so) const {
    const auto last = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (std::chrono::steady_clock::now() < last) {
      constexpr int kForOneMs = 1000;
      const auto status = ask({{"call", "status"}}, kForOneMs);
      if (status.ok() && is_so(*status)) return true;
      pause_shortly();
    }
    return false;
  }
  // The index of the master that a status comes from.
  std::size_t leader(const nlohmann::json& status) const;
  // The index of the node that has the allocation now.
  std::size_t node_of(const std::string& alloc) const;
  void start_node(std::size_t index);
  void start_master(std::size_t index);  // where it was
  // Of a node or master, one for each member of the store; and of a node, by which others reach it.
  using Proxies = std::vector<std::unique_ptr<BreakingProxy>>;
  std::vector<Proxies> node_to_store, master_to_store;
  Proxies to_node;
  Proxies to_member;  // of the store, by which other members reach it
  // Of an allocation over several cards: runs that its first node has begun so far.
  std::size_t runs_begun(const std::string& alloc) const;
  // etcd begins again with nothing, where it was.
  void lose_store();
  // What owner logs say of an allocation: from when to when each placement could have run, by the steady clock.
  struct Owned {
    std::string node;
    std::int64_t epoch = 0, from = 0, until = 0;
  };
  std::vector<Owned> owners(const std::string& alloc) const;
  // Of all allocations in the logs: no two placements at once. Fails the test otherwise. The number of placements.
  std::size_t expect_one_owner_at_a_time() const;

  std::unique_ptr<store::LocalEtcd> etcd;
  std::vector<std::unique_ptr<BackgroundProgram>> masters, nodes;

 private:
  static void pause_shortly();
  std::string store(const std::vector<Proxies>& through, std::size_t index) const;

  ClusterProcessesOptions options_;
  std::string folder_;
  std::vector<std::string> endpoints_;  // of masters
  std::vector<int> node_ports_;         // the last ones; 0: none yet
};

}  // namespace tessera::testing
