// One model for inputs of many shapes and of values that decide: networks, sessions, packages between processes.
#include "tessera/dynamic_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "model/testing/model_builder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using model::testing::Ints;
using model::testing::ModelBuilder;
using model::testing::Strings;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Tensor ramp(const Shape& dims) {
  Tensor tensor = Tensor::zeros(Format::kF32, dims);
  const auto values = tensor.as<float>();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17) - 8;
  return tensor;
}
Tensor longs(const Shape& dims, const std::vector<std::int64_t>& values) {
  Tensor tensor = Tensor::zeros(Format::kI64, dims);
  std::ranges::copy(values, tensor.as<std::int64_t>().begin());
  return tensor;
}
Tensor truth(bool value) {
  Tensor tensor = Tensor::zeros(Format::kBool, {1});
  tensor.bytes[0] = std::byte{value};
  return tensor;
}

class DynamicNetworks : public ::testing::Test {
 protected:
  DynamicNetworks() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~DynamicNetworks() override { fs::remove_all(folder_); }
  std::string write(const ModelBuilder& model, const std::string& name) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << model.bytes();
    return path;
  }
  // x [batch, 3, height, width] -> Conv -> y
  std::string convolution() const {
    return write(ModelBuilder(17)
                     .open_input("x", Format::kF32, {"batch", "3", "height", "width"})
                     .initializer("w", ramp({4, 3, 3, 3}))
                     .node("Conv", {"x", "w"}, {"y"}, {{"pads", Ints{1, 1, 1, 1}}})
                     .output("y"),
                 "conv.onnx");
  }
  // As a decoder that has a cache or makes it: y [n] is x, or x behind past [m].
  std::string decoder() const {
    ModelBuilder first(17), later(17);
    first.node("Relu", {"x"}, {"first"}).output("first");
    later.node("Concat", {"past", "x"}, {"later"}, {{"axis", std::int64_t{0}}}).output("later");
    return write(ModelBuilder(17)
                     .open_input("x", Format::kF32, {"n"})
                     .open_input("past", Format::kF32, {"m"})
                     .input("use_cache", Format::kBool, {1})
                     .node("If", {"use_cache"}, {"y"})
                     .subgraph("then_branch", later)
                     .subgraph("else_branch", first)
                     .output("y"),
                 "decoder.onnx");
  }

  const std::string folder_ = ::testing::TempDir() + "dynamic_network_test";
};

// As a network that was compiled for these shapes and nothing else.
std::vector<Tensor> outputs_for(const std::string& path, const LoadOptions& options,
                                const std::vector<Tensor>& inputs) {
  const auto network = Network::load(path, options);
  EXPECT_TRUE(network.ok()) << network.error().to_string();
  auto session = Session::open(*network, {.device = DeviceKind::kHost});
  return session->run(inputs)->outputs;
}

TEST_F(DynamicNetworks, BucketsPadWhatIsShorterAndShareANetwork) {
  const std::string path = convolution();
  const auto network = DynamicNetwork::open(path, {.buckets = {{"x", {{}, {}, {}, {8, 16}}}}});
  ASSERT_TRUE(network.ok()) << network.error().to_string();
  auto session = DynamicSession::open(*network, {.device = DeviceKind::kSim});
  for (const std::int64_t width : {9, 16, 12}) {
    const Tensor given = ramp({1, 3, 5, width});
    Tensor whole = Tensor::zeros(Format::kF32, {1, 3, 5, 16});
    for (std::int64_t row = 0; row < 15; ++row) {
      for (std::int64_t column = 0; column < width; ++column) {
        whole.as<float>()[static_cast<std::size_t>(row * 16 + column)] =
            given.as<float>()[static_cast<std::size_t>(row * width + column)];
      }
    }
    const auto result = session->run({given});
    ASSERT_TRUE(result.ok()) << result.error().to_string();
    EXPECT_EQ(result->outputs, outputs_for(path, {.shapes = {{"x", whole.dims}}}, {whole}))
        << width;
  }
  EXPECT_EQ(network->counters().compiled, 1);
  ASSERT_TRUE(session->run({ramp({1, 3, 5, 8})}).ok());
  EXPECT_EQ(network->counters().compiled, 2);
  EXPECT_THAT(session->run({ramp({1, 3, 5, 17})}).error().message,
              HasSubstr("input 'x': dimension 3 is 17, the largest bucket has 16"));
}

TEST_F(DynamicNetworks, BucketsThatFitNoInputAreErrors) {
  const std::string path = convolution();
  const auto error_of = [&](const decltype(DynamicOptions::buckets)& buckets) {
    return DynamicNetwork::open(path, {.buckets = buckets}).error().message;
  };
  EXPECT_THAT(error_of({{"z", {}}}), HasSubstr("the model has no input 'z'"));
  EXPECT_THAT(error_of({{"x", {{}, {}, {}, {}, {8}}}}),
              HasSubstr("sizes of 5 dimensions, the input has 4"));
  EXPECT_THAT(error_of({{"x", {{}, {3, 4}, {}, {}}}}), HasSubstr("dimension 1 is 3 in the model"));
  EXPECT_THAT(error_of({{"x", {{}, {}, {}, {16, 8}}}}),
              HasSubstr("dimension 3 has sizes 16, 8, allowed are sizes from 0 on"));
}

TEST_F(DynamicNetworks, EachShapeHasANetworkOfItsOwn) {
  const std::string path = convolution();
  const auto network = DynamicNetwork::open(path);
  ASSERT_TRUE(network.ok()) << network.error().to_string();
  ASSERT_EQ(network->inputs().size(), 1U);
  EXPECT_EQ(network->inputs()[0].dims, (Shape{-1, 3, -1, -1}));
  for (const DeviceKind device : {DeviceKind::kHost, DeviceKind::kSim}) {
    auto session = DynamicSession::open(*network, {.device = device}, 2);
    ASSERT_TRUE(session.ok());
    EXPECT_EQ(session->network(), std::nullopt);
    for (const Shape& dims :
         {Shape{1, 3, 8, 8}, Shape{2, 3, 5, 9}, Shape{1, 3, 1, 30}, Shape{1, 3, 8, 8}}) {
      const auto run = session->run({ramp(dims)});
      ASSERT_TRUE(run.ok()) << run.error().to_string();
      EXPECT_EQ(run->outputs, outputs_for(path, {.shapes = {{"x", dims}}}, {ramp(dims)}));
      EXPECT_EQ(session->network()->outputs()[0].dims, (Shape{dims[0], 4, dims[2], dims[3]}));
    }
  }
  EXPECT_EQ(network->counters().compiled, 3);
  EXPECT_EQ(network->counters().kept, 5);
  EXPECT_THAT(network->deciding_inputs(), IsEmpty());
}

TEST_F(DynamicNetworks, TheNetworkThatWasNotUsedForLongestGoes) {
  const auto network = DynamicNetwork::open(convolution(), {.networks_max = 2});
  ASSERT_TRUE(network.ok());
  for (const int width : {8, 9, 8, 10, 8, 9}) {
    ASSERT_TRUE(network->network_for({ramp({1, 3, 8, width})}).ok());
  }
  EXPECT_EQ(network->counters().compiled, 4);  // 9 again
  EXPECT_EQ(network->counters().kept, 2);
}

TEST_F(DynamicNetworks, AnInputThatDecidesChoosesTheNetwork) {
  const std::string path = decoder();
  const auto network = DynamicNetwork::open(path);
  ASSERT_TRUE(network.ok()) << network.error().to_string();
  auto session = DynamicSession::open(*network, {.device = DeviceKind::kHost});
  std::size_t past = 0;
  for (const bool use_cache : {false, true, true, false}) {
    const std::vector<Tensor> inputs = {ramp({3}), ramp({static_cast<std::int64_t>(past)}),
                                        truth(use_cache)};
    const auto run = session->run(inputs);
    ASSERT_TRUE(run.ok()) << run.error().to_string();
    ASSERT_EQ(run->outputs.size(), 1U);
    past = use_cache ? past + 3 : 3;
    EXPECT_EQ(run->outputs[0].dims, Shape{static_cast<std::int64_t>(past)});
  }
  EXPECT_THAT(network->deciding_inputs(), ElementsAre("use_cache"));
}

TEST_F(DynamicNetworks, ShapesMayBeInputs) {
  const std::string path = write(ModelBuilder(17)
                                     .input("x", Format::kF32, {2, 6})
                                     .input("shape", Format::kI64, {2})
                                     .node("Reshape", {"x", "shape"}, {"y"})
                                     .output("y"),
                                 "reshape.onnx");
  const auto network = DynamicNetwork::open(path);
  ASSERT_TRUE(network.ok());
  auto session = DynamicSession::open(*network);
  for (const Shape& dims : {Shape{3, 4}, Shape{4, 3}, Shape{3, 4}}) {
    const auto run = session->run({ramp({2, 6}), longs({2}, dims)});
    ASSERT_TRUE(run.ok()) << run.error().to_string();
    EXPECT_EQ(run->outputs[0].dims, dims);
  }
  EXPECT_EQ(network->counters().compiled, 2);
  EXPECT_EQ(network->counters().kept, 1);
}

// For each run something else would have to be compiled.
TEST_F(DynamicNetworks, DataDoesNotDecide) {
  const std::string path = write(
      ModelBuilder(17).input("x", Format::kF32, {8}).node("NonZero", {"x"}, {"y"}).output("y"),
      "nonzero.onnx");
  const auto network = DynamicNetwork::open(path);
  ASSERT_TRUE(network.ok());
  EXPECT_FALSE(network->network_for({ramp({8})}).ok());
  EXPECT_THAT(network->deciding_inputs(), IsEmpty());
}

TEST_F(DynamicNetworks, PackagesAreKeptBetweenProcesses) {
  const std::string path = convolution(), cache = folder_ + "/cache";
  const std::vector<Tensor> x = {ramp({1, 3, 8, 8})};
  const auto counters = [&](const LoadOptions& load) {
    const auto network = DynamicNetwork::open(path, {.load = load, .cache_folder = cache});
    EXPECT_TRUE(network.ok());
    auto session = DynamicSession::open(*network);
    EXPECT_EQ(session->run(x)->outputs,
              outputs_for(path, {.arch = load.arch, .shapes = {{"x", x[0].dims}}}, x));
    return network->counters();
  };
  EXPECT_EQ(counters({}).compiled, 1);
  EXPECT_EQ(counters({}).loaded, 1);
  EXPECT_EQ(counters({.arch = "edge"}).compiled, 1);  // another architecture, another digest
  EXPECT_EQ(counters({.layer_formats = {.mantissa_bits = {{"layer", 5}}}}).compiled, 1);
  EXPECT_EQ(counters({.layer_formats = {.wide = {"value"}}}).compiled, 1);  // likewise
  EXPECT_EQ(counters({}).loaded, 1);
  for (const fs::directory_entry& entry : fs::directory_iterator(cache)) {
    std::ofstream(entry.path(), std::ios::binary) << "damaged";
  }
  EXPECT_EQ(counters({}).compiled, 1);
  EXPECT_EQ(counters({}).loaded, 1);
}

TEST_F(DynamicNetworks, WhatDecidesIsLookedUpInTheFolderToo) {
  const std::string path = decoder(), cache = folder_ + "/cache";
  const std::vector<Tensor> inputs = {ramp({3}), ramp({2}), truth(true)};
  for (const std::int64_t compiled : {1, 0}) {
    const auto network = DynamicNetwork::open(path, {.cache_folder = cache});
    ASSERT_TRUE(network.ok());
    ASSERT_TRUE(network->network_for(inputs).ok());
    EXPECT_EQ(network->counters().compiled, compiled);
    EXPECT_EQ(network->counters().loaded, 1 - compiled);
  }
}

TEST_F(DynamicNetworks, TheFolderHasItsBytes) {
  const std::string cache = folder_ + "/cache";
  const auto network =
      DynamicNetwork::open(convolution(), {.cache_folder = cache, .cache_bytes_max = 1});
  ASSERT_TRUE(network.ok());
  for (const int width : {8, 9, 10})
    ASSERT_TRUE(network->network_for({ramp({1, 3, 8, width})}).ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(cache), fs::directory_iterator()),
            1);  // the last one
}

TEST_F(DynamicNetworks, ThreadsCompileAShapeOnce) {
  const auto network = DynamicNetwork::open(convolution());
  ASSERT_TRUE(network.ok());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&network] {
      for (const int width : {8, 9, 8}) {
        EXPECT_TRUE(network->network_for({ramp({1, 3, 8, width})}).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(network->counters().compiled, 2);
  EXPECT_EQ(network->counters().kept, 10);
}

TEST_F(DynamicNetworks, WhatDoesNotFitIsNamed) {
  const std::string path = convolution();
  const auto network =
      DynamicNetwork::open(path, {.ranges = {{"x", {{1, 2}, {3, 3}, {4, 64}, {4, 64}}}}});
  ASSERT_TRUE(network.ok()) << network.error().to_string();
  const auto error = [&](const std::vector<Tensor>& inputs) {
    const auto found = network->network_for(inputs);
    return found.ok() ? "" : found.error().message;
  };
  EXPECT_EQ(error({ramp({2, 3, 64, 4})}), "");
  EXPECT_EQ(error({ramp({1, 3, 8, 65})}),
            "input 'x': dimension 3 is 65, allowed by the options are 4 to 64");
  EXPECT_EQ(error({ramp({1, 4, 8, 8})}),
            "input 'x': found f32 1x4x8x8, the model takes f32 ?x3x?x?");
  EXPECT_EQ(error({longs({1}, {1})}), "input 'x': found i64 1, the model takes f32 ?x3x?x?");
  EXPECT_EQ(error({}), "0 inputs, the model has 1");
  EXPECT_THAT(DynamicNetwork::open(path, {.ranges = {{"z", {}}}}).error().message,
              HasSubstr("the model has no input 'z'"));
  EXPECT_THAT(DynamicNetwork::open(path, {.networks_max = 0}).error().message,
              HasSubstr("0 networks"));
  EXPECT_FALSE(DynamicNetwork::open(folder_ + "/absent.onnx").ok());
  const std::string package = folder_ + "/conv.tpkg";
  ASSERT_TRUE(Network::load(path)->save_package(package).ok());
  EXPECT_THAT(DynamicNetwork::open(package).error().message, HasSubstr("is compiled already"));
}

// Input w has a default, as all initializers had before version 4 of the format.
TEST_F(DynamicNetworks, AnInputWithADefaultKeepsItUnlessItIsGiven) {
  for (const std::int64_t version : {3, 8}) {
    ModelBuilder builder(7);
    builder.input("x", Format::kF32, {4}).input("w", Format::kF32, {4});
    builder.initializer("w", ramp({4})).node("Add", {"x", "w"}, {"y"}).output("y");
    builder.proto().set_ir_version(version);
    const std::string path = write(builder, "defaulted");
    const auto outputs_of = [&](const LoadOptions& load, const std::vector<Tensor>& inputs) {
      const auto network = Network::load(path, load);
      EXPECT_TRUE(network.ok()) << network.error().to_string();
      EXPECT_EQ(network->inputs().size(), inputs.size());
      const auto dynamic = DynamicNetwork::open(path, {.load = load});
      EXPECT_EQ(dynamic->inputs().size(), inputs.size());
      auto session = Session::open(*network, {.device = DeviceKind::kHost});
      return session->run(inputs)->outputs;
    };
    const Tensor zeros = Tensor::zeros(Format::kF32, {4});
    EXPECT_EQ(outputs_of({}, {ramp({4})}), outputs_of({.given = {"w"}}, {ramp({4}), ramp({4})}));
    EXPECT_EQ(outputs_of({.given = {"x", "w", "v"}}, {ramp({4}), zeros})[0], ramp({4}));
  }
}

TEST_F(DynamicNetworks, AnOutputThatIsAnInputHasItsName) {
  ModelBuilder builder(13);
  builder.input("x", Format::kF32, {4}).node("Relu", {"x"}, {"y"}).output("x").output("y");
  const auto network = Network::load(write(builder, "handed_on"));
  ASSERT_TRUE(network.ok()) << network.error().to_string();
  EXPECT_EQ(network->outputs()[0].name, "x");
  EXPECT_EQ(network->outputs()[1].name, "y");
  for (const DeviceKind kind : {DeviceKind::kHost, DeviceKind::kSim}) {
    EXPECT_EQ(Session::open(*network, {.device = kind})->run({ramp({4})})->outputs[0], ramp({4}));
  }
}

}  // namespace
}  // namespace tessera
