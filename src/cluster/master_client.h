// Calls to whichever master leads.
#pragma once

#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/caller.h"
#include "cluster/channel.h"

namespace tessera::cluster {

// For several threads at once.
class MasterClient {
 public:
  // The dialer outlives it.
  MasterClient(Dialer& dialer, std::vector<std::string> masters);

  // Asks one after the other, and whom they name, until one leads or `patience` is over. A call may have been
  // carried out by a master that then did not answer. An allocation that is asked for again within one call is
  // the same one.
  Result<nlohmann::json> call(nlohmann::json request, std::chrono::milliseconds patience);

 private:
  Result<nlohmann::json> call_one(const std::string& endpoint, const nlohmann::json& request,
                                  TimePoint deadline);
  Dialer& dialer_;
  const std::vector<std::string> masters_;
  std::mutex mutex_;  // of what follows
  std::string leader_;
  std::shared_ptr<Channel> channel_;  // to it; shared with calls
};

// Keeps a connection to each peer.
class ChannelCaller : public Caller {
 public:
  // The dialer outlives it.
  explicit ChannelCaller(Dialer& dialer);
  ~ChannelCaller() override;
  Result<nlohmann::json> call(const std::string& endpoint, const nlohmann::json& request,
                              std::chrono::milliseconds timeout) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::cluster
