// The order of tasks on blocks. A task takes its place behind all that were submitted before it,
// with all of its blocks at once, so that no two tasks wait for each other:
//
//   block x   [ write 7 | read 9 | read 10 | write 12 ]     9 and 10 may go when 7 has left,
//   block y   [ read 10 | write 12 ]                        12 when all have
//
// A task that may not go at once waits outside of any pipeline and is called when its turn comes.
//
// A task that is over may have a run that is not: one that was given up and goes on in its kernel.
// Its places stay (RetainedTurns). What it was to write holds nothing, so its readers need not
// wait for it: they may go, and find the error.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "base/result.h"

namespace tessera::runtime {

class BlockClaim;

// What tasks have an order on.
class OrderedBlock {
 public:
  OrderedBlock() = default;
  virtual ~OrderedBlock() = default;
  OrderedBlock(const OrderedBlock&) = delete;
  OrderedBlock& operator=(const OrderedBlock&) = delete;

  // The task that was to write it ended without a result, and it holds nothing.
  virtual void invalidate(Status why) = 0;

 private:
  friend class BlockOrder;
  // Under the lock of the order: who uses the block, in turn.
  struct Place {
    BlockClaim* claim = nullptr;
    bool writes = false, granted = false, retained = false;
  };
  std::vector<Place> places_;
  std::size_t places_expected_ = 0;  // more, of those that were prepared
};

// A task's places. It lives where its task does, and has left before it goes.
class BlockClaim {
 public:
  BlockClaim() = default;
  virtual ~BlockClaim() = default;
  BlockClaim(const BlockClaim&) = delete;
  BlockClaim& operator=(const BlockClaim&) = delete;

  struct Use {
    std::shared_ptr<OrderedBlock> block;  // shared with the application
    bool writes = false;
  };
  std::vector<Use> uses;

 protected:
  // Its turn has come. By the thread that left before it, without locks held.
  virtual void proceed() = 0;

 private:
  friend class BlockOrder;
  std::size_t missing_ = 0;
  BlockClaim* next_ready_ = nullptr;
  bool prepared_ = false, inside_ = false;
};

// One for all blocks of a runtime. Thread-safe.
class BlockOrder {
 public:
  // Each block once in `claim.uses`. True: it may go; false: it will be called to proceed. Throws
  // std::bad_alloc, and nothing has changed then; but not after prepare().
  bool enter(BlockClaim& claim);
  // The same where it may go at once; false: nothing has changed.
  bool try_enter(BlockClaim& claim);
  // Makes room for its places. Throws std::bad_alloc. It enters, or is forgotten.
  void prepare(BlockClaim& claim);
  void forget(BlockClaim& claim);
  // What waited for it may go; takes no memory. Nothing where it is not inside.
  void leave(BlockClaim& claim);
  // Its task is over without a result, and devices still use the blocks: only their writers wait
  // for it.
  void retain(BlockClaim& claim);
  bool is_used(const OrderedBlock& block) const;

 private:
  void prepare_locked(BlockClaim& claim);
  static bool may_go(const BlockClaim::Use& use);
  bool enter_locked(BlockClaim& claim);
  static BlockClaim* grant(OrderedBlock& block, BlockClaim* ready);
  static void proceed(BlockClaim* ready);

  mutable std::mutex mutex_;
};

}  // namespace tessera::runtime
