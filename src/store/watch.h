// A watch: the changes below a prefix, in the order of their revisions, none left out in silence.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "store/entry.h"

namespace tessera::store {

enum class ChangeKind { kPut, kDelete };

struct Change {
  ChangeKind kind = ChangeKind::kPut;
  Entry entry{};  // as it is now; of a delete the key, and as `modified` the revision of the delete

  friend bool operator==(const Change&, const Change&) = default;
};

// The changes of one or more whole revisions, each newer than those of the batch before.
struct Batch {
  // True: the store no longer has the changes from where the watch was (compaction, or the store lost
  // its data). `changes` is empty, and nothing follows: read the prefix again, and watch from the
  // revision of what was read + 1.
  bool is_gap = false;
  Revision revision = 0;  // the last one in it; of a gap the oldest that can still be watched, or 0
  std::vector<Change> changes{};
};

struct WatchOptions {
  // The first revision of interest. 0: what comes from now on, which is the revision after that of
  // the store when watch() returns.
  Revision from = 0;
  // Called when next() has something after it had nothing: on any thread, while the store may be
  // inside, so it only sets a flag or wakes somebody, and calls neither the store nor the watch.
  std::function<void()> on_ready{};
};

// Goes on over lost connections and members by itself: a store that cannot be reached is silence.
// Where the reader is slow, the store waits: there is a bound to what is kept for it.
// One thread calls next(); cancel() may come from any. Its store outlives it.
class Watch {
 public:
  virtual ~Watch() = default;  // cancels

  // The next batch; nothing where none came in time, or after cancel(). With a time of 0 it does not
  // wait. An error where the store refuses the watch for good (kInvalidArgument).
  virtual Result<std::optional<Batch>> next(std::chrono::milliseconds timeout) = 0;

  // Wakes next(), which finds nothing from now on.
  virtual void cancel() = 0;
};

}  // namespace tessera::store
