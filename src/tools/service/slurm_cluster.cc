#include "tools/service/slurm_cluster.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "arch/architecture_file.h"
#include "cluster/master_client.h"
#include "cluster/messenger.h"
#include "cluster/processes.h"
#include "store/etcd_store.h"
#include "store/local_etcd.h"
#include "tools/background_child.h"
#include "tools/child_process.h"
#include "tools/service/process.h"
#include "tools/service/until_end.h"
#include "tools/terminal/console.h"
#include "tools/terminal/standard_streams.h"

namespace tessera::tools {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Steps that are told to end give up their leases first.
constexpr milliseconds kForEnd{5000};

Error unavailable(std::string message) { return {ErrorCode::kUnavailable, std::move(message)}; }

milliseconds of_seconds(double seconds) {
  return milliseconds(static_cast<std::int64_t>(1e3 * seconds));
}

std::string architecture_of(const ClusterArguments& arguments) {
  return arguments.arch.empty() ? "cloud16" : arguments.arch;
}

bool has_tls(const ClusterArguments& arguments) { return !arguments.tls.authority.empty(); }

// What every step is told of it. Each machine has files of its own at these paths.
std::vector<std::string> tls_words(const TlsArguments& tls) {
  if (tls.without_tls) return {"--without-tls"};
  if (tls.authority.empty()) return {};
  return {"--tls-authority", tls.authority, "--tls-certificate",
          tls.certificate,   "--tls-key",   tls.key};
}

// ---- the head: what one node of the allocation has besides ----

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

Status run_head(const ClusterArguments& arguments) {
  const std::string host = is_loopback(arguments.address) ? arguments.address : host_name();
  TESSERA_TRY(const cluster::MessengerOptions messenger, arguments.tls.messenger());
  end_on_signals();
  TESSERA_TRY(const ScratchFolder folder, ScratchFolder::make());
  store::LocalEtcdOptions of_etcd;
  of_etcd.folder = folder.path("etcd");
  of_etcd.address = arguments.address;
  of_etcd.host = host;
  store::EtcdOptions to;
  if (has_tls(arguments)) {
    of_etcd.authority_file = to.authority_file = arguments.tls.authority;
    of_etcd.certificate_file = to.certificate_file = arguments.tls.certificate;
    of_etcd.key_file = to.key_file = arguments.tls.key;
  }
  TESSERA_TRY(const auto etcd, store::LocalEtcd::start(of_etcd));
  to.endpoints = etcd->endpoints();
  TESSERA_TRY(const auto store, store::connect_etcd(to));
  const milliseconds ttl(arguments.ttl_ms);
  cluster::RunningMasterOptions options{.address = arguments.address,
                                        .port = arguments.port,
                                        .advertised = host,
                                        .messenger = messenger,
                                        .master = {.ttl = ttl, .store_timeout = ttl / 4},
                                        .facts = facts_of({})};
  TESSERA_TRY(auto master, cluster::RunningMaster::start(*store, std::move(options)));
  const std::string records = "etcd:" + etcd->endpoints()[0];
  tell_event(true, {{"event", "start"}, {"endpoint", master->endpoint()}, {"store", records}}, "");
  TESSERA_RETURN_IF_ERROR(check_standard_output());
  wait_until_end(0, true);
  return {};
}

// ---- the allocation ----

Result<int> nodes_of_allocation() {
  const char* const job = std::getenv("SLURM_JOB_ID");
  const char* const text = std::getenv("SLURM_JOB_NUM_NODES");
  int nodes = 0;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), nodes);
  if (job != nullptr && nodes > 0) return nodes;
  return unavailable(
      "there is no allocation of Slurm here (SLURM_JOB_ID and SLURM_JOB_NUM_NODES are not set); "
      "begin one: "
      "salloc -N 4 tessera cluster slurm, or call this in a script of sbatch");
}

std::vector<std::string> srun(int nodes) {
  return {"srun",
          fmt::format("--nodes={}", nodes),
          fmt::format("--ntasks={}", nodes),
          "--ntasks-per-node=1",
          "--overlap",
          "--cpu-bind=none",
          "--mem=0",
          "--kill-on-bad-exit=0"};
}

// Nodes of several machines cannot meet on loopback.
Status check_machines(const ClusterArguments& arguments, int nodes, milliseconds time) {
  std::vector<std::string> words = srun(nodes);
  words.insert(words.end(), {"hostname"});
  TESSERA_TRY(const auto child, BackgroundChild::start(words, BackgroundChild::Output::kRead));
  std::set<std::string> hosts;
  for (int i = 0; i < nodes; ++i) {
    TESSERA_TRY(const std::string host, child->read_line(time));
    hosts.insert(host);
  }
  if (is_loopback(arguments.address)) {
    if (hosts.size() == 1) return {};
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("the allocation is of {} machines, which do not meet at --address {}; "
                             "give the address that each listens at, as --address 0.0.0.0, and "
                             "--tls-authority, --tls-certificate and --tls-key, or "
                             "--without-tls: its network has to be one of those who may use it",
                             hosts.size(), arguments.address)};
  }
  if (arguments.tls.without_tls || has_tls(arguments)) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      fmt::format("--address {} is not of this machine alone, and there is no TLS: anybody "
                  "who reaches it may use the cluster; give --tls-authority, --tls-certificate "
                  "and --tls-key, or --without-tls too if that is meant",
                  arguments.address)};
}

struct Steps {
  std::unique_ptr<BackgroundChild> head, nodes;
  std::string master, store;

  ~Steps() {
    if (nodes != nullptr) nodes->end(kForEnd);
    if (head != nullptr) head->end(kForEnd);
  }
  Status check() const {
    for (const auto& [step, name] :
         {std::pair{head.get(), "the master's"}, {nodes.get(), "the nodes'"}}) {
      if (step != nullptr && step->has_ended()) {
        return unavailable(fmt::format("{} step has ended, status {}; what it printed says why",
                                       name, step->status()));
      }
    }
    return {};
  }
};

std::string own_program() {
  char path[4096] = {};
  const ssize_t size = ::readlink("/proc/self/exe", path, sizeof path - 1);
  return size > 0 ? path : "tessera";
}

Status start_head(const ClusterArguments& arguments, milliseconds time, Steps& steps) {
  std::vector<std::string> words = srun(1);
  words.insert(words.end(), {own_program(), "cluster", "slurm", "--head", "--address",
                             arguments.address, "--port", std::to_string(arguments.port),
                             "--ttl-ms", std::to_string(arguments.ttl_ms)});
  const std::vector<std::string> tls = tls_words(arguments.tls);
  words.insert(words.end(), tls.begin(), tls.end());
  TESSERA_TRY(steps.head, BackgroundChild::start(words, BackgroundChild::Output::kRead));
  TESSERA_TRY(const std::string line, steps.head->read_line(time));
  const json start = json::parse(line, nullptr, false);
  if (!start.is_object() || !start.contains("endpoint") || !start.contains("store")) {
    return unavailable(fmt::format("the master's step says '{}' instead of where it is", line));
  }
  steps.master = start["endpoint"].get<std::string>();
  steps.store = start["store"].get<std::string>();
  return {};
}

Status start_nodes(const ClusterArguments& arguments, int nodes, Steps& steps) {
  // Slurm gives a node its name.
  std::string script = R"_(exec "$0" node --id "$SLURMD_NODENAME" "$@")_";
  if (!is_loopback(arguments.address)) script += R"_( --advertise "$(hostname)")_";
  std::vector<std::string> words = srun(nodes);
  words.insert(words.end(), {"/bin/sh", "-c", script, own_program(), "--store", steps.store,
                             "--address", arguments.address, "--cards",
                             std::to_string(arguments.cards), "--arch", architecture_of(arguments),
                             "--ttl-ms", std::to_string(arguments.ttl_ms), "--end-with-input"});
  const std::vector<std::string> tls = tls_words(arguments.tls);
  words.insert(words.end(), tls.begin(), tls.end());
  if (has_tls(arguments)) words.emplace_back("--store-tls");
  TESSERA_TRY(steps.nodes, BackgroundChild::start(words, BackgroundChild::Output::kDropped));
  return {};
}

Status wait_for_nodes(const ClusterArguments& arguments, int nodes, const Steps& steps) {
  TESSERA_TRY(const cluster::MessengerOptions options, arguments.tls.messenger());
  TESSERA_TRY(const auto messenger, cluster::Messenger::create(options));
  cluster::MasterClient client(*messenger, {steps.master});
  const auto last = steady_clock::now() + of_seconds(arguments.start_seconds);
  std::size_t here = 0;
  while (steady_clock::now() < last && !was_interrupted()) {
    TESSERA_RETURN_IF_ERROR(steps.check());
    constexpr milliseconds kForOne{1000};
    const auto status = client.call({{"call", "status"}}, kForOne);
    if (status.ok()) here = (*status)["nodes"].size();
    if (status.ok() && std::ssize((*status)["pool"]) == nodes * arguments.cards) return {};
    std::this_thread::sleep_for(milliseconds(5));
  }
  return unavailable(fmt::format("{} of {} nodes have joined the cluster in {:.0f} s", here, nodes,
                                 arguments.start_seconds));
}

// ---- what is done with it ----

std::string device_of(const ClusterArguments& arguments, const Steps& steps) {
  const TlsArguments& tls = arguments.tls;
  std::string device =
      fmt::format("cluster:{}?cores={}", steps.master, std::max(arguments.cores, 1));
  if (tls.without_tls) device += "&without_tls=1";
  if (has_tls(arguments)) {
    device += fmt::format("&tls_authority={}&tls_certificate={}&tls_key={}", tls.authority,
                          tls.certificate, tls.key);
  }
  return device;
}

Result<pid_t> start_command(const ClusterArguments& arguments, const Steps& steps,
                            const std::string& device) {
  ::setenv("TESSERA_DEVICE", device.c_str(), 1);
  ::setenv("TESSERA_MASTER", steps.master.c_str(), 1);
  std::string shell = "/bin/sh", option = "-c", command = arguments.command;
  char* const words[] = {shell.data(), option.data(), command.data(), nullptr};
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGINT, SIGTERM}) sigaddset(&defaults, signal);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  const int error = posix_spawn(&child, words[0], nullptr, &attributes, words, environ);
  posix_spawnattr_destroy(&attributes);
  if (error == 0) return child;
  return unavailable(fmt::format("cannot start '{}': {}", arguments.command, std::strerror(error)));
}

Status run_command(const ClusterArguments& arguments, const Steps& steps,
                   const std::string& device) {
  TESSERA_TRY(const pid_t child, start_command(arguments, steps, device));
  int status = 0;
  Status cluster;
  bool is_told = false;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (!is_told) {
      cluster = steps.check();
      is_told = !cluster.ok() || was_interrupted();
      if (is_told) ::kill(child, SIGTERM);
    }
    std::this_thread::sleep_for(milliseconds(10));
  }
  TESSERA_RETURN_IF_ERROR(cluster);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (code == 0) return {};
  return unavailable(fmt::format("'{}' has ended with status {}", arguments.command, code));
}

void tell_start(const ClusterArguments& arguments, int nodes, const Steps& steps,
                const std::string& device, double seconds) {
  const json event = {{"event", "start"},     {"master", steps.master}, {"nodes", nodes},
                      {"store", steps.store}, {"device", device},       {"seconds", seconds}};
  const std::string text =
      fmt::format("{} nodes of {} card{} '{}', after {:.2f} s; records: {}\ndevice   {}", nodes,
                  arguments.cards, arguments.cards == 1 ? "" : "s", architecture_of(arguments),
                  seconds, steps.store, device);
  if (arguments.command.empty()) {
    tell_event(arguments.json, event, text + "   (ends with Ctrl-C)");
  } else {  // standard output is the command's
    show_lines(stderr, (arguments.json ? json_line(event) : text) + "\n");
  }
}

Status wait_for_end(const ClusterArguments& arguments, const Steps& steps) {
  const auto last = steady_clock::now() + of_seconds(arguments.seconds);
  while (!was_interrupted() && (arguments.seconds <= 0 || steady_clock::now() < last)) {
    TESSERA_RETURN_IF_ERROR(steps.check());
    std::this_thread::sleep_for(milliseconds(20));
  }
  return {};
}

}  // namespace

Status run_in_slurm(const ClusterArguments& arguments) {
  if (arguments.head) return run_head(arguments);
  const auto begin = steady_clock::now();
  TESSERA_TRY(const int nodes, nodes_of_allocation());
  const auto chip = load_chip_config(architecture_of(arguments));
  if (!chip.ok()) return chip.error();
  const milliseconds time = of_seconds(arguments.start_seconds);
  end_on_signals();
  TESSERA_RETURN_IF_ERROR(check_machines(arguments, nodes, time));
  Steps steps;
  TESSERA_RETURN_IF_ERROR(start_head(arguments, time, steps));
  TESSERA_RETURN_IF_ERROR(start_nodes(arguments, nodes, steps));
  TESSERA_RETURN_IF_ERROR(wait_for_nodes(arguments, nodes, steps));
  const std::chrono::duration<double> took = steady_clock::now() - begin;
  const std::string device = device_of(arguments, steps);
  tell_start(arguments, nodes, steps, device, took.count());
  TESSERA_RETURN_IF_ERROR(check_standard_output());
  return arguments.command.empty() ? wait_for_end(arguments, steps)
                                   : run_command(arguments, steps, device);
}

}  // namespace tessera::tools
