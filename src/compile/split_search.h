// The cheapest of all choices of one of a few ways for each variable, where costs are sums of factors
// that depend on a few variables each. Layers are such variables: what a layer costs depends on its own
// way and on those of the layers that it reads.
//
//   sum of f(a) + g(a, b) + h(b, c)     one variable after the other is eliminated: for each choice of
//     = sum of f(a) + g'(a)             those beside it, the best of its own ways is kept
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::compile {

struct CostFactor {
  std::vector<std::int32_t> variables;  // each once
  // One for all ways of the variables: those of variables[0] side by side, then those of variables[1], ...
  std::vector<double> costs;
  std::vector<std::uint8_t> counts;  // ways of each variable; empty: two each
};

struct CheapestChoice {
  std::vector<std::uint8_t> ways;  // of each variable, from 0 on
  double cost = 0;
  bool exact = true;
};

// The sum of all factors for these ways.
double cost_of(const std::vector<CostFactor>& factors, const std::vector<std::uint8_t>& ways);

// Exact where the variables that stand beside one that is eliminated never have more than 2^`width_max`
// choices together (at most 2^24); else the best that changes of one and of two variables lead to from
// each of the uniform choices. Of equal ones the choice with the lower ways of later variables.
CheapestChoice cheapest_choice(std::int32_t variables, const std::vector<CostFactor>& factors,
                               std::int32_t width_max = 16);

}  // namespace tessera::compile
