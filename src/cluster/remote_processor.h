// A virtual processor on some node of a cluster: acquired with its construction, given back with its end. When
// the node goes, the master gives it another one, and what was on it is sent again.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <thread>

#include "base/result.h"
#include "cluster/address.h"
#include "cluster/channel.h"
#include "cluster/master_client.h"
#include "cluster/messenger.h"

namespace tessera::cluster {

// A connection to the node that has it. Numbers that a node gave out belong to one of these.
struct NodeLink {
  std::uint64_t number = 0;  // ascending
  std::unique_ptr<Channel> channel;
  std::string node;
  std::int64_t epoch = 0;      // of the allocation's placement
  std::atomic<int> calls = 0;  // on their way
};

// For several threads at once.
class RemoteProcessor {
 public:
  static Result<std::unique_ptr<RemoteProcessor>> acquire(const ClusterAddress& address);
  ~RemoteProcessor();
  RemoteProcessor(const RemoteProcessor&) = delete;
  RemoteProcessor& operator=(const RemoteProcessor&) = delete;

  const std::string& name() const { return name_; }
  const std::string& arch() const { return arch_; }
  const std::string& fingerprint() const { return fingerprint_; }
  std::int64_t memory_bytes() const { return memory_bytes_; }
  std::chrono::milliseconds patience() const { return address_.patience; }
  int cores() const;

  // To the node that has it now. Where the one before has ended: the master is asked until `patience` is over.
  Result<std::shared_ptr<NodeLink>> link();
  // A call, during which it is noticed when the node no longer has the allocation, even if it says nothing.
  static Result<Message> call(NodeLink& link, const std::string& text, Parts body);
  // That link has failed; the next call of link() makes another one.
  void give_up(const std::shared_ptr<NodeLink>& link);

 private:
  RemoteProcessor(ClusterAddress address, std::unique_ptr<Messenger> messenger);
  nlohmann::json request(const char* call) const;
  nlohmann::json acquisition() const;
  Result<nlohmann::json> locate(std::chrono::milliseconds patience);
  Status open(const nlohmann::json& where, TimePoint deadline);
  Result<std::unique_ptr<Channel>> open_channel(const nlohmann::json& where, TimePoint deadline);
  void watch();
  void look_for_another_place();
  void open_again();

  const ClusterAddress address_;
  const std::unique_ptr<Messenger> messenger_;
  MasterClient master_;
  bool is_own_ = true;  // it was acquired here, and is given back
  std::string name_, arch_, fingerprint_;
  std::int64_t memory_bytes_ = 0;

  std::mutex opening_;        // one opens a link; before mutex_
  mutable std::mutex mutex_;  // of what follows
  int cores_ = 0;
  std::shared_ptr<NodeLink> link_;  // shared with calls on their way
  std::uint64_t next_link_ = 1;
  bool ends_ = false;
  std::condition_variable ended_;
  std::thread watcher_;
};

}  // namespace tessera::cluster
