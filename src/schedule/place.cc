#include "schedule/place.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>

#include "base/check.h"

namespace tessera::schedule {
namespace {

constexpr int kOptionsOfASeatMax = 128;

struct Option {
  GroupCounts counts{};
  PlacementCost cost;  // that it adds
  bool mover = false;
};

PlacementCost sum(const PlacementCost& a, const PlacementCost& b) {
  return {a.sharing + b.sharing, a.moved + b.moved, a.pieces + b.pieces};
}

// What a tenant more in a group of `tenants` adds to `sharing`.
int added_sharing(int tenants) { return tenants == 0 ? 0 : tenants == 1 ? 2 : 1; }

// A search, all of it: who is seated and what is left.
struct Search {
  std::span<const Seat> seats;
  Floor floor;
  bool moves = false;
  std::vector<int> order{};           // of the seats: those that get fewer, that stay, newcomers
  std::vector<GroupCounts> counts{};  // by seat, of those that are seated
  GroupCounts left{};                 // working cores that no seated tenant has
  GroupCounts pool{};                 // those that nobody has now who does not get fewer
  GroupCounts tenants{};              // seated, or sure to be there
  Placement best{};
  bool found = false;
  int options_left = kPlacementOptionsMax;
  std::vector<std::vector<Option>> options{};  // by depth
};

// Without moves, all that a tenant has now it keeps unless it gets fewer: it is there from the start.
bool sits_from_start(const Search& s, const Seat& seat) {
  return !s.moves && seat.cores_now > 0 && !seat.gets_fewer();
}

void seat_at(Search& s, int seat, const Option& option, int sign) {
  const Seat& who = s.seats[seat];
  const bool there = sits_from_start(s, who);
  for (int g = 0; g < s.floor.groups; ++g) {
    const int gain = option.counts[g] - who.now[g];
    s.left[g] -= sign * option.counts[g];
    if (who.gets_fewer()) {
      s.pool[g] -= sign * option.counts[g];
    } else if (option.mover || !s.moves) {
      s.pool[g] -= sign * std::max(gain, 0);
    }
    if (option.counts[g] > 0 && !(there && who.now[g] > 0)) s.tenants[g] += sign;
  }
  if (sign > 0) s.counts[seat] = option.counts;
}

// The cost that a seat's counts add, and whether they are a move; false where they are not allowed.
bool complete(const Search& s, const Seat& seat, Option& option) {
  const bool there = sits_from_start(s, seat);
  int given_up = 0;
  bool within_pool = true;
  option.cost = {};
  for (int g = 0; g < s.floor.groups; ++g) {
    const int gain = option.counts[g] - seat.now[g];
    given_up += std::max(-gain, 0);
    within_pool = within_pool && gain <= s.pool[g];
    if (option.counts[g] == 0 || (there && seat.now[g] > 0)) continue;
    option.cost.sharing += added_sharing(s.tenants[g]);
    option.cost.pieces += 1;
  }
  option.mover = !seat.gets_fewer() && given_up > 0;
  if (option.mover) option.cost.moved = given_up;
  return seat.gets_fewer() || !option.mover || within_pool;
}

// Most cores of the group that the seat may have.
int most_in(const Search& s, const Seat& seat, int g) {
  if (seat.gets_fewer()) return int{seat.now[g]};
  return s.moves ? s.left[g] : seat.now[g] + s.pool[g];
}

bool same_empty(const Search& s, int a, int b) {
  const auto untouched = [&](int g) {
    return s.tenants[g] == 0 && std::all_of(s.seats.begin(), s.seats.end(),
                                            [&](const Seat& x) { return x.now[g] == 0; });
  };
  return s.floor.working[a] == s.floor.working[b] && untouched(a) && untouched(b);
}

struct Listing {
  std::vector<int> groups;            // the inviting ones first
  std::vector<std::uint8_t> repeats;  // by place in `groups`: it is like the one before it
  std::vector<int> behind;            // by place: cores that those from it on can give
};

Listing list_groups(const Search& s, const Seat& seat) {
  Listing list;
  list.groups.resize(s.floor.groups);
  std::iota(list.groups.begin(), list.groups.end(), 0);
  const auto key = [&](int g) {
    const int others = s.tenants[g] - (sits_from_start(s, seat) && seat.now[g] > 0 ? 1 : 0);
    return std::tuple(seat.now[g] == 0, others, -most_in(s, seat, g), g);
  };
  std::sort(list.groups.begin(), list.groups.end(), [&](int a, int b) { return key(a) < key(b); });
  const auto count = list.groups.size();
  list.repeats.assign(count, 0);
  list.behind.assign(count + 1, 0);
  for (std::size_t i = count; i-- > 0;) {
    list.behind[i] = list.behind[i + 1] + most_in(s, seat, list.groups[i]);
    if (i > 0) list.repeats[i] = same_empty(s, list.groups[i - 1], list.groups[i]) ? 1 : 0;
  }
  return list;
}

// All ways to take `cores` of the groups from `place` on, large parts first; false where there are too
// many.
bool list_options(const Search& s, const Seat& seat, const Listing& list, int cores, Option& option,
                  std::size_t place, std::vector<Option>& options) {
  if (place == list.groups.size()) {
    if (cores != 0 || !complete(s, seat, option)) return true;
    if (options.size() == kOptionsOfASeatMax) return false;
    options.push_back(option);
    return true;
  }
  const int g = list.groups[place];
  int most = std::min(cores, most_in(s, seat, g));
  // Of groups that are alike in everything, the earlier one gives no fewer.
  if (list.repeats[place]) most = std::min<int>(most, option.counts[list.groups[place - 1]]);
  const bool keeps_all = !s.moves && !seat.gets_fewer();
  const int kept = keeps_all ? int{seat.now[g]} : 0;
  const int least = std::max(kept, cores - list.behind[place + 1]);
  bool all = true;
  for (int n = most; n >= least && all; --n) {
    option.counts[g] = static_cast<std::int8_t>(n);
    all = list_options(s, seat, list, cores - n, option, place + 1, options);
  }
  option.counts[g] = 0;
  return all;
}

// No less than what the seats from `depth` on add. Each sits somewhere. In a group that is empty now one
// may be alone; what shared groups have no room for costs a group that loses its only tenant's peace.
PlacementCost least_added(const Search& s, std::size_t depth) {
  int seats = 0;
  for (std::size_t i = depth; i < s.order.size(); ++i) {
    seats += sits_from_start(s, s.seats[s.order[i]]) ? 0 : 1;
  }
  int empty = 0;
  int shared_room = 0;
  GroupCounts room{};  // of a group that is given up to sharing, descending
  for (int g = 0; g < s.floor.groups; ++g) {
    const int left = int{(s.moves ? s.left : s.pool)[g]};
    const bool alone = s.tenants[g] == 0 && left > 0;
    empty += alone ? 1 : 0;
    if (s.tenants[g] > 1) shared_room += left;
    if (s.tenants[g] <= 1) room[g] = static_cast<std::int8_t>(left - (alone ? 1 : 0));
  }
  std::sort(room.begin(), room.end(), std::greater<>());
  PlacementCost least{.sharing = std::max(seats - empty, 0), .pieces = seats};
  int over = seats - empty - shared_room;
  for (std::size_t i = 0; over > 0 && i < room.size() && room[i] > 0; ++i) {
    over -= room[i];
    ++least.sharing;
  }
  return least;
}

void search(Search& s, std::size_t depth, const PlacementCost& cost) {
  if (depth == s.order.size()) {
    if (!s.found || cost < s.best.cost) {
      s.best.cost = cost;
      s.best.counts = s.counts;
      s.found = true;
    }
    return;
  }
  const int seat = s.order[depth];
  std::vector<Option>& options = s.options[depth];
  options.clear();
  const Seat& who = s.seats[seat];
  Option option;
  if (!list_options(s, who, list_groups(s, who), who.cores, option, 0, options)) {
    s.best.whole = false;
  }
  std::stable_sort(options.begin(), options.end(),
                   [](const Option& a, const Option& b) { return a.cost < b.cost; });
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (s.found && s.options_left <= 0) {
      s.best.whole = false;
      return;
    }
    --s.options_left;
    const PlacementCost with = sum(cost, options[i].cost);
    seat_at(s, seat, options[i], 1);
    if (!s.found || sum(with, least_added(s, depth + 1)) < s.best.cost) search(s, depth + 1, with);
    seat_at(s, seat, options[i], -1);
  }
}

// Those that get fewer, because they say what is in the pool; then the large ones.
std::vector<int> order_of(std::span<const Seat> seats) {
  std::vector<int> order(seats.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](int i) {
    return std::tuple(!seats[i].gets_fewer(), seats[i].cores_now == 0, -seats[i].cores, i);
  };
  std::sort(order.begin(), order.end(), [&](int a, int b) { return key(a) < key(b); });
  return order;
}

// From what the floor and those who stay say; what a search with the other rule has found is kept.
void begin(Search& s, bool moves) {
  s.moves = moves;
  s.best.whole = true;
  s.left = s.pool = s.floor.working;
  s.tenants = {};
  PlacementCost cost;
  for (const Seat& seat : s.seats) {
    for (int g = 0; g < s.floor.groups; ++g) {
      if (!seat.gets_fewer()) s.pool[g] -= seat.now[g];
      if (!sits_from_start(s, seat) || seat.now[g] == 0) continue;
      cost.sharing += added_sharing(s.tenants[g]);
      cost.pieces += 1;
      ++s.tenants[g];
    }
  }
  s.options_left = kPlacementOptionsMax;
  search(s, 0, cost);
}

}  // namespace

Placement place(std::span<const Seat> seats, const Floor& floor) {
  Search s{.seats = seats, .floor = floor};
  s.order = order_of(seats);
  s.counts.resize(seats.size());
  s.options.resize(seats.size());
  begin(s, false);
  TESSERA_CHECK(s.found, "{} tenants have no place in {} groups", seats.size(), floor.groups);
  const bool anyone_there =
      std::any_of(seats.begin(), seats.end(), [](const Seat& seat) { return seat.cores_now > 0; });
  if (anyone_there) begin(s, true);
  return std::move(s.best);
}

}  // namespace tessera::schedule
