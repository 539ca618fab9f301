#include "tools/cluster/cluster_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "arch/architecture_file.h"
#include "cluster/fields.h"
#include "cluster/master_client.h"
#include "tools/cluster/certificate.h"

namespace tessera::tools {
namespace {

using nlohmann::json;
using Outcome = ClusterCheck::Outcome;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;

std::int64_t unix_ms() {
  return std::chrono::duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

// What a daemon said of itself, or why it said nothing.
struct Heard {
  std::string name;  // of a node; of a master its endpoint
  std::string endpoint;
  bool is_master = false;
  std::optional<json> health = {};
  Error error = {};
  std::int64_t clock_ahead_ms = 0;  // of ours, at the middle of the question
};

void ask_health(cluster::Dialer& dialer, milliseconds patience, Heard& heard) {
  const auto deadline = steady_clock::now() + patience;
  const std::int64_t asked = unix_ms();
  auto channel = dialer.open(heard.endpoint, deadline);
  auto answer = channel.ok() ? (*channel)->call(R"({"call":"health"})", {}, deadline)
                             : Result<cluster::Message>(channel.error());
  auto health = answer.ok() ? cluster::parse_object(answer->text, "health of a daemon")
                            : Result<json>(answer.error());
  if (!health.ok()) {
    heard.error = health.error();
    return;
  }
  const json time = health->value("unix_ms", json());
  if (time.is_number_integer())
    heard.clock_ahead_ms = time.get<std::int64_t>() - (asked + unix_ms()) / 2;
  heard.health = std::move(*health);
}

// All of them, some at a time.
void ask_all(cluster::Dialer& dialer, milliseconds patience, std::vector<Heard>& all) {
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < all.size(); i = next++) ask_health(dialer, patience, all[i]);
  };
  constexpr std::size_t kAtOnce = 16;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < std::min(kAtOnce, all.size()); ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
}

std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}
double number_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}
bool is_true(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}
json object_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_object() ? *found : json::object();
}

class Checks {
 public:
  void ok(const char* check, std::string subject, std::string detail) {
    add(check, std::move(subject), Outcome::kOk, std::move(detail), "");
  }
  void add(const char* check, std::string subject, Outcome outcome, std::string detail,
           std::string remedy) {
    list_.push_back({check, std::move(subject), outcome, std::move(detail), std::move(remedy)});
  }
  std::vector<ClusterCheck> take() { return std::move(list_); }

 private:
  std::vector<ClusterCheck> list_;
};

// ---- masters and the store ----

void check_masters(const std::vector<Heard>& masters, Checks& checks) {
  int leading = 0, heard = 0;
  for (const Heard& master : masters) {
    if (!master.health.has_value()) {
      const bool is_other = master.error.code == ErrorCode::kUnsupported;
      checks.add(
          "master", master.endpoint, Outcome::kError, master.error.message,
          is_other
              ? "give all programs of the cluster the same release"
              : "start it (systemctl start tessera-master), or mend address, port or firewall");
      continue;
    }
    ++heard;
    leading += is_true(*master.health, "leads") ? 1 : 0;
    checks.ok("master", master.endpoint,
              is_true(*master.health, "leads")
                  ? "leads"
                  : fmt::format("waits; '{}' leads", text_of(*master.health, "leader")));
    const json store = object_of(*master.health, "store");
    if (is_true(store, "answers")) {
      checks.ok("store", text_of(store, "name"),
                fmt::format("answers '{}' in {:.1f} ms", master.endpoint,
                            number_of(store, "milliseconds")));
    } else {
      checks.add("store", text_of(store, "name"), Outcome::kError,
                 fmt::format("does not answer '{}': {}", master.endpoint, text_of(store, "error")),
                 "look at etcd's members (etcdctl endpoint health): a majority of them has to run");
    }
  }
  if (leading == 1) return;
  if (heard == 0) return;
  // One that leads may not be among those that were named.
  const bool is_elsewhere =
      leading == 0 && std::ranges::any_of(masters, [](const Heard& master) {
        return master.health.has_value() && !text_of(*master.health, "leader").empty();
      });
  if (is_elsewhere) return;
  checks.add("master", "election", Outcome::kError,
             fmt::format("{} of {} masters lead", leading, heard),
             "wait for a TTL; where it stays so, look at the store");
}

// ---- daemons ----

void check_reached(const std::vector<Heard>& nodes, Checks& checks) {
  std::size_t reached = 0;
  for (const Heard& node : nodes) {
    if (node.health.has_value()) {
      ++reached;
      continue;
    }
    const bool is_other = node.error.code == ErrorCode::kUnsupported;
    checks.add(
        "daemon", node.name, Outcome::kError, node.error.message,
        is_other
            ? "give all programs of the cluster the same release"
            : "look at the node (systemctl status tessera-node) and whether its --advertise is "
              "reached from here");
  }
  checks.add("daemons", "all", nodes.empty() ? Outcome::kWarning : Outcome::kOk,
             fmt::format("{} of {} nodes answer", reached, nodes.size()),
             nodes.empty() ? "start nodes (tessera node)" : "");
}

void check_leases(const std::vector<Heard>& nodes, Checks& checks) {
  std::size_t well = 0;
  for (const Heard& node : nodes) {
    if (!node.health.has_value()) continue;
    const json lease = object_of(*node.health, "lease");
    const double left = number_of(lease, "left_ms"), ttl = number_of(lease, "ttl_ms");
    if (!is_true(lease, "held")) {
      checks.add(
          "lease", node.name, Outcome::kError, "it has no lease, so it has given up its cores",
          "look whether the node reaches the store, and whether another one has the same --id");
    } else if (left < ttl / 4) {
      checks.add(
          "lease", node.name, Outcome::kWarning,
          fmt::format("{:.0f} of {:.0f} ms are left, and it is renewed after a third", left, ttl),
          "the store is slow for this node, or the node is: look at both, or raise --ttl-ms");
    } else {
      ++well;
    }
  }
  checks.ok("leases", "all", fmt::format("{} nodes renew theirs in time", well));
}

void check_clocks(const ClusterCheckOptions& options, const std::vector<Heard>& all,
                  Checks& checks) {
  std::int64_t most = 0;
  for (const Heard& one : all) {
    if (!one.health.has_value()) continue;
    const std::int64_t ahead = one.clock_ahead_ms, apart = std::abs(ahead);
    most = std::max(most, apart);
    if (apart < options.clock_warning_ms) continue;
    checks.add("clock", one.name,
               apart < options.clock_error_ms ? Outcome::kWarning : Outcome::kError,
               fmt::format("its clock is {} ms {} this machine's", apart,
                           ahead > 0 ? "ahead of" : "behind"),
               "let the machine follow a time server (systemctl enable --now systemd-timesyncd): "
               "leases do not "
               "need the time of day, certificates, audit and traces do");
  }
  checks.ok("clocks", "all", fmt::format("at most {} ms from this machine's", most));
}

void check_versions(const ClusterCheckOptions& options, const std::vector<Heard>& all,
                    Checks& checks) {
  std::map<std::string, std::vector<std::string>> by_version;
  for (const Heard& one : all) {
    if (one.health.has_value()) {
      by_version[fmt::format("{} (protocol {})", text_of(*one.health, "version"),
                             text_of(*one.health, "protocol"))]
          .push_back(one.name);
    }
  }
  for (const auto& [version, names] : by_version) {
    if (version.starts_with(options.version + " ") && by_version.size() == 1) {
      checks.ok("versions", "all", version);
      continue;
    }
    checks.add(
        "versions",
        names.front() + (names.size() > 1 ? fmt::format(" and {} more", names.size() - 1) : ""),
        Outcome::kWarning, fmt::format("{}; this program is {}", version, options.version),
        "finish the upgrade: drain, upgrade and take back one node after the other "
        "(docs/runbook.md)");
  }
}

void check_folders(const ClusterCheckOptions& options, const std::vector<Heard>& all,
                   Checks& checks) {
  std::size_t well = 0;
  for (const Heard& one : all) {
    const json folders =
        one.health.has_value() ? one.health->value("folders", json::array()) : json::array();
    for (std::size_t i = 0; folders.is_array() && i < folders.size(); ++i) {
      const std::string path = text_of(folders[i], "path"), error = text_of(folders[i], "error");
      const double bytes = number_of(folders[i], "bytes"),
                   left = number_of(folders[i], "free_bytes");
      if (!error.empty()) {
        checks.add("disk", one.name, Outcome::kError, fmt::format("'{}': {}", path, error),
                   "make the folder");
      } else if (left < options.free_warning * bytes) {
        checks.add("disk", one.name,
                   left < options.free_error * bytes ? Outcome::kError : Outcome::kWarning,
                   fmt::format("'{}' has {:.1f} of {:.1f} GB free", path, left / 1e9, bytes / 1e9),
                   "remove old audit and owner logs, or give it more room: on a full disk their "
                   "lines wait, and are lost in the end");
      } else {
        ++well;
      }
    }
  }
  checks.ok("disks", "all", fmt::format("{} folders have room", well));
}

// Cards that are called the same have to be the same; and those of a profile of this program its.
void check_architectures(const std::vector<Heard>& nodes, Checks& checks) {
  std::map<std::string, std::map<std::string, std::string>> by_name;  // fingerprint: a node
  for (const Heard& node : nodes) {
    const json cards =
        node.health.has_value() ? node.health->value("cards", json::array()) : json::array();
    for (std::size_t i = 0; cards.is_array() && i < cards.size(); ++i) {
      if (!cards[i].is_object()) continue;
      by_name[text_of(cards[i], "arch")].emplace(text_of(cards[i], "fingerprint"), node.name);
    }
  }
  const auto profiles = builtin_chip_names();
  for (const auto& [name, prints] : by_name) {
    std::string wanted;
    if (std::ranges::find(profiles, name) != profiles.end()) {
      const auto chip = load_chip_config(name);
      if (chip.ok()) wanted = fmt::format("{:016x}", fingerprint(*chip));
    }
    if (prints.size() > 1) {
      const auto second = std::next(prints.begin());
      checks.add(
          "architecture", name, Outcome::kError,
          fmt::format("{} differ: {} on {}, {} on {}", name, prints.begin()->first,
                      prints.begin()->second, second->first, second->second),
          "give the nodes the same architecture file: a package is compiled for one of them");
    } else if (!wanted.empty() && wanted != prints.begin()->first) {
      checks.add("architecture", name, Outcome::kWarning,
                 fmt::format("{} on {}; this program's is {}", prints.begin()->first,
                             prints.begin()->second, wanted),
                 "use this release on the nodes too, or the nodes' release here");
    } else {
      checks.ok("architecture", name, prints.begin()->first);
    }
  }
}

void check_certificates(const ClusterCheckOptions& options, Checks& checks) {
  for (const std::string& path : options.certificates) {
    const auto times = read_certificate_times(path);
    if (!times.ok()) {
      checks.add("certificate", path, Outcome::kError, times.error().message,
                 "name a PEM file that can be read");
      continue;
    }
    const double days = static_cast<double>(times->until_unix - unix_ms() / 1000) / 86400;
    const bool is_early = times->from_unix > unix_ms() / 1000;
    const Outcome outcome = is_early || days < options.certificate_error_days ? Outcome::kError
                            : days < options.certificate_warning_days         ? Outcome::kWarning
                                                                              : Outcome::kOk;
    const std::string detail = is_early ? fmt::format("{}: not valid yet", times->subject)
                               : days < 0
                                   ? fmt::format("{}: ended {:.0f} days ago", times->subject, -days)
                                   : fmt::format("{}: {:.0f} days left", times->subject, days);
    checks.add("certificate", path, outcome, detail,
               outcome == Outcome::kOk
                   ? ""
                   : "renew it, put it in its place and restart one daemon after the "
                     "other (docs/runbook.md)");
  }
}

std::vector<Heard> nodes_of(const ClusterCheckOptions& options, cluster::Dialer& dialer,
                            Checks& checks) {
  cluster::MasterClient client(dialer, options.masters);
  json request = {{"call", "status"}};
  if (!options.tenant.empty()) request["tenant"] = options.tenant;
  if (!options.token.empty()) request["token"] = options.token;
  const auto status = client.call(request, options.patience);
  std::vector<Heard> nodes;
  if (!status.ok()) {
    checks.add("status", "master", Outcome::kError, status.error().message,
               "once a master leads and the token is an operator's, nodes are checked, too");
    return nodes;
  }
  const json list = status->value("nodes", json::array());
  for (std::size_t i = 0; list.is_array() && i < list.size(); ++i) {
    nodes.push_back({.name = text_of(list[i], "node"), .endpoint = text_of(list[i], "endpoint")});
  }
  return nodes;
}

}  // namespace

const char* outcome_name(ClusterCheck::Outcome outcome) {
  return outcome == Outcome::kOk ? "ok" : outcome == Outcome::kWarning ? "warning" : "error";
}

std::vector<ClusterCheck> check_cluster(const ClusterCheckOptions& options,
                                        cluster::Dialer& dialer) {
  Checks checks;
  std::vector<Heard> masters;
  for (const std::string& endpoint : options.masters) {
    masters.push_back({.name = "master " + endpoint, .endpoint = endpoint, .is_master = true});
  }
  ask_all(dialer, options.patience, masters);
  check_masters(masters, checks);
  std::vector<Heard> all = nodes_of(options, dialer, checks);
  ask_all(dialer, options.patience, all);
  check_reached(all, checks);
  check_leases(all, checks);
  check_architectures(all, checks);
  all.insert(all.end(), masters.begin(), masters.end());
  check_clocks(options, all, checks);
  check_versions(options, all, checks);
  check_folders(options, all, checks);
  check_certificates(options, checks);
  return checks.take();
}

}  // namespace tessera::tools
