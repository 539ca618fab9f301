// The time of one DRAM channel, by the rules of the device and of a first-ready scheduler.
//
//   push ─► read queue  ─┐ mode: reads, or writes while their queue drains
//           write queue ─┴─► the oldest visit whose next command may issue ─► precharge, activate,
//                                                                             column commands ─► bus
//
// Rules, in the order in which a command slot is given away:
//   1. The visit for which a row was opened goes first, whatever the mode; its row is not closed
//      before.
//   2. A refresh that is due waits for those, then closes all banks of a pseudo-channel; nothing else
//      issues meanwhile. Pseudo-channels are refreshed one after the other.
//   3. Mode: to writes above write_high_percent of the queue or where no read waits; back below
//      write_low_percent where one does. To writes too where write_wait_bursts were read since one
//      waits, until as many are written as waited then.
//   4. The oldest visit of the mode whose next command may issue now. Hits are not preferred.
//   5. Where an activation is two commands, the second one goes when nothing else can, and no other
//      activation begins before.
// With two command buses a column command and then a row command may issue in one cycle.
//
// Requests of up to kDramSingleBursts bursts are taken burst by burst; larger ones as visits
// (dram_visits.h), of which each takes the bus for n * tCCD_S and each bank group for
// deepest * tCCD_L at once. So the cost of simulation is that of rows, not of bytes.
//
// Times are cycles of the device's clock. One thread at a time; no step allocates memory.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "arch/dram_device.h"
#include "arch/dram_mapping.h"
#include "arch/dram_visits.h"

namespace tessera {

inline constexpr DramCycles kDramNever = INT64_MAX / 4;
inline constexpr std::int32_t kDramSingleBursts = 4;

struct DramChannelSettings {
  std::int32_t gang = 1;  // devices in lockstep, a power of two
  DramInterleave interleave = DramInterleave::kRow;
  bool bank_hash = false;
  std::int32_t queue_requests =
      64;  // of 64 B (or one burst, where that is more), for each direction
  std::int32_t write_high_percent = 80;
  std::int32_t write_low_percent = 20;
  std::int32_t write_wait_bursts = 0;  // 0: writes wait as long as there are reads
  bool refresh = true;
  std::int32_t single_bursts = kDramSingleBursts;
};

// Column commands that were issued.
struct DramTransfer {
  std::uint32_t request = 0;
  std::int32_t bursts = 0;
  bool write = false;
  DramCycles done_at = 0;  // read: last data; write: last command
};

// Per burst, by the state of the bank when the first command for it issued: its row open; closed
// (also where another request has just closed it); another row open. And refreshes, of each
// pseudo-channel.
struct DramCounts {
  std::int64_t hits = 0, misses = 0, conflicts = 0, refreshes = 0;

  friend DramCounts operator-(const DramCounts& a, const DramCounts& b) {
    return {a.hits - b.hits, a.misses - b.misses, a.conflicts - b.conflicts,
            a.refreshes - b.refreshes};
  }
};

class DramChannelModel {
 public:
  // The device is copied.
  DramChannelModel(const DramDevice& device, const DramChannelSettings& settings);

  // A request may enter: its queue has room for 64 B. A longer one may exceed the queue.
  bool room(bool write) const { return visits_.waiting(write) + bursts_of_entry_ <= capacity_; }
  // Enters a request of `bytes` > 0 at an address of this channel; it may issue in the cycle after
  // `now`, which is no earlier than the last step. Returns its bursts: it is complete when as many
  // have been transferred, at the largest done_at of them.
  std::int64_t push(std::uint32_t request, std::uint64_t address, std::int64_t bytes, bool write,
                    DramCycles now);
  // The same for a request of many runs: gather() each of them, then enter_gathered(). Its bursts in
  // one row go together, whichever run they are of.
  std::int64_t gather(std::uint32_t request, std::uint64_t address, std::int64_t bytes, bool write);
  void enter_gathered(DramCycles now);
  // When the channel next has something to do; kDramNever while nothing waits.
  DramCycles next() const { return next_; }
  // Does what is due at next(). Call again, as long as next() is not later than the present.
  std::optional<DramTransfer> step();

  const DramCounts& counts() const { return counts_; }
  const DramTiming& timing() const { return timing_; }
  std::int64_t burst_bytes() const { return mapping_.burst_bytes(); }
  std::int64_t waiting_bursts(bool write) const { return visits_.waiting(write); }

 private:
  struct Bank {
    DramCycles activate_from = 0, precharge_from = 0;
    std::array<DramCycles, 2> column_from{};  // read, write
    std::int32_t owners = 0;                  // visits that its row was opened for
  };
  struct Group {
    DramCycles activate_from = 0;
    std::array<DramCycles, 2> column_from{};
  };
  struct PseudoChannel {
    DramCycles activate_from = 0;
    std::array<DramCycles, 2> column_from{};
    std::array<DramCycles, 4> activations{};  // the last four, a ring
    std::size_t oldest_activation = 0;
    DramCycles clock_until = -1;  // the data clock runs; with clock_on_demand
  };
  enum class Command : std::uint8_t { kNone, kColumn, kPrecharge, kActivate };
  // The oldest that may go now.
  struct Choice {
    std::int32_t visit = -1;
    std::uint64_t age = UINT64_MAX;
    Command command = Command::kNone;
  };
  struct Wanted {
    bool columns, rows;
  };

  PseudoChannel& pseudo_channel_of(std::int32_t bank) {
    return pseudo_channels_[static_cast<std::size_t>(bank >> pseudo_channel_shift_)];
  }
  Group& group_of(std::int32_t bank) {
    return groups_[static_cast<std::size_t>(bank >> group_shift_)];
  }
  template <typename F>
  static void each_bank(std::uint64_t banks, F&& f) {
    for (; banks != 0; banks &= banks - 1) f(std::countr_zero(banks));
  }
  std::uint64_t banks_of(std::int32_t pseudo_channel) const {
    const std::int32_t banks = std::int32_t{1} << pseudo_channel_shift_;
    return (~std::uint64_t{0} >> (kDramBanksMax - banks)) << (pseudo_channel * banks);
  }

  struct Bursts {
    std::uint64_t first, end;
  };
  Bursts bursts_of(std::uint64_t address, std::int64_t bytes) const {
    return {address >> burst_shift_,
            ((address + static_cast<std::uint64_t>(bytes) - 1) >> burst_shift_) + 1};
  }
  bool idle() const;
  // The visit whose columns are all that may issue next; -1: the queue has to be looked at.
  std::int32_t lone() const;
  // When something may issue at the earliest, in `from` or later.
  DramCycles soonest(DramCycles from);
  bool slots(std::optional<DramTransfer>& transfer);
  void catch_up(DramCycles now);
  // One slot of a command bus: returns whether something issued, otherwise next_ says when it may.
  bool slot(Wanted wanted, std::optional<DramTransfer>& transfer);
  void set_mode();
  void count_passed(std::int64_t bursts, bool write);
  bool start_owner(std::optional<DramTransfer>& transfer);
  void add_owner(std::int32_t index);
  bool refresh_due_banks();
  bool end_activation();

  // The candidates of the mode.
  Choice choose(Wanted wanted);
  void offer(Choice& choice, std::int32_t visit, Command command, DramCycles from);
  void look_at_hits(Choice& choice);
  bool bus_taken(const PseudoChannel& channel);
  void look_at_misses(Choice& choice);
  void look_at_wide(Wanted wanted, Choice& choice);
  void offer_wide_row(Choice& choice, std::int32_t index);

  // From when a command may issue.
  DramCycles column_from_bank(std::int32_t bank, bool write);
  DramCycles column_from(const DramVisit& visit) const {
    const std::int32_t channel = visit.bank >> pseudo_channel_shift_;
    DramCycles from = pseudo_channels_[static_cast<std::size_t>(channel)].column_from[visit.write];
    each_bank(visit.banks, [&](std::int32_t b) {
      const Bank& bank = banks_[static_cast<std::size_t>(b)];
      const Group& group = groups_[static_cast<std::size_t>(b >> group_shift_)];
      from = std::max({from, bank.column_from[visit.write], group.column_from[visit.write]});
    });
    return from;
  }
  // All its rows are.
  bool open(const DramVisit& visit) const {
    std::int32_t different = 0;
    each_bank(visit.banks, [&](std::int32_t b) { different |= visits_.row(b) ^ visit.row; });
    return different == 0;
  }
  DramCycles row_from(std::int32_t bank);  // an activation, as far as bank and group go
  DramCycles activation_from(const PseudoChannel& channel) const;

  // The commands.
  bool begin_column(std::int32_t visit, bool owner, std::optional<DramTransfer>& transfer);
  DramTransfer columns(std::int32_t index, bool owner);
  void precharge(std::int32_t index);
  void activate(std::int32_t index);
  void activate_bank(std::int32_t bank, std::int32_t row);
  void refresh_banks(std::int32_t pseudo_channel, DramCycles from);
  static void count(DramVisit& visit, std::int32_t bursts, std::int64_t& counter);
  std::size_t bus(bool column) const { return split_bus_ && !column ? 1 : 0; }
  void use_bus(bool column, DramCycles cycles) { bus_free_[bus(column)] = now_ + cycles; }

  const DramTiming timing_;
  const DramMapping mapping_;
  const bool split_bus_, activate_in_two_, clock_on_demand_, refresh_;
  const std::int32_t activate_slots_, group_shift_, pseudo_channel_shift_;
  const std::int64_t bursts_of_entry_, capacity_, write_high_, write_low_;  // the last two: x 100
  const std::int64_t write_wait_;
  const int burst_shift_;

  DramVisits visits_;
  std::vector<Bank> banks_;
  std::vector<Group> groups_;
  std::vector<PseudoChannel> pseudo_channels_;
  std::uint64_t open_ = 0, owned_ = 0;  // banks
  std::vector<std::int32_t> owners_;    // visits whose rows were opened for them, in that order
  DramCycles owners_from_ = 0;          // none of their columns may issue before
  std::int32_t opening_ = -1;           // the visit whose activation lacks its second command
  std::int32_t announced_ = -1;         // the visit whose column command follows that for the clock
  bool announced_owner_ = false;
  // Bursts: of owners that write; read since one waits to be written; that have waited long enough.
  std::int64_t owned_writes_ = 0, read_since_ = 0, overdue_ = 0;
  bool write_mode_ = false;
  std::array<DramCycles, 2> bus_free_{};  // columns or all commands; rows
  DramCycles now_ = 0, next_ = kDramNever;
  DramCycles refresh_at_ = 0, blocked_until_ = 0;
  std::int32_t refreshes_due_ = 0, refresh_channel_ = 0;
  DramCounts counts_;
};

}  // namespace tessera
