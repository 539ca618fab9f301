#include "engines/neural/output_stationary_model.h"

#include <gtest/gtest.h>

#include <random>

#include "arch/cost.h"

namespace tessera::engines {
namespace {

struct Problem {
  OutputStationaryModel::Shape shape;
  std::int64_t sum = 1, pixels = 1, outputs = 1;
  std::vector<std::int64_t> moving;      // [pixels][sum]
  std::vector<std::int64_t> stationary;  // [sum][outputs]
};

Problem random_problem(std::mt19937& random) {
  const auto pick = [&random](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  Problem problem;
  problem.shape = {pick(1, 8), pick(1, 8), pick(1, 4), pick(0, 1) == 1};
  problem.sum = pick(1, 24);
  problem.pixels = pick(1, 30);
  problem.outputs = pick(1, 20);
  for (std::int64_t i = 0; i < problem.pixels * problem.sum; ++i) {
    problem.moving.push_back(pick(-9, 9));
  }
  for (std::int64_t i = 0; i < problem.sum * problem.outputs; ++i) {
    problem.stationary.push_back(pick(-9, 9));
  }
  return problem;
}

// The folds of a product with the operands of each.
struct Cut {
  std::vector<std::vector<std::int64_t>> left, above;
  std::vector<OutputFold> folds;
};

Cut cut(const Problem& problem) {
  Cut result;
  const auto& shape = problem.shape;
  for (std::int64_t o0 = 0; o0 < problem.outputs; o0 += shape.columns) {
    for (std::int64_t p0 = 0; p0 < problem.pixels; p0 += shape.rows) {
      std::vector<std::int64_t> x, w;
      for (std::int64_t k = 0; k < problem.sum; ++k) {
        for (std::int64_t p = p0; p < p0 + shape.rows; ++p) {
          const bool inside = p < problem.pixels;
          x.push_back(inside ? problem.moving[static_cast<std::size_t>(p * problem.sum + k)] : 0);
        }
        for (std::int64_t o = o0; o < o0 + shape.columns; ++o) {
          const auto index = static_cast<std::size_t>(k * problem.outputs + o);
          w.push_back(o < problem.outputs ? problem.stationary[index] : 0);
        }
      }
      result.left.push_back(std::move(x));
      result.above.push_back(std::move(w));
    }
  }
  for (std::size_t i = 0; i < result.left.size(); ++i) {
    result.folds.push_back({result.left[i].data(), result.above[i].data(), problem.sum});
  }
  return result;
}

Cycles closed_formula(const Problem& problem) {
  NeuralEngineConfig config;
  config.dataflow = Dataflow::kOutputStationary;
  config.folds = problem.shape.serial ? Folds::kSerial : Folds::kOverlapped;
  config.rows = static_cast<std::int32_t>(problem.shape.rows);
  config.columns = static_cast<std::int32_t>(problem.shape.columns);
  config.post_processor_latency_cycles = 0;
  config.task_start_cycles = 0;
  ProductWork work;
  work.channels = problem.sum;
  work.output_channels = problem.outputs;
  work.columns = problem.pixels;
  work.post_cycles = problem.shape.post_cycles;
  return neural_task_cycles(config, work, {});
}

TEST(OutputStationaryModel, ClosedFormulaGivesTheRegisterLevelCyclesOnRandomShapes) {
  constexpr unsigned kSeed = 20240612;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  for (int i = 0; i < 2000; ++i) {
    const Problem problem = random_problem(random);
    const Cut folds = cut(problem);
    OutputStationaryModel array(problem.shape);
    array.run(folds.folds);
    ASSERT_EQ(array.cycles(), closed_formula(problem)) << "problem " << i;
    ASSERT_EQ(array.lost(), 0) << "problem " << i;
  }
}

TEST(OutputStationaryModel, ProductsAreExactOnRandomShapes) {
  constexpr unsigned kSeed = 8;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  for (int i = 0; i < 1000; ++i) {
    const Problem problem = random_problem(random);
    const Cut folds = cut(problem);
    OutputStationaryModel array(problem.shape);
    array.run(folds.folds);
    std::size_t at = 0;
    const auto& shape = problem.shape;
    for (std::int64_t o0 = 0; o0 < problem.outputs; o0 += shape.columns) {
      for (std::int64_t p0 = 0; p0 < problem.pixels; p0 += shape.rows) {
        for (std::int64_t p = p0; p < p0 + shape.rows; ++p) {
          for (std::int64_t o = o0; o < o0 + shape.columns; ++o, ++at) {
            if (p >= problem.pixels || o >= problem.outputs) continue;
            std::int64_t expected = 0;
            for (std::int64_t k = 0; k < problem.sum; ++k) {
              expected += problem.moving[static_cast<std::size_t>(p * problem.sum + k)] *
                          problem.stationary[static_cast<std::size_t>(k * problem.outputs + o)];
            }
            ASSERT_EQ(array.results()[at], expected) << "problem " << i;
          }
        }
      }
    }
    ASSERT_EQ(at, array.results().size());
  }
}

}  // namespace
}  // namespace tessera::engines
