// What waits in the queues of a DRAM channel, oldest first: visits. A visit is the bursts of one
// request that lie in one row of one bank, or neighbours in rows of the same number of several bank
// groups (then it is wide).
//
//   request ─► cut ─► visit of one bank ─► list of its bank   ─┐ by age: the numbers of visits
//    (runs)       └─► wide visit ────────► those of its banks ─┴─► the scheduler looks at one hit and
//                                          and its row             one miss of a bank, and at one of
//                                                                  each set of wide ones
//
// All visits of a bank that its open row serves (hits) may go at the same time, and so may all
// others (misses), and all wide ones of the same banks and row, so that the oldest of each stands for
// the rest.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "arch/dram_mapping.h"

namespace tessera {

inline constexpr std::int32_t kDramBanksMax = 64;  // of a channel: a set of banks is one word

struct DramVisit {
  std::uint64_t banks = 0;  // one bit a bank
  std::uint64_t age = 0;    // visits are numbered
  std::uint32_t request = 0;
  std::int32_t row = 0;
  std::int32_t bursts = 0;
  std::int32_t deepest = 0;               // most bursts in one bank
  std::int32_t counted = 0;               // bursts that were counted as a miss or a conflict
  std::int32_t bank = 0;                  // the lowest of `banks`
  std::int32_t next = -1, previous = -1;  // in its list
  std::int32_t behind = -1;               // wide: the next one of these banks and this row
  std::int32_t last = -1;                 // wide, of those the oldest: the youngest
  bool write = false;
  bool wide = false;  // more than one bank
};

class DramVisits {
 public:
  // Visits of at most `single_bursts` bursts are entered burst by burst.
  DramVisits(const DramDevice& device, const DramMapping& mapping, std::int32_t single_bursts);

  // Enters bursts [first, end) of a request. Whether all of them wait behind wide visits of the same
  // banks and row.
  bool push(std::uint32_t request, std::uint64_t first, std::uint64_t end, bool write);
  // Enters a request of many runs: gather() each of them, then enter_gathered(). Those two and push()
  // alone allocate memory.
  void gather(std::uint32_t request, std::uint64_t first, std::uint64_t end, bool write);
  bool gathering() const { return gathered_bursts_ != 0; }
  void enter_gathered();
  // Takes the oldest visit out of its list; it stays valid until release().
  void remove(std::int32_t index);
  void release(std::int32_t index);

  // The rows that are open. -1: none.
  void set_row(std::int32_t bank, std::int32_t row);
  std::int32_t row(std::int32_t bank) const { return rows_[static_cast<std::size_t>(bank)]; }

  DramVisit& operator[](std::int32_t index) { return pool_[static_cast<std::size_t>(index)]; }
  const DramVisit& operator[](std::int32_t index) const {
    return pool_[static_cast<std::size_t>(index)];
  }

  // Bursts that wait, and banks with visits of one bank that wait for their open row (hits) or for
  // another (misses).
  std::int64_t waiting(bool write) const { return sides_[write].bursts; }
  std::uint64_t hits(bool write) const { return sides_[write].hits; }
  std::uint64_t misses(bool write) const { return sides_[write].misses; }
  std::int32_t oldest_hit(bool write, std::int32_t bank) const {
    return sides_[write].banks[static_cast<std::size_t>(bank)].hit;
  }
  std::int32_t oldest_miss(bool write, std::int32_t bank) const {
    return sides_[write].banks[static_cast<std::size_t>(bank)].miss;
  }
  // Wide visits: the oldest of some banks and a row; those of others follow by DramVisit::next. -1:
  // none.
  std::int32_t first_wide(bool write) const { return sides_[write].wide.head; }
  // All that wait in a direction are wide and of the same banks and row.
  bool one_wide(bool write) const {
    const Side& side = sides_[write];
    return side.wide.head >= 0 && side.wide.head == side.wide.tail &&
           (side.hits | side.misses) == 0;
  }

 private:
  struct List {
    std::int32_t head = -1, tail = -1;
  };
  struct BankVisits {
    List list;
    std::int32_t hit = -1, miss = -1;  // the oldest of each
  };
  struct Side {  // reads or writes
    std::array<BankVisits, kDramBanksMax> banks;
    List wide;
    std::uint64_t hits = 0, misses = 0;
    std::int64_t bursts = 0;
  };

  // What a request wants of a row of one bank.
  struct Piece {
    DramPlace place;
    std::int32_t bursts = 0;
  };
  // Bursts [first, end): chunk by chunk, those of one row are one piece.
  void cut(std::uint64_t first, std::uint64_t end);
  void add_to_piece(std::uint64_t burst, std::int32_t bursts);
  void enter_pieces(const DramVisit& like);
  void enter_burst(std::uint64_t burst, const DramVisit& like);
  // With groups below bits of the column: a visit for each row of them and pseudo-channel.
  bool push_rows(std::uint64_t first, std::uint64_t end, const DramVisit& like);
  struct Extent {
    std::uint64_t banks = 0;
    std::int32_t row = 0;
    std::int32_t bursts = 0;
    std::int32_t deepest = 0;
  };
  // Bursts of one row of all groups, in the pseudo-channel of chunk `chunk`, the first one there.
  Extent extent_of_row(std::uint64_t first, std::uint64_t end, std::uint64_t chunk) const;
  std::int32_t new_visit(const Extent& extent, const DramVisit& like);
  // The most bursts that a bank has of `bursts` neighbouring ones spread over the groups.
  std::int32_t deepest_of(std::int32_t bursts) const;
  // Whether it waits behind others of its banks and row.
  bool enter(std::int32_t index);
  bool enter_wide(Side& side, std::int32_t index);
  void remove_wide(Side& side, std::int32_t index);

  void reserve(std::size_t visits);
  std::int32_t allocate();
  void append(List& list, std::int32_t index);
  void unlink(List& list, std::int32_t index);
  // Finds the oldest hit and miss of a bank again, from a visit of its list on.
  void find_hit(Side& side, std::int32_t bank, std::int32_t from);
  void find_miss(Side& side, std::int32_t bank, std::int32_t from);

  const DramMapping mapping_;
  const std::int32_t single_bursts_, pseudo_channels_, groups_, banks_of_group_, banks_;
  std::uint64_t groups_mask_ = 0;  // the first bank of each group
  std::array<Side, 2> sides_;
  std::array<std::int32_t, kDramBanksMax> rows_;
  std::vector<DramVisit> pool_;
  std::vector<std::int32_t> free_;
  std::uint64_t age_ = 0;
  std::vector<Piece> pieces_;                            // of the request that is cut
  std::array<std::size_t, kDramBanksMax> last_piece_{};  // of each bank
  DramVisit gathered_;                           // request and direction of what is gathered
  std::int64_t gathered_bursts_ = 0;             // 0: nothing is
  std::vector<std::uint64_t> gathered_singles_;  // its bursts, while they are few
};

}  // namespace tessera
