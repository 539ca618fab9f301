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
#include "cluster/tcp.h"

namespace tessera::testing {

using nlohmann::json;

BackgroundProgram::BackgroundProgram(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {TESSERA_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.emplace_back("--json");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  process_ = ::fork();
  if (process_ == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::execv(TESSERA_PROGRAM, pointers.data());
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
  etcd = store::LocalEtcd::start(of_etcd).value();
  for (int i = 0; i < options.masters; ++i) {
    masters.push_back(std::make_unique<BackgroundProgram>(std::vector<std::string>{
        "master", "--store", store(), "--port", "0", "--ttl-ms", std::to_string(options.ttl_ms)}));
    endpoints_.push_back(masters.back()->event().at("endpoint"));
  }
  nodes.resize(static_cast<std::size_t>(options.nodes));
  for (std::size_t i = 0; i < nodes.size(); ++i) start_node(i);
  EXPECT_TRUE(wait_for([&](const json& status) { return status["pool"].size() == nodes.size(); }));
}

ClusterProcesses::~ClusterProcesses() {
  nodes.clear();
  masters.clear();
  etcd.reset();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string ClusterProcesses::store() const { return "etcd:" + etcd->endpoints()[0]; }
std::string ClusterProcesses::log_path(std::size_t node) const {
  return fmt::format("{}/n{}.log", folder_, node);
}

void ClusterProcesses::start_node(std::size_t index) {
  std::vector<std::string> arguments = {"node",
                                        "--store",
                                        store(),
                                        "--id",
                                        fmt::format("n{}", index),
                                        "--ttl-ms",
                                        std::to_string(options_.ttl_ms),
                                        "--idle-ms",
                                        std::to_string(options_.idle_ms),
                                        "--owner-log",
                                        log_path(index)};
  arguments.insert(arguments.end(), options_.node_options.begin(), options_.node_options.end());
  nodes[index] = std::make_unique<BackgroundProgram>(arguments);
  EXPECT_EQ(nodes[index]->event().value("event", ""), "start");
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
  const auto dialer = cluster::make_tcp_dialer();
  cluster::MasterClient client(*dialer, endpoints_);
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
      if (line.value("alloc", "") != alloc) continue;
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

void ClusterProcesses::expect_one_owner_at_a_time() const {
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
    for (std::size_t i = 1; i < all.size(); ++i) {
      EXPECT_LE(all[i - 1].until, all[i].from)
          << alloc << ": on " << all[i - 1].node << " (epoch " << all[i - 1].epoch << ") and on "
          << all[i].node << " (epoch " << all[i].epoch << ")";
      EXPECT_LT(all[i - 1].epoch, all[i].epoch) << alloc;
    }
  }
}

}  // namespace tessera::testing
