// encode() and decode() are inverse, and every byte of an untrusted descriptor is checked.
#include "isa/encoding.h"

#include <gtest/gtest.h>

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

TEST(Encoding, DefaultsCostNoRegisterWrites) {
  TaskDescriptor task;
  task.config = PlanarTask{};
  EXPECT_EQ(encode(task).size(), 11u * 4);
}

TEST(EncodingErrors, UnknownEngineNamesTaskAndRange) {
  auto bytes = encode(sample_neural());
  EXPECT_EQ(decode_error(with_word(bytes, 4, 9)),
            "task descriptor: task 7: engine 9, allowed 0..4");
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
  const auto bytes = encode(sample_neural());
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    auto damaged = bytes;
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
