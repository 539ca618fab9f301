// encode() and decode() are inverse, and every byte of an untrusted descriptor is checked.
#include "isa/encoding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "isa/registers.h"

namespace tessera::isa {
namespace {

TaskDescriptor sample_neural() {
  TaskDescriptor task;
  task.id = 7;
  task.layer = 3;
  task.bands = {2, 40, 3};
  task.dependencies = {{.task = 5, .numerator = 2, .denominator = 3, .offset = -4},
                       {.task = 6, .numerator = 0, .denominator = 1, .offset = 14}};
  NeuralTask neural;
  neural.product.kernel_h = 3;
  neural.product.pad_left = -1;
  neural.product.activation = {UnaryFunction::kClip, -1.5f, 6.0f};
  neural.product.clamp_low = -128;
  neural.moving.offset = 4096;
  neural.output.ring_rows = 12;
  neural.output.broadcast_rows = true;
  task.config = neural;
  return task;
}

std::vector<std::byte> with_word(std::vector<std::byte> bytes, std::size_t index,
                                 std::uint32_t value) {
  std::memcpy(bytes.data() + index * 4, &value, 4);
  return bytes;
}

std::string decode_error(const std::vector<std::byte>& bytes) {
  std::size_t consumed = 0;
  const auto result = decode(bytes, consumed);
  return result.ok() ? "" : result.error().message;
}

TEST(Encoding, NeuralTaskComesBackFieldForField) {
  const TaskDescriptor task = sample_neural();
  const auto bytes = encode(task);
  std::size_t consumed = 0;
  const auto back = decode(bytes, consumed);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(consumed, bytes.size());
  EXPECT_EQ(back->id, 7u);
  EXPECT_EQ(back->bands, task.bands);
  EXPECT_EQ(back->dependencies, task.dependencies);
  EXPECT_EQ(to_registers(std::get<NeuralTask>(back->config)),
            to_registers(std::get<NeuralTask>(task.config)));
}

TEST(Encoding, CopyTaskKeepsItsAxesAndNegativeStrides) {
  TaskDescriptor task;
  CopyTask copy;
  copy.extents = {3, 4};
  copy.source_strides = {-8, 2};
  copy.destination_strides = {2, 6};
  copy.source = {BaseIndex::kInput, 1ull << 33};
  task.config = copy;
  task.engine = EngineKind::kStore;
  std::size_t consumed = 0;
  const auto back = decode(encode(task), consumed);
  ASSERT_TRUE(back.ok()) << back.error().message;
  const auto& result = std::get<CopyTask>(back->config);
  EXPECT_EQ(result.extents, copy.extents);
  EXPECT_EQ(result.source_strides, copy.source_strides);
  EXPECT_EQ(result.destination_strides, copy.destination_strides);
  EXPECT_EQ(result.source, copy.source);
}

// Registers behind those that an older encoder knew.
TEST(Encoding, LaterRegistersOfAPlanarTaskComeBack) {
  TaskDescriptor task;
  task.engine = EngineKind::kPlanar;
  PlanarTask planar;
  planar.mode = PlanarMode::kGainBias;
  planar.input_count = 3;
  planar.inputs[2].offset = 640;
  planar.inputs[2].broadcast_rows = true;
  planar.elementwise.gain_format = Format::kF32;
  planar.pool.before = {UnaryFunction::kScale, 0.5f, 0};
  planar.pool.after = {UnaryFunction::kAbs, 0, 0};
  planar.reduce.before = {UnaryFunction::kClip, -1, 1};
  task.config = planar;
  std::size_t consumed = 0;
  const auto back = decode(encode(task), consumed);
  ASSERT_TRUE(back.ok()) << back.error().message;
  const auto& result = std::get<PlanarTask>(back->config);
  EXPECT_EQ(result.mode, PlanarMode::kGainBias);
  EXPECT_EQ(result.inputs[2], planar.inputs[2]);
  EXPECT_EQ(result.elementwise.gain_format, Format::kF32);
  EXPECT_EQ(result.pool.before, planar.pool.before);
  EXPECT_EQ(result.pool.after, planar.pool.after);
  EXPECT_EQ(result.reduce.before, planar.reduce.before);
}

// What an older encoder wrote of a planar task ends in front of the later registers.
TEST(Encoding, LaterRegistersOfAPlanarTaskLieBehindTheOthers) {
  PlanarTask planar;
  planar.accumulator_offset = 7777;
  const std::vector<std::uint32_t> old = to_registers(planar);
  const auto last = std::find(old.begin(), old.end(), 7777u);
  ASSERT_NE(last, old.end());
  planar.inputs[2].offset = 1;
  planar.elementwise.gain_format = Format::kF32;
  const std::vector<std::uint32_t> changed = to_registers(planar);
  EXPECT_TRUE(std::equal(old.begin(), last + 1, changed.begin()));
  EXPECT_NE(old, changed);
}

TEST(Encoding, DefaultsCostNoRegisterWrites) {
  TaskDescriptor task;
  task.config = PlanarTask{};
  EXPECT_EQ(encode(task).size(), 11u * 4);
}

// Descriptors of every kind as they were written before there was an extended header.
const std::vector<std::vector<std::uint32_t>>& version_1_words() {
  static const std::vector<std::vector<std::uint32_t>> words = {
      // neural, two dependencies
      {0x14454,    0x28,       0x7,     0x0, 0x10000,    0x3,        0x2,        0x28,
       0x3,        0x2,        0x8,     0x5, 0x2,        0x3,        0xfffffffc, 0xffffffff,
       0x6,        0x0,        0x1,     0xe, 0x0,        0x1000f,    0x3,        0x20019,
       0xffffffff, 0xffffffff, 0x3002a, 0x2, 0xbfc00000, 0x40c00000, 0x1002f,    0xffffff80,
       0x10032,    0x1000,     0x10049, 0xc, 0x1004c,    0x1,        0x10063,    0x2},
      // planar, no switch behind it
      {0x14454, 0x17,    0x8, 0x2,     0x101, 0x0,     0x1, 0x1,     0x1, 0x0, 0x5,  0x10000,
       0x2,     0x1002b, 0x2, 0x1003b, 0x9,   0x10056, 0x5, 0x3005f, 0x1, 0x0, 0x280},
      // transfer
      {0x14454, 0x19, 0x9,     0x0,     0x10202, 0x0,     0x1,     0x6,        0x2,
       0x0,     0x4,  0x30000, 0x2,     0x0,     0x2,     0x50005, 0xfffffffe, 0xffffffff,
       0x40,    0x0,  0x2,     0x1000f, 0x6,     0x10019, 0x3},
      // copy
      {0x14454,    0x1c,    0xa, 0x0, 0x10303, 0x0,     0x1, 0x3, 0x1, 0x0,
       0x2,        0x30004, 0x2, 0x0, 0x2,     0xc000a, 0x2, 0x3, 0x0, 0xfffffff8,
       0xffffffff, 0x2,     0x0, 0x4, 0x0,     0x2,     0x0, 0x6},
      // kernel, compressed
      {0x14454, 0x16, 0xb,  0x0,     0x10404, 0x0,  0x1,  0x1, 0x1, 0x0,     0x3,
       0x20000, 0x0,  0x80, 0x50005, 0x10,    0x20, 0x40, 0x2, 0x1, 0x1000d, 0x190}};
  return words;
}

TEST(Encoding, Version1BytesAsBefore) {
  const EngineKind engines[] = {EngineKind::kNeural, EngineKind::kPlanar, EngineKind::kLoad,
                                EngineKind::kStore, EngineKind::kKernel};
  for (std::size_t kind = 0; kind < version_1_words().size(); ++kind) {
    const auto bytes = std::as_bytes(std::span(version_1_words()[kind]));
    std::size_t consumed = 0;
    const auto task = decode(bytes, consumed);
    ASSERT_TRUE(task.ok()) << task.error().message;
    EXPECT_EQ(consumed, bytes.size());
    EXPECT_EQ(descriptor_version(bytes), 1u);
    EXPECT_EQ(task->id, 7 + kind);
    EXPECT_EQ(task->engine, engines[kind]);
    EXPECT_EQ(task->config.index(), kind);
    EXPECT_EQ(task->header, TaskHeader{});
    EXPECT_EQ(encode(*task), std::vector(bytes.begin(), bytes.end())) << kind;
  }
  std::size_t consumed = 0;
  const auto neural = decode(encode(sample_neural()), consumed);
  const auto stored = decode(std::as_bytes(std::span(version_1_words()[0])), consumed);
  auto sample = std::get<NeuralTask>(neural->config);
  sample.stationary_channel_first = 2;
  EXPECT_EQ(to_registers(std::get<NeuralTask>(stored->config)), to_registers(sample));
  EXPECT_EQ(stored->dependencies, neural->dependencies);
}

TaskDescriptor with_header(const TaskHeader& header) {
  TaskDescriptor task = sample_neural();
  task.header = header;
  return task;
}

TEST(Encoding, ExtendedHeaderHasTheWordsUpToTheLastThatIsNotItsDefault) {
  const std::size_t plain = encode(sample_neural()).size();
  const struct {
    TaskHeader header;
    std::vector<std::uint32_t> words;  // from word 11 on
  } cases[] = {
      {{.engines = {2, 3}, .sharing = Sharing::kUnicast}, {1, 0x20302}},
      {{.traps = Traps::kNan | Traps::kSaturation, .debug = TaskDebug::kStop, .tag = 0xBEEF},
       {2, 0, 0xBEEF0209}},
      {{.surfaces = {.output = 9}}, {3, 0, 0, 0x0009FFFF}},
      {{.bases = {.source = 2}}, {4, 0, 0, 0xFFFFFFFF, 0xFF02}},
      {{.bases = {.source = 0, .destination = 3}}, {4, 0, 0, 0xFFFFFFFF, 0x0300}},
      {{.memories = {.source = 2}}, {4, 0, 0, 0xFFFFFFFF, 0x3FFFF}},
      {{.memories = {.destination = 0}}, {4, 0, 0, 0xFFFFFFFF, 0x100FFFF}},
      {{.share = {.number = 5, .cores = 3}}, {6, 0, 0, 0xFFFFFFFF, 0xFFFF, 5, 3}},
      {{.share = {.number = 5, .cores = std::uint64_t{1} << 63 | 1}},
       {7, 0, 0, 0xFFFFFFFF, 0xFFFF, 5, 1, 1u << 31}},
  };
  for (const auto& one : cases) {
    const auto bytes = encode(with_header(one.header));
    ASSERT_EQ(bytes.size(), plain + 4 * one.words.size());
    EXPECT_EQ(descriptor_version(bytes), 2u);
    std::vector<std::uint32_t> words(bytes.size() / 4);
    std::memcpy(words.data(), bytes.data(), bytes.size());
    EXPECT_EQ(words[4], 0x30000u);
    EXPECT_TRUE(std::equal(one.words.begin(), one.words.end(), words.begin() + 11));
    std::size_t consumed = 0;
    const auto back = decode(bytes, consumed);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(consumed, bytes.size());
    EXPECT_EQ(back->header, one.header);
    EXPECT_EQ(back->dependencies, sample_neural().dependencies);
    EXPECT_EQ(encode(*back), bytes);
  }
}

TEST(Encoding, ExtendedHeaderOfDefaultsIsReadAndWrittenAsVersion1) {
  auto bytes = encode(with_header({.tag = 1}));
  std::size_t consumed = 0;
  const std::uint32_t no_tag = 0;
  std::memcpy(bytes.data() + 13 * 4, &no_tag, 4);
  const auto task = decode(bytes, consumed);
  ASSERT_TRUE(task.ok()) << task.error().message;
  EXPECT_EQ(encode(*task), encode(sample_neural()));
}

TEST(Encoding, DependenciesOnOtherCoresComeBack) {
  for (const bool extended : {false, true}) {
    TaskDescriptor task = extended ? with_header({.bases = {.source = 1}}) : sample_neural();
    task.remote = {{3, {7, 2, 5, -4}}, {65535, {9, 0, 1, std::int64_t{1} << 40}}};
    const auto bytes = encode(task);
    EXPECT_EQ(descriptor_version(bytes), 2u);
    std::size_t consumed = 0;
    const auto back = decode(bytes, consumed);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(consumed, bytes.size());
    EXPECT_EQ(back->remote, task.remote);
    EXPECT_EQ(back->dependencies, task.dependencies);
    EXPECT_EQ(encode(*back), bytes);
  }
}

TEST(EncodingErrors, DependenciesOnOtherCoresAreChecked) {
  TaskDescriptor task = sample_neural();
  task.dependencies.clear();
  task.remote = {{3, {7, 2, 5, -4}}};
  const auto bytes = encode(task);
  const std::uint32_t word_4 = 1u << 18 | 1u << 16;
  EXPECT_EQ(decode_error(with_word(bytes, 11, 1 << 16)),
            "task descriptor: task 7: dependency 0 is on core 65536, allowed 0 to 65535");
  EXPECT_EQ(decode_error(with_word(bytes, 14, 0)),
            "task descriptor: task 7: dependency 0 has denominator 0, allowed 1..");
  EXPECT_EQ(decode_error(with_word(with_word(bytes, 9, 0), 4, word_4)),
            "task descriptor: task 7: bit 18 of word 4 is 1, and there is no dependency on another "
            "core");
  EXPECT_NE(decode_error(with_word(bytes, 9, 4097u << 16)).find("4097 on other cores"),
            std::string::npos);
}

TEST(EncodingErrors, ExtendedHeaderIsCheckedWordByWord) {
  const auto bytes = encode(with_header({.bases = {.source = 1}}));
  const struct {
    std::size_t index;
    std::uint32_t value;
    const char* error;
  } cases[] = {
      {0, 0x34454, "word 0 is 0x00034454, allowed 0x00014454 and 0x00024454"},
      {0, 0x14454,
       "task 7: bits 17 and 18 of word 4 are 1 and 0 in version 1; one of them is set in version 2 "
       "only"},
      {4, 0x10000,
       "task 7: bits 17 and 18 of word 4 are 0 and 0 in version 2; one of them is set in version 2 "
       "only"},
      {11, 0, "task 7: an extended header of 0 words, allowed 1..7"},
      {11, 8, "task 7: an extended header of 8 words, allowed 1..7"},
      {12, 0x40100, "task 7: word 12 is 0x00040100, of which bits 0x0003ffff are known"},
      {12, 0x30000, "task 7: sharing 3, allowed 0..2"},
      {12, 5, "task 7: engines from 5 on without their number, which is 0 for all, from 0 on"},
      {13, 0x10, "task 7: word 13 is 0x00000010, of which bits 0xffff030f are known"},
      {13, 0x400, "task 7: word 13 is 0x00000400, of which bits 0xffff030f are known"},
      {14, 0xFFFF0000 | 500, "task 7: a surface at register 500 of 112"},
      {15, 0x0401, "task 7: base index 4, allowed 0..3 or 255"},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(decode_error(with_word(bytes, one.index, one.value)),
              std::string("task descriptor: ") + one.error);
  }
}

TEST(EncodingErrors, EveryPrefixOfAnExtendedHeaderIsRefused) {
  const auto bytes = encode(with_header({.engines = {1, 2}, .bases = {.source = 1}}));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(decode_error({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)}), "")
        << size;
  }
}

TEST(EncodingErrors, UnknownEngineNamesTaskAndRange) {
  auto bytes = encode(sample_neural());
  EXPECT_EQ(decode_error(with_word(bytes, 4, 9)),
            "task descriptor: task 7: engine 9, allowed 0..6");
}

TEST(EncodingErrors, ZeroDenominatorNamesTheDependency) {
  auto bytes = encode(sample_neural());
  EXPECT_EQ(decode_error(with_word(bytes, 11 + 2, 0)),
            "task descriptor: task 7: dependency 0 has denominator 0, allowed 1..");
}

TEST(EncodingErrors, EveryPrefixIsRefused) {
  const auto bytes = encode(sample_neural());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(decode_error({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)}), "")
        << size;
  }
}

TEST(EncodingErrors, RandomBytesNeverCrash) {
  constexpr std::uint32_t kSeed = 20;
  std::mt19937 random(kSeed);
  const auto plain = encode(sample_neural());
  const auto extended = encode(with_header({.engines = {1, 2}, .tag = 3, .bases = {.source = 1}}));
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    auto damaged = round % 2 == 0 ? plain : extended;
    for (int i = 0; i < 3; ++i) damaged[random() % damaged.size()] = std::byte(random() & 0xFF);
    std::size_t consumed = 0;
    refused += decode(damaged, consumed).ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 1000) << "seed " << kSeed;
}

TEST(Dependencies, StepsNeededIsTheCeilingClampedToTheTask) {
  const Dependency halo{.task = 0, .numerator = 2, .denominator = 3, .offset = 1};
  EXPECT_EQ(steps_needed(halo, 1, 10), 1);    // 3/3
  EXPECT_EQ(steps_needed(halo, 2, 10), 2);    // 5/3
  EXPECT_EQ(steps_needed(halo, 20, 10), 10);  // clamped
  const Dependency late{.task = 0, .numerator = 1, .denominator = 1, .offset = -3};
  EXPECT_EQ(steps_needed(late, 1, 10), 0);
  EXPECT_EQ(steps_needed(late, 4, 10), 1);
}

}  // namespace
}  // namespace tessera::isa
