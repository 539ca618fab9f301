// The oracle of DramChannelModel: one DRAM channel, cycle by cycle and burst by burst. Queues are
// lists that are searched from the front; every cycle gives away its command slots anew.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "arch/dram_channel_model.h"

namespace tessera {

class PlainDram {
 public:
  // settings.single_bursts means nothing here.
  PlainDram(const DramDevice& device, const DramChannelSettings& settings);

  bool room(bool write) const;
  // As DramChannelModel::push. Requests may issue from the next tick() on.
  std::int64_t push(std::uint32_t request, std::uint64_t address, std::int64_t bytes, bool write);
  // One cycle: cycle 1 is the first. Appends what was issued.
  void tick(std::vector<DramTransfer>& transfers);

  const DramCounts& counts() const { return counts_; }

 private:
  enum class Command { kNone, kPrecharge, kActivate, kColumn };
  struct Burst {
    std::uint32_t request = 0;
    std::uint64_t serial = 0;
    std::size_t pseudo_channel = 0, group = 0, bank = 0;  // positions in the vectors below
    std::int32_t row = 0;
    bool write = false;
    bool counted = false;
  };
  struct Bank {
    std::int32_t row = -1;
    bool opening = false;  // between the two commands of an activation
    DramCycles activate_from = 0, precharge_from = 0;
    std::array<DramCycles, 2> column_from{};
  };
  struct Group {
    DramCycles activate_from = 0;
    std::array<DramCycles, 2> column_from{};
  };
  struct PseudoChannel {
    DramCycles activate_from = 0;
    std::array<DramCycles, 2> column_from{};
    std::deque<DramCycles> activations;  // the last four
    DramCycles clock_until = -1;
  };
  struct Next {
    Command command = Command::kNone;
    DramCycles from = 0;
  };

  Next next_command(const Burst& burst) const;
  bool pass(bool columns, bool rows);
  bool scan(std::deque<Burst>& queue, bool columns, bool rows);
  void issue(std::deque<Burst>& queue, std::size_t position, Command command);
  void column(const Burst& burst);
  std::int64_t writes_waiting() const;
  void activate(const Burst& burst);
  void issue_announced();
  bool end_activation();
  bool refresh_front();
  void count(Burst& burst);
  bool owned(std::size_t bank) const;
  bool owned_pseudo_channel(std::size_t pseudo_channel) const;

  const DramDevice device_;
  const DramChannelSettings settings_;
  const DramTiming timing_;
  const DramMapping mapping_;
  std::size_t entry_bursts_, capacity_;
  std::vector<PseudoChannel> pseudo_channels_;
  std::vector<Group> groups_;
  std::vector<Bank> banks_;
  std::deque<Burst> reads_, writes_;
  std::deque<Burst> owners_;           // whose rows were opened for them
  std::deque<Burst> opening_;          // at most one: its activation lacks the second command
  std::deque<Burst> announced_;        // at most one: its column command comes next
  std::deque<std::size_t> refreshes_;  // pseudo-channels that are due
  std::vector<DramTransfer>* transfers_ = nullptr;
  std::int64_t read_since_ = 0, overdue_ = 0;
  bool write_mode_ = false;
  DramCycles now_ = 0, refresh_at_ = 0, row_bus_from_ = 0;
  std::uint64_t serial_ = 0;
  DramCounts counts_;
};

}  // namespace tessera
