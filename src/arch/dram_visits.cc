#include "arch/dram_visits.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace tessera {
namespace {

std::uint64_t bit(std::int32_t bank) { return std::uint64_t{1} << bank; }

}  // namespace

DramVisits::DramVisits(const DramDevice& device, const DramMapping& mapping,
                       std::int32_t single_bursts)
    : mapping_(mapping),
      single_bursts_(single_bursts),
      pseudo_channels_(device.pseudo_channels),
      groups_(device.bank_groups),
      banks_of_group_(device.banks_per_group),
      banks_(pseudo_channels_ * groups_ * banks_of_group_) {
  for (std::int32_t g = 0; g < groups_; ++g) groups_mask_ |= bit(g * banks_of_group_);
  TESSERA_CHECK(banks_ >= 1 && banks_ <= kDramBanksMax, "{} has {} banks, allowed 1 to {}",
                device.name, banks_, kDramBanksMax);
  rows_.fill(-1);
}

// Room for `visits` more.
void DramVisits::reserve(std::size_t visits) {
  if (free_.size() >= visits) return;
  const std::size_t before = pool_.size();
  pool_.resize(std::max<std::size_t>(2 * before, before + visits));
  free_.reserve(pool_.size());
  for (std::size_t i = pool_.size(); i > before; --i) {
    free_.push_back(static_cast<std::int32_t>(i - 1));
  }
}

std::int32_t DramVisits::allocate() {
  reserve(1);
  const std::int32_t index = free_.back();
  free_.pop_back();
  return index;
}

void DramVisits::release(std::int32_t index) { free_.push_back(index); }

void DramVisits::append(List& list, std::int32_t index) {
  DramVisit& visit = (*this)[index];
  visit.next = -1;
  visit.previous = list.tail;
  (list.tail >= 0 ? (*this)[list.tail].next : list.head) = index;
  list.tail = index;
}

void DramVisits::unlink(List& list, std::int32_t index) {
  const DramVisit& visit = (*this)[index];
  (visit.previous >= 0 ? (*this)[visit.previous].next : list.head) = visit.next;
  (visit.next >= 0 ? (*this)[visit.next].previous : list.tail) = visit.previous;
}

bool DramVisits::push(std::uint32_t request, std::uint64_t first, std::uint64_t end, bool write) {
  sides_[write].bursts += static_cast<std::int64_t>(end - first);
  DramVisit like;
  like.request = request;
  like.write = write;
  if (end - first <= static_cast<std::uint64_t>(single_bursts_)) {
    for (std::uint64_t burst = first; burst < end; ++burst) enter_burst(burst, like);
    return false;
  }
  if (mapping_.spread() > 1) return push_rows(first, end, like);
  cut(first, end);
  enter_pieces(like);
  return false;
}

void DramVisits::gather(std::uint32_t request, std::uint64_t first, std::uint64_t end, bool write) {
  gathered_.request = request;
  gathered_.write = write;
  const auto bursts = static_cast<std::int64_t>(end - first);
  const bool few = gathered_bursts_ <= single_bursts_;
  gathered_bursts_ += bursts;
  if (gathered_bursts_ <= single_bursts_) {
    for (std::uint64_t burst = first; burst < end; ++burst) gathered_singles_.push_back(burst);
    return;
  }
  if (few) {
    for (const std::uint64_t burst : gathered_singles_) add_to_piece(burst, 1);
    gathered_singles_.clear();
  }
  cut(first, end);
}

void DramVisits::enter_gathered() {
  sides_[gathered_.write].bursts += gathered_bursts_;
  for (const std::uint64_t burst : gathered_singles_) enter_burst(burst, gathered_);
  gathered_singles_.clear();
  gathered_bursts_ = 0;
  enter_pieces(gathered_);
}

void DramVisits::cut(std::uint64_t first, std::uint64_t end) {
  const auto chunk = static_cast<std::uint64_t>(mapping_.chunk());
  for (std::uint64_t burst = first; burst < end;) {
    const std::uint64_t stop = std::min(end, (burst / chunk + 1) * chunk);
    add_to_piece(burst, static_cast<std::int32_t>(stop - burst));
    burst = stop;
  }
}

void DramVisits::add_to_piece(std::uint64_t burst, std::int32_t bursts) {
  const DramPlace place = mapping_.place(burst);
  std::size_t& last = last_piece_[static_cast<std::size_t>(place.bank)];
  if (last >= pieces_.size() || pieces_[last].place != place) {
    last = pieces_.size();
    pieces_.push_back({.place = place});
  }
  pieces_[last].bursts += bursts;
}

void DramVisits::enter_pieces(const DramVisit& like) {
  for (const auto& [place, bursts] : pieces_) {
    enter(new_visit({bit(place.bank), place.row, bursts, bursts}, like));
  }
  pieces_.clear();
}

void DramVisits::enter_burst(std::uint64_t burst, const DramVisit& like) {
  const DramPlace place = mapping_.place(burst);
  enter(new_visit({bit(place.bank), place.row, 1, 1}, like));
}

bool DramVisits::push_rows(std::uint64_t first, std::uint64_t end, const DramVisit& like) {
  const int row_shift = std::countr_zero(static_cast<std::uint64_t>(mapping_.stripe()));
  const int chunk_shift = std::countr_zero(static_cast<std::uint64_t>(mapping_.chunk()));
  bool joined = true;
  while (first < end) {
    const std::uint64_t stop = std::min(end, ((first >> row_shift) + 1) << row_shift);
    const std::uint64_t chunk = first >> chunk_shift;
    const std::uint64_t chunks = std::min<std::uint64_t>(
        ((stop - 1) >> chunk_shift) - chunk + 1, static_cast<std::uint64_t>(pseudo_channels_));
    for (std::uint64_t c = chunk; c < chunk + chunks; ++c) {
      const std::int32_t index = new_visit(extent_of_row(first, stop, c), like);
      joined = enter(index) && joined;
    }
    first = stop;
  }
  return joined;
}

DramVisits::Extent DramVisits::extent_of_row(std::uint64_t first, std::uint64_t end,
                                             std::uint64_t chunk) const {
  const int shift = std::countr_zero(static_cast<std::uint64_t>(mapping_.chunk()));
  const int channels = std::countr_zero(static_cast<std::uint64_t>(pseudo_channels_));
  const std::uint64_t last_chunk = (end - 1) >> shift;
  const std::uint64_t chunks = ((last_chunk - chunk) >> channels) + 1;
  std::uint64_t bursts = chunks << shift;
  if (chunk == first >> shift) bursts -= first - (chunk << shift);
  if (chunk + ((chunks - 1) << channels) == last_chunk) bursts -= ((last_chunk + 1) << shift) - end;
  const DramPlace place = mapping_.place(chunk << shift);
  std::uint64_t banks = bit(place.bank);
  if (chunks >= static_cast<std::uint64_t>(groups_)) {
    // The same bank of every group.
    const std::int32_t of_channel = groups_ * banks_of_group_;
    banks = groups_mask_ << ((place.bank & -of_channel) + (place.bank & (banks_of_group_ - 1)));
  } else {
    for (std::uint64_t i = 1; i < chunks; ++i) {
      banks |= bit(mapping_.place((chunk + (i << channels)) << shift).bank);
    }
  }
  const auto all = static_cast<std::int32_t>(bursts);
  return {.banks = banks, .row = place.row, .bursts = all, .deepest = deepest_of(all)};
}

std::int32_t DramVisits::new_visit(const Extent& extent, const DramVisit& like) {
  const std::int32_t index = allocate();
  DramVisit& visit = (*this)[index];
  visit = like;
  visit.banks = extent.banks;
  visit.row = extent.row;
  visit.bursts = extent.bursts;
  visit.deepest = extent.deepest;
  return index;
}

std::int32_t DramVisits::deepest_of(std::int32_t bursts) const {
  if (mapping_.spread() == 1) return bursts;
  const auto chunk = static_cast<std::int32_t>(mapping_.chunk());
  const std::int32_t round = groups_ * chunk;
  const int shift = std::countr_zero(static_cast<std::uint32_t>(round));
  return (bursts >> shift) * chunk + std::min(chunk, bursts & (round - 1));
}

bool DramVisits::enter(std::int32_t index) {
  DramVisit& visit = (*this)[index];
  Side& side = sides_[visit.write];
  visit.age = age_++;
  visit.bank = std::countr_zero(visit.banks);
  visit.wide = (visit.banks & (visit.banks - 1)) != 0;
  if (visit.wide) return enter_wide(side, index);
  BankVisits& bank = side.banks[static_cast<std::size_t>(visit.bank)];
  append(bank.list, index);
  const bool hits = row(visit.bank) == visit.row;
  std::int32_t& oldest = hits ? bank.hit : bank.miss;
  if (oldest < 0) oldest = index;
  (hits ? side.hits : side.misses) |= bit(visit.bank);
  return false;
}

bool DramVisits::enter_wide(Side& side, std::int32_t index) {
  DramVisit& visit = (*this)[index];
  visit.behind = -1;
  for (std::int32_t i = side.wide.tail; i >= 0; i = (*this)[i].previous) {
    DramVisit& oldest = (*this)[i];
    if (oldest.row != visit.row || oldest.banks != visit.banks) continue;
    (*this)[oldest.last].behind = index;
    oldest.last = index;
    return true;
  }
  visit.last = index;
  append(side.wide, index);
  return false;
}

void DramVisits::remove_wide(Side& side, std::int32_t index) {
  const DramVisit& visit = (*this)[index];
  unlink(side.wide, index);
  if (visit.behind < 0) return;
  (*this)[visit.behind].last = visit.last;
  append(side.wide, visit.behind);
}

void DramVisits::find_hit(Side& side, std::int32_t bank, std::int32_t from) {
  const std::int32_t open = row(bank);
  while (from >= 0 && (*this)[from].row != open) from = (*this)[from].next;
  side.banks[static_cast<std::size_t>(bank)].hit = from;
  side.hits = from >= 0 ? side.hits | bit(bank) : side.hits & ~bit(bank);
}

void DramVisits::find_miss(Side& side, std::int32_t bank, std::int32_t from) {
  const std::int32_t open = row(bank);
  while (from >= 0 && (*this)[from].row == open) from = (*this)[from].next;
  side.banks[static_cast<std::size_t>(bank)].miss = from;
  side.misses = from >= 0 ? side.misses | bit(bank) : side.misses & ~bit(bank);
}

void DramVisits::remove(std::int32_t index) {
  const DramVisit& visit = (*this)[index];
  Side& side = sides_[visit.write];
  side.bursts -= visit.bursts;
  if (visit.wide) {
    remove_wide(side, index);
    return;
  }
  BankVisits& bank = side.banks[static_cast<std::size_t>(visit.bank)];
  unlink(bank.list, index);
  if (bank.hit == index) find_hit(side, visit.bank, visit.next);
  if (bank.miss == index) find_miss(side, visit.bank, visit.next);
}

void DramVisits::set_row(std::int32_t bank, std::int32_t row) {
  rows_[static_cast<std::size_t>(bank)] = row;
  for (Side& side : sides_) {
    const std::int32_t head = side.banks[static_cast<std::size_t>(bank)].list.head;
    if (head < 0) continue;
    find_hit(side, bank, row < 0 ? -1 : head);
    find_miss(side, bank, head);
  }
}

}  // namespace tessera
