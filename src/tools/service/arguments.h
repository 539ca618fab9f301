// Options of the verbs that tessera-service carries out. The command has them too, for its help, its manual
// pages and its messages.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/messenger.h"

namespace tessera::tools {

struct ServeArguments {
  std::string repository;
  std::string address = "127.0.0.1";
  int port = 8000;
  std::optional<int> grpc_port, metrics_port;
  std::string certificate, key, token_file, trace_file;
  bool without_tls = false;
  std::string device, arch, cluster;  // empty: not given
  int instances = 1, threads = 0, cores = 1;
  std::int64_t request_bytes = std::int64_t{64} << 20;
  int connections = 1024;
  double shutdown_seconds = 30, seconds = 0;
  bool json = false;

  void add_to(CLI::App& app);
};

// The certificates of this machine, for masters, nodes and who asks them.
struct TlsArguments {
  std::string authority, certificate, key;
  bool without_tls = false;

  void add_to(CLI::App& app, const std::string& without_tls_help);
  Result<cluster::MessengerOptions> messenger() const;
};

// What masters and nodes have in common: where they listen, which store they use, how long they run.
struct ServiceArguments {
  std::string store;
  std::string address = "127.0.0.1", advertised;
  int port = 0;
  TlsArguments tls;
  bool store_tls = false;
  int ttl_ms = 3000;
  double seconds = 0;
  bool json = false, end_with_input = false;

  void add_to(CLI::App& app, const char* port_option, int port_default);
};

struct MasterArguments {
  ServiceArguments service;
  std::string tenants_file, audit_file;

  void add_to(CLI::App& app);
};

struct NodeArguments {
  ServiceArguments service;
  std::string id, arch = "cloud16", on_control_loss = "fence", owner_log, audit_file,
                  shared_memory = "auto";
  int cards = 1, idle_ms = 5000;
  bool ucx = false, is_timed = false;

  void add_to(CLI::App& app);
};

struct ClusterArguments {
  std::string action, what;
  std::vector<std::string> masters = {"127.0.0.1:7400"};
  std::string arch, node, tenant, token_file;
  int cores = 0, nodes = 4, cards = 1, port = 7400, ttl_ms = 3000;
  std::string address = "127.0.0.1", command, http = "8080", file;
  std::int64_t memory_bytes = 0, weight = 1, after = 0;
  bool undo = false, etcd = false, is_timed = false, json = false, head = false;
  double seconds = 0, patience = 10, start_seconds = 60;
  TlsArguments tls;

  void add_to(CLI::App& app);

 private:
  void add_slurm_options(CLI::App& app);
  void add_watch_options(CLI::App& app);
};

}  // namespace tessera::tools
