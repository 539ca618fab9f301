// A client on a node: what it has loaded on its virtual processor, and the blocks that it keeps there.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/channel.h"
#include "cluster/node_agent.h"
#include "cluster/node_part.h"
#include "cluster/package_cache.h"
#include "device/backend.h"
#include "device/virtual_card.h"

namespace tessera::cluster {

// Requests come one after the other; close() from any thread.
class ClientSession {
 public:
  // `part`: of an allocation over several cards, which then runs what is loaded; null otherwise.
  ClientSession(AllocRecord alloc, std::shared_ptr<device::VirtualProcessor> processor,
                std::shared_ptr<NodePart> part, NodeAgent& agent, PackageCache& packages,
                bool is_timed);
  ~ClientSession();

  const AllocRecord& alloc() const { return alloc_; }
  Result<Reply> handle(const Request& request, const nlohmann::json& text);
  // A request has come, and waits. From any thread.
  std::shared_ptr<void> arrived(std::string_view text) const;
  // Waits for the run that is under way; then nothing is loaded any more, and every request is refused.
  void close();

 private:
  struct Network;
  Result<Reply> load(const nlohmann::json& request);
  Result<Reply> unload(const nlohmann::json& request);
  Result<Reply> infer(const nlohmann::json& request, const Request& message);
  Status check_quota(const std::shared_ptr<void>& admission) const;
  Result<Reply> fetch(const nlohmann::json& request);
  Reply status() const;

  struct Run;
  Status place_inputs(const nlohmann::json& request, const Body& body, Run& run);
  Status place_outputs(const nlohmann::json& request, Run& run);
  Result<Reply> answer(const device::RunOutcome& outcome, Run& run);

  const AllocRecord alloc_;
  NodeAgent& agent_;
  PackageCache& packages_;
  const std::shared_ptr<RequestCounter> requests_;  // of the allocation; null: it was gone already
  const bool is_timed_;
  std::mutex mutex_;                                     // of what follows
  std::shared_ptr<device::VirtualProcessor> processor_;  // shared with the service; null: closed
  std::shared_ptr<NodePart> part_;                       // shared with it, too
  std::map<std::int64_t, std::unique_ptr<Network>> networks_;
  std::int64_t next_network_ = 1;
  std::map<std::int64_t, std::vector<std::byte>> blocks_;
  std::int64_t block_bytes_ = 0;
};

}  // namespace tessera::cluster
