// A cluster in this process: a store, a master and nodes on loopback.
#pragma once

#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cluster/processes.h"
#include "store/in_process_store.h"

namespace tessera::testing {

// A file that its owner alone may read.
void write_secret(const std::string& path, const std::string& text);

struct LocalClusterOptions {
  int nodes = 1, cards = 1;  // of each
  std::string arch = "cloud16";
  std::chrono::milliseconds ttl{2000}, idle_limit{5000};
  std::string tenants = {};  // the text of the file; empty: none
  cluster::MessengerOptions messenger = {};
  std::string shared_memory_folder = {}, advertised = {};
  bool ucx = false;
};

class LocalCluster {
 private:
  // Before those that write them.
  mutable std::mutex mutex_;  // of the lines
  std::vector<nlohmann::json> log_, audit_;
  cluster::MessengerOptions messenger_;

 public:
  explicit LocalCluster(LocalClusterOptions options = {});

  // "cluster:HOST:PORT?" and what follows.
  std::string address(const std::string& rest = "") const;
  // To the master; the test fails if that refuses.
  nlohmann::json call(nlohmann::json request) const;
  Result<nlohmann::json> ask(const nlohmann::json& request) const;
  // Until so many nodes are there.
  void wait_for_nodes(std::size_t count) const;
  void wait_for_nodes_as(const std::string& token, std::size_t count) const;
  // Lines that the nodes and the master have written so far.
  std::vector<nlohmann::json> owner_log() const;
  std::vector<nlohmann::json> audit() const;

  store::InProcessStore store;
  std::unique_ptr<cluster::RunningMaster> master;
  std::vector<std::unique_ptr<cluster::RunningNode>> nodes;
};

}  // namespace tessera::testing
