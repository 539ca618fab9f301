// What a cluster keeps in one place: members, pools, allocations, who is master. One interface, two
// stores: in this process (in_process_store.h) and etcd (etcd_store.h).
//
//   entries  key → value, each with the revision of its making and of its last change
//   leases   end where nobody renews them, and take their entries with them
//   watches  changes in order, with revisions (watch.h)
//   election built on these (election.h)
//
// Calls wait at most `timeout`. Errors:
//   kUnavailable      the store cannot be reached or has no quorum, which the message says. Of a
//                     change it is then not known whether it was made, or still will be: read again.
//   kInvalidArgument  the call is wrong, or the store refuses who calls
//   kDoesNotFit       a transaction beyond the limits of transaction.h
// A comparison that does not hold is none of these, but an outcome.
//
// Every member function may be called from any thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/entry.h"
#include "store/transaction.h"
#include "store/watch.h"

namespace tessera::store {

struct Lease {
  LeaseId id = 0;
  // What was granted, at least what was asked for. etcd counts in whole seconds, rounded up, with a
  // least time of its own (2 s as it comes).
  std::chrono::milliseconds ttl{0};
};

struct Renewal {
  bool is_alive = false;  // false: the lease has ended, and its entries are gone
  std::chrono::milliseconds ttl{0};
};

class Store {
 public:
  using Milliseconds = std::chrono::milliseconds;

  virtual ~Store() = default;

  // Never older than what was committed before the call, by whomever. An empty prefix: everything.
  virtual Result<Entries> read_prefix(std::string_view prefix, Milliseconds timeout) = 0;
  virtual Result<MaybeEntry> read(std::string_view key, Milliseconds timeout) = 0;

  virtual Result<CommitResult> commit(const Transaction& transaction, Milliseconds timeout) = 0;

  // A lease ends `ttl` after its last renewal reached the store, never earlier; with etcd up to 0.5 s
  // later, and after the loss of etcd's leader up to one ttl later. ttl: 1 ms to one day.
  virtual Result<Lease> grant_lease(Milliseconds ttl, Milliseconds timeout) = 0;
  virtual Result<Renewal> renew_lease(LeaseId lease, Milliseconds timeout) = 0;
  // Ends it now; one that has ended is no error.
  virtual Status revoke_lease(LeaseId lease, Milliseconds timeout) = 0;

  virtual Result<std::unique_ptr<Watch>> watch(std::string_view prefix, WatchOptions options,
                                               Milliseconds timeout) = 0;

  // Forgets the changes below `revision`: watches that have not got so far find a gap. Entries stay.
  virtual Status compact(Revision revision, Milliseconds timeout) = 0;

  // "in process", or the endpoints: for messages.
  virtual std::string describe() const = 0;
};

// What every store refuses with kInvalidArgument. Stores call these themselves.
Status check_lease_time(std::chrono::milliseconds ttl);
Status check_watch_start(Revision from);

}  // namespace tessera::store
