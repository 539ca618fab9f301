#include "tessera/growing_session.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "model/testing/model_builder.h"
#include "tessera/dynamic_network.h"

namespace tessera {
namespace {

using model::testing::Ints;
using model::testing::ModelBuilder;

Tensor waves(const Shape& dims, int seed) {
  Tensor tensor = Tensor::zeros(Format::kF32, dims);
  int i = seed;
  for (float& value : tensor.as<float>()) value = std::sin(static_cast<float>(++i * 7 % 101));
  return tensor;
}

// One head of attention: softmax(q k^T + mask) v, where keys and values grow by what x gives. The mask has an element
// for each row; rows of -30000 are left out.
std::string model_file() {
  ModelBuilder builder(17);
  builder.open_input("x", Format::kF32, {"1", "2", "1", "16"});
  builder.open_input("past.k", Format::kF32, {"batch", "2", "past", "16"});
  builder.open_input("past.v", Format::kF32, {"batch", "2", "past", "16"});
  builder.open_input("mask", Format::kF32, {"1", "1", "1", "all"});
  builder.initializer("w", waves({16, 16}, 3)).initializer("u", waves({16, 16}, 5));
  builder.node("MatMul", {"x", "w"}, {"k"}).node("MatMul", {"x", "u"}, {"v"});
  builder.node("Concat", {"past.k", "k"}, {"present.k"}, {{"axis", std::int64_t{-2}}});
  builder.node("Concat", {"past.v", "v"}, {"present.v"}, {{"axis", std::int64_t{2}}});
  builder.node("Transpose", {"present.k"}, {"kt"}, {{"perm", Ints{0, 1, 3, 2}}});
  builder.node("MatMul", {"x", "kt"}, {"scores"}).node("Add", {"scores", "mask"}, {"masked"});
  builder.node("Softmax", {"masked"}, {"weights"}).node("MatMul", {"weights", "present.v"}, {"y"});
  builder.output("y").output("present.k").output("present.v");
  const std::string path = testing::TempDir() + "growing_session_test.onnx";
  std::ofstream file(path, std::ios::binary);
  builder.proto().SerializeToOstream(&file);
  return path;
}

Tensor mask(std::int64_t rows, std::int64_t seen) {
  Tensor tensor = Tensor::zeros(Format::kF32, {1, 1, 1, rows});
  std::fill(tensor.as<float>().begin() + seen, tensor.as<float>().end(), -30000.0f);
  return tensor;
}

GrowingOptions options(const std::string& arch, std::int64_t rows_max) {
  GrowingOptions growing;
  growing.load.arch = arch;
  growing.states = {{"past.k", "present.k"}, {"past.v", "present.v"}};
  growing.rows_max = rows_max;
  growing.capacity_min = 4;
  return growing;
}

// What runs give whose caches are plain inputs, which grow: a network for each length.
std::vector<Tensor> by_plain_inputs(const std::string& path, const std::string& arch, int steps) {
  DynamicOptions dynamic;
  dynamic.load.arch = arch;
  auto session =
      DynamicSession::open(*DynamicNetwork::open(path, dynamic), {.device = DeviceKind::kHost});
  Tensor k = Tensor::zeros(Format::kF32, {1, 2, 0, 16}), v = k;
  std::vector<Tensor> results;
  for (int step = 0; step < steps; ++step) {
    auto run = session->run({waves({1, 2, 1, 16}, step), k, v, mask(step + 1, step + 1)});
    EXPECT_TRUE(run.ok()) << run.error().to_string();
    results.push_back(run->outputs[0]);
    k = run->outputs[1];
    v = run->outputs[2];
  }
  return results;
}

TEST(GrowingSession, GivesTheBitsOfCachesThatArePlainInputsInEveryCapacity) {
  const std::string path = model_file();
  constexpr int kSteps = 11;  // in networks for 4, 8 and 12 rows
  for (const std::string arch : {"tessera128", "f32", "edge"}) {
    const std::vector<Tensor> expected = by_plain_inputs(path, arch, kSteps);
    for (const DeviceKind kind : {DeviceKind::kHost, DeviceKind::kSim, DeviceKind::kRef}) {
      auto session = GrowingSession::open(path, options(arch, 12), {.device = kind, .threads = 1});
      ASSERT_TRUE(session.ok()) << session.error().to_string();
      for (int round = 0; round < 2; ++round) {
        for (int step = 0; step < kSteps; ++step) {
          auto run =
              session->run({waves({1, 2, 1, 16}, step), mask(session->capacity(), step + 1)});
          ASSERT_TRUE(run.ok()) << run.error().to_string();
          EXPECT_EQ(run->outputs, (std::vector<Tensor>{expected[static_cast<std::size_t>(step)]}))
              << arch << " " << device_kind_name(kind) << " step " << step;
        }
        EXPECT_EQ(session->rows(), kSteps);
        ASSERT_TRUE(session->clear().ok());
      }
      EXPECT_EQ(session->networks_compiled(), 3);
    }
  }
}

TEST(GrowingSession, SaysThatThereIsNoRoomAndGoesOnAfterClear) {
  auto session =
      GrowingSession::open(model_file(), options("tessera128", 1), {.device = DeviceKind::kHost});
  ASSERT_TRUE(session.ok()) << session.error().to_string();
  const std::vector<Tensor> inputs = {waves({1, 2, 1, 16}, 0), mask(1, 1)};
  const auto first = session->run(inputs);
  ASSERT_TRUE(first.ok()) << first.error().to_string();
  EXPECT_EQ(session->capacity(), 0);
  EXPECT_EQ(
      session->run(inputs).error().to_string(),
      "the states have 1 rows, as many as GrowingOptions::rows_max; open a session with more, or "
      "clear() this one   [does not fit]");
  ASSERT_TRUE(session->clear().ok());
  EXPECT_EQ(session->run(inputs)->outputs, first->outputs);
}

TEST(GrowingSession, RefusesWhatIsNoGrowingState) {
  const std::string path = model_file();
  GrowingOptions growing = options("tessera128", 8);
  growing.states = {{"x", "y"}};
  EXPECT_EQ(GrowingSession::open(path, growing).error().to_string(),
            "'" + path +
                "': state 'x' -> 'y': the output is made by MatMul, needed is Concat of the "
                "input and the new row   [invalid argument]");
  growing.states = {};
  EXPECT_EQ(GrowingSession::open(path, growing).error().to_string(),
            "GrowingOptions::states: none; name at least one   [invalid argument]");
}

TEST(GrowingSession, SaysWhichInputDoesNotFitTheCapacity) {
  auto session =
      GrowingSession::open(model_file(), options("tessera128", 8), {.device = DeviceKind::kHost});
  ASSERT_TRUE(session->run({waves({1, 2, 1, 16}, 0), mask(4, 1)}).ok());
  EXPECT_EQ(session->run({waves({1, 2, 1, 16}, 0), mask(5, 2)}).error().to_string(),
            "input 'mask': given f32 [1x1x1x5], for a capacity of 4 rows it is f32 [1x1x1x4]   "
            "[invalid argument]");
  EXPECT_EQ(session->rows(), 1);
}

}  // namespace
}  // namespace tessera
