// One operator, or a few, in a model of random shapes: the whole model runs on the processor, the
// simulated core, the host and the reference give equal bits in the default and in the float32
// profile, and the float32 profile agrees with the operators' definitions on the host.
//
//   seed ─► Maker ─► TestModel ─► graph ─► ref = host = sim (bits)
//                        └──────► model::evaluate, node by node ~ ref of the profile f32
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "graph/graph_test_models.h"

namespace tessera::agreement {

// Numbers for shapes and constants.
class Maker {
 public:
  explicit Maker(std::uint64_t seed) : random_(seed) {}
  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool one_in(std::int64_t n) { return pick(1, n) == 1; }
  std::vector<double> reals(const Shape& dims, double scale = 1.0) {
    std::vector<double> values(static_cast<std::size_t>(element_count(dims)));
    for (double& value : values) value = scale * static_cast<double>(pick(-1000, 1000)) / 1000.0;
    return values;
  }
  std::vector<double> whole_numbers(const Shape& dims, std::int64_t low, std::int64_t high) {
    std::vector<double> values(static_cast<std::size_t>(element_count(dims)));
    for (double& value : values) value = static_cast<double>(pick(low, high));
    return values;
  }

 private:
  std::mt19937_64 random_;
};

// A shape of `rank` axes, of few extents of 1 so that neighbours fall together seldom; at most `most`
// elements.
Shape random_shape(Maker& maker, std::size_t rank, std::int64_t most = 800);

using MakeModel = graph::testing::TestModel (*)(Maker&);

// How far check_on() goes.
struct Check {
  bool offload = true;   // a host step is a failure; else its program is compiled and not simulated
  bool simulate = true;  // also on the simulated core
  bool define = true;    // in a profile of f32: also against the operators' definitions
  bool derive = false;   // also lifted out of the program, and as derived software
};

// A float32, a small and a large processor.
inline constexpr std::array kProfiles = {"f32", "edge", "tessera128"};

// One model in one profile, with random inputs from `seed`.
void check_on(const std::string& profile, const graph::testing::TestModel& test, std::uint64_t seed,
              const Check& check = {});

// `rounds` models from as many seeds (printed where one fails), in both profiles. Integers must be
// equal to the definition's, floats close to them.
void check(MakeModel make, int rounds = 3);

}  // namespace tessera::agreement
