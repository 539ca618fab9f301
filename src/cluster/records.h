// What the cluster keeps in its store, as keys and as JSON texts. Texts come from whoever can write to the
// store, so they are checked.
//
//   /tessera/v1/cluster            ClusterRecord   of this store; who can read it is trusted
//   /tessera/v1/master/LEASE       endpoint        candidates; the first one leads (store/election.h)
//   /tessera/v1/nodes/ID           NodeRecord      as long as the node's lease
//   /tessera/v1/pool/NODE/CARD     PoolRecord
//   /tessera/v1/alloc/TENANT/ID    AllocRecord
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cluster/names.h"

namespace tessera::cluster {

inline constexpr const char* kClusterKey = "/tessera/v1/cluster";
inline constexpr const char* kMasterKey = "/tessera/v1/master";
inline constexpr const char* kNodesPrefix = "/tessera/v1/nodes/";
inline constexpr const char* kPoolPrefix = "/tessera/v1/pool/";
inline constexpr const char* kAllocPrefix = "/tessera/v1/alloc/";

struct ClusterRecord {
  std::string id;      // of the store's contents: one that lost them gets another
  std::string secret;  // that master and nodes show each other
};

// What happens to what runs on a node that has lost the store.
enum class OnControlLoss : std::uint8_t {
  kFence,  // it ends before the node's lease does, and goes elsewhere
  kKeep,   // it goes on, and stays on this node until it is back
};
const char* on_control_loss_name(OnControlLoss value);  // "fence", "keep"
Result<OnControlLoss> on_control_loss_from_name(const std::string& name);

struct CardRecord {
  std::string arch;
  std::string fingerprint;  // 16 hexadecimal digits
  int groups = 1, cores_per_group = 1;
  std::int64_t memory_bytes = 0;  // of each group
  bool is_whole = false;          // an allocation takes all its cores (is_taken_whole())
  int cores() const { return groups * cores_per_group; }
};

struct NodeRecord {
  std::string id;
  std::string incarnation;  // another one each time it registers
  std::string endpoint;     // HOST:PORT
  // Other ways to it; empty: none. On the machine of this name: the path of a socket of shared memory.
  std::string machine = {}, shared_memory = {};
  std::string ucx = {};  // HOST:PORT
  OnControlLoss on_control_loss = OnControlLoss::kFence;
  std::vector<CardRecord> cards;
};

struct PoolRecord {
  std::string node;
  int card = 0;
  std::vector<bool> free;  // by core
  std::int64_t generation = 0;
  bool draining = false;         // it gets nothing new
  bool keeps = false;            // its node is of OnControlLoss::kKeep
  std::string fingerprint = {};  // of the card; empty: not known
};

// A card of an allocation over several, which has it as a whole.
struct AllocPart {
  std::string node, incarnation;
  std::string endpoint;  // of the node
  int card = 0;
  std::vector<int> cores;
};

struct AllocRecord {
  std::string id, tenant;
  std::string node;  // empty: it waits for room
  std::string incarnation;
  int card = 0;
  std::vector<int> cores;
  int cores_wanted = 1;
  std::string arch;
  std::int64_t memory_bytes = 0;  // of each group in which it has a core
  std::int64_t weight = 1;
  std::int64_t epoch = 1;  // of its placement: larger with each node that it comes to
  bool kept = false;       // until it is freed; else as long as somebody uses it
  std::string ticket;      // that its user shows to the node
  // Of one over several cards: how many, and those behind the first, which is above.
  int cards_wanted = 1;
  std::vector<AllocPart> more = {};
  // One of its nodes is gone: the others are to give up their cards, then it is placed anew.
  bool broken = false;
};

// All cards, the first one in front; none: it waits for room.
std::vector<AllocPart> parts_of(const AllocRecord& record);
// Those on a node.
std::vector<AllocPart> parts_on(const AllocRecord& record, const std::string& node);
// Its nodes, each once, that of the first card in front.
std::vector<std::string> nodes_of(const AllocRecord& record);

// Names are the tenants' own: two may have the same one.
using AllocKey = std::pair<std::string, std::string>;  // tenant, id
inline AllocKey key_of(const AllocRecord& record) { return {record.tenant, record.id}; }

std::string node_key(const std::string& id);
std::string pool_key(const std::string& node, int card);
std::string alloc_key(const std::string& tenant, const std::string& id);

std::string encode(const ClusterRecord& record);
std::string encode(const NodeRecord& record);
std::string encode(const PoolRecord& record);
std::string encode(const AllocRecord& record);
nlohmann::json to_json(const AllocRecord& record);

// kInvalidModel: what of the text is wrong.
Result<ClusterRecord> parse_cluster(const std::string& text);
Result<NodeRecord> parse_node(const std::string& text);
Result<PoolRecord> parse_pool(const std::string& text);
Result<AllocRecord> parse_alloc(const std::string& text);
Result<AllocRecord> alloc_from_json(const nlohmann::json& document);

}  // namespace tessera::cluster
