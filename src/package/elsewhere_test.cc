// Programs that refer to the section of another file: what they find there, and what they say where they do
// not.
#include "package/elsewhere.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/input_file.h"
#include "package/container.h"
#include "package/container_file.h"
#include "package/host_step.h"
#include "package/section_file.h"
#include "package/sha256.h"

namespace tessera::package {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kDigest = "039058c6f2c0cb492c533b0a4d14ef77cc0f78abccced5287d84a1a2011cfb81";

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(std::byte(value));
  return bytes;
}

// A package's node `strange`: y = Strange(x, c).
graph::Graph strange_graph() {
  auto constant = std::make_shared<Tensor>(Tensor::zeros(Format::kF32, {2}));
  constant->bytes[2] = std::byte{0x80};
  graph::Graph graph;
  graph.name = "model";
  graph.tensors = {{"x", Format::kF32, {1, 3}, nullptr},
                   {"y", Format::kF32, {1, 3}, nullptr},
                   {"c", Format::kF32, {2}, constant}};
  graph::HostStepAttributes step;
  step.node.op_type = "Strange";
  step.node.inputs = {"x", "c"};
  step.node.outputs = {"y"};
  step.opset = 13;
  step.reason = "nobody knows it";
  graph.nodes.push_back({"strange", {}, {{0}, {2}}, {{1}}, step});
  graph.inputs = {{0}};
  graph.outputs = {{1}};
  return graph;
}

// Weights 1 2 3, and a step on the host between two segments.
Package sample_package() {
  Package package;
  package.chip_name = "tessera128";
  package.chip_fingerprint = 0x1234;
  package.graph = std::make_shared<const graph::Graph>(strange_graph());
  package.weights = bytes_of({1, 2, 3});
  package.segments = 2;
  package.workspace_bytes = 64;
  package.input_bytes = package.output_bytes = 12;
  package.inputs = {{"x", 0, Format::kF32, {1, 3}, {isa::BaseIndex::kInput, 0}}};
  package.outputs = {{"y", 1, Format::kF32, {1, 3}, {isa::BaseIndex::kOutput, 0}}};
  isa::HostStep step;
  step.node = 0;
  step.inputs = {package.inputs[0], {"c", 2, Format::kF32, {2}, {isa::BaseIndex::kWeights, 0}}};
  step.outputs = package.outputs;
  close_host_step(*package.graph, package.graph->nodes[0], step);
  package.host_steps = {step};
  return package;
}

// What linking makes of it, as far as a file goes.
isa::Program linked(const isa::Unlinked& unlinked, const std::string& weights_file) {
  isa::Program program;
  program.chip_name = unlinked.chip_name;
  program.chip_fingerprint = unlinked.chip_fingerprint;
  program.weights = unlinked.weights;
  program.weights_file = weights_file;
  program.segments = {{0, 0, unlinked.host_steps}};
  return program;
}

class Elsewhere : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "elsewhere_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_ + "/programs");
    package_ = folder_ + "/m.tpkg";
    ASSERT_TRUE(write_package(package_, sample_package()).ok());
    program_ = folder_ + "/programs/m.tprog";
    const auto unlinked = load_unlinked(package_);
    ASSERT_TRUE(unlinked.ok()) << unlinked.error().message;
    ASSERT_TRUE(write_program(program_, linked(*unlinked, path_from(program_, package_))).ok());
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string load_error(const WeightsPlaces& places = {}) const {
    const auto program = load_program(program_, places);
    return program.ok() ? "" : program.error().message;
  }
  // load_error() with the test's folder as "/t".
  std::string shown(std::string message) const {
    for (std::size_t at = message.find(folder_); at != std::string::npos;
         at = message.find(folder_)) {
      message.replace(at, folder_.size(), "/t");
    }
    return message;
  }

  std::string folder_, package_, program_;
};

TEST_F(Elsewhere, LinkingReadsNoByteOfTheSection) {
  const auto unlinked = load_unlinked(package_);
  ASSERT_TRUE(unlinked.ok()) << unlinked.error().message;
  EXPECT_FALSE(unlinked->weights.held());
  EXPECT_EQ(unlinked->weights.size(), 3u);
  ASSERT_EQ(unlinked->host_steps.size(), 1u);
  const isa::StepConstant& constant = unlinked->host_steps[0].constants.at(0);
  EXPECT_EQ(constant.value, nullptr);
  EXPECT_EQ(constant.part->place.offset, 64u);
  EXPECT_EQ(constant.part->place.bytes, 8u);
  // A section of other bytes is not noticed here, but where it is read.
  auto bytes = read_file(package_);
  ASSERT_TRUE(bytes.ok());
  const std::size_t section = bytes->size() - 72;
  ASSERT_EQ((*bytes)[section], std::byte{1});
  (*bytes)[section] = std::byte{9};
  ASSERT_TRUE(write_file(package_, *bytes).ok());
  EXPECT_TRUE(load_unlinked(package_).ok());
  EXPECT_FALSE(load_package(package_).ok());
  EXPECT_EQ(
      shown(load_error()),
      std::string("'/t/programs/m.tprog' refers to its weights (3 bytes with the SHA-256 ") +
          kDigest +
          ") in '../m.tpkg', which is not there: '/t/m.tpkg': the 3 bytes at 0 of its section "
          "have the digest " +
          sha256_text(sha256(bytes_of({9, 2, 3}))) + ", not " + kDigest +
          "; reading '/t/programs/m.tpkg': No such file or directory; put the file there, "
          "name it (--weights, LoadOptions::weights_file), or link with --embed-weights");
}

TEST_F(Elsewhere, EveryChangedBitInFrontOfTheSectionIsDamage) {
  const auto bytes = read_file(package_);
  ASSERT_TRUE(bytes.ok());
  const std::size_t section = bytes->size() - 72;
  for (std::size_t at = 8; at < section; ++at) {
    if (at >= 40 && at < 72) continue;  // the digest over everything, which is not looked at
    auto damaged = *bytes;
    damaged[at] ^= std::byte{1} << (at % 8);
    ASSERT_TRUE(write_file(package_, damaged).ok());
    const auto read = load_unlinked(package_);
    ASSERT_FALSE(read.ok()) << at;
    EXPECT_THAT(read.error().message, HasSubstr("the file is damaged")) << at;
  }
}

TEST_F(Elsewhere, APackageWithoutItsOwnDigestsIsReadAsAWhole) {
  auto bytes = read_file(package_);
  ASSERT_TRUE(bytes.ok());
  std::fill_n(bytes->begin() + 72, 32, std::byte{0});
  const Sha256 digest =
      sha256({std::span(*bytes).first(40), std::span(std::as_const(*bytes)).subspan(72)});
  std::copy(digest.begin(), digest.end(), bytes->begin() + 40);
  ASSERT_TRUE(write_file(package_, *bytes).ok());
  const auto unlinked = load_unlinked(package_);
  ASSERT_TRUE(unlinked.ok()) << unlinked.error().message;
  EXPECT_EQ(unlinked->weights, isa::Weights(bytes_of({1, 2, 3})));
  EXPECT_EQ(sha256_text(unlinked->weights.part()->digest), kDigest);
  ASSERT_TRUE(write_program(program_, linked(*unlinked, "../m.tpkg")).ok());
  EXPECT_EQ(load_error(), "");
}

TEST_F(Elsewhere, WeightsAndConstantsAreFoundBesideTheProgram) {
  const auto program = load_program(program_);
  ASSERT_TRUE(program.ok()) << program.error().message;
  EXPECT_EQ(program->weights_file, "../m.tpkg");
  EXPECT_EQ(program->weights, isa::Weights(bytes_of({1, 2, 3})));
  const isa::HostStep& step = program->segments[0].host_steps[0];
  EXPECT_EQ(step.constants.at(0).value->bytes[2], std::byte{0x80});
  EXPECT_TRUE(open_host_step(step).ok());
  // The file as it was comes out again, and not the bytes that were read.
  EXPECT_EQ(serialise(*program), *read_file(program_));
  fs::rename(package_, folder_ + "/programs/m.tpkg");
  EXPECT_EQ(load_error(), "");
  fs::rename(folder_ + "/programs/m.tpkg", folder_ + "/other");
  EXPECT_NE(load_error(), "");
  EXPECT_EQ(load_error({.file = folder_ + "/other"}), "");
}

TEST_F(Elsewhere, AProgramThatHoldsTheWeightsWillDoToo) {
  auto whole = load_program(program_);
  ASSERT_TRUE(whole.ok());
  hold_all(*whole);
  const std::string file = folder_ + "/whole.tprog";
  ASSERT_TRUE(write_program(file, *whole).ok());
  const auto alone = load_program(file);
  ASSERT_TRUE(alone.ok()) << alone.error().message;
  EXPECT_EQ(alone->weights, whole->weights);
  fs::remove(package_);
  EXPECT_EQ(load_error({.file = file}), "");
  const auto given = load_program(file, {.file = program_});
  ASSERT_FALSE(given.ok());
  EXPECT_EQ(shown(given.error().message),
            "'/t/whole.tprog' holds its weights and takes none from '/t/programs/m.tprog'; leave "
            "that out");
}

TEST_F(Elsewhere, WhatIsGivenIsTheOnlyPlace) {
  EXPECT_EQ(shown(load_error({.file = folder_ + "/none"})),
            std::string("'/t/programs/m.tprog' refers to its weights (3 bytes with the SHA-256 ") +
                kDigest +
                ") in '../m.tpkg', which is not there: reading '/t/none': No such file or "
                "directory; put the file there, name it (--weights, LoadOptions::weights_file), "
                "or link with --embed-weights");
}

TEST_F(Elsewhere, FromMemoryThereIsNoFolderToLookIn) {
  const auto bytes = read_file(program_);
  const auto program = parse_program(*bytes, "memory");
  ASSERT_FALSE(program.ok());
  EXPECT_THAT(program.error().message,
              HasSubstr("which is not there: the program did not come from a folder to look in;"));
  const auto with_folder = parse_program(*bytes, "memory", {.folder = folder_ + "/programs"});
  EXPECT_TRUE(with_folder.ok());
}

TEST_F(Elsewhere, AnAbsolutePathIsNotFollowed) {
  const auto unlinked = load_unlinked(package_);
  ASSERT_TRUE(write_program(program_, linked(*unlinked, fs::absolute(package_).string())).ok());
  EXPECT_THAT(load_error(), HasSubstr("which is not there: the path is absolute;"));
}

TEST_F(Elsewhere, PartsBeyondTheSectionAreRefused) {
  const auto file = SectionFile::open(package_);
  ASSERT_TRUE(file.ok());
  for (const isa::SectionPart& part :
       {isa::SectionPart{73, 0, {}}, isa::SectionPart{0, 73, {}},
        isa::SectionPart{UINT64_MAX, 2, {}}, isa::SectionPart{2, UINT64_MAX, {}}}) {
    const auto read = file->read(part);
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(shown(read.error().message), "'/t/m.tpkg': its section has 72 bytes, wanted are " +
                                               std::to_string(part.bytes) + " at " +
                                               std::to_string(part.offset));
  }
}

TEST_F(Elsewhere, ReferencesToNoFileAreRefused) {
  auto program = load_program(program_);
  program->weights_file.clear();
  auto bytes = serialise(*program);  // holds all
  EXPECT_TRUE(parse_program(bytes, "p").ok());
  EXPECT_EQ(static_cast<int>(bytes[8]), 3);
  EXPECT_EQ(static_cast<int>((*read_file(program_))[8]), 5);
}

}  // namespace
}  // namespace tessera::package
