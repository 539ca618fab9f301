#include "local_cluster.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "arch/architecture_file.h"
#include "cluster/master_client.h"
#include "cluster/messenger.h"

namespace tessera::testing {

using nlohmann::json;

void write_secret(const std::string& path, const std::string& text) {
  using std::filesystem::perms;
  std::ofstream(path) << text;
  std::filesystem::permissions(path, perms::owner_read | perms::owner_write);
}

LocalCluster::LocalCluster(LocalClusterOptions options) {
  cluster::MasterOptions of_master{.ttl = options.ttl};
  if (!options.tenants.empty())
    of_master.tenants = cluster::Tenants::parse(options.tenants).value();
  of_master.audit = [this](const json& line) {
    const std::lock_guard lock(mutex_);
    audit_.push_back(line);
  };
  messenger_ = options.messenger;
  master = cluster::RunningMaster::start(store,
                                         {.messenger = messenger_, .master = std::move(of_master)})
               .value();
  for (int i = 0; i < options.nodes; ++i) {
    cluster::NodeOptions of_node{.id = fmt::format("n{}", i)};
    of_node.ttl = options.ttl;
    of_node.idle_limit = options.idle_limit;
    of_node.log = [this](const json& line) {
      const std::lock_guard lock(mutex_);
      log_.push_back(line);
    };
    cluster::RunningNodeOptions of_running;
    of_running.messenger = messenger_;
    of_running.advertised = options.advertised;
    of_running.shared_memory_folder = options.shared_memory_folder;
    of_running.ucx = options.ucx;
    of_running.cards.assign(static_cast<std::size_t>(options.cards),
                            *load_chip_config(options.arch));
    of_running.node = of_node;
    of_running.node.audit = [this](const json& line) {
      const std::lock_guard lock(mutex_);
      audit_.push_back(line);
    };
    nodes.push_back(cluster::RunningNode::start(store, of_running).value());
  }
  if (options.tenants.empty())
    wait_for_nodes(nodes.size() * static_cast<std::size_t>(options.cards));
}

std::string LocalCluster::address(const std::string& rest) const {
  return fmt::format("cluster:{}?patience=30{}{}", master->endpoint(), rest.empty() ? "" : "&",
                     rest);
}

Result<json> LocalCluster::ask(const json& request) const {
  const auto messenger = cluster::Messenger::create(messenger_).value();
  cluster::MasterClient client(*messenger, {master->endpoint()});
  return client.call(request, std::chrono::seconds(30));
}

json LocalCluster::call(json request) const {
  const auto answer = ask(request);
  EXPECT_TRUE(answer.ok()) << (answer.ok() ? "" : answer.error().to_string());
  return answer.ok() ? *answer : json::object();
}

void LocalCluster::wait_for_nodes(std::size_t count) const { wait_for_nodes_as("", count); }

void LocalCluster::wait_for_nodes_as(const std::string& token, std::size_t count) const {
  const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < last) {
    const auto status = ask({{"call", "status"}, {"token", token}});
    if (status.ok() && (*status)["pool"].size() == count) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  FAIL() << "there are not " << count << " nodes";
}

std::vector<json> LocalCluster::owner_log() const {
  const std::lock_guard lock(mutex_);
  return log_;
}

std::vector<json> LocalCluster::audit() const {
  const std::lock_guard lock(mutex_);
  return audit_;
}

}  // namespace tessera::testing
