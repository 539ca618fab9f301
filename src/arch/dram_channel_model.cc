#include "arch/dram_channel_model.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace tessera {
namespace {

constexpr std::int64_t kEntryBytes = 64;  // of a queue

std::int32_t log2_of(std::int32_t size) {
  return std::countr_zero(static_cast<std::uint32_t>(size));
}

}  // namespace

DramChannelModel::DramChannelModel(const DramDevice& device, const DramChannelSettings& settings)
    : timing_(DramTiming::of(device)),
      mapping_(device, settings.gang, settings.interleave, settings.bank_hash),
      split_bus_(device.split_command_bus != 0),
      activate_in_two_(device.activate_in_two != 0),
      clock_on_demand_(device.clock_on_demand != 0),
      refresh_(settings.refresh),
      activate_slots_(device.activate_slots * (device.activate_in_two != 0 ? 2 : 1)),
      group_shift_(log2_of(device.banks_per_group)),
      pseudo_channel_shift_(group_shift_ + log2_of(device.bank_groups)),
      bursts_of_entry_(std::max<std::int64_t>(1, kEntryBytes / mapping_.burst_bytes())),
      capacity_(settings.queue_requests * bursts_of_entry_),
      write_high_(capacity_ * settings.write_high_percent),
      write_low_(capacity_ * settings.write_low_percent),
      write_wait_(settings.write_wait_bursts),
      burst_shift_(std::countr_zero(static_cast<std::uint64_t>(mapping_.burst_bytes()))),
      visits_(device, mapping_, settings.single_bursts),
      banks_(static_cast<std::size_t>(device.pseudo_channels * device.bank_groups *
                                      device.banks_per_group)),
      groups_(static_cast<std::size_t>(device.pseudo_channels * device.bank_groups)),
      pseudo_channels_(static_cast<std::size_t>(device.pseudo_channels)),
      refresh_at_(timing_.refresh_interval) {
  for (PseudoChannel& channel : pseudo_channels_) channel.activations.fill(-kDramNever);
  owners_.reserve(banks_.size());  // each holds a bank that is opened for no other
}

std::int64_t DramChannelModel::push(std::uint32_t request, std::uint64_t address,
                                    std::int64_t bytes, bool write, DramCycles now) {
  TESSERA_CHECK(bytes > 0 && now >= now_, "a request of {} bytes at {} after {}", bytes, now, now_);
  if (idle()) catch_up(now);
  const auto [first, end] = bursts_of(address, bytes);
  // Behind visits that wait for the same nothing changes.
  const bool joined = visits_.push(request, first, end, write);
  if (!joined || write != write_mode_) next_ = std::min(next_, soonest(now + 1));
  return static_cast<std::int64_t>(end - first);
}

std::int64_t DramChannelModel::gather(std::uint32_t request, std::uint64_t address,
                                      std::int64_t bytes, bool write) {
  TESSERA_CHECK(bytes > 0, "a run of {} bytes", bytes);
  const auto [first, end] = bursts_of(address, bytes);
  visits_.gather(request, first, end, write);
  return static_cast<std::int64_t>(end - first);
}

void DramChannelModel::enter_gathered(DramCycles now) {
  if (!visits_.gathering()) return;
  TESSERA_CHECK(now >= now_, "a request at {} after {}", now, now_);
  if (idle()) catch_up(now);
  visits_.enter_gathered();
  next_ = std::min(next_, soonest(now + 1));
}

bool DramChannelModel::idle() const {
  return visits_.waiting(false) + visits_.waiting(true) == 0 && owners_.empty() && opening_ < 0 &&
         announced_ < 0 && refreshes_due_ == 0;
}

std::int32_t DramChannelModel::lone() const {
  const bool commands = !owners_.empty() || opening_ >= 0 || announced_ >= 0 || refreshes_due_ > 0;
  if (commands || split_bus_ || visits_.waiting(!write_mode_) > 0 ||
      !visits_.one_wide(write_mode_)) {
    return -1;
  }
  const std::int32_t index = visits_.first_wide(write_mode_);
  return open(visits_[index]) ? index : -1;
}

DramCycles DramChannelModel::soonest(DramCycles from) {
  const std::int32_t index = lone();
  if (index < 0) return from;
  const DramCycles columns = std::max({from, column_from(visits_[index]), blocked_until_});
  return refresh_ ? std::min(columns, std::max(from, refresh_at_)) : columns;
}

// What happened since the channel had nothing to do: it is not stepped then.
void DramChannelModel::catch_up(DramCycles now) {
  if (now > now_) write_mode_ = true;  // no read waited
  while (refresh_ && refresh_at_ <= now) {
    for (std::size_t i = 0; i < pseudo_channels_.size(); ++i) {
      refresh_banks(static_cast<std::int32_t>(i), std::max(refresh_at_, blocked_until_));
    }
    refresh_at_ += timing_.refresh_interval;
    // Of those that follow all but the last leave no trace.
    const std::int64_t skipped = (now - refresh_at_) / timing_.refresh_interval;
    if (skipped > 0) {
      refresh_at_ += skipped * timing_.refresh_interval;
      counts_.refreshes += skipped * std::ssize(pseudo_channels_);
    }
  }
}

std::optional<DramTransfer> DramChannelModel::step() {
  TESSERA_CHECK(next_ < kDramNever, "a step of a channel in which nothing waits");
  now_ = next_;
  next_ = kDramNever;
  if (refresh_ && now_ >= refresh_at_) {
    refreshes_due_ += static_cast<std::int32_t>(pseudo_channels_.size());
    refresh_at_ += timing_.refresh_interval;
  }
  std::optional<DramTransfer> transfer;
  bool issued = true;
  if (announced_ >= 0) {
    transfer = columns(announced_, announced_owner_);
    announced_ = -1;
  } else {
    issued = slots(transfer);
  }
  if (idle()) {
    next_ = kDramNever;
  } else if (issued) {
    next_ = soonest(now_ + 1);
  } else if (refresh_) {
    next_ = std::min(next_, refresh_at_);
  }
  return transfer;
}

bool DramChannelModel::slots(std::optional<DramTransfer>& transfer) {
  if (const std::int32_t index = lone(); index >= 0) {
    const DramCycles from = std::max({column_from(visits_[index]), bus_free_[0], blocked_until_});
    if (from <= now_) return begin_column(index, false, transfer);
    next_ = std::min(next_, from);
    return false;
  }
  if (!split_bus_) return slot({.columns = true, .rows = true}, transfer);
  const bool column = slot({.columns = true, .rows = false}, transfer);
  return slot({.columns = false, .rows = true}, transfer) || column;
}

bool DramChannelModel::slot(Wanted wanted, std::optional<DramTransfer>& transfer) {
  const DramCycles free = bus_free_[bus(wanted.columns)];
  if (free > now_) {
    next_ = std::min(next_, free);
    return false;
  }
  if (wanted.columns && start_owner(transfer)) return true;
  if (now_ < blocked_until_) {
    next_ = std::min(next_, blocked_until_);
    return false;
  }
  if (refreshes_due_ > 0) return wanted.rows && (refresh_due_banks() || end_activation());
  set_mode();
  const Choice choice = choose(wanted);
  switch (choice.command) {
    case Command::kColumn:
      return begin_column(choice.visit, false, transfer);
    case Command::kPrecharge:
      precharge(choice.visit);
      return true;
    case Command::kActivate:
      activate(choice.visit);
      return true;
    case Command::kNone:
      break;
  }
  return wanted.rows && end_activation();
}

void DramChannelModel::set_mode() {
  const std::int64_t reads = visits_.waiting(false);
  const std::int64_t writes = visits_.waiting(true) * 100;
  const bool overdue = overdue_ > 0 && (writes > 0 || owned_writes_ > 0);
  const bool many = write_mode_ ? writes > 0 && writes >= write_low_ : writes > write_high_;
  write_mode_ = reads == 0 || overdue || many;
}

void DramChannelModel::count_passed(std::int64_t bursts, bool write) {
  if (write_wait_ == 0) return;
  const std::int64_t waiting = visits_.waiting(true) + owned_writes_;
  if (write) overdue_ = std::max<std::int64_t>(0, overdue_ - bursts);
  read_since_ = write || waiting == 0 ? 0 : read_since_ + bursts;
  if (read_since_ < write_wait_) return;
  overdue_ = waiting;
  read_since_ = 0;
}

// Commands only make columns later, so that what was found once holds until another row is opened.
bool DramChannelModel::start_owner(std::optional<DramTransfer>& transfer) {
  if (owners_.empty()) return false;
  if (owners_from_ <= now_) {
    owners_from_ = kDramNever;
    for (const std::int32_t owner : owners_) {
      const DramCycles from = column_from(visits_[owner]);
      if (from <= now_) {
        owners_from_ = 0;
        return begin_column(owner, true, transfer);
      }
      owners_from_ = std::min(owners_from_, from);
    }
  }
  next_ = std::min(next_, owners_from_);
  return false;
}

void DramChannelModel::add_owner(std::int32_t index) {
  owners_.push_back(index);
  if (visits_[index].write) owned_writes_ += visits_[index].bursts;
  owners_from_ = std::min(owners_from_, column_from(visits_[index]));
}

bool DramChannelModel::refresh_due_banks() {
  if ((owned_ & banks_of(refresh_channel_)) != 0) return false;
  refresh_banks(refresh_channel_, now_);
  refresh_channel_ = (refresh_channel_ + 1) % static_cast<std::int32_t>(pseudo_channels_.size());
  --refreshes_due_;
  return true;
}

bool DramChannelModel::end_activation() {
  if (opening_ < 0) return false;
  add_owner(opening_);
  opening_ = -1;
  use_bus(false, 1);
  return true;
}

DramChannelModel::Choice DramChannelModel::choose(Wanted wanted) {
  Choice choice;
  if (wanted.columns) look_at_hits(choice);
  if (wanted.rows) look_at_misses(choice);
  look_at_wide(wanted, choice);
  return choice;
}

void DramChannelModel::offer(Choice& choice, std::int32_t visit, Command command, DramCycles from) {
  if (from > now_) {
    next_ = std::min(next_, from);
    return;
  }
  const std::uint64_t age = visits_[visit].age;
  if (age < choice.age) choice = {.visit = visit, .age = age, .command = command};
}

void DramChannelModel::look_at_hits(Choice& choice) {
  std::uint64_t hits = visits_.hits(write_mode_);
  if (opening_ >= 0) hits &= ~visits_[opening_].banks;
  for (std::size_t i = 0; hits != 0 && i < pseudo_channels_.size(); ++i) {
    const std::uint64_t here = hits & banks_of(static_cast<std::int32_t>(i));
    if (here == 0 || bus_taken(pseudo_channels_[i])) continue;
    each_bank(here, [&](std::int32_t b) {
      const std::int32_t visit = visits_.oldest_hit(write_mode_, b);
      offer(choice, visit, Command::kColumn, column_from_bank(b, write_mode_));
    });
  }
}

// No column command of the mode may issue in the pseudo-channel, whatever its row and group.
bool DramChannelModel::bus_taken(const PseudoChannel& channel) {
  const DramCycles from = channel.column_from[write_mode_];
  if (from > now_) next_ = std::min(next_, from);
  return from > now_;
}

void DramChannelModel::look_at_misses(Choice& choice) {
  const std::uint64_t misses = visits_.misses(write_mode_) & ~owned_;
  each_bank(misses & open_, [&](std::int32_t b) {
    offer(choice, visits_.oldest_miss(write_mode_, b), Command::kPrecharge,
          banks_[static_cast<std::size_t>(b)].precharge_from);
  });
  if (opening_ >= 0) return;
  const std::uint64_t closed = misses & ~open_;
  for (std::size_t i = 0; closed != 0 && i < pseudo_channels_.size(); ++i) {
    const std::uint64_t here = closed & banks_of(static_cast<std::int32_t>(i));
    if (here == 0) continue;
    const DramCycles from = activation_from(pseudo_channels_[i]);
    if (from > now_) {
      next_ = std::min(next_, from);
      continue;
    }
    each_bank(here, [&](std::int32_t b) {
      offer(choice, visits_.oldest_miss(write_mode_, b), Command::kActivate, row_from(b));
    });
  }
}

void DramChannelModel::look_at_wide(Wanted wanted, Choice& choice) {
  for (std::int32_t i = visits_.first_wide(write_mode_); i >= 0; i = visits_[i].next) {
    const DramVisit& visit = visits_[i];
    if (visit.age > choice.age) continue;  // one that is older goes
    if (!open(visit)) {
      if (wanted.rows) offer_wide_row(choice, i);
    } else if (wanted.columns && !bus_taken(pseudo_channel_of(visit.bank)) &&
               (opening_ < 0 || (visit.banks & visits_[opening_].banks) == 0)) {
      offer(choice, i, Command::kColumn, column_from(visit));
    }
  }
}

// Closes the rows that are in the way once all of them may be closed; opens the first once it may be.
void DramChannelModel::offer_wide_row(Choice& choice, std::int32_t index) {
  const DramVisit& visit = visits_[index];
  bool others = false;
  bool owned = false;
  DramCycles close = 0;
  DramCycles open = kDramNever;
  each_bank(visit.banks, [&](std::int32_t b) {
    if (visits_.row(b) == visit.row) return;
    owned = owned || (owned_ >> b & 1) != 0;
    if ((open_ >> b & 1) != 0) {
      others = true;
      close = std::max(close, banks_[static_cast<std::size_t>(b)].precharge_from);
    } else {
      open = std::min(open, row_from(b));
    }
  });
  if (owned) return;
  if (others) {
    offer(choice, index, Command::kPrecharge, close);
  } else if (opening_ < 0) {
    offer(choice, index, Command::kActivate,
          std::max(open, activation_from(pseudo_channel_of(visit.bank))));
  }
}

DramCycles DramChannelModel::column_from_bank(std::int32_t bank, bool write) {
  return std::max({banks_[static_cast<std::size_t>(bank)].column_from[write],
                   group_of(bank).column_from[write], pseudo_channel_of(bank).column_from[write]});
}

DramCycles DramChannelModel::row_from(std::int32_t bank) {
  return std::max(banks_[static_cast<std::size_t>(bank)].activate_from,
                  group_of(bank).activate_from);
}

DramCycles DramChannelModel::activation_from(const PseudoChannel& channel) const {
  return std::max(channel.activate_from,
                  channel.activations[channel.oldest_activation] + timing_.faw);
}

bool DramChannelModel::begin_column(std::int32_t visit, bool owner,
                                    std::optional<DramTransfer>& transfer) {
  if (clock_on_demand_ && pseudo_channel_of(visits_[visit].bank).clock_until <= now_) {
    announced_ = visit;
    announced_owner_ = owner;
    use_bus(true, 1);
    return true;
  }
  transfer = columns(visit, owner);
  return true;
}

DramTransfer DramChannelModel::columns(std::int32_t index, bool owner) {
  const DramVisit& visit = visits_[index];
  const bool write = visit.write;
  const DramCycles last = now_ + std::max((visit.bursts - 1) * timing_.ccd_short,
                                          (visit.deepest - 1) * timing_.ccd_long);
  const DramCycles end = last + (write ? timing_.cwl : timing_.cl) + timing_.burst;  // of data
  use_bus(true, 1);
  PseudoChannel& channel = pseudo_channel_of(visit.bank);
  channel.column_from[write] = now_ + visit.bursts * timing_.ccd_short;
  DramCycles& turned = channel.column_from[!write];
  turned = std::max(turned, write ? end + timing_.wtr_short : last + timing_.read_to_write);
  channel.clock_until = std::max(channel.clock_until, end + 1);
  each_bank(visit.banks, [&](std::int32_t b) {
    Bank& bank = banks_[static_cast<std::size_t>(b)];
    Group& group = group_of(b);
    group.column_from[write] = now_ + visit.deepest * timing_.ccd_long;
    if (write) group.column_from[0] = std::max(group.column_from[0], end + timing_.wtr_long);
    bank.precharge_from =
        std::max(bank.precharge_from, write ? end + timing_.wr : last + timing_.rtp);
    if (owner && --bank.owners == 0) owned_ &= ~(std::uint64_t{1} << b);
  });
  counts_.hits += visit.bursts - visit.counted;
  if (owner && write) owned_writes_ -= visit.bursts;
  count_passed(visit.bursts, write);
  const DramTransfer transfer = {.request = visit.request,
                                 .bursts = visit.bursts,
                                 .write = write,
                                 .done_at = write ? last : end};
  if (owner) {
    owners_.erase(std::ranges::find(owners_, index));
  } else {
    visits_.remove(index);
  }
  visits_.release(index);
  return transfer;
}

void DramChannelModel::precharge(std::int32_t index) {
  DramVisit& visit = visits_[index];
  std::int32_t closed = 0;
  each_bank(visit.banks & open_, [&](std::int32_t b) {
    if (visits_.row(b) == visit.row) return;
    Bank& bank = banks_[static_cast<std::size_t>(b)];
    bank.activate_from = std::max(bank.activate_from, now_ + timing_.rp);
    open_ &= ~(std::uint64_t{1} << b);
    visits_.set_row(b, -1);
    ++closed;
  });
  count(visit, closed, counts_.conflicts);
  use_bus(false, closed);
}

void DramChannelModel::count(DramVisit& visit, std::int32_t bursts, std::int64_t& counter) {
  const std::int32_t left = std::popcount(visit.banks) - visit.counted;
  const std::int32_t counted = std::min(bursts, left);
  visit.counted += counted;
  counter += counted;
}

void DramChannelModel::activate(std::int32_t index) {
  const std::uint64_t closed = visits_[index].banks & ~open_;
  const std::int32_t row = visits_[index].row;
  count(visits_[index], std::max(0, std::popcount(closed) - visits_[index].counted),
        counts_.misses);
  visits_.remove(index);
  each_bank(closed, [&](std::int32_t b) { activate_bank(b, row); });
  each_bank(visits_[index].banks,
            [&](std::int32_t b) { ++banks_[static_cast<std::size_t>(b)].owners; });
  owned_ |= visits_[index].banks;
  if (activate_in_two_ && !visits_[index].wide) {
    opening_ = index;
    use_bus(false, 1);
    return;
  }
  add_owner(index);
  use_bus(false, activate_slots_ * std::popcount(closed));
}

void DramChannelModel::activate_bank(std::int32_t b, std::int32_t row) {
  Bank& bank = banks_[static_cast<std::size_t>(b)];
  Group& group = group_of(b);
  PseudoChannel& channel = pseudo_channel_of(b);
  const DramCycles at = std::max({now_, row_from(b), activation_from(channel)});
  channel.activations[channel.oldest_activation] = at;
  channel.oldest_activation = (channel.oldest_activation + 1) % channel.activations.size();
  channel.activate_from = at + timing_.rrd_short;
  group.activate_from = at + timing_.rrd_long;
  bank.activate_from = at + timing_.rc;
  bank.precharge_from = at + timing_.ras;
  bank.column_from = {at + timing_.rcd[0], at + timing_.rcd[1]};
  open_ |= std::uint64_t{1} << b;
  visits_.set_row(b, row);
}

// Closes the banks of a pseudo-channel once all may be closed, not before `from`, and refreshes
// them. Nothing but those that own rows of another pseudo-channel issues until the refresh has.
void DramChannelModel::refresh_banks(std::int32_t pseudo_channel, DramCycles from) {
  const std::uint64_t banks = banks_of(pseudo_channel);
  DramCycles at = from;
  if ((open_ & banks) != 0) {
    DramCycles close = from;
    each_bank(banks, [&](std::int32_t b) {
      close = std::max(close, banks_[static_cast<std::size_t>(b)].precharge_from);
    });
    each_bank(banks, [&](std::int32_t b) {
      Bank& bank = banks_[static_cast<std::size_t>(b)];
      bank.activate_from = std::max(bank.activate_from, close + timing_.rp_all);
      visits_.set_row(b, -1);
    });
    open_ &= ~banks;
    at = close + 1;
  }
  each_bank(banks, [&](std::int32_t b) {
    at = std::max(at, banks_[static_cast<std::size_t>(b)].activate_from);
  });
  each_bank(banks, [&](std::int32_t b) {
    banks_[static_cast<std::size_t>(b)].activate_from = at + timing_.refresh;
  });
  blocked_until_ = at + 1;
  ++counts_.refreshes;
}

}  // namespace tessera
