// Models that no single network can be, since data decides shapes, branches or how often something runs: DynamicSession runs
// them in parts, with the same bits on every device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "model/testing/model_builder.h"
#include "tessera/dynamic_network.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using model::testing::Ints;
using model::testing::ModelBuilder;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

Tensor floats(const Shape& dims, const std::vector<float>& values) {
  Tensor tensor = Tensor::zeros(Format::kF32, dims);
  std::ranges::copy(values, tensor.as<float>().begin());
  return tensor;
}
Tensor longs(const Shape& dims, const std::vector<std::int64_t>& values) {
  Tensor tensor = Tensor::zeros(Format::kI64, dims);
  std::ranges::copy(values, tensor.as<std::int64_t>().begin());
  return tensor;
}
std::vector<float> values_of(const Tensor& tensor) {
  return {tensor.as<float>().begin(), tensor.as<float>().end()};
}

class ModelsInParts : public ::testing::Test {
 protected:
  ModelsInParts() { fs::create_directories(folder_); }
  ~ModelsInParts() override { fs::remove_all(folder_); }

  void write(const ModelBuilder& model) {
    std::ofstream(path(), std::ios::binary) << model.bytes();
  }
  std::string path() const { return folder_ + "/model.onnx"; }
  // On the host; what the virtual processor gives must be the same bits.
  Result<RunResult> run(const std::vector<Tensor>& inputs) {
    TESSERA_TRY(const DynamicNetwork network, DynamicNetwork::open(path()));
    TESSERA_TRY(DynamicSession host, DynamicSession::open(network, {.device = DeviceKind::kHost}));
    TESSERA_TRY(DynamicSession sim, DynamicSession::open(network, {.device = DeviceKind::kSim}));
    auto result = host.run(inputs);
    placement_ = host.placement();
    names_ = host.output_names();
    in_parts_ = result.ok() && !host.network();
    const auto simulated = sim.run(inputs);
    EXPECT_EQ(result.ok(), simulated.ok());
    if (result.ok() && simulated.ok()) {
      EXPECT_EQ(result->outputs, simulated->outputs);
      sim_cycles_ = simulated->cycles;
    }
    return result;
  }

  // total = w . total + x, `trips` times while `going`, and total of every iteration.
  ModelBuilder loop(bool condition_of_data) const {
    ModelBuilder body(17);
    body.input("i", Format::kI64, {})
        .input("going", Format::kBool, {})
        .input("before", Format::kF32, {1, 2})
        .node("MatMul", {"before", "w"}, {"scaled"})
        .node("Add", {"scaled", "x"}, {"after"})
        .node("Identity", {"after"}, {"each"});
    if (condition_of_data) {
      body.node("ReduceMax", {"after"}, {"largest"}, {{"keepdims", std::int64_t{0}}})
          .node("Less", {"largest", "most"}, {"next"});
    } else {
      body.node("Identity", {"going"}, {"next"});
    }
    body.output("next").output("after").output("each");
    ModelBuilder model(17);
    model.input("x", Format::kF32, {1, 2})
        .initializer("w", floats({2, 2}, {0.5F, 0, 0, 2}))
        .initializer("most", floats({}, {100}))
        .initializer("start", floats({1, 2}, {4, 1}))
        .initializer("yes", [] {
          Tensor yes = Tensor::zeros(Format::kBool, {});
          yes.bytes[0] = std::byte{1};
          return yes;
        }());
    if (!condition_of_data) model.input("trips", Format::kI64, {});
    model.node("Loop", {condition_of_data ? "" : "trips", "yes", "start"}, {"total", "all"})
        .subgraph("body", body)
        .node("Neg", {"total"}, {"y"})
        .output("y")
        .output("all");
    return model;
  }

  const std::string folder_ = ::testing::TempDir() + "parts_test";
  Placement placement_;
  std::vector<std::string> names_;
  bool in_parts_ = false;
  std::int64_t sim_cycles_ = 0;
};

TEST_F(ModelsInParts, AShapeThatIsDataIsThatOfTheRun) {
  write(ModelBuilder(17)
            .open_input("x", Format::kF32, {"n", "4"})
            .initializer("w", floats({4, 4}, {2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2}))
            .initializer("zero", floats({}, {0}))
            .initializer("column", floats({1, 2}, {1, -1}))
            .initializer("one", longs({1}, {1}))
            .node("MatMul", {"x", "w"}, {"twice"})
            .node("Greater", {"twice", "zero"}, {"above"})
            .node("NonZero", {"above"}, {"places"})
            .node("Transpose", {"places"}, {"indices"})
            .node("GatherND", {"twice", "indices"}, {"found"})
            .node("Unsqueeze", {"found", "one"}, {"rows"})
            .node("MatMul", {"rows", "column"}, {"y"})
            .output("y")
            .output("places"));
  const auto one = run({floats({1, 4}, {-1, 3, -2, 0.5F})});
  ASSERT_TRUE(one.ok()) << one.error().to_string();
  EXPECT_TRUE(in_parts_);
  EXPECT_THAT(names_, ElementsAre("y", "places"));
  EXPECT_EQ(one->outputs[0], floats({2, 2}, {6, -6, 1, -1}));
  EXPECT_EQ(one->outputs[1], longs({2, 2}, {0, 0, 1, 3}));
  EXPECT_GT(sim_cycles_, 0);
  EXPECT_THAT(placement_.notes,
              Contains("in parts: node 'NonZero_2' (NonZero) is computed between them"));
  const auto none = run({floats({2, 4}, {-1, -3, -2, -5, -1, -1, -1, -1})});
  ASSERT_TRUE(none.ok()) << none.error().to_string();
  EXPECT_EQ(none->outputs[0].dims, (Shape{0, 2}));
}

TEST_F(ModelsInParts, WhatOneNetworkCannotBeIsRefusedWithTheWayOut) {
  write(ModelBuilder(17).input("x", Format::kF32, {4}).node("NonZero", {"x"}, {"y"}).output("y"));
  const auto network = DynamicNetwork::open(path());
  EXPECT_THAT(network->network_for({floats({4}, {1, 0, 1, 0})}).error().message,
              HasSubstr("run the model in parts (tessera run, DynamicSession)"));
  EXPECT_FALSE(DynamicNetwork::open(path(), {.load = {.require_full_offload = true}})
                   ->network_for({floats({4}, {1, 0, 1, 0})})
                   .ok());
  auto timing = DynamicSession::open(*network, {.timing_only = true});
  EXPECT_THAT(timing->run({floats({4}, {1, 0, 1, 0})}).error().message,
              HasSubstr("timing_only: values decide what this model computes"));
}

TEST_F(ModelsInParts, ABranchIsTakenByTheRunsData) {
  ModelBuilder wide(17), narrow(17);
  wide.node("MatMul", {"x", "w"}, {"then"}).output("then");
  narrow.node("Relu", {"x"}, {"else"}).output("else");
  write(ModelBuilder(17)
            .input("x", Format::kF32, {1, 2})
            .initializer("w", floats({2, 3}, {1, 2, 3, 4, 5, 6}))
            .initializer("zero", floats({}, {0}))
            .node("ReduceSum", {"x"}, {"sum"}, {{"keepdims", std::int64_t{0}}})
            .node("Greater", {"sum", "zero"}, {"above"})
            .node("If", {"above"}, {"y"})
            .subgraph("then_branch", wide)
            .subgraph("else_branch", narrow)
            .node("Neg", {"y"}, {"z"})
            .output("z"));
  const auto above = run({floats({1, 2}, {1, 1})});
  ASSERT_TRUE(above.ok()) << above.error().to_string();
  EXPECT_EQ(above->outputs[0], floats({1, 3}, {-5, -7, -9}));
  const auto below = run({floats({1, 2}, {-1, 0.5F})});
  ASSERT_TRUE(below.ok()) << below.error().to_string();
  EXPECT_EQ(below->outputs[0], floats({1, 2}, {-0.0F, -0.5F}));
}

TEST_F(ModelsInParts, ALoopEndsWhenTheRunsDataSay) {
  write(loop(true));
  const auto result = run({floats({1, 2}, {1, 0})});
  ASSERT_TRUE(result.ok()) << result.error().to_string();
  EXPECT_TRUE(in_parts_);
  EXPECT_EQ(result->outputs[1].dims, (Shape{7, 1, 2}));
  EXPECT_EQ(values_of(result->outputs[0])[1], -128);
}

TEST_F(ModelsInParts, ALoopOfManyIterationsHasABodyOfItsOwnAndTheSameBits) {
  write(loop(false));
  const Tensor x = floats({1, 2}, {1, -1});
  const auto few = run({x, longs({}, {16})});
  ASSERT_TRUE(few.ok()) << few.error().to_string();
  EXPECT_FALSE(in_parts_);
  const auto many = run({x, longs({}, {17})});
  ASSERT_TRUE(many.ok()) << many.error().to_string();
  EXPECT_TRUE(in_parts_);
  EXPECT_EQ(many->outputs[1].dims, (Shape{17, 1, 2}));
  const std::vector<float> written_out = values_of(few->outputs[1]);
  std::vector<float> first = values_of(many->outputs[1]);
  first.resize(written_out.size());
  EXPECT_EQ(first, written_out);
}

TEST_F(ModelsInParts, WhatALoopCarriesStaysOnTheDeviceBetweenTrips) {
  write(loop(false));
  const auto result = run({floats({1, 2}, {1, -1}), longs({}, {40})});
  ASSERT_TRUE(result.ok()) << result.error().to_string();
  EXPECT_THAT(
      placement_.notes,
      Contains(HasSubstr("1 of 1 carried values (8 bytes) stay on the device between trips")));
  // Each trip's slice is what it carried; the last one is the total.
  const std::vector<float> all = values_of(result->outputs[1]);
  EXPECT_EQ(values_of(result->outputs[0]), (std::vector{-all[78], -all[79]}));
}

TEST_F(ModelsInParts, TheTripCountOfOneRunIsNotThatOfTheNext) {
  write(loop(false));
  const auto network = DynamicNetwork::open(path());
  auto session = DynamicSession::open(*network, {.device = DeviceKind::kHost});
  const Tensor x = floats({1, 2}, {1, -1});
  for (const std::int64_t trips : {3, 40, 3, 1, 18}) {
    const auto result = session->run({x, longs({}, {trips})});
    ASSERT_TRUE(result.ok()) << result.error().to_string();
    EXPECT_EQ(result->outputs[1].dims, (Shape{trips, 1, 2}));
    EXPECT_EQ(!session->network(), trips > 16) << trips;
    const std::vector<NetworkRuns> ran = session->networks();
    ASSERT_EQ(ran.size(), 1u);
    EXPECT_EQ(ran[0].runs, trips > 16 ? trips : 1);
  }
}

TEST_F(ModelsInParts, WhatNoPartCanRunIsNamedWithTheReason) {
  ModelBuilder body(17);
  body.input("state", Format::kF32, {1})
      .input("slice", Format::kF32, {4})
      .node("NonZero", {"slice"}, {"places"})
      .node("Identity", {"state"}, {"next"})
      .output("next")
      .output("places");
  write(ModelBuilder(17)
            .input("s", Format::kF32, {1})
            .input("x", Format::kF32, {2, 4})
            .node("Scan", {"s", "x"}, {"last", "y"}, {{"num_scan_inputs", std::int64_t{1}}})
            .subgraph("body", body)
            .output("y"));
  const auto network = DynamicNetwork::open(path());
  auto session = DynamicSession::open(*network, {.device = DeviceKind::kHost});
  const auto result = session->run({floats({1}, {0}), floats({2, 4}, {1, 0, 0, 0, 1, 0, 0, 0})});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(result.error().message, HasSubstr("(Scan)"));
  EXPECT_THAT(result.error().message, HasSubstr("run in parts, since"));
}

}  // namespace
}  // namespace tessera
