// The cards of a node, and what clients do on them: who shows the ticket of an allocation loads networks on its
// virtual processor and runs them.
//
//   open   ticket ─► the connection belongs to the allocation
//   put    package or program, once for each digest and node
//   load   digest ─► compiled for the cores that it has
//   infer  inputs ─► outputs and what the run cost; tensors that stay here are blocks
//
// An allocation over several cards has them as a whole; clients talk to the node of its first card (node_part.h).
//
// A run's own error is part of an answer; an error as the answer means that this node did not do it.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/caller.h"
#include "cluster/channel.h"
#include "cluster/node_agent.h"
#include "cluster/node_part.h"
#include "cluster/package_cache.h"
#include "device/virtual_card.h"

namespace tessera::cluster {

class ClientSession;

struct NodeServiceOptions {
  std::vector<ChipConfig> cards;
  std::int64_t package_bytes_max = std::int64_t{4} << 30;  // of packages that are kept
  bool is_timed = false;  // runs take their time without values (device/timed_backend.h)
  // Each run's beginning and end, as NodeOptions::log.
  std::function<void(const nlohmann::json&)> log = {};
  Dialer* dialer = nullptr;  // to other nodes; outlives the service
};

class NodeService : public Responder, public NodeWork {
 public:
  static Result<std::unique_ptr<NodeService>> create(NodeServiceOptions options);
  ~NodeService() override;
  // Before the first request; it outlives the service's use.
  void set_agent(NodeAgent* agent) { agent_ = agent; }
  std::vector<CardRecord> card_records() const;
  // Of each allocation "tenant", "alloc" and what has been counted since it came here: "runs", "failures",
  // "waiting", "bytes_in", "bytes_out", "busy_us".
  nlohmann::json figures();

  Status grant(const AllocRecord& alloc) override;
  Status move(const AllocRecord& alloc) override;
  Link last_link(const AllocRecord& alloc) override;
  void revoke(const AllocRecord& alloc) override;

  Result<Reply> handle(Request request) override;
  std::shared_ptr<void> arrived(std::uint64_t connection, std::string_view text) override;
  void disconnected(std::uint64_t connection) override;
  MessageLimits limits(std::uint64_t connection) override;

 private:
  struct Traffic {
    std::atomic<std::int64_t> runs = 0, failures = 0, waiting = 0, bytes_in = 0, bytes_out = 0,
                              busy_us = 0;
  };
  struct Granted {
    AllocRecord record;
    std::vector<std::shared_ptr<device::VirtualProcessor>> processors;  // shared with its sessions
    std::shared_ptr<Traffic> traffic;  // shared with requests under way
    std::shared_ptr<NodePart> part;    // of one over several cards; shared with sessions and peers
  };
  Result<Reply> count(const Request& request, const nlohmann::json& text, ClientSession& session,
                      Traffic& traffic);
  // A connection of another node of an allocation.
  struct Peer {
    std::shared_ptr<NodePart> part;  // shared with what is granted
    int process = 0;
    bool exchanges = false;  // windows of runs come by it: its end is that of a run
  };
  Result<Reply> open_as_peer(const nlohmann::json& request, std::uint64_t connection);
  static std::string name_on_card(const AllocRecord& alloc);
  Result<std::vector<std::shared_ptr<device::VirtualProcessor>>> take_cards(
      const AllocRecord& alloc);
  Result<std::vector<std::shared_ptr<device::VirtualProcessor>>> take_cards_when_free(
      const AllocRecord& alloc);
  std::optional<Peer> peer_of(std::uint64_t connection);
  void note_exchange(std::uint64_t connection);
  explicit NodeService(NodeServiceOptions options);
  std::shared_ptr<device::VirtualProcessor> processor_of(const AllocRecord& alloc);
  Result<Reply> open(const nlohmann::json& request, std::uint64_t connection);
  std::shared_ptr<ClientSession> session_of(std::uint64_t connection);

  const NodeServiceOptions options_;
  NodeAgent* agent_ = nullptr;
  PackageCache packages_;
  std::vector<std::shared_ptr<device::VirtualCard>> cards_;  // shared with what runs on them

  std::mutex mutex_;  // of what follows
  std::map<AllocKey, Granted> granted_;
  std::map<std::uint64_t, std::shared_ptr<ClientSession>> sessions_;  // shared with who closes them
  std::map<std::uint64_t, Peer> peers_;
  class Closer;
  std::unique_ptr<Closer> closer_;
};

}  // namespace tessera::cluster
