// Values that leave their format's range are noted with their layer: alike on every device, through sessions and
// pipelines, and not where the layer's values are binary32.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "model/testing/model_builder.h"
#include "tessera/runtime.h"
#include "tessera/session.h"
#include "tessera/value_note.h"

namespace tessera {
namespace {

using model::testing::Ints;
using model::testing::ModelBuilder;

Tensor filled(const Shape& dims, float value) {
  Tensor tensor = Tensor::zeros(Format::kF32, dims);
  for (float& element : tensor.as<float>()) element = value;
  return tensor;
}

class ValueNotesOfRuns : public ::testing::Test {
 protected:
  // x -> power = x * x -> small = power / 10,000 -> y = sigmoid(small); nothing of it is a magnitude under a root.
  // power is an output of the model too, so that the product is a layer.
  ValueNotesOfRuns() {
    std::ofstream(path_, std::ios::binary)
        << ModelBuilder(17)
               .input("x", Format::kF32, {1, 4, 6, 6})
               .initializer("k", filled({1}, 1e-4f))
               .node("Mul", {"x", "x"}, {"power"}, {}, "square")
               .node("Mul", {"power", "k"}, {"small"}, {}, "scale")
               .node("Sigmoid", {"small"}, {"y"}, {}, "sigmoid")
               .output("y")
               .bytes();
  }
  ~ValueNotesOfRuns() override { std::filesystem::remove(path_); }

  Network load(const LayerFormats& formats = {}, const std::string& arch = "tessera128") const {
    auto network = Network::load(path_, {.arch = arch, .layer_formats = formats});
    EXPECT_TRUE(network.ok()) << network.error().to_string();
    return *network;
  }
  static RunResult run(const Network& network, const SessionOptions& options, float value) {
    auto session = Session::open(network, options);
    EXPECT_TRUE(session.ok()) << session.error().to_string();
    auto result = session->run({filled({1, 4, 6, 6}, value)});
    EXPECT_TRUE(result.ok()) << result.error().to_string();
    return *result;
  }

  const std::string path_ = ::testing::TempDir() + "value_notes_test.onnx";
};

TEST_F(ValueNotesOfRuns, EveryDeviceNamesTheLayer) {
  const Network network = load();
  const RunResult host = run(network, {.device = DeviceKind::kHost}, 300);
  ASSERT_EQ(host.value_notes.size(), 1u);
  EXPECT_EQ(host.value_notes[0].trouble, ValueTrouble::kSaturated);
  EXPECT_EQ(host.value_notes[0].format, Format::kF16);
  EXPECT_EQ(host.value_notes[0].layer, "square");
  for (const DeviceKind kind : {DeviceKind::kSim, DeviceKind::kRef}) {
    EXPECT_EQ(run(network, {.device = kind}, 300).value_notes, host.value_notes);
  }
  const Network on_card = load({}, "tessera128x4");
  EXPECT_EQ(run(on_card, {.cores = 2}, 300).value_notes, host.value_notes);
  for (const DeviceKind kind : {DeviceKind::kSim, DeviceKind::kHost, DeviceKind::kRef}) {
    EXPECT_TRUE(run(network, {.device = kind}, 100).value_notes.empty());
  }
  EXPECT_TRUE(run(network, {.timing_only = true}, 300).value_notes.empty());
}

TEST_F(ValueNotesOfRuns, BitsThatAreLostAreNoted) {
  const Network network = load();
  for (const DeviceKind kind : {DeviceKind::kSim, DeviceKind::kHost, DeviceKind::kRef}) {
    const auto notes = run(network, {.device = kind}, 1e-4f).value_notes;  // 1e-8 is 0 in f16
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_EQ(notes[0], (ValueNote{"square", ValueTrouble::kLost, Format::kF16}));
  }
}

TEST_F(ValueNotesOfRuns, WideValuesDoNotSaturate) {
  const Network network = load({.wide = {"power"}});
  const float expected = 1 / (1 + std::exp(-9.0f));
  for (const DeviceKind kind : {DeviceKind::kSim, DeviceKind::kHost, DeviceKind::kRef}) {
    const RunResult result = run(network, {.device = kind}, 300);
    EXPECT_TRUE(result.value_notes.empty());
    EXPECT_NEAR(result.outputs[0].as<float>()[0], expected, 1e-3f);
  }
  EXPECT_EQ(run(network, {}, 300).outputs,
            run(network, {.device = DeviceKind::kHost}, 300).outputs);
}

TEST_F(ValueNotesOfRuns, TasksHaveTheNotesOfAllTheirRuns) {
  for (const DeviceKind kind : {DeviceKind::kHost, DeviceKind::kSim}) {
    Runtime runtime = Runtime::open({.devices = {{.kind = kind}}}).value();
    const Model model = runtime.load(load()).value();
    Pipeline pipeline = runtime.open_pipeline({.stages = default_stages(model)}).value();
    Stream stream = pipeline.open_stream();
    for (const float value : {100.0f, 300.0f}) {
      auto job = stream.submit({filled({1, 4, 6, 6}, value)});
      ASSERT_TRUE(job.ok()) << job.error().to_string();
      const TaskOutcome outcome = job->wait();
      ASSERT_TRUE(outcome.ok());
      EXPECT_EQ(outcome.result().value_notes.size(), value > 200 ? 1u : 0u);
    }
  }
}

}  // namespace
}  // namespace tessera
