// Who leads, by entries below NAME/: each candidate's stands there as long as its lease, and the one
// that was made first leads.
//
//   NAME/LEASE → value      epoch of a leader = revision at which its entry was made
//
// Epochs grow from leader to leader, so whoever remembers the largest refuses what comes late from an
// earlier one. A transaction with guard() is carried out only while its candidate leads or may lead.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "store/store.h"

namespace tessera::store {

using Epoch = Revision;

struct Leader {
  std::string value{};
  Epoch epoch = 0;
  LeaseId lease = 0;

  friend bool operator==(const Leader&, const Leader&) = default;
};

// Who leads now; nobody where there is no candidate.
Result<std::optional<Leader>> current_leader(Store& store, std::string_view name,
                                             std::chrono::milliseconds timeout);

// Calls are those of the store: thread-safe, but one wait_until_leading() at a time. The store outlives
// it.
class Candidate {
 public:
  // Stands for election with an entry that lasts as long as the lease, which the caller keeps.
  // Standing again with the same lease finds the entry that is there and gives it the new value.
  // kUnavailable where the lease has ended.
  static Result<Candidate> stand(Store& store, std::string name, std::string value, LeaseId lease,
                                 std::chrono::milliseconds timeout);

  // The epoch that this candidate has when it leads.
  Epoch epoch() const { return epoch_; }
  const std::string& key() const { return key_; }

  // Whether it leads now, by one read. kUnavailable where its entry is gone (resigned, lease ended).
  Result<bool> is_leading(std::chrono::milliseconds timeout);

  // Waits for it. False: not in time. Of a store with manual time: does not wait.
  Result<bool> wait_until_leading(std::chrono::milliseconds timeout);

  // Holds in a transaction while the candidate's entry is there.
  Comparison guard() const { return created_at(key_, epoch_); }

  // Takes the entry away; the next one leads.
  Status resign(std::chrono::milliseconds timeout);

 private:
  Candidate(Store& store, std::string name, std::string key, Epoch epoch)
      : store_(&store), name_(std::move(name)), key_(std::move(key)), epoch_(epoch) {}
  Store* store_;
  std::string name_, key_;
  Epoch epoch_;
};

// Tells of each new leader. One thread. The store outlives it.
class LeaderObserver {
 public:
  static Result<LeaderObserver> start(Store& store, std::string name,
                                      std::chrono::milliseconds timeout,
                                      std::function<void()> on_ready = {});

  // The leader, nobody included, as last known.
  const std::optional<Leader>& leader() const { return leader_; }
  // Waits for a change of the leader or of its value: true. False: none in time. An error of the store
  // where it had to be read again; the next call goes on.
  Result<bool> wait_for_change(std::chrono::milliseconds timeout);

 private:
  LeaderObserver(Store& store, std::string name, std::function<void()> on_ready)
      : store_(&store), name_(std::move(name)), on_ready_(std::move(on_ready)) {}
  Status read_again(std::chrono::milliseconds timeout);
  void take(const Change& change);
  bool choose();

  Store* store_;
  std::string name_;
  std::function<void()> on_ready_;
  std::vector<Entry> candidates_;
  std::optional<Leader> leader_;
  std::unique_ptr<Watch> watch_;
};

}  // namespace tessera::store
