// The cheapest of all choices of one of two ways for each variable, where costs are sums of factors
// that depend on a few variables each. Layers are such variables: what a layer costs depends on its own
// way and on those of the layers that it reads.
//
//   sum of f(a) + g(a, b) + h(b, c)     one variable after the other is eliminated: for each choice of
//     = sum of f(a) + g'(a)             those beside it, the better of its own two ways is kept
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::compile {

struct CostFactor {
  std::vector<std::int32_t> variables;  // each once
  std::vector<double> costs;            // 2^variables; bit i of the index: the way of variables[i]
};

struct CheapestChoice {
  std::vector<std::uint8_t> ways;  // of each variable, 0 or 1
  double cost = 0;
  bool exact = true;
};

// The sum of all factors for these ways.
double cost_of(const std::vector<CostFactor>& factors, const std::vector<std::uint8_t>& ways);

// Exact where no more than `width_max` variables (at most 24) ever stand beside one that is eliminated;
// else the best that changes of one and of two variables lead to from each of the two uniform choices.
// Of equal ones the choice with the lower ways of later variables.
CheapestChoice cheapest_choice(std::int32_t variables, const std::vector<CostFactor>& factors,
                               std::int32_t width_max = 16);

}  // namespace tessera::compile
