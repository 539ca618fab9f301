// The store in this process: the reference for what a store does, what a cluster on one machine runs
// on, and what a simulation turns the time of.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>

#include "store/store.h"

namespace tessera::store {

enum class StoreTime {
  kOwn,     // the machine's steady clock; a thread ends leases
  kManual,  // advance() alone moves it; no thread, and no call ever waits
};

// Calls are never unavailable, unless set_unavailable() says so. Watches keep a place in the history,
// which is bounded by `history_changes_max`: a reader that falls behind it finds a gap.
class InProcessStore : public Store {
 public:
  explicit InProcessStore(StoreTime time = StoreTime::kOwn,
                          std::size_t history_changes_max = 100'000);
  ~InProcessStore() override;  // after its watches

  Result<Entries> read_prefix(std::string_view prefix, Milliseconds timeout) override;
  Result<MaybeEntry> read(std::string_view key, Milliseconds timeout) override;
  Result<CommitResult> commit(const Transaction& transaction, Milliseconds timeout) override;
  Result<Lease> grant_lease(Milliseconds ttl, Milliseconds timeout) override;
  Result<Renewal> renew_lease(LeaseId lease, Milliseconds timeout) override;
  Status revoke_lease(LeaseId lease, Milliseconds timeout) override;
  Result<std::unique_ptr<Watch>> watch(std::string_view prefix, WatchOptions options,
                                       Milliseconds timeout) override;
  Status compact(Revision revision, Milliseconds timeout) override;
  std::string describe() const override { return "in process"; }

  // kManual: `time` later, with the leases that end meanwhile ended in the order of their ends.
  void advance(Milliseconds time);
  // kManual: since the store was made.
  Milliseconds now() const;
  // kManual: when the next lease ends, on the scale of now(); max() where there is none.
  Milliseconds next_lease_end() const;

  // From now on every call but those of watches fails with kUnavailable and this text; empty: no more.
  // As with etcd no lease ends meanwhile, and afterwards each has its whole time again.
  void set_unavailable(std::string reason);

  class State;

 private:
  std::thread lease_thread_;      // kOwn
  std::shared_ptr<State> state_;  // shared with its watches, so that the last of them ends it
};

}  // namespace tessera::store
