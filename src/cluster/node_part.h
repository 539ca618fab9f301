// What a node has of an allocation over several cards: its cards as a whole, and networks that run on them together
// with those of the other nodes. The node of the first card leads: clients talk to it, and it tells the others.
//
//   client ─► leader ─ part_put, part_load ─► other nodes           a network comes to all of them
//                    ─ part_segment ────────► other nodes           all simulate their own cards ...
//                    ◄─ window ─────────────► each other            ... and exchange what these send (card_exchange.h)
//
// A run ends with an error where a node leaves it; the next one begins anew.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "cluster/card_exchange.h"
#include "cluster/channel.h"
#include "cluster/node_agent.h"
#include "cluster/package_cache.h"
#include "cluster/records.h"
#include "device/backends.h"
#include "device/cards_apart.h"

namespace tessera::cluster {

// For several threads at once.
class NodePart {
 public:
  // Agent, packages and dialer outlive it.
  struct Parts {
    ChipConfig chip;
    NodeAgent* agent = nullptr;
    PackageCache* packages = nullptr;
    Dialer* dialer = nullptr;
    std::function<void(const nlohmann::json&)> log = {};  // "run": the leader begins one
  };
  NodePart(const AllocRecord& alloc, const std::string& node, Parts parts);
  ~NodePart();
  NodePart(const NodePart&) = delete;
  NodePart& operator=(const NodePart&) = delete;

  const ChipConfig& chip() const { return parts_.chip; }
  bool leads() const { return own_ == 0; }
  // Other cores of the same cards, from the next run on.
  void move(const AllocRecord& alloc);
  // Runs that are under way end with this, and no other begins.
  void end(const Error& why);

  // The leader's, for a client's networks; it keeps this.
  static Result<std::unique_ptr<device::Backend>> make_backend(std::shared_ptr<NodePart> part,
                                                               const device::DeviceConfig& config);

  // A request on a connection of the other process, and its end.
  Result<Reply> handle(int process, const Request& request, const nlohmann::json& text);
  void left(int process) { exchange_.left(process); }

 private:
  class Others;
  class Backend;
  struct Loaded;
  struct Spec;
  AllocRecord record() const;
  Result<std::unique_ptr<device::ApartNetwork>> load(
      const std::shared_ptr<const NetworkState>& network, const Spec& spec);
  Result<Reply> load_here(const nlohmann::json& request);
  Result<Reply> run_here(const nlohmann::json& request, std::span<const std::byte> host_bytes);
  Result<std::shared_ptr<Channel>> connect(int process) const;

  Status load_elsewhere(Loaded& loaded);
  Status tell(int process, Loaded& loaded);
  Status ensure(Loaded& loaded);
  void unload(const Loaded& loaded);
  device::RunOutcome run(Loaded& loaded, const device::RunViews& views,
                         const device::DeviceConfig& config);
  Result<std::shared_ptr<Channel>> control(int process);

  const Parts parts_;
  const std::string node_;
  std::vector<std::string> nodes_, endpoints_;  // by process; the leader first
  std::vector<int> process_of_card_;
  int own_ = 0;
  CardExchange exchange_;

  std::mutex running_;  // one run at a time, and before mutex_
  std::int64_t run_ = 0, next_number_ = 1;
  std::vector<std::shared_ptr<Channel>> controls_;  // to the others; shared with calls on their way
  std::map<std::int64_t, std::unique_ptr<device::ApartNetwork>>
      networks_;  // for the leader, by its number

  mutable std::mutex mutex_;  // of what follows
  AllocRecord record_;
};

}  // namespace tessera::cluster
