#include "compile/placement_search.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "base/check.h"
#include "base/quantity.h"
#include "compile/life_index.h"

namespace tessera::compile {
namespace {

// A block of the search: bytes in units of the alignment, life in sections of time. A section is a
// span of time in which the same blocks live.
struct Item {
  std::size_t block = 0;
  std::int64_t size = 0;
  Life life;                       // as given
  std::size_t first = 0, end = 0;  // sections [first, end)
};

std::vector<std::int64_t> sums_of_sections(const std::vector<Item>& items, std::size_t sections) {
  std::vector<std::int64_t> changes(sections + 1, 0);
  for (const Item& item : items) {
    changes[item.first] += item.size;
    changes[item.end] -= item.size;
  }
  std::partial_sum(changes.begin(), changes.end(), changes.begin());
  changes.pop_back();
  return changes;
}

// Blocks that are connected in time, with their sections numbered from 0.
struct Component {
  std::vector<Item> items;
  std::size_t sections = 0;
};

std::vector<Component> split_in_time(const std::vector<PlacedBlock>& blocks,
                                     std::int64_t alignment) {
  std::vector<Item> items;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].bytes == 0) continue;
    items.push_back({.block = i,
                     .size = ceil_div(blocks[i].bytes, alignment),
                     .life = {blocks[i].first, blocks[i].last}});
  }
  std::stable_sort(items.begin(), items.end(),
                   [](const Item& a, const Item& b) { return a.life.first < b.life.first; });
  std::vector<Component> components;
  std::int64_t end = std::numeric_limits<std::int64_t>::min();
  for (const Item& item : items) {
    if (item.life.first > end) components.emplace_back();
    end = std::max(end, item.life.last);
    components.back().items.push_back(item);
  }
  for (Component& component : components) {
    std::map<std::int64_t, std::size_t> borders;  // first times of sections
    for (const Item& item : component.items) {
      borders.emplace(item.life.first, 0);
      borders.emplace(item.life.last + 1, 0);
    }
    std::size_t number = 0;
    for (auto& [time, section] : borders) section = number++;
    component.sections = number - 1;
    for (Item& item : component.items) {
      item.first = borders.at(item.life.first);
      item.end = borders.at(item.life.last + 1);
    }
  }
  return components;
}

// Offsets of a component's items, and the highest end.
struct Offsets {
  std::vector<std::int64_t> at;
  std::int64_t peak = 0;
  std::string_view found_by;
};

// The lowest gap that is wide enough, or the narrowest such gap.
enum class Fitting : std::uint8_t { kFirst, kBest };

Offsets fit_in_order(const Component& component, const std::vector<std::size_t>& order,
                     Fitting fitting) {
  std::vector<Life> lives;
  for (const Item& item : component.items) lives.push_back(item.life);
  LifeIndex index(lives);
  Offsets result{.at = std::vector<std::int64_t>(component.items.size(), 0), .found_by = {}};
  std::vector<std::size_t> beside;
  for (const std::size_t i : order) {
    const std::int64_t size = component.items[i].size;
    beside = index.find(lives[i]);
    std::sort(beside.begin(), beside.end(),
              [&](std::size_t a, std::size_t b) { return result.at[a] < result.at[b]; });
    std::int64_t top = 0;  // of what lies below
    std::int64_t best = -1;
    std::int64_t narrowest = std::numeric_limits<std::int64_t>::max();
    for (const std::size_t j : beside) {
      const std::int64_t gap = result.at[j] - top;
      if (gap >= size && gap < narrowest) {
        best = top;
        narrowest = gap;
        if (fitting == Fitting::kFirst) break;
      }
      top = std::max(top, result.at[j] + component.items[j].size);
    }
    result.at[i] = best >= 0 ? best : top;
    result.peak = std::max(result.peak, result.at[i] + size);
    index.insert(i, lives[i]);
  }
  return result;
}

// A row of the table of heuristics: blocks with a larger key come first.
struct Heuristic {
  std::string_view name;
  Fitting fitting;
  std::function<double(const Item&)> key;
};

const std::vector<Heuristic>& heuristics() {
  const auto size = [](const Item& i) { return static_cast<double>(i.size); };
  const auto life = [](const Item& i) { return static_cast<double>(i.end - i.first); };
  const auto area = [=](const Item& i) { return size(i) * life(i); };
  const auto begin = [](const Item& i) { return -static_cast<double>(i.first); };
  const auto end = [](const Item& i) { return static_cast<double>(i.end); };
  static const std::vector<Heuristic> table = {
      {"first fit by area", Fitting::kFirst, area}, {"first fit by size", Fitting::kFirst, size},
      {"first fit by life", Fitting::kFirst, life}, {"first fit by begin", Fitting::kFirst, begin},
      {"first fit by end", Fitting::kFirst, end},   {"best fit by size", Fitting::kBest, size},
      {"best fit by life", Fitting::kBest, life},   {"best fit by begin", Fitting::kBest, begin},
  };
  return table;
}

Offsets best_heuristic(const Component& component, std::int64_t enough) {
  Offsets best;
  for (const Heuristic& heuristic : heuristics()) {
    std::vector<std::size_t> order(component.items.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return heuristic.key(component.items[a]) > heuristic.key(component.items[b]);
    });
    Offsets found = fit_in_order(component, order, heuristic.fitting);
    found.found_by = heuristic.name;
    if (best.at.empty() || found.peak < best.peak) best = std::move(found);
    if (best.peak <= enough) break;
  }
  return best;
}

// Branch and bound over one component; see the header.
class Search {
 public:
  Search(const Component& component, Offsets best, std::int64_t target, std::int64_t& steps_left)
      : items_(component.items),
        best_(std::move(best)),
        target_(target),
        steps_left_(steps_left),
        floor_(component.sections, 0),
        left_(sums_of_sections(component.items, component.sections)),
        at_(component.items.size(), -1) {}

  // The best placement; `exhausted` if none is better, or this one reaches the target.
  Offsets run(bool& exhausted) {
    place_next({.offset = 0, .item = 0}, 0);
    exhausted = steps_left_ > 0;
    return std::move(best_);
  }

 private:
  struct Last {
    std::int64_t offset = 0;
    std::size_t item = 0;
  };
  struct Candidate {
    std::int64_t offset = 0;
    std::size_t item = 0;
  };

  bool done() const { return best_.peak <= target_ || steps_left_ <= 0; }

  // No room below the best peak for what some section still has to hold.
  bool hopeless(std::int64_t offset) {
    steps_left_ -= std::ssize(floor_);
    for (std::size_t s = 0; s < floor_.size(); ++s) {
      if (left_[s] > 0 && std::max(floor_[s], offset) + left_[s] >= best_.peak) return true;
    }
    return false;
  }

  // Blocks that may come next, the most promising first.
  std::vector<Candidate> candidates(const Last& last) {
    std::vector<Candidate> result;
    std::int64_t lowest_end = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (at_[i] >= 0) continue;
      const Item& item = items_[i];
      steps_left_ -= static_cast<std::int64_t>(item.end - item.first) + 1;
      const auto begin = floor_.begin() + static_cast<std::ptrdiff_t>(item.first);
      const std::int64_t offset =
          *std::max_element(begin, begin + static_cast<std::ptrdiff_t>(item.end - item.first));
      // What begins here or higher leaves a hole that this block fills.
      lowest_end = std::min(lowest_end, offset + item.size);
      const bool in_order =
          offset > last.offset || (offset == last.offset && (i > last.item || placed_ == 0));
      if (in_order) result.push_back({offset, i});
    }
    std::erase_if(result, [&](const Candidate& c) { return c.offset >= lowest_end; });
    std::sort(result.begin(), result.end(), [&](const Candidate& a, const Candidate& b) {
      if (a.offset != b.offset) return a.offset < b.offset;
      const auto area = [&](const Candidate& c) {
        const Item& item = items_[c.item];
        return item.size * static_cast<std::int64_t>(item.end - item.first);
      };
      if (area(a) != area(b)) return area(a) > area(b);
      return a.item < b.item;
    });
    return result;
  }

  void place_next(const Last& last, std::int64_t peak) {
    if (placed_ == items_.size()) {
      best_.at = at_;
      best_.peak = peak;
      best_.found_by = "exact search";
      return;
    }
    if (hopeless(last.offset)) return;
    for (const Candidate& candidate : candidates(last)) {
      if (done()) return;
      const Item& item = items_[candidate.item];
      const std::int64_t end = candidate.offset + item.size;
      if (end >= best_.peak) continue;
      std::vector<std::int64_t> before(floor_.begin() + static_cast<std::ptrdiff_t>(item.first),
                                       floor_.begin() + static_cast<std::ptrdiff_t>(item.end));
      for (std::size_t s = item.first; s < item.end; ++s) {
        floor_[s] = end;
        left_[s] -= item.size;
      }
      at_[candidate.item] = candidate.offset;
      ++placed_;
      place_next({candidate.offset, candidate.item}, std::max(peak, end));
      --placed_;
      at_[candidate.item] = -1;
      std::copy(before.begin(), before.end(),
                floor_.begin() + static_cast<std::ptrdiff_t>(item.first));
      for (std::size_t s = item.first; s < item.end; ++s) left_[s] += item.size;
    }
  }

  const std::vector<Item>& items_;
  Offsets best_;
  const std::int64_t target_;
  std::int64_t& steps_left_;
  std::vector<std::int64_t> floor_;  // of each section: the end of the highest block
  std::vector<std::int64_t> left_;   // of each section: sizes still to be placed
  std::vector<std::int64_t> at_;     // of each item, or -1
  std::size_t placed_ = 0;
};

// The search goes as deep as it has blocks; more than this are left to the heuristics.
constexpr std::size_t kSearchItemsMax = 2000;

}  // namespace

std::int64_t placement_bound(const std::vector<PlacedBlock>& blocks, std::int64_t alignment) {
  std::int64_t bound = 0;
  for (const Component& component : split_in_time(blocks, alignment)) {
    for (const std::int64_t sum : sums_of_sections(component.items, component.sections)) {
      bound = std::max(bound, sum * alignment);
    }
  }
  return bound;
}

TightPlacement place_tightly(std::vector<PlacedBlock>& blocks, const SearchOptions& options) {
  const std::int64_t unit = options.alignment;
  TightPlacement result;
  result.bound = placement_bound(blocks, unit);
  result.found_by = heuristics().front().name;
  for (PlacedBlock& block : blocks) block.offset = 0;
  std::int64_t steps_left = options.steps_max;
  std::int64_t certain = result.bound;  // no placement has a lower peak
  for (const Component& component : split_in_time(blocks, unit)) {
    // What other components need anyway is good enough for this one.
    const std::int64_t enough = std::max({result.bound, result.peak, options.target}) / unit;
    Offsets offsets = best_heuristic(component, enough);
    if (offsets.peak > enough && steps_left > 0 && component.items.size() <= kSearchItemsMax) {
      bool exhausted = false;
      offsets = Search(component, std::move(offsets), enough, steps_left).run(exhausted);
      if (exhausted && offsets.peak > enough) certain = std::max(certain, offsets.peak * unit);
    }
    if (offsets.peak * unit > result.peak) {
      result.peak = offsets.peak * unit;
      result.found_by = offsets.found_by;
    }
    for (std::size_t i = 0; i < component.items.size(); ++i) {
      blocks[component.items[i].block].offset = offsets.at[i] * unit;
    }
  }
  result.proved = result.peak <= certain;
  result.steps = options.steps_max - std::max<std::int64_t>(0, steps_left);
  return result;
}

}  // namespace tessera::compile
