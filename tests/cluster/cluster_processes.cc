#include "cluster_processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "cluster/master_client.h"
#include "cluster/messenger.h"

namespace tessera::testing {

using nlohmann::json;

BackgroundProgram::BackgroundProgram(const std::vector<std::string>& arguments,
                                     const std::vector<std::string>& before,
                                     const std::vector<std::string>& environment) {
  std::vector<std::string> words = before;
  words.emplace_back(TESSERA_PROGRAM);
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.emplace_back("--json");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::vector<std::string> variables = environment;
  for (char** one = environ; *one != nullptr; ++one) variables.emplace_back(*one);
  std::vector<char*> of_child;
  for (std::string& variable : variables) of_child.push_back(variable.data());
  of_child.push_back(nullptr);
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  process_ = ::fork();
  if (process_ == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::execvpe(pointers[0], pointers.data(), of_child.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  output_ = ::fdopen(ends[0], "r");
}

BackgroundProgram::~BackgroundProgram() {
  kill();
  if (output_ != nullptr) std::fclose(output_);
}

json BackgroundProgram::event() {
  std::string line;
  for (int c = std::fgetc(output_); c != EOF && c != '\n'; c = std::fgetc(output_)) {
    line += static_cast<char>(c);
  }
  return json::parse(line, nullptr, false);
}

void BackgroundProgram::signal(int number) const {
  if (process_ <= 0) return;
  ::kill(process_, number);
  // All its threads have come to a stop.
  if (number == SIGSTOP) ::waitpid(process_, nullptr, WUNTRACED);
}

void BackgroundProgram::kill() {
  if (process_ <= 0) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
  process_ = -1;
}

std::string ClusterProcesses::why_not() {
  const auto found = store::find_etcd();
  return found.ok() ? "" : found.error().message;
}

ClusterProcesses::ClusterProcesses(const ClusterProcessesOptions& options) : options_(options) {
  std::string folder = (std::filesystem::temp_directory_path() / "cluster-test-XXXXXX").string();
  folder_ = ::mkdtemp(folder.data());
  store::LocalEtcdOptions of_etcd;
  of_etcd.folder = folder_ + "/etcd";
  of_etcd.members = options.etcd_members;
  if (options.has_proxies) {
    of_etcd.way_to_member = [this](const std::string& listens) {
      return to_member.emplace_back(std::make_unique<BreakingProxy>(listens))->endpoint();
    };
  }
  etcd = store::LocalEtcd::start(of_etcd).value();
  masters.resize(static_cast<std::size_t>(options.masters));
  endpoints_.assign(masters.size(), "127.0.0.1:0");
  nodes.resize(static_cast<std::size_t>(options.nodes));
  node_ports_.resize(nodes.size());
  for (std::size_t i = 0; options.has_proxies && i < nodes.size() + masters.size(); ++i) {
    Proxies& proxies = (i < nodes.size() ? node_to_store : master_to_store).emplace_back();
    for (const std::string& member : etcd->endpoints()) {
      proxies.push_back(std::make_unique<BreakingProxy>(member));
    }
    if (i < nodes.size()) to_node.push_back(std::make_unique<BreakingProxy>());
  }
  for (std::size_t i = 0; i < masters.size(); ++i) start_master(i);
  for (std::size_t i = 0; i < nodes.size(); ++i) start_node(i);
  EXPECT_TRUE(wait_for([&](const json& status) { return status["pool"].size() == nodes.size(); }));
}

ClusterProcesses::~ClusterProcesses() {
  nodes.clear();
  masters.clear();
  etcd.reset();
  if (::testing::Test::HasFailure()) {
    fmt::print("logs are kept in {}\n", folder_);
    return;
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string ClusterProcesses::store(const std::vector<Proxies>& through, std::size_t index) const {
  if (through.empty()) return fmt::format("etcd:{}", fmt::join(etcd->endpoints(), ","));
  std::vector<std::string> endpoints;
  for (const auto& proxy : through[index]) endpoints.push_back(proxy->endpoint());
  return fmt::format("etcd:{}", fmt::join(endpoints, ","));
}
std::string ClusterProcesses::log_path(std::size_t node) const {
  return fmt::format("{}/n{}.log", folder_, node);
}

void ClusterProcesses::start_master(std::size_t index) {
  const std::string port = endpoints_[index].substr(endpoints_[index].rfind(':') + 1);
  std::vector<std::string> arguments = {
      "master", "--store",  store(master_to_store, index),  "--port",
      port,     "--ttl-ms", std::to_string(options_.ttl_ms)};
  arguments.insert(arguments.end(), options_.master_options.begin(), options_.master_options.end());
  masters[index].reset();
  masters[index] = std::make_unique<BackgroundProgram>(arguments, std::vector<std::string>{},
                                                       options_.environment);
  const json event = masters[index]->event();
  EXPECT_EQ(event.value("event", ""), "start") << event;
  endpoints_[index] = event.value("endpoint", "");
}

void ClusterProcesses::start_node(std::size_t index) {
  std::vector<std::string> arguments = {"node",
                                        "--store",
                                        store(node_to_store, index),
                                        "--id",
                                        fmt::format("n{}", index),
                                        "--ttl-ms",
                                        std::to_string(options_.ttl_ms),
                                        "--idle-ms",
                                        std::to_string(options_.idle_ms),
                                        "--owner-log",
                                        log_path(index)};
  arguments.insert(arguments.end(), options_.node_options.begin(), options_.node_options.end());
  if (options_.has_proxies) {
    arguments.insert(arguments.end(), {"--advertise", to_node[index]->endpoint(), "--port",
                                       std::to_string(node_ports_[index])});
  }
  nodes[index].reset();
  nodes[index] = std::make_unique<BackgroundProgram>(arguments, std::vector<std::string>{},
                                                     options_.environment);
  const json event = nodes[index]->event();
  EXPECT_EQ(event.value("event", ""), "start") << event;
  node_ports_[index] = event.value("port", 0);
  if (options_.has_proxies) {
    to_node[index]->set_target(fmt::format("127.0.0.1:{}", node_ports_[index]));
  }
}

std::size_t ClusterProcesses::runs_begun(const std::string& alloc) const {
  std::size_t runs = 0;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    std::ifstream file(log_path(node));
    for (std::string text; std::getline(file, text);) {
      const json line = json::parse(text, nullptr, false);
      if (!line.is_object() || line.value("event", "") != "run") continue;
      if (line.value("alloc", "") == alloc) ++runs;
    }
  }
  return runs;
}

void ClusterProcesses::lose_store() {
  etcd->kill(0);
  std::filesystem::remove_all(folder_ + "/etcd/m0");
  const Status begun = etcd->restart(0);
  EXPECT_TRUE(begun.ok()) << begun.error().to_string();
}

std::string ClusterProcesses::address(const std::string& rest) const {
  return fmt::format("cluster:{}?patience=60&{}", fmt::join(endpoints_, ","), rest);
}

Result<json> ClusterProcesses::ask(const json& request, int patience_ms) const {
  const auto messenger = cluster::Messenger::create().value();
  cluster::MasterClient client(*messenger, endpoints_);
  return client.call(request, std::chrono::milliseconds(patience_ms));
}

void ClusterProcesses::pause_shortly() {
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

std::size_t ClusterProcesses::leader(const json& status) const {
  const auto found = std::ranges::find(endpoints_, status.value("master", ""));
  EXPECT_NE(found, endpoints_.end()) << status;
  return found == endpoints_.end() ? 0 : static_cast<std::size_t>(found - endpoints_.begin());
}

std::size_t ClusterProcesses::node_of(const std::string& alloc) const {
  const auto where = ask({{"call", "locate"}, {"alloc", alloc}});
  const std::string node = where.ok() ? where->value("node", "") : "";
  EXPECT_FALSE(node.empty()) << alloc;
  return node.empty() ? 0 : static_cast<std::size_t>(std::stoi(node.substr(1)));
}

// An end that a log does not say is that of the last time until which the node said it would hold on: it had
// fenced itself by then, or was gone.
std::vector<ClusterProcesses::Owned> ClusterProcesses::owners(const std::string& alloc) const {
  std::vector<Owned> all;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    std::ifstream file(log_path(node));
    std::int64_t held_until = 0;
    std::size_t open = all.size();
    for (std::string text; std::getline(file, text);) {
      const json line = json::parse(text, nullptr, false);
      if (!line.is_object()) continue;  // killed while it wrote
      const std::string event = line["event"];
      const bool is_new = event == "registered";
      if (event == "held" || is_new) {
        const std::int64_t until = line["until_ns"];
        if (open < all.size())
          all[open].until = is_new ? std::min(all[open].until, held_until) : until;
        if (is_new) open = all.size();
        held_until = until;
      }
      if (line.value("alloc", "") != alloc || event == "run") continue;
      const std::int64_t now = line["t_ns"];
      if (event == "own" && open == all.size()) {
        all.push_back({line["node"], line["epoch"], now, held_until});
      } else if (event == "disown" && open < all.size()) {
        all[open].until = std::min(all[open].until, now);
        open = all.size();
      }
    }
  }
  std::ranges::sort(all, {}, &Owned::from);
  return all;
}

std::size_t ClusterProcesses::expect_one_owner_at_a_time() const {
  std::size_t placements = 0;
  std::set<std::string> allocs;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    std::ifstream file(log_path(node));
    for (std::string text; std::getline(file, text);) {
      const json line = json::parse(text, nullptr, false);
      if (line.is_object() && line.contains("alloc"))
        allocs.insert(line["alloc"].get<std::string>());
    }
  }
  for (const std::string& alloc : allocs) {
    const std::vector<Owned> all = owners(alloc);
    placements += all.size();
    for (std::size_t i = 1; i < all.size(); ++i) {
      // Nodes of one placement have it together.
      if (all[i - 1].epoch == all[i].epoch && all[i - 1].node != all[i].node) continue;
      EXPECT_LE(all[i - 1].until, all[i].from)
          << alloc << ": on " << all[i - 1].node << " (epoch " << all[i - 1].epoch << ") and on "
          << all[i].node << " (epoch " << all[i].epoch << ")";
      EXPECT_LT(all[i - 1].epoch, all[i].epoch) << alloc;
    }
  }
  return placements;
}

}  // namespace tessera::testing
