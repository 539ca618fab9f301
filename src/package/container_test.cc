// Packages and programs survive the way through a file, and a damaged file is refused.
#include "package/container.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "isa/encoding.h"
#include "package/container_file.h"
#include "package/host_step.h"

namespace tessera::package {
namespace {

using isa::BaseIndex;
using isa::encode;
using isa::EngineKind;
using isa::HostStep;
using isa::PlanarTask;
using isa::Program;
using isa::TaskDescriptor;
using isa::TaskId;

Program sample_program() {
  Program program;
  program.chip_name = "tessera128";
  program.chip_fingerprint = 0x1234;
  for (TaskId id = 0; id < 3; ++id) {
    TaskDescriptor task;
    task.id = id;
    task.engine = EngineKind::kPlanar;
    task.config = PlanarTask{};
    task.bands.rows = id + 1;
    if (id > 0) task.dependencies.push_back({.task = id - 1, .numerator = 1});
    const auto bytes = encode(task);
    program.stream_offsets.push_back(static_cast<std::uint32_t>(program.stream.size()));
    program.stream.insert(program.stream.end(), bytes.begin(), bytes.end());
    program.tasks.push_back(task);
  }
  program.segments = {{0, 3, {}}};
  program.weights = {std::byte{1}, std::byte{2}, std::byte{3}};
  program.inputs = {{"x", 0, Format::kF32, {1, 3}, {BaseIndex::kInput, 0}}};
  program.hints = {{"relu", "Elementwise", {"node_1"}, {1, 3}, 0}};
  program.workspace_bytes = 77;
  program.dependencies_dropped = 5;
  return program;
}

std::string parse_error(const std::vector<std::byte>& bytes) {
  const auto result = parse_program(bytes, "p.tprog");
  return result.ok() ? "" : result.error().message;
}

TEST(Container, ProgramComesBackThroughAFile) {
  const Program program = sample_program();
  const auto back = parse_program(serialise(program), "p.tprog");
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->chip_fingerprint, 0x1234u);
  EXPECT_EQ(back->stream, program.stream);
  EXPECT_EQ(back->stream_offsets, program.stream_offsets);
  EXPECT_EQ(back->weights, program.weights);
  EXPECT_EQ(back->tasks[2].dependencies, program.tasks[2].dependencies);
  EXPECT_EQ(back->inputs[0].name, "x");
  EXPECT_EQ(back->hints[0].origins, std::vector<std::string>{"node_1"});
  EXPECT_EQ(back->workspace_bytes, 77);
  EXPECT_EQ(back->dependencies_dropped, 5);
}

TEST(Container, ARegionComesBackAndProgramsWithoutOneKeepTheirBytes) {
  Program program = sample_program();
  const std::vector<std::byte> without = serialise(program);
  EXPECT_FALSE(parse_program(without, "p.tprog")->region);
  program.region = {{.first = 64, .bytes = 98304}, {.first = 128, .bytes = 16384}};
  const auto back = parse_program(serialise(program), "p.tprog");
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->region, program.region);
  program.region->state_buffer.first = -64;
  EXPECT_EQ(parse_error(serialise(program)),
            "'p.tprog': -64 in the region of the core, allowed 0..2147483647");
  program.region.reset();
  EXPECT_EQ(serialise(program), without);
}

// A program with a host step: NonZero of a computed tensor, and of a constant beside it.
Program program_with_step() {
  Program program = sample_program();
  auto constant = std::make_shared<Tensor>(Tensor::zeros(Format::kF32, {2}));
  constant->bytes[2] = std::byte{0x80};
  graph::Graph graph;
  graph.name = "model";
  graph.tensors = {{"x", Format::kF32, {1, 3}, nullptr},
                   {"unused", Format::kF32, {1}, nullptr},
                   {"y", Format::kF32, {1, 3}, nullptr},
                   {"c", Format::kF32, {2}, constant}};
  graph::HostStepAttributes step;
  step.node.op_type = "Strange";
  step.node.inputs = {"x", "c"};
  step.node.outputs = {"y"};
  step.opset = 13;
  step.reason = "nobody knows it";
  graph.nodes.push_back({"strange", {}, {{0}, {3}}, {{2}}, step});
  HostStep reference;
  reference.node = 0;
  reference.inputs = {{"x", 0, Format::kF32, {1, 3}, {BaseIndex::kInput, 0}},
                      {"c", 3, Format::kF32, {2}, {BaseIndex::kWeights, 0}}};
  reference.outputs = {{"y", 2, Format::kF32, {1, 3}, {BaseIndex::kWorkspace, 0}}};
  close_host_step(graph, graph.nodes[0], reference);
  program.segments[0].host_steps = {reference};
  program.pieces = {{}, {.known = true, .row = 5, .window_column = 2}, {.known = true, .image = 1}};
  return program;
}

TEST(Container, HostStepsAndPiecesComeBackThroughAFile) {
  const Program program = program_with_step();
  const auto back = parse_program(serialise(program), "p.tprog");
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->pieces, program.pieces);
  EXPECT_EQ(back->weights, program.weights);
  const auto opened = open_host_step(back->segments[0].host_steps[0]);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const graph::Graph& step = **opened;
  const graph::Node& node = step.nodes[0];
  EXPECT_EQ(node.as<graph::HostStepAttributes>().node.op_type, "Strange");
  EXPECT_EQ(step.tensors.size(), 3u);
  EXPECT_EQ(step.inputs.size(), 1u);
  const auto& constant = step.tensor(node.inputs[1]).constant;
  ASSERT_NE(constant, nullptr);
  EXPECT_EQ(constant->bytes[2], std::byte{0x80});
  EXPECT_EQ(serialise(*back), serialise(program));
}

TEST(ContainerErrors, AHostStepMustFitItsNode) {
  Program program = program_with_step();
  program.segments[0].host_steps[0].inputs[0].dims = {1, 4};
  EXPECT_EQ(parse_error(serialise(program)),
            "'p.tprog': host step 'strange': tensor 'x' in DRAM is not 'x' of its node");
  program.segments[0].host_steps[0].body.clear();
  EXPECT_EQ(parse_error(serialise(program)), "'p.tprog': a host step without its node");
}

TEST(ContainerErrors, PiecesAreOneATask) {
  Program program = program_with_step();
  program.pieces.pop_back();
  EXPECT_EQ(parse_error(serialise(program)), "'p.tprog': 2 pieces of 3 tasks");
}

TEST(Container, SerialisingTwiceGivesTheSameBytes) {
  EXPECT_EQ(serialise(sample_program()), serialise(sample_program()));
}

TEST(ContainerErrors, AnotherMagicIsNamed) {
  EXPECT_EQ(parse_error(std::vector<std::byte>(200)),
            "'p.tprog': does not begin with the magic 'TESSPRG'");
}

// The same contents as another version of Tessera would write them.
std::vector<std::byte> of_version(std::uint32_t version) {
  const auto bytes = serialise(sample_program());
  const auto file = open_container(kProgramMagic, bytes, "p.tprog");
  return write_container(kProgramMagic, *file, version);
}

TEST(ContainerErrors, AnotherVersionSaysWhatIsAllowed) {
  EXPECT_EQ(parse_error(of_version(9)),
            "'p.tprog': container version 9 is of a newer Tessera, allowed 2 to 6; compile the "
            "model with this one");
  EXPECT_EQ(parse_error(of_version(1)),
            "'p.tprog': container version 1, allowed 2 to 6; compile the model again");
}

TEST(Container, OnlyExtendedHeadersRaiseTheVersion) {
  const auto version = [](const std::vector<std::byte>& bytes) { return int(bytes[8]); };
  Program program = sample_program();
  EXPECT_EQ(version(serialise(program)), 3);
  isa::TaskDescriptor& task = program.tasks.back();
  task.header.tag = 5;
  program.stream.resize(program.stream_offsets.back());
  const auto words = encode(task);
  program.stream.insert(program.stream.end(), words.begin(), words.end());
  const auto bytes = serialise(program);
  EXPECT_EQ(version(bytes), 4);
  const auto back = parse_program(bytes, "p.tprog");
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->tasks.back().header.tag, 5);
}

TEST(Container, TheVersionBeforeIsRead) {
  const auto old = parse_program(of_version(2), "p.tprog");
  ASSERT_TRUE(old.ok()) << old.error().message;
  EXPECT_EQ(serialise(*old), serialise(sample_program()));
}

// Head, padding, payload and section; in the magic it is no longer a program.
TEST(ContainerErrors, EveryFlippedBitIsDamage) {
  const auto bytes = serialise(sample_program());
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    auto damaged = bytes;
    damaged[bit / 8] ^= std::byte{1} << (bit % 8);
    const std::string error = parse_error(damaged);
    if (bit / 8 < 8) {
      ASSERT_EQ(error, "'p.tprog': does not begin with the magic 'TESSPRG'") << bit;
    } else {
      ASSERT_THAT(error, ::testing::EndsWith("; the file is damaged")) << bit;
    }
  }
}

// The version before did not look at its head; a flipped version is seen all the same.
TEST(ContainerErrors, AFlippedVersionOfAnOlderFileIsDamage) {
  for (std::size_t bit = 0; bit < 32; ++bit) {
    auto damaged = of_version(2);
    damaged[8 + bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_EQ(parse_error(damaged),
              "'p.tprog': the digest does not match the contents; the file is damaged")
        << bit;
  }
}

TEST(ContainerErrors, EveryTruncationIsDamage) {
  const auto bytes = serialise(sample_program());
  for (std::size_t size = 8; size < bytes.size(); ++size) {
    ASSERT_THAT(parse_error({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)}),
                ::testing::EndsWith("; the file is damaged"))
        << size;
  }
  EXPECT_EQ(parse_error({}), "'p.tprog': does not begin with the magic 'TESSPRG'");
}

// A file with a right digest may still lie: random payloads under a fresh digest never crash.
TEST(ContainerErrors, LyingPayloadsUnderARightDigestNeverCrash) {
  constexpr std::uint32_t kSeed = 11;
  std::mt19937 random(kSeed);
  const auto bytes = serialise(sample_program());
  const auto file = open_container(kProgramMagic, bytes, "p.tprog");
  ASSERT_TRUE(file.ok());
  int refused = 0;
  for (int round = 0; round < 5'000; ++round) {
    std::vector<std::byte> payload(file->payload.begin(), file->payload.end());
    for (int i = 0; i < 4; ++i) payload[random() % payload.size()] = std::byte(random() & 0xFF);
    const auto damaged = write_container(kProgramMagic, {0x1234, payload, file->section});
    refused += parse_program(damaged, "p.tprog").ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 500) << "seed " << kSeed;
}

TEST(Container, KindIsToldFromTheHead) {
  EXPECT_EQ(file_kind(serialise(sample_program())), FileKind::kProgram);
  EXPECT_EQ(file_kind(std::vector<std::byte>(4)), FileKind::kOther);
}

}  // namespace
}  // namespace tessera::package
