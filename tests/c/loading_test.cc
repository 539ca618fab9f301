// Networks from memory in C: a model, its package and its program.
#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "link/link.h"
#include "network/network.h"
#include "networks.h"
#include "package/container.h"
#include "tessera/file.h"
#include "tessera/tessera_c.h"

// What is not named is zero, as in C.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace tessera::c_test {
namespace {

constexpr const char* kRelu = "/usr/share/libonnx-testdata/data/node/test_relu/model.onnx";

struct Outcome {
  std::vector<float> values;
  std::int64_t cycles = 0;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// Takes the network, which has one input of 60 numbers.
Outcome run(tessera_network* network) {
  OnePipeline on;
  on.open(network, {.size = sizeof(tessera_device_options), .kind = TESSERA_SIM});
  std::vector<float> values(60);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 2 - 15;
  const std::int64_t dims[] = {3, 4, 5};
  const tessera_tensor input = {TESSERA_F32, 3, dims, values.data(), 240};
  tessera_job* job = nullptr;
  EXPECT_EQ(message(tessera_submit(on.stream, &input, 1, nullptr, &job)), "");
  tessera_result* result = nullptr;
  EXPECT_EQ(message(tessera_job_wait(job, -1, &result)), "");
  Outcome outcome;
  const tessera_tensor output = tessera_result_output(result, 0);
  outcome.values.resize(output.bytes / sizeof(float));
  if (output.bytes > 0) std::memcpy(outcome.values.data(), output.data, output.bytes);
  outcome.cycles = tessera_result_cycles(result);
  tessera_result_release(result);
  tessera_job_release(job);
  tessera_network_release(network);
  return outcome;
}

tessera_network* load(const std::vector<std::byte>& bytes) {
  tessera_network* network = nullptr;
  EXPECT_EQ(message(tessera_network_load_memory(bytes.data(), bytes.size(), nullptr, &network)),
            "");
  return network;
}

std::string error_of(const std::string& text, const tessera_load_options* options = nullptr) {
  tessera_network* network = nullptr;
  const std::string words =
      message(tessera_network_load_memory(text.data(), text.size(), options, &network));
  EXPECT_EQ(network == nullptr, !words.empty());
  tessera_network_release(network);
  return words;
}

TEST(LoadMemory, ModelPackageAndProgramAreTheNetworkOfTheFile) {
  tessera_network* of_file = nullptr;
  ASSERT_EQ(message(tessera_network_load(kRelu, nullptr, &of_file)), "");
  const Outcome expected = run(of_file);
  ASSERT_EQ(expected.values.size(), 60U);
  ASSERT_GT(expected.cycles, 0);
  EXPECT_EQ(run(load(read_file(kRelu).value())), expected);
  const Network network = Network::load(kRelu).value();
  const NetworkState& state = network.state();
  EXPECT_EQ(run(load(package::serialise(state.package))), expected);
  const isa::Program program = link::link(state.package, state.chip).value();
  const std::vector<std::byte> bytes = package::serialise(program);
  EXPECT_EQ(run(load(bytes)), expected);
  const std::string path = testing::TempDir() + "load_memory_test.tprog";
  ASSERT_TRUE(write_file(path, bytes).ok());
  ASSERT_EQ(message(tessera_network_load(path.c_str(), nullptr, &of_file)), "");
  EXPECT_EQ(run(of_file), expected);
}

TEST(LoadMemory, SaysWhatIsWrong) {
  tessera_network* network = nullptr;
  EXPECT_EQ(message(tessera_network_load_memory(nullptr, 3, nullptr, &network)), "data is NULL");
  EXPECT_EQ(message(tessera_network_load_memory("x", 1, nullptr, nullptr)), "network is NULL");
  EXPECT_EQ(message(tessera_network_load_memory("x", SIZE_MAX, nullptr, &network)),
            "a network of 18446744073709551615 bytes");
  EXPECT_NE(error_of("rubbish"), "");
  const std::string text =
      "firmware 1\narch \"brainwave\"\nmatrix w [10, 64] in matrix = file \"none.bin\" f32\n";
  EXPECT_EQ(error_of(text),
            "memory:3:36: 'none.bin' cannot be read, because the text did not come from a folder; "
            "give one (LoadOptions::folder)");
  const std::string folder = testing::TempDir();
  const tessera_load_options options = {.size = sizeof options, .folder = folder.c_str()};
  EXPECT_TRUE(error_of(text, &options).starts_with("memory:3:36: 'none.bin': "))
      << error_of(text, &options);
}

TEST(LoadMemory, AProgramSavesNoPackage) {
  const Network network = Network::load(kRelu).value();
  const NetworkState& state = network.state();
  tessera_network* program =
      load(package::serialise(link::link(state.package, state.chip).value()));
  EXPECT_EQ(message(tessera_network_save_package(program, "/nowhere/at/all")),
            "'memory' is a program; saving a package needs a package or the model");
  tessera_network_release(program);
}

}  // namespace
}  // namespace tessera::c_test
