#include "compile/split_search.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "base/check.h"

namespace tessera::compile {
namespace {

using Ways = std::vector<std::uint8_t>;

std::size_t count_of(const CostFactor& factor, std::size_t i) {
  return factor.counts.empty() ? 2 : factor.counts[i];
}

double cost_at(const CostFactor& factor, const Ways& ways) {
  std::size_t index = 0, stride = 1;
  for (std::size_t i = 0; i < factor.variables.size(); ++i) {
    index += stride * ways[static_cast<std::size_t>(factor.variables[i])];
    stride *= count_of(factor, i);
  }
  return factor.costs[index];
}

// Of each variable, as the factors have it; 1 without factors.
std::vector<std::uint8_t> counts_of(std::int32_t variables,
                                    const std::vector<CostFactor>& factors) {
  std::vector<std::uint8_t> counts(static_cast<std::size_t>(variables), 1);
  for (const CostFactor& factor : factors) {
    for (std::size_t i = 0; i < factor.variables.size(); ++i) {
      const auto count = static_cast<std::uint8_t>(count_of(factor, i));
      std::uint8_t& of = counts[static_cast<std::size_t>(factor.variables[i])];
      TESSERA_CHECK(count >= 1 && (of == 1 || of == count), "a variable of {} and of {} ways", of,
                    count);
      of = count;
    }
  }
  return counts;
}

// What was eliminated: the best way for each choice of the variables beside it.
struct Elimination {
  std::int32_t variable = 0;
  CostFactor rest;                 // of those beside it; its costs go to the factors
  std::vector<std::uint8_t> best;  // by the index of `rest`
};

class Eliminator {
 public:
  Eliminator(std::int32_t variables, const std::vector<CostFactor>& factors, std::int32_t width_max)
      : factors_(factors),
        entries_max_(std::size_t{1} << width_max),
        counts_(counts_of(variables, factors)) {
    of_.resize(static_cast<std::size_t>(variables));
    ways_.assign(of_.size(), 0);
    for (std::size_t i = 0; i < factors_.size(); ++i) add(i);
  }

  std::optional<Ways> run() {
    for (std::size_t i = 0; i < of_.size(); ++i) {
      const std::int32_t variable = next();
      if (entries_beside(variable) > entries_max_) return std::nullopt;
      eliminate(variable);
    }
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      std::size_t index = 0, stride = 1;
      for (std::size_t i = 0; i < step->rest.variables.size(); ++i) {
        index += stride * way(step->rest.variables[i]);
        stride *= step->rest.counts[i];
      }
      way(step->variable) = step->best[index];
    }
    return ways_;
  }

 private:
  struct Variable {
    bool left = true;
    std::set<std::int32_t> beside;     // in a factor with it
    std::vector<std::size_t> factors;  // some are gone
  };
  Variable& at(std::int32_t variable) { return of_[static_cast<std::size_t>(variable)]; }
  std::uint8_t& way(std::int32_t variable) { return ways_[static_cast<std::size_t>(variable)]; }
  std::uint8_t count(std::int32_t variable) const {
    return counts_[static_cast<std::size_t>(variable)];
  }

  // Of the table that eliminating the variable takes; more than any where that is more than allowed.
  std::size_t entries_beside(std::int32_t variable) {
    std::size_t entries = 1;
    for (const std::int32_t other : at(variable).beside) {
      entries *= count(other);
      if (entries > entries_max_) break;
    }
    return entries;
  }

  void add(std::size_t factor) {
    for (const std::int32_t variable : factors_[factor].variables) {
      at(variable).factors.push_back(factor);
      for (const std::int32_t other : factors_[factor].variables) {
        if (other != variable) at(variable).beside.insert(other);
      }
    }
  }

  // The one with fewest beside it; the first of equals.
  std::int32_t next() const {
    std::int32_t best = -1;
    std::size_t fewest = 0;
    for (std::size_t i = 0; i < of_.size(); ++i) {
      if (!of_[i].left || (best >= 0 && of_[i].beside.size() >= fewest)) continue;
      best = static_cast<std::int32_t>(i);
      fewest = of_[i].beside.size();
    }
    return best;
  }

  void eliminate(std::int32_t variable) {
    Variable& of = at(variable);
    Elimination step{variable, {{of.beside.begin(), of.beside.end()}, {}, {}}, {}};
    for (const std::int32_t other : of.beside) step.rest.counts.push_back(count(other));
    CostFactor rest = step.rest;
    const std::size_t entries = entries_beside(variable);
    for (std::size_t index = 0; index < entries; ++index) {
      std::size_t left = index;
      for (const std::int32_t other : step.rest.variables) {
        way(other) = static_cast<std::uint8_t>(left % count(other));
        left /= count(other);
      }
      const auto [best, cost] = best_way(variable);
      step.best.push_back(best);
      rest.costs.push_back(cost);
    }
    for (const std::size_t factor : of.factors) factors_[factor].costs.clear();  // in `rest` now
    of.left = false;
    for (const std::int32_t other : step.rest.variables) at(other).beside.erase(variable);
    factors_.push_back(std::move(rest));
    add(factors_.size() - 1);
    steps_.push_back(std::move(step));
  }

  // The first of the best ones, and the costs of its factors; the others' ways are set.
  std::pair<std::uint8_t, double> best_way(std::int32_t variable) {
    std::pair<std::uint8_t, double> best{0, 0};
    for (std::uint8_t taken = 0; taken < count(variable); ++taken) {
      way(variable) = taken;
      double cost = 0;
      for (const std::size_t factor : at(variable).factors) {
        if (!factors_[factor].costs.empty()) cost += cost_at(factors_[factor], ways_);
      }
      if (taken == 0 || cost < best.second) best = {taken, cost};
    }
    return best;
  }

  std::vector<CostFactor> factors_;
  const std::size_t entries_max_;
  const std::vector<std::uint8_t> counts_;
  std::vector<Variable> of_;
  Ways ways_;
  std::vector<Elimination> steps_;
};

// Changes of one variable, and of two in one factor, until none is better. A change costs what the factors of
// its variables do, however many others there are.
class Improvement {
 public:
  Improvement(const std::vector<CostFactor>& factors, const Ways& counts)
      : factors_(factors), counts_(counts), factors_of_(counts.size()) {
    std::set<Pair> pairs;
    for (std::size_t i = 0; i < factors_.size(); ++i) {
      for (const std::int32_t a : factors_[i].variables) {
        factors_of_[static_cast<std::size_t>(a)].push_back(i);
        for (const std::int32_t b : factors_[i].variables) {
          if (a <= b) pairs.emplace(a, b);
        }
      }
    }
    for (const Pair& pair : pairs) moves_.push_back({pair, factors_of(pair)});
  }

  Ways run(Ways ways) const {
    for (bool changed = true; changed;) {
      changed = false;
      for (const Move& move : moves_) changed = improve(move, ways) || changed;
    }
    return ways;
  }

 private:
  using Pair = std::pair<std::int32_t, std::int32_t>;
  struct Move {
    Pair variables;                    // one, twice, or two
    std::vector<std::size_t> factors;  // of either
  };

  std::vector<std::size_t> factors_of(const Pair& pair) const {
    const auto& of_a = factors_of_[static_cast<std::size_t>(pair.first)];
    const auto& of_b = factors_of_[static_cast<std::size_t>(pair.second)];
    std::vector<std::size_t> both;
    std::ranges::set_union(of_a, of_b, std::back_inserter(both));
    return both;
  }

  double cost(const Move& move, const Ways& ways) const {
    double sum = 0;
    for (const std::size_t factor : move.factors) sum += cost_at(factors_[factor], ways);
    return sum;
  }

  // Takes the first other ways of the variables that cost less, by more than sums are rounded.
  bool improve(const Move& move, Ways& ways) const {
    constexpr double kRounding = 1e-12;
    const auto first = static_cast<std::size_t>(move.variables.first);
    const auto second = static_cast<std::size_t>(move.variables.second);
    const Ways::value_type own_first = ways[first], own_second = ways[second];
    const double before = cost(move, ways);
    const std::uint8_t ways_of_second = first == second ? std::uint8_t{1} : counts_[second];
    for (std::uint8_t of_first = 0; of_first < counts_[first]; ++of_first) {
      for (std::uint8_t of_second = 0; of_second < ways_of_second; ++of_second) {
        if (first != second) ways[second] = of_second;
        ways[first] = of_first;
        if (cost(move, ways) < before - kRounding * std::abs(before)) return true;
      }
    }
    ways[second] = own_second;
    ways[first] = own_first;
    return false;
  }

  const std::vector<CostFactor>& factors_;
  const Ways& counts_;
  std::vector<std::vector<std::size_t>> factors_of_;  // of each variable, in order
  std::vector<Move> moves_;
};

}  // namespace

double cost_of(const std::vector<CostFactor>& factors, const std::vector<std::uint8_t>& ways) {
  double sum = 0;
  for (const CostFactor& factor : factors) sum += cost_at(factor, ways);
  return sum;
}

CheapestChoice cheapest_choice(std::int32_t variables, const std::vector<CostFactor>& factors,
                               std::int32_t width_max) {
  TESSERA_CHECK(width_max <= 24, "a table of 2^{} entries", width_max);
  CheapestChoice result;
  if (auto ways = Eliminator(variables, factors, width_max).run()) {
    result.ways = std::move(*ways);
    result.cost = cost_of(factors, result.ways);
    return result;
  }
  result.exact = false;
  const std::vector<std::uint8_t> counts = counts_of(variables, factors);
  const std::uint8_t most = *std::ranges::max_element(counts);
  const Improvement improvement(factors, counts);
  for (std::uint8_t start = 0; start < most; ++start) {
    Ways ways;
    for (const std::uint8_t count : counts) {
      ways.push_back(std::min<std::uint8_t>(start, count - 1));
    }
    ways = improvement.run(std::move(ways));
    const double cost = cost_of(factors, ways);
    if (!result.ways.empty() && cost >= result.cost) continue;
    result.ways = std::move(ways);
    result.cost = cost;
  }
  return result;
}

}  // namespace tessera::compile
