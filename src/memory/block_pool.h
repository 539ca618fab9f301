// The memory of a device cut into blocks: used, unused, and held.
//
//            allocate ── an unused block that fits, else a new one, for which unused ones may go
//   unused ◄──────────────────────────────────┐
//     │  reused first                         │ released
//     └────────────────────────────────────► used ── released while held ─► quarantine ─┐
//                                              ▲                                        │
//                                              └── a run holds the block                │
//   unused ◄──────────────────────────────────── the last hold is dropped ◄─────────────┘
//
// Addresses only: the bytes are elsewhere (device/device_memory.h). An address is never given to
// two blocks, not even one after the other, so that a stale address is always noticed. Nothing
// here allocates from the heap once the pool has seen its largest number of blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"

namespace tessera::memory {

// Bytes [base, base + bytes) of a device's address space.
struct PoolBlock {
  std::uint64_t base = 0;
  Bytes bytes;
  friend bool operator==(const PoolBlock&, const PoolBlock&) = default;
};

struct PoolCounters {
  std::int64_t blocks_made = 0;         // taken from fresh memory
  std::int64_t blocks_reused = 0;       // taken from the unused set
  std::int64_t blocks_dropped = 0;      // unused ones given up to make room
  std::int64_t blocks_quarantined = 0;  // released while a run held them, so far
  Bytes used, unused;                   // now; used includes what is in quarantine
  Bytes in_quarantine;                  // now: released, and held by runs
};

class BlockPool {
 public:
  // At most `capacity` bytes in blocks, used and unused; sizes are rounded up to `granule`.
  explicit BlockPool(Bytes capacity, Bytes granule = Bytes{256});

  struct Allocation {
    PoolBlock block;
    Bytes rounded;            // what the block takes of the capacity
    bool made = false;        // false: reused
    std::uint64_t place = 0;  // base of the memory behind it; that of its first owner if reused
  };
  // The error says how much is free and how much is unused or held.
  Result<Allocation> allocate(Bytes bytes);
  // Addresses for bytes that lie elsewhere and take nothing of the capacity. When the block is
  // released and not held, its place is among the dropped ones.
  Allocation adopt(Bytes bytes);
  // A used block by its base. While it is held it only goes to quarantine.
  Status release(std::uint64_t base);
  // A block that was just made has no memory behind it after all: as if it had never been.
  Status discard(std::uint64_t base);

  // Gives up the unused blocks: those that are made next take no more than they need.
  void trim() { drop_unused(0); }

  // A run begins or ends to use the block that holds `address`; it must be a used one.
  void hold(std::uint64_t address);
  void drop_hold(std::uint64_t address);

  // The used block that holds bytes [address, address + bytes) whole; blocks in quarantine count
  // only for those that hold them already. The error names the address.
  struct Place {
    std::uint64_t place = 0;  // base of the memory behind the block
    std::int64_t offset = 0;  // of the address in the block
  };
  Result<Place> find(std::uint64_t address, Bytes bytes) const;

  // Places whose blocks were dropped since the last call: their memory may be freed. The list's
  // room is used again.
  void take_dropped(std::vector<std::uint64_t>& places);

  const PoolCounters& counters() const { return counters_; }
  Bytes capacity() const { return capacity_; }

 private:
  struct Used {
    PoolBlock block;
    std::int64_t rounded = 0;
    std::uint64_t place = 0;
    std::int32_t holds = 0;
    bool released = false;
    bool adopted = false;
  };
  struct Unused {
    std::int64_t rounded = 0;
    std::uint64_t place = 0;
  };

  const Used* find_used(std::uint64_t address) const;
  Used& held(std::uint64_t address);
  void make_unused(const Used& used);
  void reserve_lists();
  // Takes the smallest unused block of at least `rounded` and at most `largest` bytes.
  bool take_unused(std::int64_t rounded, std::int64_t largest, Unused& taken);
  // Gives up unused blocks until they have at most this many bytes.
  void drop_unused(std::int64_t most);

  const Bytes capacity_, granule_;
  std::vector<Used> used_;      // by base
  std::vector<Unused> unused_;  // by size, then place
  std::vector<std::uint64_t> dropped_;
  std::uint64_t next_base_;
  PoolCounters counters_;
};

}  // namespace tessera::memory
