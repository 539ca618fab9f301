// Every descriptor and every program file comes back from its text, byte for byte.
#include "firmware/program_text.h"

#include <gtest/gtest.h>

#include <random>

#include "firmware/assembler.h"
#include "firmware/disassembler.h"
#include "firmware/register_fields.h"
#include "firmware/task_text.h"
#include "isa/encoding.h"
#include "package/container.h"
#include "package/host_step.h"

namespace tessera::firmware {
namespace {

using isa::Program;

std::vector<std::byte> bytes_of(const Program& program) { return package::serialise(program); }

Result<Program> assembled(const std::string& text) { return assemble(text, "t.tasm", {}); }

// Text, and back to the same file.
void expect_round_trip(const Program& program) {
  const std::string text = disassemble(program, {});
  const auto back = assembled(text);
  ASSERT_TRUE(back.ok()) << back.error().message << "\n" << text;
  EXPECT_EQ(bytes_of(*back), bytes_of(program)) << text;
  EXPECT_EQ(disassemble(*back, {}), text);
}

// Registers with anything in them that a descriptor can hold; most keep their reset value.
isa::TaskConfig random_config(std::size_t kind, std::mt19937_64& random) {
  const RegisterFields& fields = RegisterFields::of(kind);
  std::vector<std::uint32_t> registers = fields.defaults();
  for (const RegisterField& field : fields.fields()) {
    if (random() % 3 != 0) continue;
    std::uint64_t bits = random();
    if (random() % 2 == 0) bits %= 1000;
    if (field.bits == 8) bits &= 0xFF;
    if (field.kind == FieldKind::kFlag) bits &= 1;
    if (field.kind == FieldKind::kNamed) bits %= field.names.size();
    if (field.path == "axes") bits %= 9;
    set_field_bits(field, bits, registers);
  }
  const auto config = config_of(kind, registers);
  EXPECT_TRUE(config.ok()) << config.error().message;
  return *config;
}

// Half of them defaults, and of the others each part with one chance of two.
isa::TaskHeader random_header(std::mt19937_64& random) {
  isa::TaskHeader header;
  if (random() % 2 == 0) return header;
  const auto some = [&] { return random() % 2 == 0; };
  if (some()) {
    header.engines = {static_cast<std::uint8_t>(random()),
                      static_cast<std::uint8_t>(1 + random() % 255)};
  }
  header.sharing = static_cast<isa::Sharing>(random() % 3);
  if (some()) header.traps = static_cast<std::uint8_t>(random() % 16);
  if (some()) header.debug = static_cast<std::uint8_t>(random() % 4);
  if (some()) header.tag = static_cast<std::uint16_t>(random());
  if (some()) header.surfaces.input = static_cast<std::uint16_t>(random() % 15);
  if (some()) header.surfaces.output = static_cast<std::uint16_t>(random() % 15);
  if (some()) header.bases.source = static_cast<std::uint8_t>(random() % 4);
  if (some()) header.bases.destination = static_cast<std::uint8_t>(random() % 4);
  if (some()) header.memories.source = static_cast<std::uint8_t>(random() % 255);
  if (some()) header.memories.destination = static_cast<std::uint8_t>(random() % 255);
  if (some()) header.share = {static_cast<std::uint32_t>(random()), random()};
  return header;
}

isa::TaskDescriptor random_task(isa::TaskId id, std::mt19937_64& random) {
  isa::TaskDescriptor task;
  task.id = id;
  task.network = random() % 4 == 0 ? static_cast<std::uint32_t>(random()) : 0;
  task.engine = static_cast<isa::EngineKind>(random() % isa::kEngineKindCount);
  task.switch_allowed = random() % 3 != 0;
  task.bands = {1 + static_cast<std::uint32_t>(random() % 3),
                1 + static_cast<std::uint32_t>(random() % 99),
                1 + static_cast<std::uint32_t>(random() % 9)};
  task.layer = static_cast<std::uint32_t>(random() % 3);
  for (std::uint64_t i = random() % 4; i > 0; --i) {
    const bool line = random() % 2 == 0;
    task.dependencies.push_back(
        {.task = static_cast<isa::TaskId>(random() % 50),
         .numerator = line ? static_cast<std::int32_t>(random()) : 0,
         .denominator = line ? 1 + static_cast<std::int32_t>(random() % 100) : 1,
         .offset = static_cast<std::int64_t>(random()) >> (random() % 64)});
  }
  task.config = random_config(random() % std::size(kConfigNames), random);
  task.header = random_header(random);
  return task;
}

Program small_program() {
  Program program;
  program.chip_name = "chip \"a\"\n\\";
  program.chip_fingerprint = 0xFEDCBA9876543210;
  program.workspace_bytes = 77;
  program.input_bytes = 12;
  program.dependencies_dropped = 5;
  program.inputs = {
      {"x\x01;", 3, Format::kF32, {1, 3}, {isa::BaseIndex::kInput, 0}},
      {"m", 4, Format::kF16, {2, 3, 8, 16}, {isa::BaseIndex::kInput, 64}, {1, 9, 40}}};
  program.outputs = {{"", -1, Format::kI64, {}, {isa::BaseIndex::kOutput, 1ull << 60}}};
  program.hints = {{"relu", "Elementwise", {"node_1", "n \xFF"}, {1, 3}, -4}, {}};
  std::vector<std::byte> weights;
  for (int i = 0; i < 100; ++i) weights.push_back(std::byte(i * 37));
  program.weights = std::move(weights);
  return program;
}

TEST(TaskText, EveryRegisterOfEveryConfigurationComesBack) {
  constexpr std::uint64_t kSeed = 5;
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 40; ++round) {
    Program program = small_program();
    for (isa::TaskId id = 0; id < 50; ++id) append_task(program, random_task(id, random), {});
    program.segments = {{0, 20, {}}, {20, 50, {}}};
    expect_round_trip(program);
    if (HasFailure()) FAIL() << "seed " << kSeed << ", round " << round;
  }
}

TEST(TaskText, TheExtendedHeaderStandsInTheHead) {
  isa::TaskDescriptor task;
  task.engine = isa::EngineKind::kPlanar;
  task.config = isa::PlanarTask{};
  const std::string plain = task_text(task, isa::encode(task));
  EXPECT_EQ(plain.substr(0, plain.find('\n')), "task 0 planar planar layer 0 bands 1 x 1 by 1");
  task.header.engines = {2, 3};
  task.header.sharing = isa::Sharing::kUnicast;
  task.header.traps = isa::Traps::kNan | isa::Traps::kRange;
  task.header.debug = isa::TaskDebug::kStop;
  task.header.tag = 7;
  task.header.surfaces = {59, 82};
  task.header.bases = {2, 3};
  const std::string text = task_text(task, isa::encode(task));
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "task 0 planar planar layer 0 bands 1 x 1 by 1 engines 2 to 5 unicast trap nan trap "
            "range debug stop tag 7 input_register 59 output_register 82 source input "
            "destination output");
}

TEST(TaskText, ARegionOfTheCoreComesBack) {
  Program program = small_program();
  program.region = {{.first = 64, .bytes = 98304}, {.first = 0, .bytes = 16384}};
  expect_round_trip(program);
  EXPECT_NE(disassemble(program, {}).find("\nregion buffer 64 to 98368 kernel 0 to 16384\n"),
            std::string::npos);
}

TEST(TaskText, ADescriptorInAnotherEncodingKeepsItsWords) {
  Program program = small_program();
  append_task(program, {}, {});
  // The same task with a register written that holds its reset value anyway.
  isa::TaskDescriptor task;
  task.id = 1;
  std::vector<std::byte> words = isa::encode(task);
  const std::uint32_t run[2] = {3 | 1 << 16, 0};
  const auto more = std::as_bytes(std::span(run));
  words.insert(words.end(), more.begin(), more.end());
  words[4] = static_cast<std::byte>(words.size() / 4);
  words[40] = std::byte{1};
  std::size_t consumed = 0;
  ASSERT_TRUE(isa::decode(words, consumed).ok());
  append_task(program, task, words);
  program.segments = {{0, 2, {}}};
  expect_round_trip(program);
  EXPECT_NE(disassemble(program, {}).find("  words [0x14454"), std::string::npos);
}

TEST(ProgramText, HostStepsOfASegmentComeBack) {
  Program program = small_program();
  const isa::TensorSlot slot{"t", 9, Format::kBool, {2, 0}, {}};
  program.segments = {
      {0, 0, {{.node = 4, .inputs = {slot, slot}, .outputs = {slot}, .body = {}}, {}}}, {0, 0, {}}};
  expect_round_trip(program);
}

TEST(ProgramText, TheNodeOfAHostStepComesBack) {
  auto constant = std::make_shared<Tensor>(Tensor::zeros(Format::kI64, {5}));
  constant->bytes[39] = std::byte{0x7A};
  graph::Graph graph;
  graph.name = "a \"step\"";
  graph.tensors = {{"x", Format::kF32, {3}, nullptr},
                   {"c", Format::kI64, {5}, constant},
                   {"y", Format::kF32, {}, nullptr}};
  graph::HostStepAttributes step;
  step.node.op_type = "Strange";
  step.node.inputs = {"x", "c"};
  step.node.outputs = {"y"};
  step.reason = "nobody knows it";
  graph.nodes.push_back({"strange", {}, {{0}, {1}}, {{2}}, step});
  Program program = small_program();
  isa::HostStep reference;
  reference.inputs = {{"x", 0, Format::kF32, {3}, {}}, {"c", 1, Format::kI64, {5}, {}}};
  reference.outputs = {{"y", 2, Format::kF32, {}, {}}};
  package::close_host_step(graph, graph.nodes[0], reference);
  program.segments = {{0, 0, {reference}}};
  expect_round_trip(program);
}

TEST(ProgramText, PiecesStandBehindTheirTasks) {
  Program program = small_program();
  for (isa::TaskId id = 0; id < 4; ++id) {
    isa::TaskDescriptor task;
    task.id = id;
    append_task(program, task, {});
  }
  program.segments = {{0, 4, {}}};
  program.pieces.resize(4);
  program.pieces[1] = {.known = true, .channel = 128, .row = UINT32_MAX};
  program.pieces[2] = {.known = true, .input_channel = 3, .window_row = 7, .window_column = 9};
  expect_round_trip(program);
}

// Three cores of two cards, of which the last two share a memory.
isa::CardProgram small_card() {
  isa::CardProgram card;
  card.cores = {small_program(), {}, {}};
  card.memory_of_core = {0, 1, 1};
  card.cards = 2;
  const Program& first = card.cores.front();
  std::uint32_t tasks = 2;
  for (Program& core : card.cores) {
    core.chip_name = first.chip_name;
    core.chip_fingerprint = first.chip_fingerprint;
    core.workspace_bytes = first.workspace_bytes;
    core.input_bytes = first.input_bytes;
    core.segments = {{0, 1, {}}, {1, tasks, {}}};
    for (isa::TaskId id = 0; id < tasks; ++id) {
      isa::TaskDescriptor task;
      task.id = id;
      task.layer = id % 2;
      if (id == 1) {
        task.remote = {
            {.core = 2, .on = {.task = 3, .numerator = 1}},
            {.core = 0, .on = {.task = 0, .numerator = 0, .denominator = 1, .offset = 7}}};
      }
      append_task(core, std::move(task), {});
    }
    ++tasks;
  }
  card.cores[2].dependencies_dropped = 9;
  card.cores[1].pieces.resize(3);
  card.cores[1].pieces[2] = {.known = true, .row = 4};
  return card;
}

TEST(ProgramText, SeveralCoresComeBack) {
  const isa::CardProgram card = small_card();
  const std::string text = disassemble(card, {});
  const auto back = assemble_card(text, "t.tasm", {});
  ASSERT_TRUE(back.ok()) << back.error().message << "\n" << text;
  EXPECT_TRUE(*back == card);
  EXPECT_EQ(package::serialise(*back), package::serialise(card)) << text;
  EXPECT_EQ(disassemble(*back, {}), text);
  EXPECT_NE(text.find("\ncores 3 memories [0, 1, 1] cards 2 images 1\n"), std::string::npos);
  EXPECT_NE(
      text.find("\n  after core 2 task 3: (1 j + 0) / 1 steps\n  after core 0 task 0: 7 steps\n"),
      std::string::npos);
}

TEST(ProgramText, OneOfACardsCoresHasTheTextOfItsProgram) {
  isa::CardProgram card;
  card.cores = {small_program()};
  EXPECT_EQ(disassemble(card, {}), disassemble(card.cores.front(), {}));
}

TEST(ProgramTextErrors, OfSeveralCoresEachNamesItsPlace) {
  const auto error = [](const std::string& text) {
    const auto result = assemble_card("program 1\n" + text, "t.tasm", {});
    return result.ok() ? "" : result.error().message;
  };
  EXPECT_EQ(error("core 1\n"),
            "t.tasm:2:1: a program for several cores says 'cores' and their number first");
  EXPECT_EQ(error("cores 2\ncore 2\n"),
            "t.tasm:3:1: core 2; cores 1 to 1 stand one behind the other, and the next is 1");
  EXPECT_EQ(error("cores 2\ncore 1\ncore 2\n"),
            "t.tasm:4:1: core 2; cores 1 to 1 stand one behind the other, and the next is 2");
  EXPECT_EQ(error("cores 2\ncores 2\n"), "t.tasm:3:1: the cores stand there twice");
  EXPECT_EQ(error("cores 1\n"), "t.tasm:2:7: a number of cores: 1, allowed 2 to 64");
  EXPECT_EQ(error("cores 65\n"), "t.tasm:2:7: a number of cores: 65, allowed 2 to 64");
  EXPECT_EQ(error("cores 3 cards 4\n"), "t.tasm:2:15: a number of cards: 4, allowed 1 to 3");
  EXPECT_EQ(error("cores 3 images 0\n"), "t.tasm:2:16: a number of images: 0, allowed 1 to 3");
  EXPECT_EQ(error("cores 2 memories [0, 16]\n"), "t.tasm:2:18: memory 16, allowed 0 to 15");
  EXPECT_EQ(error("cores 2 memories [0, 2]\ncore 1\n"),
            "t.tasm:2:1: memory 1 of 3 is beside no core");
  EXPECT_EQ(error("cores 3\ncore 1\n"), "t.tasm:2:1: 3 cores; the text has 2");
  EXPECT_EQ(error("cores 2\nregion buffer 0 to 64 kernel 0 to 64\ncore 1\n"),
            "t.tasm:2:1: a region of a core in a program for several");
  EXPECT_EQ(
      error("cores 2\ncore 1\nchip \"x\" fingerprint 1\n"),
      "t.tasm:4:1: 'chip' stands with the first core; allowed behind 'core 1': dropped, task, "
      "piece, segment, core");
  EXPECT_EQ(error("cores 2\nsegment tasks 0 to 0\nend\ncore 1\n"),
            "t.tasm:2:1: core 1 has 0 segments, core 0 has 1");
  EXPECT_EQ(
      error("cores 2\nsegment tasks 0 to 0\nend\ncore 1\nsegment tasks 0 to 0\n  host_step node "
            "1\n"),
      "t.tasm:7:3: host steps stand with the first core's segments");
  EXPECT_EQ(error("task planar planar\nafter core 65536 task 1: 1 steps\nend\n"),
            "t.tasm:3:12: a core's number is 65536, allowed 0..65535");
  EXPECT_EQ(error("cores 2\ncore 1\nlayer \"x\" kind \"Conv\" dims [1] macs 0\n"),
            "t.tasm:4:1: 'layer' stands with the first core; allowed behind 'core 1': dropped, "
            "task, piece, "
            "segment, core");
  EXPECT_EQ(error("cores 2\nsegment tasks 0 to 0\nend\ncore 1\nsegment tasks 0 to 0\n"),
            "t.tasm:7:1: found the end of the text; allowed: 'host_step'");
  const auto one = assembled(disassemble(small_card(), {}));
  ASSERT_FALSE(one.ok());
  EXPECT_EQ(
      one.error().message,
      "'t.tasm' is the text of a program for 3 cores of a card, which 'tessera run', 'asm' and "
      "'derive' take; here give one of one core");
}

TEST(ProgramText, AnEmptyProgramComesBack) { expect_round_trip({}); }

TEST(ProgramText, WeightsInAFileAreCheckedByTheirDigest) {
  Program program = small_program();
  const std::string text = disassemble(program, {WeightsPlace::kFile, "w.bin"});
  std::vector<std::byte> file = program.weights.copy();
  AssembleOptions options;
  options.read = [&](const std::string& path) -> Result<std::vector<std::byte>> {
    EXPECT_EQ(path, "w.bin");
    return file;
  };
  const auto back = assemble(text, "t.tasm", options);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(bytes_of(*back), bytes_of(program));
  file[3] ^= std::byte{1};
  const auto damaged = assemble(text, "t.tasm", options);
  ASSERT_FALSE(damaged.ok());
  EXPECT_EQ(damaged.error().message,
            "t.tasm:9:9: 'w.bin' has another digest than the text says; it is not the file that "
            "was written with it");
}

TEST(ProgramText, WeightsOfAProgramFileAreTakenFromIt) {
  const Program program = small_program();
  AssembleOptions options;
  options.read_section = [&](const std::string&) -> Result<std::vector<std::byte>> {
    return program.weights.copy();
  };
  const auto back =
      assemble(disassemble(program, {WeightsPlace::kProgram, "p.tprog"}), "t", options);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(bytes_of(*back), bytes_of(program));
}

std::string error_of(const std::string& text) {
  const auto result = assembled(text);
  return result.ok() ? "" : result.error().message;
}

TEST(ProgramTextErrors, EachNamesItsPlaceAndTheWayOut) {
  const std::string task = "program 1\ntask planar planar\n";
  EXPECT_EQ(
      error_of(""),
      "t.tasm:1:1: found the end of the text; allowed: 'firmware 1' or 'program 1', the first "
      "line of a text");
  EXPECT_EQ(error_of("chains 1\n"),
            "t.tasm:1:1: a text begins with 'firmware 1' (chains) or 'program 1' (every descriptor "
            "written out), not with 'chains'");
  EXPECT_EQ(error_of("program 2\n"), "t.tasm:1:1: version 2 of the language, allowed 1");
  EXPECT_EQ(error_of("program 1\n  chop \"x\"\n"),
            "t.tasm:2:3: 'chop' is no statement of a program; allowed: chip, regions, region, "
            "cores, dropped, input, output, weights, layer, task, piece, segment, core");
  EXPECT_EQ(error_of("program 1\nregion buffer 64 to 0 kernel 0 to 0\n"),
            "t.tasm:2:21: a region from 64 to 0");
  EXPECT_EQ(error_of("program 1 $"), "t.tasm:1:11: the character '$' has no meaning here");
  EXPECT_EQ(error_of("program 1\nchip \"x\n"),
            "t.tasm:2:6: the string has no end; close it with '\"'");
  EXPECT_EQ(error_of("program 1\ntask vector planar\n"),
            "t.tasm:2:6: 'vector' is no engine; allowed: neural, planar, load, store, kernel, "
            "message_in, message_out");
  const std::string head = "program 1\ntask planar planar ";
  EXPECT_EQ(error_of(head + "motors 1\nend\n"),
            "t.tasm:2:20: 'motors' is no part of a task's head; allowed: layer, bands, network, "
            "no_switch, engines, automatic, broadcast, unicast, trap, debug, tag, input_register, "
            "output_register, source, destination, "
            "from_memory, to_memory, share");
  EXPECT_EQ(error_of(head + "engines 3 to 3\nend\n"),
            "t.tasm:2:33: engines 3 to 3: 1 to 255 engines, the last excluded");
  EXPECT_EQ(error_of(head + "engines 3 until 4\nend\n"),
            "t.tasm:2:30: found 'until'; allowed: 'to' and one past the last engine, as in engines "
            "2 to 5");
  EXPECT_EQ(error_of(head + "trap overflow\nend\n"),
            "t.tasm:2:25: 'overflow' is no exception; allowed: nan, infinity, range, saturation");
  EXPECT_EQ(error_of(head + "input_register 500\nend\n"),
            "t.tasm:2:6: task descriptor: task 0: a surface at register 500 of 122");
  EXPECT_EQ(error_of(task + "mod = pooling\nend\n"),
            "t.tasm:3:1: a planar task has no register 'mod'; did you mean 'mode'?");
  EXPECT_EQ(error_of(task + "pool.function = maximun\nend\n"),
            "t.tasm:3:17: 'maximun' is no value of pool.function; did you mean 'maximum'? allowed: "
            "maximum, minimum, average, median");
  EXPECT_EQ(error_of(task + "input_count = 300\nend\n"),
            "t.tasm:3:15: input_count is 300, allowed 0..255");
  EXPECT_EQ(error_of(task + "product\nend\n"),
            "t.tasm:3:1: 'product' is no line of a planar task; allowed: read, write, compute, "
            "activate, pool, reduce, transpose, gain_bias, NAME = VALUE, after, words, end");
  EXPECT_EQ(error_of(task + "read dram input + 0\nend\n"),
            "t.tasm:3:1: a planar task reads nothing in DRAM; use a load, store or kernel task in "
            "between");
  EXPECT_EQ(error_of(task + "after task 1: (2 j + 1) / 0 steps\nend\n"),
            "t.tasm:3:16: a denominator is at least 1");
  EXPECT_EQ(error_of(task + "mode = 9\nend\n"),
            "t.tasm:2:6: register 'mode': found 9, allowed 0..4");
  EXPECT_EQ(error_of("program 1\nsegment tasks 0 to 1\nend\n"),
            "t.tasm:2:9: tasks 0 to 1 of 0; a segment stands behind its tasks");
  EXPECT_EQ(error_of("program 1\nweights bytes 2 [\"0g\"]\n"),
            "t.tasm:2:18: weights are written in the digits 0 to 9 and a to f");
  EXPECT_EQ(error_of("program 1\nweights file \"w\" bytes 2 sha256 \"\"\n"),
            "t.tasm:2:9: 'w': no files can be read here");
}

}  // namespace
}  // namespace tessera::firmware
