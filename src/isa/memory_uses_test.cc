#include "isa/memory_uses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "isa/registers.h"

namespace tessera::isa {
namespace {

// Collects the fields that are offsets into state buffer or kernel memory: 32 bits wide and called
// so. Offsets in DRAM have 64 bits.
struct OffsetFields {
  template <typename T>
  void operator()(const char* name, T& field) {
    if constexpr (std::is_same_v<T, std::uint32_t>) {
      if (std::string_view(name).ends_with("offset")) found.insert(&field);
    }
  }
  template <typename T>
  void group(const char*, T& fields) {
    visit_fields(*this, fields);
  }
  std::set<const std::uint32_t*> found;
};

template <typename Config>
void expect_every_offset(TaskDescriptor& task) {
  OffsetFields fields;
  visit_fields(fields, std::get<Config>(task.config));
  std::set<const std::uint32_t*> used;
  for (const MemoryUse& use : memory_uses(task, ChipConfig{})) {
    EXPECT_TRUE(used.insert(use.offset).second);
  }
  EXPECT_EQ(used, fields.found);
}

TEST(MemoryUses, NoOffsetOfARegisterFileIsForgotten) {
  TaskDescriptor task;
  NeuralTask neural;
  neural.product.image.rows = 128;
  neural.product.has_bias = neural.product.requantise = true;
  neural.zero_point_count = 1;
  task.config = neural;
  // The stationary operand lies in kernel memory or in the state buffer, never in both.
  OffsetFields fields;
  visit_fields(fields, std::get<NeuralTask>(task.config));
  std::set<const std::uint32_t*> used;
  for (const bool dynamic : {false, true}) {
    std::get<NeuralTask>(task.config).dynamic = dynamic;
    for (const MemoryUse& use : memory_uses(task, ChipConfig{})) used.insert(use.offset);
  }
  EXPECT_EQ(used, fields.found);
  PlanarTask planar;
  planar.input_count = 3;
  planar.keeps = true;
  task.config = planar;
  expect_every_offset<PlanarTask>(task);
  task.config = TransferTask{};
  expect_every_offset<TransferTask>(task);
  task.config = KernelTask{};
  expect_every_offset<KernelTask>(task);
  task.config = CopyTask{};
  EXPECT_TRUE(memory_uses(task, ChipConfig{}).empty());
  // A message brings vectors to the state buffer, or a matrix to kernel memory.
  task.config = MessageTask{};
  auto& message = std::get<MessageTask>(task.config);
  OffsetFields of_message;
  visit_fields(of_message, message);
  used.clear();
  for (const MessageKind kind : {MessageKind::kVector, MessageKind::kMatrix}) {
    message.kind = kind;
    for (const MemoryUse& use : memory_uses(task, ChipConfig{})) used.insert(use.offset);
  }
  EXPECT_EQ(used, of_message.found);
}

TEST(MemoryUses, FieldsThatMeanNothingAreNotMoved) {
  TaskDescriptor task;
  PlanarTask planar;
  planar.inputs[1].offset = planar.accumulator_offset = 7;
  task.config = planar;
  for (const MemoryUse& use : memory_uses(task, ChipConfig{})) *use.offset += 64;
  const auto& moved = std::get<PlanarTask>(task.config);
  EXPECT_EQ(moved.inputs[0].offset, 64u);
  EXPECT_EQ(moved.output.offset, 64u);
  EXPECT_EQ(moved.inputs[1].offset, 7u);
  EXPECT_EQ(moved.accumulator_offset, 7u);
}

TEST(MemoryUses, NeedIsTheLastByteOfAllTasks) {
  TransferTask transfer;
  transfer.buffer.offset = 1000;
  transfer.buffer.columns = 10;
  transfer.buffer.column_pitch = 2;  // 1000 + 9 * 2 + 2
  KernelTask kernel;
  kernel.kernel_offset = 64;
  kernel.bytes_per_partition = 100;
  std::vector<TaskDescriptor> tasks(2);
  tasks[0].config = transfer;
  tasks[1].config = kernel;
  const MemoryNeed need = memory_need(tasks, ChipConfig{});
  EXPECT_EQ(need.state_buffer, 1020);
  EXPECT_EQ(need.kernel_memory, 164);
}

}  // namespace
}  // namespace tessera::isa
