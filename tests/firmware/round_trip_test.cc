// What the compiler makes, as text and back: the same file, byte for byte.
#include <gtest/gtest.h>

#include <filesystem>

#include "compile/testing/random_graph.h"
#include "firmware/assembler.h"
#include "firmware/disassembler.h"
#include "link/link.h"
#include "network/network.h"
#include "package/container.h"
#include "random_runs.h"
#include "zoo/zoo.h"

namespace tessera::firmware {
namespace {

// The program with its weights beside it, through text and back.
void expect_round_trip(const isa::Program& program, const std::string& name) {
  const std::string text = disassemble(program, {WeightsPlace::kFile, "w"});
  AssembleOptions options;
  options.read = [&](const std::string&) -> Result<std::vector<std::byte>> {
    return program.weights.copy();
  };
  const auto back = assemble(text, name, options);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_TRUE(package::serialise(*back) == package::serialise(program)) << name;
}

void expect_model_round_trip(const std::string& path, const std::string& arch) {
  LoadOptions load;
  load.arch = arch;
  const auto network = Network::load(path, load);
  ASSERT_TRUE(network.ok()) << network.error().message;
  const auto program = link::link(network->state().package, network->state().chip, {});
  ASSERT_TRUE(program.ok()) << program.error().message;
  expect_round_trip(*program, path);
}

TEST(RoundTrip, RandomGraphsComeBack) {
  constexpr std::uint64_t kSeeds = 40;
  ChipConfig chip;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const auto program = agreement::build_program(compile::testing::random_graph(seed), chip, {});
    ASSERT_TRUE(program.ok()) << "seed " << seed << ": " << program.error().message;
    expect_round_trip(*program, "seed " + std::to_string(seed));
    if (HasFailure()) return;
  }
}

TEST(RoundTrip, WellKnownNetworksComeBack) {
  const std::string path =
      (std::filesystem::temp_directory_path() / "tessera_round_trip.onnx").string();
  for (const char* name : {"mobilenet_v1", "yolov3_tiny", "vit_tiny"}) {
    const auto network = zoo::find_network(name);
    ASSERT_TRUE(network.ok());
    ASSERT_TRUE(zoo::write_network(*network, 1, path).ok());
    expect_model_round_trip(path, "tessera128");
    std::filesystem::remove(path);
  }
}

// Integers, host steps, compressed weights, many small tasks.
TEST(RoundTrip, StoredModelsComeBack) {
  int tried = 0;
  for (const auto& [name, arch] :
       {std::pair{"mlperf_tiny_resnet8_int8_qdq", "tessera128"},
        std::pair{"silero_vad_16k_op15", "tessera128"}, std::pair{"vit_cifar10_ibp_3_3_8", "edge"},
        std::pair{"moonshine_tiny_encoder_q8", "tessera128"}}) {
    const std::string path = std::string(TESSERA_TEST_DATA) + "/models/" + name + ".onnx";
    if (!std::filesystem::exists(path)) continue;
    expect_model_round_trip(path, arch);
    ++tried;
  }
  if (tried == 0) GTEST_SKIP() << "no stored models under " << TESSERA_TEST_DATA;
}

}  // namespace
}  // namespace tessera::firmware
