// `tessera cluster`, `master` and `node`: what they print, and what they say of what is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "command.h"
#include "dashboard/http_client.h"
#include "dashboard/page.h"

namespace tessera::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// `tessera cluster try` in the background.
class Tried {
 public:
  explicit Tried(const std::string& options) {
    prepare();
    const std::string command =
        "echo $$; exec " + std::string(TESSERA_PROGRAM) + " cluster try --port 0 --json " + options;
    pipe_ = popen(command.c_str(), "r");
    process_ = std::stoi(read_line(pipe_));
    start_ = json::parse(read_line(pipe_), nullptr, false);
  }
  ~Tried() {
    if (pipe_ == nullptr) return;
    kill(process_, SIGKILL);
    pclose(pipe_);
  }
  CommandResult ask(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "cluster");
    arguments.insert(arguments.end(), {"--master", start_.value("master", "")});
    return tessera(arguments);
  }
  // Its status.
  int end(int signal = SIGTERM) {
    kill(process_, signal);
    while (!read_line(pipe_).empty()) {
    }
    return pclose(std::exchange(pipe_, nullptr));
  }
  const json& start() const { return start_; }

 private:
  FILE* pipe_ = nullptr;
  int process_ = 0;
  json start_;
};

TEST(ClusterCommand, DoctorSaysWhatIsWellAndWhatIsNot) {
  Tried cluster("--nodes 2");
  const std::string master = cluster.start().value("master", "");
  const CommandResult well = tessera({"doctor", "--cluster", master, "--json"});
  ASSERT_EQ(well.status, 0) << well.out << well.err;
  EXPECT_EQ(well.json()["ok"], true);
  const CommandResult ill = tessera({"doctor", "--cluster", master, "--cluster", "127.0.0.1:1"});
  EXPECT_EQ(ill.status, 1);
  EXPECT_THAT(ill.out,
              HasSubstr("error    master        127.0.0.1:1: nobody answers at '127.0.0.1:1'"));
  EXPECT_THAT(ill.out, HasSubstr("ok       daemons       all: 2 of 2 nodes answer"));
  EXPECT_EQ(ill.err, "tessera doctor: 1 check failed   [unavailable]\n");
  EXPECT_EQ(tessera({"doctor", "--certificate", "x.pem"}).err,
            "tessera doctor: --certificate belongs to --cluster   [invalid argument]\n");
}

// One place to scrape for the whole cluster: what nodes count of allocations comes to it within seconds.
TEST(ClusterCommand, WatchHasThePoolForPrometheus) {
  if (dashboard::page_files().empty()) GTEST_SKIP() << "the page was not built: there is no npm";
  Tried cluster("--nodes 2");
  const std::string master = cluster.start().value("master", "");
  ASSERT_EQ(cluster.ask({"alloc", "p", "--cores", "3"}).status, 0);
  ASSERT_EQ(tessera({"run", "small.onnx", "--arch", "cloud16", "--device",
                     "cluster:" + master + "?alloc=p"})
                .status,
            0);
  FILE* const watch =
      popen((std::string(TESSERA_PROGRAM) +
             " cluster watch --http 0 --json --seconds 60 --master " + master + " & echo $!; wait")
                .c_str(),
            "r");
  const int process = std::stoi(read_line(watch));
  const std::string url = json::parse(read_line(watch)).value("url", "");
  dashboard::HttpClient client = dashboard::HttpClient::at(url).value();
  const std::string runs =
      "\ntessera_cluster_runs_total{tenant=\"default\",allocation=\"p\",node=\"";
  std::string text;
  for (int i = 0; i < 300 && text.find(runs) == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    text = client.get("/metrics").value().body;
  }
  kill(process, SIGTERM);
  pclose(watch);
  EXPECT_THAT(text, HasSubstr("\ntessera_cluster_up 1\n"));
  EXPECT_THAT(text, HasSubstr("\ntessera_cluster_node_up{node=\"n1\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("\ntessera_cluster_cores{node=\"n0\",card=\"0\",arch=\"cloud16\"} 16\n"));
  EXPECT_THAT(text, HasSubstr("arch=\"cloud16\"} 13\n"));  // free, where the allocation is
  EXPECT_THAT(text,
              HasSubstr("\ntessera_cluster_allocation_cores{tenant=\"default\",allocation=\"p\","));
  EXPECT_THAT(text, HasSubstr(runs));
  EXPECT_THAT(text, HasSubstr("\ntessera_cluster_bytes_in_total{"));
}

// Those that are not there are passed over, in whatever form they are given.
TEST(ClusterCommand, TakesSeveralMasters) {
  Tried cluster("--nodes 1");
  const std::string master = cluster.start().value("master", ""), none = "127.0.0.1:1";
  for (const std::vector<std::string>& masters :
       {std::vector<std::string>{"--master", none + "," + master},
        {"--master", master + "," + none},
        {"--master", none, "--master", master}}) {
    std::vector<std::string> arguments = {"cluster"};
    arguments.insert(arguments.end(), masters.begin(), masters.end());
    arguments.insert(arguments.end(), {"nodes", "--json"});
    const CommandResult nodes = tessera(arguments);
    ASSERT_EQ(nodes.status, 0) << nodes.err;
    EXPECT_EQ(nodes.json()["nodes"].size(), 1u);
  }
  const CommandResult alloc =
      tessera({"cluster", "alloc", "a", "--master", none + "," + master, "--json"});
  ASSERT_EQ(alloc.status, 0) << alloc.err;
  const std::string device = alloc.json().value("device", "");
  EXPECT_EQ(device, "cluster:" + none + "," + master + "?alloc=a");
  EXPECT_EQ(tessera({"run", "relu.onnx", "--arch", "cloud16", "--device", device}).status, 0);
  const CommandResult doctor = tessera({"doctor", "--cluster", none + "," + master});
  EXPECT_THAT(doctor.out, HasSubstr("127.0.0.1:1: nobody answers"));
  EXPECT_THAT(doctor.out, HasSubstr("ok       master        " + master + ": leads"));
}

TEST(ClusterCommand, TriesAClusterAndShowsWhatIsInIt) {
  Tried cluster("--nodes 2 --cards 2");
  ASSERT_EQ(cluster.start().value("event", ""), "start");
  const CommandResult nodes = cluster.ask({"nodes", "--json"});
  ASSERT_EQ(nodes.status, 0) << nodes.err;
  EXPECT_EQ(nodes.json()["nodes"].size(), 2u);
  EXPECT_EQ(nodes.json()["nodes"][0]["cards"].size(), 2u);
  const CommandResult alloc = cluster.ask({"alloc", "a", "--cores", "4", "--json"});
  ASSERT_EQ(alloc.status, 0) << alloc.err;
  EXPECT_EQ(alloc.json()["cores"], json({0, 1, 2, 3}));
  EXPECT_FALSE(alloc.json().contains("ticket"));
  // It is a device.
  const CommandResult resized = cluster.ask({"resize", "a", "--cores", "8", "--json"});
  ASSERT_EQ(resized.status, 0) << resized.err;
  EXPECT_EQ(resized.json()["cores"].size(), 8u);
  const CommandResult pool = cluster.ask({"pool"});
  EXPECT_THAT(pool.out, HasSubstr("n0       0       cloud16     16     8         -"));
  EXPECT_THAT(pool.out, HasSubstr("0 1 2 3 4 5 6 7      1  placed"));
  EXPECT_EQ(cluster.ask({"drain", "n1"}).out, "n1: gets nothing new; 0 allocations are on it\n");
  EXPECT_EQ(cluster.ask({"drain", "n1", "--undo"}).out,
            "n1: in use again; 0 allocations are on it\n");
  EXPECT_EQ(cluster.ask({"free", "a"}).out, "a: given back\n");
  EXPECT_THAT(cluster.ask({"events"}).out, HasSubstr("'a': its tenant gives it back"));
  EXPECT_EQ(cluster.ask({"pool", "--json"}).json()["allocs"], json::array());
  EXPECT_EQ(cluster.end(), 0);
}

// What has nothing to give back is ended by the system: no library may have taken the signal before.
TEST(ClusterCommand, WhatWaitsForAMasterIsEndedByItsTerminal) {
  prepare();
  const std::string command =
      "echo $$; exec " TESSERA_PROGRAM
      " run relu.onnx --arch cloud16 --device 'cluster:127.0.0.1:1?patience=60' 2>&1";
  FILE* const pipe = popen(command.c_str(), "r");
  const int process = std::stoi(read_line(pipe));
  const std::filesystem::path threads = "/proc/" + std::to_string(process) + "/task";
  const auto count = [&] {
    return std::distance(std::filesystem::directory_iterator(threads), {});
  };
  while (count() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  kill(process, SIGHUP);
  EXPECT_EQ(read_line(pipe), "");
  const int status = pclose(pipe);
  // The shell may stand between us and the program, or have become it.
  EXPECT_EQ(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), 128 + SIGHUP);
}

TEST(ClusterCommand, APartOfItEndsWellWithItsTerminal) {
  Tried cluster("--nodes 1");
  ASSERT_EQ(cluster.start().value("event", ""), "start");
  EXPECT_EQ(cluster.end(SIGHUP), 0);
}

TEST(ClusterCommand, RunsAProgramOfOneCoreAndSaysWhatItDoesOtherwise) {
  Tried cluster("--nodes 1");
  const std::string device = "cluster:" + cluster.start().value("master", "");
  ASSERT_EQ(tessera({"compile", "small.onnx", "--arch", "cloud16", "-o", "p.tpkg"}).status, 0);
  ASSERT_EQ(tessera({"link", "p.tpkg", "-o", "p.tprog"}).status, 0);
  ASSERT_EQ(tessera({"link", "p.tpkg", "--cores", "4", "-o", "p4.tprog"}).status, 0);
  ASSERT_EQ(tessera({"run", "p.tprog", "--output", "here"}).status, 0);
  const CommandResult there = tessera({"run", "p.tprog", "--device", device, "--output", "there"});
  ASSERT_EQ(there.status, 0) << there.err;
  EXPECT_EQ(read_text("there/y.npy"), read_text("here/y.npy"));
  const auto error = [&](const std::vector<std::string>& arguments) {
    const CommandResult result = tessera(arguments);
    EXPECT_EQ(result.status, 1);
    return result.err;
  };
  EXPECT_EQ(error({"run", "p4.tprog", "--device", device}),
            "tessera run: 'p4.tprog' is a program for 4 cores; a processor of a cluster takes one "
            "for one core ('tessera link' without --cores), or the package or the model, which its "
            "node makes ready for the cores that there are   [unsupported]\n");
  EXPECT_THAT(error({"run", "p.tprog", "--device", device + "?cores=2"}),
              HasSubstr("'p.tprog' is a program for one core, and here are 2; take one core"));
  EXPECT_EQ(
      error({"run", "p.tprog", "--unverified", "--device", device}),
      "tessera run: --unverified is for programs on a device of this machine; the device is " +
          device + "   [invalid argument]\n");
}

// The suite of the figures with a small cluster in simulation; the running one is of processes in any case.
TEST(ClusterCommand, MeasuresAllocationsAndTheSchedulerOfALargeCluster) {
  const CommandResult result =
      tessera({"bench", "--suite", "cluster", "--nodes", "20", "--repeat", "1", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const json report = result.json();
  std::size_t goals = 0;
  for (const json& figure : report.at("figures")) {
    EXPECT_GE(figure.at("value"), 0.0) << figure;
    goals += figure.at("goal").is_null() ? 0 : 1;
  }
  EXPECT_EQ(goals, 6u);  // acquire; resize, the first too, and link of each; a decision
  ASSERT_EQ(report.at("fragmentation").size(), 5u);
  EXPECT_EQ(report.at("fragmentation")[0].at("fragmentation"), 0.0);  // single cores fit anywhere
  for (const json& size : report.at("fragmentation")) {
    EXPECT_LE(size.at("fragmentation"), 1.0) << size;
  }
}

TEST(ClusterCommand, SaysWhatIsWrong) {
  Tried cluster("--nodes 1");
  const auto error = [&](const std::vector<std::string>& arguments) {
    const CommandResult result = cluster.ask(arguments);
    EXPECT_EQ(result.status, 1);
    return result.err;
  };
  EXPECT_EQ(
      error({"alloc", "--cores", "17"}),
      "tessera cluster: 17 cores are wanted; of the 1 cards none has as many free (the most is "
      "16), with the memory that is wanted; take less, or wait until others leave   "
      "[unavailable]\n");
  EXPECT_EQ(error({"alloc", "a b"}),
            "tessera cluster: request: name 'a b'; allowed are 1 to 64 letters, digits, '.', '_' "
            "and '-'   [invalid argument]\n");
  EXPECT_EQ(error({"alloc", "--arch", "edge"}),
            "tessera cluster: there is no card of 'edge' in the cluster   [unavailable]\n");
  EXPECT_EQ(error({"free", "x"}),
            "tessera cluster: tenant 'default' has no allocation 'x'   [invalid argument]\n");
  EXPECT_EQ(error({"free"}),
            "tessera cluster: free takes the allocation's name   [invalid argument]\n");
  EXPECT_EQ(error({"drain", "n7"}),
            "tessera cluster: there is no node 'n7'; there are n0   [invalid argument]\n");
  EXPECT_EQ(error({"list"}),
            "tessera cluster: there is no 'list'; allowed are try, slurm, nodes, pool, watch, "
            "events, alloc, free, resize, drain   [invalid argument]\n");
  EXPECT_THAT(tessera({"cluster", "nodes", "--master", "127.0.0.1:1", "--patience", "0.1"}).err,
              HasSubstr("nobody answers at '127.0.0.1:1'"));
  EXPECT_THAT(tessera({"cluster", "nodes", "--master", "127.0.0.1"}).err,
              HasSubstr("--master: '127.0.0.1' is no HOST:PORT of a master; allowed are "
                        "HOST:PORT[,HOST:PORT...]"));
  EXPECT_THAT(tessera({"doctor", "--cluster", "h:1,h"}).err,
              HasSubstr("--cluster: 'h' is no HOST:PORT of a master"));
  write_text("tenants.json", R"({"tenants": []})");
  std::filesystem::permissions("tenants.json", std::filesystem::perms(0644));
  EXPECT_THAT(tessera({"master", "--store", "etcd:h:1", "--tenants-file", "tenants.json"}).err,
              HasSubstr("'tenants.json' has secrets and others may read or change it (mode 0644); "
                        "chmod 600 it"));
  EXPECT_THAT(tessera({"node", "--id", "n", "--store", "zookeeper"}).err,
              HasSubstr("allowed is etcd:HOST:PORT"));
  EXPECT_THAT(tessera({"node", "--id", "a/b", "--store", "etcd:h:1"}).err,
              HasSubstr("allowed are 1 to 64 letters"));
  EXPECT_THAT(tessera({"cluster", "slurm"}).err, HasSubstr("there is no allocation of Slurm here"));
  EXPECT_THAT(tessera({"master", "--store", "etcd:h:1", "--address", "0.0.0.0"}).err,
              HasSubstr("there is no TLS"));
}

}  // namespace
}  // namespace tessera::cli
