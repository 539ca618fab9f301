// Programs for several cores survive the way through a file, parts of their weights are found in the
// package, and files that lie are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <random>

#include "container_generated.h"
#include "isa/encoding.h"
#include "package/common_weights.h"
#include "package/container.h"
#include "package/container_file.h"
#include "package/sha256.h"

namespace tessera::package {
namespace {

using isa::BaseIndex;
using isa::CardProgram;
using isa::Program;

Program program_of_tasks(int tasks) {
  Program program;
  program.chip_name = "cloud16";
  program.chip_fingerprint = 0x1234;
  for (int i = 0; i < tasks; ++i) {
    isa::TaskDescriptor task;
    task.id = static_cast<isa::TaskId>(i);
    task.engine = isa::EngineKind::kPlanar;
    task.config = isa::PlanarTask{};
    task.bands.rows = 1 + i;
    if (i > 0) task.dependencies.push_back({.task = task.id - 1, .numerator = 1});
    program.tasks.push_back(task);
    program.pieces.push_back({.known = true, .row = static_cast<std::uint32_t>(i)});
  }
  program.segments = {{0, 1, {}}, {1, static_cast<std::uint32_t>(tasks), {}}};
  program.workspace_bytes = 77;
  program.dependencies_dropped = 4 + tasks;
  return program;
}

// Three cores of two cards, of which the last two share a memory.
CardProgram sample_card() {
  CardProgram card;
  for (const int tasks : {3, 2, 4}) card.cores.push_back(program_of_tasks(tasks));
  card.memory_of_core = {0, 1, 1};
  card.cards = 2;
  card.cores[1].tasks[1].remote = {{.core = 2, .on = {.task = 3, .numerator = 1}}};
  card.cores[2].tasks[0].header.memories.source = 0;
  card.cores[2].tasks[1].header.share = {.number = 7, .cores = 6};
  for (Program& core : card.cores) isa::encode_stream(core);
  Program& first = card.cores[0];
  first.weights = {std::byte{1}, std::byte{2}, std::byte{3}};
  first.inputs = {{"x", 0, Format::kF32, {1, 3}, {BaseIndex::kInput, 0}}};
  first.outputs = {{"y", 0, Format::kF32, {1, 3}, {BaseIndex::kOutput, 0}}};
  first.hints = {{"relu", "Elementwise", {"node_1"}, {1, 3}, 0}};
  return card;
}

std::string parse_error(const std::vector<std::byte>& bytes) {
  const auto result = parse_card_program_alone(bytes, "p.tprog");
  return result.ok() ? "" : result.error().message;
}

int version_of(const std::vector<std::byte>& bytes) { return static_cast<int>(bytes[8]); }

TEST(CardContainer, AProgramForSeveralCoresComesBackThroughAFile) {
  const CardProgram card = sample_card();
  const std::vector<std::byte> bytes = serialise(card);
  EXPECT_EQ(version_of(bytes), 6);
  const auto back = parse_card_program_alone(bytes, "p.tprog");
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_TRUE(*back == card);
  EXPECT_EQ(back->cores[1].tasks[1].remote, card.cores[1].tasks[1].remote);
  EXPECT_EQ(back->cores[2].tasks[1].header, card.cores[2].tasks[1].header);
  EXPECT_EQ(serialise(*back), bytes);
}

TEST(CardContainer, ComparingSeesEachDifference) {
  const CardProgram card = sample_card();
  const std::vector<std::function<void(CardProgram&)>> changes = {
      [](CardProgram& of) { of.cards = 1; },
      [](CardProgram& of) { of.images = 3; },
      [](CardProgram& of) { of.memory_of_core[2] = 0; },
      [](CardProgram& of) { of.cores.pop_back(); },
      [](CardProgram& of) { of.cores[2].stream.back() ^= std::byte{1}; },
      [](CardProgram& of) { of.cores[1].segments[0].task_last = 2; },
      [](CardProgram& of) { of.cores[1].pieces[0].row = 9; },
      [](CardProgram& of) { of.cores[1].dependencies_dropped = 9; },
      [](CardProgram& of) { of.cores[0].weights = {std::byte{1}}; },
      [](CardProgram& of) { of.cores[0].inputs[0].dims = {3, 1}; },
      [](CardProgram& of) { of.cores[0].hints[0].macs = 1; }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    CardProgram other = card;
    EXPECT_TRUE(other == card);
    changes[i](other);
    EXPECT_FALSE(other == card) << i;
  }
}

TEST(CardContainer, OneCoreHasTheFileOfItsProgram) {
  CardProgram card = sample_card();
  card.cores.resize(1);
  card.memory_of_core.clear();
  card.cards = 1;
  const std::vector<std::byte> bytes = serialise(card);
  EXPECT_EQ(bytes, serialise(card.cores[0]));
  EXPECT_EQ(version_of(bytes), 3);
  const auto back = parse_card_program_alone(bytes, "p.tprog");
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_TRUE(*back == card);
}

TEST(CardContainerErrors, ReadersOfOneCoreNameTheWayOut) {
  const auto one = parse_program(serialise(sample_card()), "p.tprog");
  ASSERT_FALSE(one.ok());
  EXPECT_EQ(
      one.error().message,
      "'p.tprog' is a program for 3 cores of a card, which 'tessera run', 'inspect', 'disasm' and "
      "'derive' take; here give a program of one core ('tessera link' without --cores), or "
      "the package or model");
}

TEST(CardContainerErrors, WhatDoesNotFitIsNamed) {
  const auto error_of = [](const std::function<void(CardProgram&)>& change) {
    CardProgram card = sample_card();
    change(card);
    return parse_error(serialise(card));
  };
  EXPECT_EQ(error_of([](CardProgram& of) { of.memory_of_core = {0, 2, 2}; }),
            "'p.tprog': memory 1 of 3 is beside no core");
  EXPECT_EQ(error_of([](CardProgram& of) { of.memory_of_core = {0, 16, 1}; }),
            "'p.tprog': core 1 has memory 16, allowed 0 to 15");
  EXPECT_EQ(error_of([](CardProgram& of) { of.memory_of_core = {0, 1}; }),
            "'p.tprog': memories of 2 cores; the program has 3");
  EXPECT_EQ(error_of([](CardProgram& of) { of.cards = 4; }),
            "'p.tprog': 3 cores on 4 cards, allowed 1 to 3");
  EXPECT_EQ(error_of([](CardProgram& of) { of.images = 2; }),
            "'p.tprog': 2 images of 3 cores, allowed are divisors of the cores");
  EXPECT_EQ(error_of([](CardProgram& of) { of.images = 3; }),
            "'p.tprog': 1 inputs and 1 outputs of 3 images, which have as many each");
  EXPECT_EQ(error_of([](CardProgram& of) { of.cores[2].segments.pop_back(); }),
            "'p.tprog': core 2 has 1 segments, core 0 has 2");
  EXPECT_EQ(error_of([](CardProgram& of) { of.cores[2].segments[1].task_last = 5; }),
            "'p.tprog': core 2: segments do not follow each other: tasks 1 to 5");
  EXPECT_EQ(error_of([](CardProgram& of) { of.cores[2].segments[1].task_last = 3; }),
            "'p.tprog': core 2: task 3 belongs to no segment");
  EXPECT_EQ(error_of([](CardProgram& of) { of.cores[1].pieces.pop_back(); }),
            "'p.tprog' core '1': 1 pieces of 2 tasks");
  EXPECT_EQ(error_of([](CardProgram& of) { of.cores[1].stream[0] = std::byte{0}; }).substr(0, 19),
            "'p.tprog' core '1':");
  EXPECT_EQ(error_of([](CardProgram& of) { of.cores[1].dependencies_dropped = -1; }),
            "'p.tprog' core '1': -1 dependencies dropped, allowed 0..281474976710656");
  EXPECT_EQ(error_of([](CardProgram& of) { of.cores[0].region = isa::CoreRegion{}; }),
            "'p.tprog': a region of a core in a program for several");
  EXPECT_EQ(error_of([](CardProgram& of) {
              of.memory_of_core.clear();
              of.cores.resize(65, of.cores[1]);
            }),
            "'p.tprog': a program for 65 cores, allowed 1 to 64");
}

TEST(CardContainerErrors, EveryFlippedBitIsDamage) {
  const auto bytes = serialise(sample_card());
  for (std::size_t bit = 64; bit < 8 * bytes.size(); ++bit) {
    auto damaged = bytes;
    damaged[bit / 8] ^= std::byte{1} << (bit % 8);
    ASSERT_THAT(parse_error(damaged), ::testing::EndsWith("; the file is damaged")) << bit;
  }
}

TEST(CardContainerErrors, LyingPayloadsUnderARightDigestNeverCrash) {
  constexpr std::uint32_t kSeed = 12;
  std::mt19937 random(kSeed);
  const auto bytes = serialise(sample_card());
  const auto file = open_container(kProgramMagic, bytes, "p.tprog");
  ASSERT_TRUE(file.ok());
  int refused = 0;
  for (int round = 0; round < 5'000; ++round) {
    std::vector<std::byte> payload(file->payload.begin(), file->payload.end());
    for (int i = 0; i < 4; ++i) payload[random() % payload.size()] = std::byte(random() & 0xFF);
    const auto damaged = write_container(kProgramMagic, {0x1234, payload, file->section});
    refused += parse_card_program_alone(damaged, "p.tprog").ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 500) << "seed " << kSeed;
}

// --- Weights in parts ---

std::vector<std::byte> random_bytes(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 0xFF);
  return bytes;
}

void append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

// A package's weights, and a region with ranges of it: [2048, 5120), own bytes, [8192, end).
struct InParts {
  std::vector<std::byte> package = random_bytes(10'000, 1);
  std::vector<std::byte> region;
  CardProgram card = sample_card();

  InParts() {
    append(region, std::span(package).subspan(2048, 3072));
    append(region, random_bytes(640, 2));
    append(region, std::span(package).subspan(8192));
    isa::Unlinked unlinked;
    unlinked.weights = isa::Weights(isa::SectionPart{128, package.size(), sha256(package)});
    card.cores[0].weights = isa::Weights(region);
    find_in_package(unlinked, package, card.cores[0]);
    card.cores[0].weights_file = "m.tpkg";
  }
  ReadPart read() const {
    return [this](const isa::SectionPart& part) -> Result<std::vector<std::byte>> {
      const auto bytes = std::span(package).subspan(part.offset - 128, part.bytes);
      EXPECT_EQ(sha256(bytes), part.digest);
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    };
  }
};

TEST(CardContainer, RangesOfTheWeightsAreFoundInThePackage) {
  const InParts in;
  const auto& parts = in.card.cores[0].weights.parts();
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].at, 0u);
  EXPECT_EQ(parts[0].place.offset, 128u + 2048);
  EXPECT_EQ(parts[0].place.bytes, 3072u);
  EXPECT_EQ(parts[1].at, 3712u);
  EXPECT_EQ(parts[1].place.offset, 128u + 8192);
  EXPECT_EQ(parts[1].place.bytes, 10'000u - 8192);
}

TEST(CardContainer, WeightsInPartsComeBack) {
  InParts in;
  const std::vector<std::byte> bytes = serialise(in.card);
  EXPECT_LT(bytes.size(), serialise(sample_card()).size() + 1'500);  // 640 of 5,520 bytes
  auto back = parse_card_program_alone(bytes, "p.tprog");
  ASSERT_TRUE(back.ok()) << back.error().message;
  Program& first = back->cores[0];
  EXPECT_FALSE(first.weights.held());
  EXPECT_EQ(first.weights.size(), in.region.size());
  EXPECT_TRUE(is_unread(first));
  EXPECT_EQ(serialise(*back), bytes);  // also unread
  ASSERT_TRUE(read_elsewhere(first, "p.tprog", in.read()).ok());
  EXPECT_EQ(first.weights.copy(), in.region);
  EXPECT_TRUE(*back == in.card);
  EXPECT_EQ(serialise(*back), bytes);
  hold_all(first);
  const auto whole = parse_card_program_alone(serialise(*back), "p.tprog");
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  EXPECT_EQ(whole->cores[0].weights.copy(), in.region);
}

TEST(CardContainer, OneCoreMayHaveItsWeightsInPartsToo) {
  InParts in;
  const auto bytes = serialise(in.card.cores[0]);
  EXPECT_EQ(version_of(bytes), 6);
  auto back = parse_program_alone(bytes, "p.tprog");
  ASSERT_TRUE(back.ok()) << back.error().message;
  ASSERT_TRUE(read_elsewhere(*back, "p.tprog", in.read()).ok());
  EXPECT_EQ(back->weights.copy(), in.region);
}

TEST(CardContainerErrors, PartsOfWeightsThatAreNotFound) {
  const InParts in;
  const auto loaded = parse_program(serialise(in.card.cores[0]), "p.tprog");
  ASSERT_FALSE(loaded.ok());
  EXPECT_THAT(loaded.error().message,
              ::testing::StartsWith("'p.tprog' refers to its weights (4880 bytes in 2 parts, the "
                                    "first with the SHA-256 "));
}

// The payload of a program in parts with a change.
std::string error_of_parts(const std::function<void(fb::ProgramT&)>& change) {
  const InParts in;
  const auto bytes = serialise(in.card);
  const auto file = open_container(kProgramMagic, bytes, "p.tprog");
  fb::ProgramT table;
  flatbuffers::GetRoot<fb::Program>(file->payload.data())->UnPackTo(&table);
  change(table);
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fb::Program::Pack(builder, &table));
  const auto payload = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  return parse_error(write_container(kProgramMagic, {0x1234, payload, file->section}));
}

TEST(CardContainerErrors, PartsOfWeightsThatDoNotFit) {
  EXPECT_EQ(error_of_parts([](fb::ProgramT&) {}), "");
  EXPECT_EQ(error_of_parts([](fb::ProgramT& table) { table.weights_file.clear(); }),
            "'p.tprog': weights in another file without a name");
  EXPECT_EQ(error_of_parts([](fb::ProgramT& table) { table.weight_parts[1]->place.reset(); }),
            "'p.tprog': an empty part of the weights");
  const std::string at = "'p.tprog': a part of the weights at ";
  EXPECT_EQ(error_of_parts([](fb::ProgramT& table) { table.weight_parts[0]->at = 32; }),
            at + "32, allowed multiples of 64 from 0 to 640");
  EXPECT_EQ(error_of_parts([](fb::ProgramT& table) { table.weight_parts[1]->at = 3008; }),
            at + "3008, allowed multiples of 64 from 3072 to 3712");
  EXPECT_EQ(error_of_parts([](fb::ProgramT& table) { table.weight_parts[1]->at = 1ull << 63; }),
            at + "9223372036854775808, allowed multiples of 64 from 3072 to 3712");
  EXPECT_EQ(error_of_parts([](fb::ProgramT& table) { table.weight_parts[0]->place->bytes = 3000; }),
            "'p.tprog': a part of the weights of 3000 bytes, allowed multiples of 64 up to "
            "68719476736 together, and any at the end");
  EXPECT_EQ(error_of_parts([](fb::ProgramT& table) { table.weight_parts[0]->place->bytes = 0; }),
            "'p.tprog': a part of the weights of 0 bytes, allowed multiples of 64 up to "
            "68719476736 together, and any at the end");
  EXPECT_THAT(
      error_of_parts([](fb::ProgramT& table) { table.weight_parts[0]->place->sha256.pop_back(); }),
      ::testing::HasSubstr("a digest of 31 bytes"));
  EXPECT_EQ(error_of_parts([](fb::ProgramT& table) {
              table.weights = std::make_unique<fb::ConstantT>(*table.weight_parts[0]->place);
            }),
            "'p.tprog': weights elsewhere as a whole and in parts");
  EXPECT_EQ(error_of_parts([](fb::ProgramT& table) { table.cores.clear(); }),
            "'p.tprog': memories, cards or images of a program for one core");
}

}  // namespace
}  // namespace tessera::package
