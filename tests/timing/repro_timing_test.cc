// What `tessera repro timing` compares: the virtual core against closed forms and against the
// register-level arrays, and every table against its bound where the published figures are there.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "arch/architecture_file.h"
#include "engines/neural/array_model.h"
#include "engines/neural/output_stationary_model.h"
#include "isa/verify.h"
#include "repro/experiments.h"
#include "repro/neuron_timing.h"
#include "repro/systolic_timing.h"
#include "repro/task_list.h"

namespace tessera::repro {
namespace {

std::string array_name(std::int64_t rows, std::int64_t columns, bool sums_stay) {
  return std::to_string(rows) + "x" + std::to_string(columns) + (sums_stay ? "_os" : "_ws");
}

std::int64_t on_the_core(const std::string& array, const ProductSize& product) {
  const auto chip = systolic_chip(array);
  EXPECT_TRUE(chip.ok()) << chip.error().message;
  const auto cycles = systolic_cycles(*chip, {product});
  EXPECT_TRUE(cycles.ok()) << cycles.error().message;
  return cycles.ok() ? *cycles : -1;
}

TEST(Systolic, TheCoreGivesTheClosedFormsOnAGrid) {
  for (const std::int64_t r : {1, 3, 4, 16}) {
    for (const std::int64_t c : {1, 2, 8}) {
      for (const std::int64_t m : {1, 4, 9, 33}) {
        for (const std::int64_t n : {1, 8, 17}) {
          for (const std::int64_t k : {1, 3, 16, 20}) {
            SCOPED_TRACE(testing::Message() << r << "x" << c << " " << m << " " << n << " " << k);
            const std::int64_t weights_stay =
                ceil_div(k, r) * ceil_div(n, c) * (2 * r + c + m - 2) - 1;
            const std::int64_t sums_stay = ceil_div(m, r) * ceil_div(n, c) * (r + c + k - 2) - 1;
            ASSERT_EQ(on_the_core(array_name(r, c, false), {m, n, k}), weights_stay);
            ASSERT_EQ(on_the_core(array_name(r, c, true), {m, n, k}), sums_stay);
          }
        }
      }
    }
  }
}

// A product in serial folds on the register-level array, the values 1 throughout.
Cycles weights_stay_last_mac(std::int64_t r, std::int64_t c, const ProductSize& product) {
  engines::ArrayModel array(
      {.rows = r, .columns = c, .banks = 1, .bank_columns = product.m, .serial = true});
  const std::vector<std::int64_t> ones(static_cast<std::size_t>(r * std::max(c, product.m)), 1);
  std::vector<engines::ArrayPass> passes;
  for (std::int64_t n = 0; n < product.n; n += c) {
    for (std::int64_t k = 0; k < product.k; k += r) {
      passes.push_back({.weights = ones.data(),
                        .columns = ones.data(),
                        .column_count = product.m,
                        .first_of_chain = k == 0,
                        .last_of_chain = k + r >= product.k});
    }
  }
  array.run(passes);
  return array.last_mac();
}

Cycles sums_stay_last_mac(std::int64_t r, std::int64_t c, const ProductSize& product) {
  engines::OutputStationaryModel array({.rows = r, .columns = c, .serial = true});
  const std::vector<std::int64_t> ones(static_cast<std::size_t>(product.k * std::max(r, c)), 1);
  const std::vector<engines::OutputFold> folds(
      static_cast<std::size_t>(ceil_div(product.m, r) * ceil_div(product.n, c)),
      {.left = ones.data(), .above = ones.data(), .depth = product.k});
  array.run(folds);
  return array.last_mac();
}

TEST(Systolic, TheCoreGivesTheLastMultiplyAccumulateOfTheRegisterLevelArrays) {
  constexpr unsigned kSeed = 11;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  const auto pick = [&random](std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(1, high)(random);
  };
  for (int i = 0; i < 150; ++i) {
    const std::int64_t r = pick(7);
    const std::int64_t c = pick(7);
    const ProductSize product{.m = pick(20), .n = pick(15), .k = pick(20)};
    SCOPED_TRACE(testing::Message() << "product " << i);
    ASSERT_EQ(on_the_core(array_name(r, c, false), product), weights_stay_last_mac(r, c, product));
    ASSERT_EQ(on_the_core(array_name(r, c, true), product), sums_stay_last_mac(r, c, product));
  }
}

TEST(Systolic, NamesThatItDoesNotKnowAreErrors) {
  for (const char* name : {"128x128", "0x8_ws", "8_ws", "8x8x8_ws", "2000x8_os", "8x_ws", ""}) {
    EXPECT_FALSE(systolic_chip(name).ok()) << name;
  }
  for (const char* name : {"gemm_1x2", "gemm_1x2x0", "gemm_1x2x3x4", "vgg", ""}) {
    EXPECT_FALSE(systolic_workload(name).ok()) << name;
  }
}

TEST(Systolic, TheNetworksHaveTheLayersThatArePublished) {
  const auto macs = [](const char* name) {
    const auto products = systolic_workload(name);
    std::int64_t sum = 0;
    for (const ProductSize& product : *products) sum += product.m * product.n * product.k;
    return sum;
  };
  EXPECT_EQ(systolic_workload("resnet50")->size(), 54u);
  EXPECT_EQ(macs("resnet50"), 4'089'184'256);
  // 27 convolutions and the classifier; a depthwise layer as one filter over all channels.
  EXPECT_EQ(systolic_workload("mobilenetv1")->size(), 28u);
  EXPECT_EQ(macs("mobilenetv1"), 568'740'352);
}

TEST(MatmulSchedules, AreProvedFreeOfRacesAndTakeNoLessThanTheArray) {
  const auto chip = load_chip_config("neuron2");
  ASSERT_TRUE(chip.ok());
  const MatmulShape shape{.m = 2048, .k = 1024, .n = 2048};
  for (const MatmulSchedule schedule : {MatmulSchedule::kTiled, MatmulSchedule::kHoisted,
                                        MatmulSchedule::kBlockFree, MatmulSchedule::kBlockAll}) {
    SCOPED_TRACE(static_cast<int>(schedule));
    const auto program = matmul_program(*chip, shape, schedule);
    ASSERT_TRUE(program.ok()) << program.error().message;
    const Status verified = isa::verify_program(*program, *chip);
    ASSERT_TRUE(verified.ok()) << verified.error().message;
    const auto run = run_program(*chip, *program);
    ASSERT_TRUE(run.ok()) << run.error().message;
    EXPECT_GT(run->cycles, shape.m * shape.k * shape.n / (128 * 128));
    for (const card::EngineStatistics& engine : run->engines) {
      if (engine.name != "neural") continue;
      EXPECT_EQ(engine.macs, shape.m * shape.k * shape.n);
    }
  }
}

TEST(MatmulSchedules, RefuseShapesTheyDoNotFit) {
  const auto chip = load_chip_config("neuron2");
  ASSERT_TRUE(chip.ok());
  EXPECT_FALSE(matmul_program(*chip, {.m = 128, .k = 1024, .n = 1024}, {}).ok());
  EXPECT_FALSE(matmul_program(*chip, {.m = 2048, .k = 32768, .n = 1024}, {}).ok());
  EXPECT_FALSE(parse_matmul_shape("[1,2]@[3,4]").ok());
  EXPECT_FALSE(parse_matmul_shape("[1,2]@[2,4").ok());
  EXPECT_FALSE(parse_matmul_shape("[1,2]@[2,4]]").ok());
  const auto shape = parse_matmul_shape("[4096,8192]@[8192,1024]");
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->m, 4096);
  EXPECT_EQ(shape->n, 1024);
}

TEST(PublishedFigures, AreMetWithinTheirBounds) {
  const std::string folder = TESSERA_TEST_DATA "/timing";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "there is no " << folder;
  const auto experiment = find_experiment("timing");
  ASSERT_TRUE(experiment.ok());
  const auto result = (*experiment)->run({.data = folder, .profile = {}});
  ASSERT_TRUE(result.ok()) << result.error().message;
  for (const TimingTable& table : result->tables) {
    SCOPED_TRACE(table.name);
    if (table.name == "systolic") {
      for (const TimingRow& row : table.rows) EXPECT_EQ(row.difference(), 0) << row.name;
    } else if (table.name == "gemmini8") {
      EXPECT_LE(table.mean_absolute_error_percent(), 0.5);
      EXPECT_LE(table.largest_error_percent(), 1);
    } else {
      EXPECT_LE(table.largest_error_percent(), 10);
    }
  }
}

}  // namespace
}  // namespace tessera::repro
