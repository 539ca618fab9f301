#include "arch/testing/plain_dram.h"

#include <algorithm>

namespace tessera {

PlainDram::PlainDram(const DramDevice& device, const DramChannelSettings& settings)
    : device_(device),
      settings_(settings),
      timing_(DramTiming::of(device)),
      mapping_(device, settings.gang, settings.interleave, settings.bank_hash) {
  const auto pseudo_channels = static_cast<std::size_t>(device.pseudo_channels);
  const std::size_t groups = pseudo_channels * static_cast<std::size_t>(device.bank_groups);
  pseudo_channels_.resize(pseudo_channels);
  groups_.resize(groups);
  banks_.resize(groups * static_cast<std::size_t>(device.banks_per_group));
  entry_bursts_ = static_cast<std::size_t>(std::max<std::int64_t>(1, 64 / mapping_.burst_bytes()));
  capacity_ = entry_bursts_ * static_cast<std::size_t>(settings.queue_requests);
  refresh_at_ = timing_.refresh_interval;
}

bool PlainDram::room(bool write) const {
  return (write ? writes_ : reads_).size() + entry_bursts_ <= capacity_;
}

std::int64_t PlainDram::push(std::uint32_t request, std::uint64_t address, std::int64_t bytes,
                             bool write) {
  const auto burst_bytes = static_cast<std::uint64_t>(mapping_.burst_bytes());
  const std::uint64_t first = address / burst_bytes;
  const std::uint64_t last = (address + static_cast<std::uint64_t>(bytes) - 1) / burst_bytes;
  for (std::uint64_t burst = first; burst <= last; ++burst) {
    const DramPlace place = mapping_.place(burst);
    const auto bank = static_cast<std::size_t>(place.bank);
    const std::size_t group = bank / static_cast<std::size_t>(device_.banks_per_group);
    (write ? writes_ : reads_)
        .push_back({.request = request,
                    .serial = serial_++,
                    .pseudo_channel = group / static_cast<std::size_t>(device_.bank_groups),
                    .group = group,
                    .bank = bank,
                    .row = place.row,
                    .write = write});
  }
  return static_cast<std::int64_t>(last - first + 1);
}

void PlainDram::tick(std::vector<DramTransfer>& transfers) {
  ++now_;
  transfers_ = &transfers;
  if (settings_.refresh && now_ >= refresh_at_) {
    refresh_at_ += timing_.refresh_interval;
    for (std::size_t i = 0; i < pseudo_channels_.size(); ++i) refreshes_.push_back(i);
  }
  if (!announced_.empty()) {
    issue_announced();
  } else if (device_.split_command_bus != 0) {
    pass(true, false);
    if (now_ >= row_bus_from_) pass(false, true);
  } else {
    pass(true, true);
  }
}

// One command slot. Whether it was used.
bool PlainDram::pass(bool columns, bool rows) {
  if (columns && scan(owners_, true, false)) return true;
  if (!refreshes_.empty()) return rows && (refresh_front() || end_activation());
  const double writes = static_cast<double>(writes_.size()) * 100;
  const auto capacity = static_cast<double>(capacity_);
  const bool overdue = overdue_ > 0 && writes_waiting() > 0;
  if (!write_mode_ &&
      (writes > capacity * settings_.write_high_percent || reads_.empty() || overdue)) {
    write_mode_ = true;
  } else if (write_mode_ && (writes == 0 || writes < capacity * settings_.write_low_percent) &&
             !reads_.empty() && !overdue) {
    write_mode_ = false;
  }
  if (scan(write_mode_ ? writes_ : reads_, columns, rows)) return true;
  return rows && end_activation();
}

bool PlainDram::scan(std::deque<Burst>& queue, bool columns, bool rows) {
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const Next next = next_command(queue[i]);
    const bool column = next.command == Command::kColumn;
    if (next.command == Command::kNone || (column ? !columns : !rows)) continue;
    if (next.from > now_) continue;
    issue(queue, i, next.command);
    return true;
  }
  return false;
}

PlainDram::Next PlainDram::next_command(const Burst& burst) const {
  const Bank& bank = banks_[burst.bank];
  const Group& group = groups_[burst.group];
  const PseudoChannel& channel = pseudo_channels_[burst.pseudo_channel];
  if (bank.opening) return {};
  if (bank.row == burst.row) {
    return {Command::kColumn,
            std::max({bank.column_from[burst.write], group.column_from[burst.write],
                      channel.column_from[burst.write]})};
  }
  if (bank.row >= 0) {
    if (owned(burst.bank)) return {};
    return {Command::kPrecharge, bank.precharge_from};
  }
  if (!opening_.empty()) return {};
  DramCycles from = std::max({bank.activate_from, group.activate_from, channel.activate_from});
  if (channel.activations.size() == 4) {
    from = std::max(from, channel.activations.front() + timing_.faw);
  }
  return {Command::kActivate, from};
}

bool PlainDram::owned(std::size_t bank) const {
  return std::ranges::any_of(owners_, [&](const Burst& burst) { return burst.bank == bank; });
}

bool PlainDram::owned_pseudo_channel(std::size_t pseudo_channel) const {
  const auto there = [&](const Burst& burst) { return burst.pseudo_channel == pseudo_channel; };
  return std::ranges::any_of(owners_, there) || std::ranges::any_of(opening_, there);
}

void PlainDram::count(Burst& burst) {
  if (burst.counted) return;
  burst.counted = true;
  const std::int32_t row = banks_[burst.bank].row;
  ++(row == burst.row ? counts_.hits : row < 0 ? counts_.misses : counts_.conflicts);
}

void PlainDram::issue(std::deque<Burst>& queue, std::size_t position, Command command) {
  Burst& burst = queue[position];
  if (command == Command::kColumn && device_.clock_on_demand != 0 &&
      pseudo_channels_[burst.pseudo_channel].clock_until <= now_) {
    announced_.push_back(burst);  // stays in its queue until then
    return;
  }
  count(burst);
  const Burst chosen = burst;
  if (command == Command::kPrecharge) {
    Bank& bank = banks_[chosen.bank];
    bank.row = -1;
    bank.activate_from = std::max(bank.activate_from, now_ + timing_.rp);
    row_bus_from_ = now_ + 1;
    return;
  }
  queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(position));
  if (command == Command::kActivate) {
    activate(chosen);
  } else {
    column(chosen);
  }
}

void PlainDram::issue_announced() {
  const std::uint64_t serial = announced_.front().serial;
  announced_.clear();
  for (std::deque<Burst>* queue : {&owners_, &reads_, &writes_}) {
    for (std::size_t i = 0; i < queue->size(); ++i) {
      if ((*queue)[i].serial != serial) continue;
      count((*queue)[i]);
      const Burst burst = (*queue)[i];
      queue->erase(queue->begin() + static_cast<std::ptrdiff_t>(i));
      column(burst);
      return;
    }
  }
}

std::int64_t PlainDram::writes_waiting() const {
  return std::ssize(writes_) + std::ranges::count_if(owners_, &Burst::write);
}

void PlainDram::column(const Burst& burst) {
  if (burst.write) {
    read_since_ = 0;
    overdue_ = std::max<std::int64_t>(0, overdue_ - 1);
  } else {
    read_since_ = writes_waiting() == 0 ? 0 : read_since_ + 1;
    if (read_since_ > 0 && read_since_ == settings_.write_wait_bursts) {
      overdue_ = writes_waiting();
      read_since_ = 0;
    }
  }
  Bank& bank = banks_[burst.bank];
  Group& group = groups_[burst.group];
  PseudoChannel& channel = pseudo_channels_[burst.pseudo_channel];
  const auto not_before = [](DramCycles& time, DramCycles value) { time = std::max(time, value); };
  const DramCycles end = now_ + (burst.write ? timing_.cwl : timing_.cl) + timing_.burst;
  not_before(group.column_from[burst.write], now_ + timing_.ccd_long);
  not_before(channel.column_from[burst.write], now_ + timing_.ccd_short);
  if (burst.write) {
    not_before(group.column_from[0], end + timing_.wtr_long);
    not_before(channel.column_from[0], end + timing_.wtr_short);
    not_before(bank.precharge_from, end + timing_.wr);
  } else {
    not_before(channel.column_from[1], now_ + timing_.read_to_write);
    not_before(bank.precharge_from, now_ + timing_.rtp);
  }
  not_before(channel.clock_until, end + 1);
  transfers_->push_back({.request = burst.request,
                         .bursts = 1,
                         .write = burst.write,
                         .done_at = burst.write ? now_ : end});
}

void PlainDram::activate(const Burst& burst) {
  Bank& bank = banks_[burst.bank];
  Group& group = groups_[burst.group];
  PseudoChannel& channel = pseudo_channels_[burst.pseudo_channel];
  bank.row = burst.row;
  bank.column_from = {now_ + timing_.rcd[0], now_ + timing_.rcd[1]};
  bank.precharge_from = now_ + timing_.ras;
  bank.activate_from = now_ + timing_.rc;
  group.activate_from = now_ + timing_.rrd_long;
  channel.activate_from = now_ + timing_.rrd_short;
  channel.activations.push_back(now_);
  if (channel.activations.size() > 4) channel.activations.pop_front();
  row_bus_from_ = now_ + device_.activate_slots;
  bank.opening = device_.activate_in_two != 0;
  (device_.activate_in_two != 0 ? opening_ : owners_).push_back(burst);
}

bool PlainDram::end_activation() {
  if (opening_.empty()) return false;
  banks_[opening_.front().bank].opening = false;
  owners_.push_back(opening_.front());
  opening_.clear();
  return true;
}

// The next command of the refresh that is due: close all banks, or refresh. It waits for owners.
bool PlainDram::refresh_front() {
  const std::size_t channel = refreshes_.front();
  if (owned_pseudo_channel(channel)) return false;
  const std::size_t count = banks_.size() / pseudo_channels_.size();
  const auto first = banks_.begin() + static_cast<std::ptrdiff_t>(channel * count);
  const auto end = first + static_cast<std::ptrdiff_t>(count);
  if (std::any_of(first, end, [](const Bank& bank) { return bank.row >= 0; })) {
    if (!std::all_of(first, end, [&](const Bank& b) { return b.precharge_from <= now_; })) {
      return false;
    }
    std::for_each(first, end, [&](Bank& bank) {
      bank.row = -1;
      bank.activate_from = std::max(bank.activate_from, now_ + timing_.rp_all);
    });
    return true;
  }
  if (!std::all_of(first, end, [&](const Bank& b) { return b.activate_from <= now_; })) {
    return false;
  }
  std::for_each(first, end, [&](Bank& b) { b.activate_from = now_ + timing_.refresh; });
  refreshes_.pop_front();
  ++counts_.refreshes;
  return true;
}

}  // namespace tessera
