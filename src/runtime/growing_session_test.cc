#include "tessera/growing_session.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "model/testing/attention_model.h"
#include "model/testing/model_builder.h"
#include "tessera/dynamic_network.h"

namespace tessera {
namespace {

using model::testing::attention_mask;
using model::testing::attention_token;

std::string model_file() {
  const std::string path = testing::TempDir() + "growing_session_test.onnx";
  std::ofstream(path, std::ios::binary) << model::testing::attention_model();
  return path;
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
    auto run = session->run({attention_token(step), k, v, attention_mask(step + 1, step + 1)});
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
              session->run({attention_token(step), attention_mask(session->capacity(), step + 1)});
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

TEST(GrowingSession, GoesOnBehindTheRowsThatItKeeps) {
  for (const DeviceKind kind : {DeviceKind::kHost, DeviceKind::kSim}) {
    auto session = GrowingSession::open(model_file(), options("tessera128", 12), {.device = kind});
    const auto step = [&](int token) {
      auto run = session->run(
          {attention_token(token), attention_mask(session->capacity(), session->rows() + 1)});
      return run.ok() ? run->outputs : std::vector<Tensor>{};
    };
    std::vector<std::vector<Tensor>> expected;
    for (int i = 0; i < 6; ++i) expected.push_back(step(i));
    EXPECT_EQ(session->keep_rows(7).error().to_string(),
              "7 rows to keep, the states have 6   [invalid argument]");
    EXPECT_EQ(session->keep_rows(-1).error().message, "-1 rows to keep, the states have 6");
    ASSERT_TRUE(session->keep_rows(3).ok());
    EXPECT_EQ(session->rows(), 3);
    // Taken back again: large ones, which would change what blocks of numbers have in common.
    Tensor large = attention_token(3);
    for (float& value : large.as<float>()) value *= 64;
    for (int i = 4; i < 6; ++i) {
      ASSERT_TRUE(session->run({large, attention_mask(session->capacity(), i)}).ok());
    }
    ASSERT_TRUE(session->keep_rows(3).ok());
    for (std::size_t i = 3; i < 6; ++i) EXPECT_EQ(step(static_cast<int>(i)), expected[i]) << i;
  }
}

TEST(GrowingSession, SaysThatThereIsNoRoomAndGoesOnAfterClear) {
  auto session =
      GrowingSession::open(model_file(), options("tessera128", 1), {.device = DeviceKind::kHost});
  ASSERT_TRUE(session.ok()) << session.error().to_string();
  const std::vector<Tensor> inputs = {attention_token(0), attention_mask(1, 1)};
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

// Two heads that share a key and a value of 16 numbers; input n is the rows before the new one. `past` is a length or open.
std::string grouped_model(std::int64_t past) {
  model::testing::ModelBuilder builder(17);
  const Shape state = {1, 1, past, 16};
  builder.input("q", Format::kF32, {1, 1, 32}).input("k", Format::kF32, {1, 1, 16});
  builder.input("v", Format::kF32, {1, 1, 16});
  builder.input("past.k", Format::kF32, state).input("past.v", Format::kF32, state);
  builder.input("n", Format::kI32, {1}).input("all", Format::kI32, {});
  builder
      .node("GroupQueryAttention", {"q", "k", "v", "past.k", "past.v", "n", "all"},
            {"y", "present.k", "present.v"},
            {{"num_heads", std::int64_t{2}}, {"kv_num_heads", std::int64_t{1}}}, "it")
      .domain("com.microsoft");
  builder.output("y");
  builder.output("present.k", Format::kF32, state).output("present.v", Format::kF32, state);
  const std::string path = testing::TempDir() + "growing_grouped_test.onnx";
  std::ofstream(path, std::ios::binary) << builder.bytes();
  return path;
}

TEST(GrowingSession, TakesAttentionThatIsToldTheLengthsOfItsSequences) {
  constexpr int kSteps = 4;
  const auto inputs_of = [](int step) {
    Tensor q = Tensor::zeros(Format::kF32, {1, 1, 32}), k = Tensor::zeros(Format::kF32, {1, 1, 16});
    for (int i = 0; i < 32; ++i) q.as<float>()[i] = static_cast<float>((i * 7 + step) % 11) / 8;
    for (int i = 0; i < 16; ++i) k.as<float>()[i] = static_cast<float>((i * 5 + step) % 13) / 8;
    Tensor n = Tensor::zeros(Format::kI32, {1}), all = Tensor::zeros(Format::kI32, {});
    n.as<std::int32_t>()[0] = step;
    all.as<std::int32_t>()[0] = step + 1;
    return std::vector<Tensor>{q, k, k, n, all};
  };
  // A buffer of four rows that the application hands on.
  const auto network = Network::load(grouped_model(4));
  ASSERT_TRUE(network.ok()) << network.error().to_string();
  auto plain = Session::open(*network, {.device = DeviceKind::kHost});
  const std::string path = grouped_model(-1);
  auto growing = GrowingSession::open(path, options("tessera128", 4), {.device = DeviceKind::kSim});
  ASSERT_TRUE(growing.ok()) << growing.error().to_string();
  Tensor past_k = Tensor::zeros(Format::kF32, {1, 1, 4, 16}), past_v = past_k;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<Tensor> inputs = inputs_of(step);
    const auto grown = growing->run(inputs);
    ASSERT_TRUE(grown.ok()) << grown.error().to_string();
    inputs.insert(inputs.begin() + 3, {past_k, past_v});
    const auto expected = plain->run(inputs);
    ASSERT_TRUE(expected.ok()) << expected.error().to_string();
    EXPECT_EQ(grown->outputs[0], expected->outputs[0]) << step;
    past_k = expected->outputs[1], past_v = expected->outputs[2];
  }
}

TEST(GroupedQueries, AreOnTheProcessorButForOneLookUpWhichRefusesAPlaceBehindTheBuffer) {
  const auto network = Network::load(grouped_model(4));
  ASSERT_TRUE(network.ok()) << network.error().to_string();
  EXPECT_EQ(network->placement().nodes_on_host, 1);
  for (const DeviceKind kind : {DeviceKind::kHost, DeviceKind::kSim}) {
    auto session = Session::open(*network, {.device = kind});
    std::vector<Tensor> inputs;
    for (const TensorDescription& input : network->inputs()) {
      inputs.push_back(Tensor::zeros(input.format, input.dims));
    }
    inputs[5].as<std::int32_t>()[0] = 3;
    EXPECT_TRUE(session->run(inputs).ok());
    inputs[5].as<std::int32_t>()[0] = 4;
    const auto behind = session->run(inputs);
    ASSERT_FALSE(behind.ok());
    EXPECT_NE(behind.error().message.find("index 4 is outside [-4, 3]"), std::string::npos)
        << behind.error().message;
  }
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
  ASSERT_TRUE(session->run({attention_token(0), attention_mask(4, 1)}).ok());
  EXPECT_EQ(session->run({attention_token(0), attention_mask(5, 2)}).error().to_string(),
            "input 'mask': given f32 [1x1x1x5], for a capacity of 4 rows it is f32 [1x1x1x4]   "
            "[invalid argument]");
  EXPECT_EQ(session->rows(), 1);
}

}  // namespace
}  // namespace tessera
