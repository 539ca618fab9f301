// Firmware in place of a model: every example through Session and Runtime gives the bits and the
// cycles that the program gives by itself, from a text, from an assembled file and from memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "arch/architecture_file.h"
#include "example.h"
#include "network/network.h"
#include "package/container.h"
#include "tessera/file.h"
#include "tessera/runtime.h"

namespace tessera::firmware {
namespace {

std::string example(const std::string& name) {
  return std::string(TESSERA_FIRMWARE_EXAMPLES) + "/" + name + ".tasm";
}

std::vector<Tensor> some_inputs(const Network& network) {
  std::vector<Tensor> inputs;
  for (const TensorDescription& wanted : network.inputs()) {
    const auto count = static_cast<std::size_t>(element_count(wanted.dims));
    inputs.push_back(f16_tensor(wanted.dims, random_values(inputs.size() + 5, 1, count)));
  }
  return inputs;
}

class FirmwareNetworks : public testing::TestWithParam<const char*> {};

TEST_P(FirmwareNetworks, RunInASessionAsByThemselves) {
  const Network network = Network::load(example(GetParam())).value();
  const NetworkState& state = network.state();
  const std::vector<Tensor> inputs = some_inputs(network);
  ASSERT_FALSE(network.outputs().empty());
  for (const DeviceKind device : {DeviceKind::kSim, DeviceKind::kHost, DeviceKind::kRef}) {
    const auto alone = device::ProgramRun::create(*state.program, state.chip, {.device = device});
    auto session = Session::open(network, {.device = device, .threads = 2});
    ASSERT_EQ(session.ok(), alone.ok()) << device_kind_name(device);
    if (!alone.ok()) {
      EXPECT_NE(session.error().message.find(alone.error().message), std::string::npos);
      continue;
    }
    const RunResult expected = (*alone)->run(inputs).value();
    for (int round = 0; round < 2; ++round) {
      const RunResult found = session->run(inputs).value();
      EXPECT_EQ(found.outputs, expected.outputs) << device_kind_name(device) << round;
      EXPECT_EQ(found.cycles, expected.cycles);
      EXPECT_EQ(found.layers.size(), expected.layers.size());
    }
  }
}

TEST_P(FirmwareNetworks, RunInAPipelineAsInASession) {
  const Network network = Network::load(example(GetParam())).value();
  const std::vector<Tensor> inputs = some_inputs(network);
  const RunResult expected =
      Session::open(network, {.device = DeviceKind::kSim}).value().run(inputs).value();
  Runtime runtime =
      Runtime::open({.devices = {{.kind = DeviceKind::kSim, .arch = network.state().chip.name}}})
          .value();
  Pipeline pipeline = runtime.open_pipeline(runtime.load(network).value()).value();
  for (int round = 0; round < 2; ++round) {
    const TaskOutcome outcome = pipeline.open_stream().submit(inputs)->wait();
    ASSERT_TRUE(outcome.ok()) << outcome.error().error.message;
    EXPECT_EQ(outcome.result().outputs(), expected.outputs);
    EXPECT_EQ(outcome.result().cycles, expected.cycles);
  }
}

TEST_P(FirmwareNetworks, LoadFromAFileOrFromMemoryAlike) {
  const Network text = Network::load(example(GetParam())).value();
  const std::vector<Tensor> inputs = some_inputs(text);
  const auto run = [&](const Result<Network>& network) {
    EXPECT_TRUE(network.ok()) << network.error().message;
    return Session::open(*network, {.device = DeviceKind::kSim}).value().run(inputs).value();
  };
  const RunResult expected = run(text);
  const std::vector<std::byte> assembled = package::serialise(*text.state().program);
  const std::string path = testing::TempDir() + GetParam() + ".tprog";
  ASSERT_TRUE(write_file(path, assembled).ok());
  const std::string folder = TESSERA_FIRMWARE_EXAMPLES;
  const std::vector<std::byte> bytes = read_file(example(GetParam())).value();
  for (const Result<Network>& network : {Network::load(path), Network::load_bytes(assembled),
                                         Network::load_bytes(bytes, {.folder = folder})}) {
    const RunResult found = run(network);
    EXPECT_EQ(found.outputs, expected.outputs);
    EXPECT_EQ(found.cycles, expected.cycles);
  }
  std::filesystem::remove(path);
}

INSTANTIATE_TEST_SUITE_P(Examples, FirmwareNetworks,
                         testing::Values("perceptron", "lstm", "gru", "conv1x1", "conv3x3",
                                         "conv3x3_taps", "attention"),
                         [](const auto& info) { return std::string(info.param); });

TEST(FirmwareNetwork, SaysWhatAProgramCannot) {
  const std::string path = example("perceptron");
  const Network network = Network::load(path).value();
  EXPECT_EQ(network.save_package("/nowhere").error().message,
            "'" + path + "' is a program; saving a package needs a package or the model");
  EXPECT_EQ(write_html_report("/nowhere", "", network, {}).error().message,
            "'" + path + "' is a program; a report needs a package or the model");
  Runtime runtime =
      Runtime::open({.devices = {{.kind = DeviceKind::kSim, .name = "card", .arch = "brainwave"}}})
          .value();
  EXPECT_EQ(runtime.load_in_device_form(network).error().message,
            "'" + path + "' is a program; device form needs a package or the model");
  EXPECT_EQ(runtime.load_layers(network, runtime.open_memory("card").value()).error().message,
            "'" + path + "' is a program; a single layer needs a package or the model");
  Runtime other = Runtime::open({.devices = {{.kind = DeviceKind::kSim}}}).value();
  const std::uint64_t brainwave = fingerprint(network.state().chip);
  const std::uint64_t tessera128 = fingerprint(*load_chip_config("tessera128"));
  EXPECT_EQ(other.load(network).error().message,
            fmt::format("loading to device 'sim0': '{}' is a program for 'brainwave' (fingerprint "
                        "{:016x}), this device is 'tessera128' ({:016x}); choose that architecture",
                        path, brainwave, tessera128));
  EXPECT_FALSE(Network::load(path, {.arch = "edge"}).ok());
  const auto serial = Session::open(network, {.device = DeviceKind::kSim, .serial = true});
  EXPECT_EQ(serial.error().message,
            "'" + path + "' is a program; running one task at a time needs a package or the model");
}

}  // namespace
}  // namespace tessera::firmware
