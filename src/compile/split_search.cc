#include "compile/split_search.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/check.h"

namespace tessera::compile {
namespace {

using Ways = std::vector<std::uint8_t>;

double cost_at(const CostFactor& factor, const Ways& ways) {
  std::size_t index = 0;
  for (std::size_t i = 0; i < factor.variables.size(); ++i) {
    if (ways[static_cast<std::size_t>(factor.variables[i])] != 0) index |= std::size_t{1} << i;
  }
  return factor.costs[index];
}

// What was eliminated: the better way for each choice of the variables beside it.
struct Elimination {
  std::int32_t variable = 0;
  std::vector<std::int32_t> beside;
  std::vector<std::uint8_t> better;  // 2^beside
};

class Eliminator {
 public:
  Eliminator(std::int32_t variables, const std::vector<CostFactor>& factors, std::int32_t width_max)
      : factors_(factors), width_(static_cast<std::size_t>(width_max)) {
    of_.resize(static_cast<std::size_t>(variables));
    ways_.assign(of_.size(), 0);
    for (std::size_t i = 0; i < factors_.size(); ++i) add(i);
  }

  std::optional<Ways> run() {
    for (std::size_t i = 0; i < of_.size(); ++i) {
      const std::int32_t variable = next();
      if (at(variable).beside.size() > width_) return std::nullopt;
      eliminate(variable);
    }
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      std::size_t index = 0;
      for (std::size_t i = 0; i < step->beside.size(); ++i) {
        if (way(step->beside[i]) != 0) index |= std::size_t{1} << i;
      }
      way(step->variable) = step->better[index];
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
    Elimination step{variable, {of.beside.begin(), of.beside.end()}, {}};
    CostFactor rest{step.beside, {}};
    const std::size_t count = std::size_t{1} << step.beside.size();
    for (std::size_t index = 0; index < count; ++index) {
      for (std::size_t i = 0; i < step.beside.size(); ++i) {
        way(step.beside[i]) = static_cast<std::uint8_t>(index >> i & 1);
      }
      double costs[2] = {0, 0};
      for (std::uint8_t taken = 0; taken < 2; ++taken) {
        way(variable) = taken;
        for (const std::size_t factor : of.factors) {
          if (!factors_[factor].costs.empty()) costs[taken] += cost_at(factors_[factor], ways_);
        }
      }
      step.better.push_back(costs[1] < costs[0] ? 1 : 0);
      rest.costs.push_back(std::min(costs[0], costs[1]));
    }
    for (const std::size_t factor : of.factors) factors_[factor].costs.clear();  // in `rest` now
    of.left = false;
    for (const std::int32_t other : step.beside) at(other).beside.erase(variable);
    factors_.push_back(std::move(rest));
    add(factors_.size() - 1);
    steps_.push_back(std::move(step));
  }

  std::vector<CostFactor> factors_;
  const std::size_t width_;
  std::vector<Variable> of_;
  Ways ways_;
  std::vector<Elimination> steps_;
};

// Changes of one variable, and of two in one factor, until none is better.
Ways improved(const std::vector<CostFactor>& factors, Ways ways) {
  std::set<std::pair<std::int32_t, std::int32_t>> moves;
  for (const CostFactor& factor : factors) {
    for (const std::int32_t a : factor.variables) {
      for (const std::int32_t b : factor.variables) {
        if (a <= b) moves.emplace(a, b);
      }
    }
  }
  double cost = cost_of(factors, ways);
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [a, b] : moves) {
      Ways other = ways;
      other[static_cast<std::size_t>(a)] ^= 1;
      if (b != a) other[static_cast<std::size_t>(b)] ^= 1;
      const double found = cost_of(factors, other);
      if (found >= cost) continue;
      cost = found;
      ways = std::move(other);
      changed = true;
    }
  }
  return ways;
}

}  // namespace

double cost_of(const std::vector<CostFactor>& factors, const std::vector<std::uint8_t>& ways) {
  double sum = 0;
  for (const CostFactor& factor : factors) sum += cost_at(factor, ways);
  return sum;
}

CheapestChoice cheapest_choice(std::int32_t variables, const std::vector<CostFactor>& factors,
                               std::int32_t width_max) {
  TESSERA_CHECK(width_max <= 24, "a table for {} variables", width_max);
  CheapestChoice result;
  if (auto ways = Eliminator(variables, factors, width_max).run()) {
    result.ways = std::move(*ways);
    result.cost = cost_of(factors, result.ways);
    return result;
  }
  result.exact = false;
  for (const std::uint8_t start : {0, 1}) {
    Ways ways = improved(factors, Ways(static_cast<std::size_t>(variables), start));
    const double cost = cost_of(factors, ways);
    if (!result.ways.empty() && cost >= result.cost) continue;
    result.ways = std::move(ways);
    result.cost = cost;
  }
  return result;
}

}  // namespace tessera::compile
