// A transaction: comparisons, and the changes that are made, all of them or none, where every
// comparison holds.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/entry.h"

namespace tessera::store {

enum class CompareWith { kModified, kCreated, kValue };
enum class Relation { kEqual, kNotEqual, kLess, kGreater };

// An entry that is not there has the revisions 0. A comparison of its value never holds.
struct Comparison {
  std::string key{};
  CompareWith with = CompareWith::kModified;
  Relation relation = Relation::kEqual;
  Revision revision = 0;  // of kModified and kCreated
  std::string value{};    // of kValue
};

Comparison modified_at(std::string key, Revision revision);
Comparison created_at(std::string key, Revision revision);
Comparison absent(std::string key);
Comparison has_value(std::string key, std::string value);

struct Put {
  std::string key{}, value{};
  LeaseId lease = 0;  // 0: the entry stays until it is deleted
};

// A key stands in at most one put or delete.
struct Transaction {
  std::vector<Comparison> comparisons{};
  std::vector<Put> puts{};
  std::vector<std::string> deletes{};  // of keys; one that is not there is no error
};

enum class CommitOutcome {
  kDone,
  kComparisonFailed,  // nothing was changed
  kLeaseEnded,        // a put names a lease that is no more; nothing was changed
};

struct CommitResult {
  CommitOutcome outcome = CommitOutcome::kDone;
  // kDone: of the change, or the store's where there was nothing to change. Otherwise the store's at
  // the comparison, 0 for kLeaseEnded.
  Revision revision = 0;

  bool succeeded() const { return outcome == CommitOutcome::kDone; }
};

// What every store grants; those of etcd as it comes.
inline constexpr std::size_t kComparisonsMax = 128;
inline constexpr std::size_t kChangesMax = 128;                   // puts and deletes together
inline constexpr std::size_t kTransactionBytesMax = 1024 * 1024;  // keys and values together
inline constexpr std::size_t kKeyBytesMax = 4096;

// Whether any store would take it: kInvalidArgument for an empty key or one that is changed twice,
// kDoesNotFit beyond the limits. Stores call it themselves.
Status check_transaction(const Transaction& transaction);

}  // namespace tessera::store
