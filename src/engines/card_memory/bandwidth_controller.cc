#include "engines/card_memory/bandwidth_controller.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "base/check.h"

namespace tessera::engines {
namespace {

bool fits(const BandwidthController::Ask& ask, const BandwidthController::Room& room) {
  return ask.write ? room.write : room.read;
}

// Calls visit(core) for each, ascending, until it says true; whether it did.
template <typename Visit>
bool any_of(CoreSet cores, const Visit& visit) {
  for (; cores != 0; cores &= cores - 1) {
    if (visit(static_cast<std::size_t>(std::countr_zero(cores)))) return true;
  }
  return false;
}

}  // namespace

BandwidthController::BandwidthController(const BandwidthSizes& sizes, std::size_t asks_max)
    : sizes_(sizes), accounts_(sizes.weights.size(), Account(asks_max)) {
  TESSERA_CHECK(sizes.weights.size() <= kCoresMax, "{} cores", sizes.weights.size());
  TESSERA_CHECK(sizes.slice_cycles >= 1, "slices of {} cycles", sizes.slice_cycles);
  for (std::size_t i = 0; i < accounts_.size(); ++i) {
    accounts_[i].weight = sizes.weights[i];
    all_weights_ += sizes.weights[i];
  }
  for (auto& broadcasts : broadcasts_) broadcasts.reserve(asks_max);
}

void BandwidthController::reset() {
  for (Account& account : accounts_) {
    for (Ring<Waiting>& own : account.own) own.clear();
    account.left = {};
    account.free_at = account.charged = 0;
  }
  for (auto& broadcasts : broadcasts_) broadcasts.clear();
  alone_ = members_ = {};
  uneven_ = {};
  writes_.clear();
  turn_ = {};
  waiting_ = 0;
}

void BandwidthController::add(const Ask& ask, Cycles now) {
  const auto first = static_cast<std::size_t>(std::countr_zero(ask.cores));
  TESSERA_CHECK(ask.cores != 0 && ask.cost >= 1, "cores {:#x} ask for {} cycles", ask.cores,
                ask.cost);
  for (CoreSet rest = ask.cores; rest != 0; rest &= rest - 1) {
    const auto core = static_cast<std::size_t>(std::countr_zero(rest));
    TESSERA_CHECK(core < accounts_.size() && accounts_[core].weight > 0, "core {} may not ask here",
                  core);
  }
  ++waiting_;
  if (std::has_single_bit(ask.cores)) {
    accounts_[first].own[ask.can_wait].push({ask, now});
    alone_[ask.can_wait] |= ask.cores;
  } else {
    broadcasts_[ask.can_wait].push_back({ask, now});
    members_[ask.can_wait] |= ask.cores;
  }
}

void BandwidthController::set_left(std::size_t core, bool can_wait, Cycles left) {
  accounts_[core].left[can_wait] = left;
  const CoreSet one = CoreSet{1} << core;
  CoreSet& uneven = uneven_[can_wait];
  uneven = left == 0 ? uneven & ~one : uneven | one;
}

// Whether it has something waiting of the kind that is looked at.
bool BandwidthController::asks(std::size_t core) const {
  return (asking(serves_late_) >> core & 1) != 0;
}

// Whether one of the cores asks for something that cannot wait.
bool BandwidthController::asks_at_once(CoreSet cores) const { return (asking(false) & cores) != 0; }

bool BandwidthController::any_fits(bool can_wait, const Room& room) const {
  return std::ranges::any_of(broadcasts_[can_wait],
                             [&](const Waiting& waiting) { return fits(waiting.ask, room); }) ||
         any_of(alone_[can_wait], [&](std::size_t core) {
           return fits(accounts_[core].own[can_wait].front().ask, room);
         });
}

std::optional<BandwidthController::Choice> BandwidthController::next_of(std::size_t core,
                                                                        const Room& room) const {
  if ((asking(serves_late_) >> core & 1) == 0) return std::nullopt;
  const std::vector<Waiting>& broadcasts = broadcasts_[serves_late_];
  for (std::size_t i = 0; i < broadcasts.size(); ++i) {
    const Ask& ask = broadcasts[i].ask;
    if ((ask.cores >> core & 1) != 0 && fits(ask, room)) {
      return Choice{.broadcast = true, .can_wait = serves_late_, .at = i};
    }
  }
  const Ring<Waiting>& own = accounts_[core].own[serves_late_];
  if (!own.empty() && fits(own.front().ask, room)) {
    return Choice{.broadcast = false, .can_wait = serves_late_, .at = core};
  }
  return std::nullopt;
}

std::optional<BandwidthController::Choice> BandwidthController::choose_slice(const Room& room) {
  const std::size_t turn = turn_[serves_late_];
  if (left_of(turn) > 0) {
    if (const auto choice = next_of(turn, room)) return choice;
    // What is left of a slice is not kept, but for one that waits for room.
    if (!asks(turn)) set_left(turn, serves_late_, 0);
  }
  if (const auto choice = pass_turn(room)) return choice;
  // All that ask have used slices ahead. As many as nobody can use yet are given at once.
  std::int64_t slices = INT64_MAX;
  any_of(asking(serves_late_), [&](std::size_t core) {
    if (!next_of(core, room)) return false;
    slices = std::min(slices, -left_of(core) / (sizes_.slice_cycles * accounts_[core].weight));
    return false;
  });
  if (slices == INT64_MAX) return std::nullopt;
  give_slices(room, slices);
  return pass_turn(room);
}

// To the next core, once round, that has something of its slice left.
std::optional<BandwidthController::Choice> BandwidthController::pass_turn(const Room& room) {
  std::optional<Choice> choice;
  const auto turn_is_of = [&](std::size_t core) {
    const Cycles slice = sizes_.slice_cycles * accounts_[core].weight;
    choice = next_of(core, room);
    if (choice) {
      set_left(core, serves_late_, std::min(left_of(core) + slice, slice));
    } else if (!asks(core)) {
      set_left(core, serves_late_, std::min<Cycles>(0, left_of(core) + slice));
    }
    if (choice && left_of(core) <= 0) choice.reset();
    if (choice) turn_[serves_late_] = core;
    return choice.has_value();
  };
  const CoreSet those = asking(serves_late_) | uneven_[serves_late_];
  const CoreSet up_to_turn = (CoreSet{2} << turn_[serves_late_]) - 1;
  any_of(those & ~up_to_turn, turn_is_of) || any_of(those & up_to_turn, turn_is_of);
  return choice;
}

void BandwidthController::give_slices(const Room& room, std::int64_t slices) {
  any_of(asking(serves_late_) | uneven_[serves_late_], [&](std::size_t core) {
    const Cycles given = slices * sizes_.slice_cycles * accounts_[core].weight;
    if (next_of(core, room)) {
      set_left(core, serves_late_, left_of(core) + given);
    } else if (!asks(core)) {
      set_left(core, serves_late_, std::min<Cycles>(0, left_of(core) + given));
    }
    return false;
  });
}

Cycles BandwidthController::window_cycles(CoreSet cores, Cycles cost) const {
  std::int64_t weights = 0;
  for (CoreSet rest = cores; rest != 0; rest &= rest - 1) {
    weights += accounts_[static_cast<std::size_t>(std::countr_zero(rest))].weight;
  }
  return ceil_div(cost * all_weights_, weights);
}

Cycles BandwidthController::begin_of(const Waiting& waiting) const {
  Cycles begin = waiting.since;
  for (CoreSet rest = waiting.ask.cores; rest != 0; rest &= rest - 1) {
    begin = std::max(begin, accounts_[static_cast<std::size_t>(std::countr_zero(rest))].free_at);
  }
  return begin;
}

Cycles BandwidthController::due_of(const Waiting& waiting) const {
  return begin_of(waiting) + window_cycles(waiting.ask.cores, waiting.ask.cost) - waiting.ask.cost;
}

// The earliest; broadcasts before others, then lower cores.
std::optional<BandwidthController::Choice> BandwidthController::choose_part(
    Cycles now, const Room& room) const {
  std::optional<Choice> best;
  Cycles least = now;
  const auto look_at = [&](const Waiting& waiting, const Choice& choice) {
    if (!fits(waiting.ask, room)) return;
    const Cycles due = due_of(waiting);
    if (due > least || (best && due == least)) return;
    least = due;
    best = choice;
  };
  for (const bool can_wait : {false, true}) {
    for (std::size_t i = 0; i < broadcasts_[can_wait].size(); ++i) {
      const Waiting& waiting = broadcasts_[can_wait][i];
      if (can_wait && asks_at_once(waiting.ask.cores)) continue;
      look_at(waiting, {.broadcast = true, .can_wait = can_wait, .at = i});
    }
    any_of(alone_[can_wait], [&](std::size_t core) {
      if (can_wait && asks_at_once(CoreSet{1} << core)) return false;
      look_at(accounts_[core].own[can_wait].front(),
              {.broadcast = false, .can_wait = can_wait, .at = core});
      return false;
    });
  }
  return best;
}

Cycles BandwidthController::next(Cycles now) const {
  if (sizes_.dynamic) return kNever;
  Cycles next = kNever;
  const auto look_at = [&](const Waiting& waiting) {
    const Cycles due = due_of(waiting);
    if (due > now) next = std::min(next, due);
  };
  for (const auto& broadcasts : broadcasts_) {
    for (const Waiting& waiting : broadcasts) look_at(waiting);
  }
  for (const Account& account : accounts_) {
    for (const Ring<Waiting>& own : account.own) {
      if (!own.empty()) look_at(own.front());
    }
  }
  return next;
}

BandwidthController::Waiting BandwidthController::remove(const Choice& choice) {
  --waiting_;
  if (choice.broadcast) {
    std::vector<Waiting>& broadcasts = broadcasts_[choice.can_wait];
    const Waiting waiting = broadcasts[choice.at];
    broadcasts.erase(broadcasts.begin() + static_cast<std::ptrdiff_t>(choice.at));
    members_[choice.can_wait] = 0;
    for (const Waiting& one : broadcasts) members_[choice.can_wait] |= one.ask.cores;
    return waiting;
  }
  Ring<Waiting>& own = accounts_[choice.at].own[choice.can_wait];
  const Waiting waiting = own.front();
  own.pop();
  if (own.empty()) alone_[choice.can_wait] &= ~(CoreSet{1} << choice.at);
  return waiting;
}

void BandwidthController::written() {
  if (!writes_.empty()) writes_.pop_front();
}

std::optional<BandwidthController::Ask> BandwidthController::take(Cycles now, const Room& room) {
  if (waiting_ == 0 || !(room.read || room.write)) return std::nullopt;
  serves_late_ = !any_fits(false, room);
  // Slices pass with what is sent, not with how often somebody asks.
  if (serves_late_ && !any_fits(true, room)) return std::nullopt;
  const bool overdue = !writes_.empty() && now - writes_.front() >= sizes_.slice_cycles;
  if (serves_late_ && overdue && sizes_.dynamic) return std::nullopt;
  const auto choice = sizes_.dynamic ? choose_slice(room) : choose_part(now, room);
  if (!choice) return std::nullopt;
  const Waiting waiting = remove(*choice);
  if (!sizes_.dynamic) {
    const Cycles until = begin_of(waiting) + window_cycles(waiting.ask.cores, waiting.ask.cost);
    for (CoreSet rest = waiting.ask.cores; rest != 0; rest &= rest - 1) {
      accounts_[static_cast<std::size_t>(std::countr_zero(rest))].free_at = until;
    }
  }
  charge(waiting.ask.cores, waiting.ask.can_wait, waiting.ask.cost);
  if (waiting.ask.write) writes_.push_back(now);
  // What nobody waits for any more has no slice.
  const std::size_t turn = turn_[serves_late_];
  if (!asks(turn)) set_left(turn, serves_late_, std::min<Cycles>(0, left_of(turn)));
  return waiting.ask;
}

void BandwidthController::correct(CoreSet cores, bool can_wait, Cycles cycles) {
  charge(cores, can_wait, cycles);
}

// In equal parts; what does not divide goes to those with the most left, so that none falls behind.
void BandwidthController::charge(CoreSet cores, bool can_wait, Cycles cycles) {
  const auto pay = [&](CoreSet set, Cycles part) {
    for (; set != 0; set &= set - 1) {
      const auto core = static_cast<std::size_t>(std::countr_zero(set));
      set_left(core, can_wait, accounts_[core].left[can_wait] - part);
      accounts_[core].charged += part;
    }
  };
  const Cycles part = cycles / std::popcount(cores);
  pay(cores, part);
  const Cycles rest = cycles - part * std::popcount(cores);
  CoreSet unpaid = cores;
  for (Cycles i = 0; i < std::abs(rest); ++i) {
    const auto less = [&](int a, int b) {
      return accounts_[static_cast<std::size_t>(a)].left[can_wait] <
             accounts_[static_cast<std::size_t>(b)].left[can_wait];
    };
    int most = std::countr_zero(unpaid);
    for (CoreSet set = unpaid; set != 0; set &= set - 1) {
      if (less(most, std::countr_zero(set))) most = std::countr_zero(set);
    }
    pay(CoreSet{1} << most, rest > 0 ? 1 : -1);
    unpaid &= ~(CoreSet{1} << most);
  }
}

}  // namespace tessera::engines
