// Operands in the header are those of the configuration, or the descriptor is refused.
#include "isa/header_operands.h"

#include <gtest/gtest.h>

#include "isa/encoding.h"

namespace tessera::isa {
namespace {

TaskDescriptor plain_task(EngineKind engine, TaskConfig config) {
  TaskDescriptor task;
  task.engine = engine;
  task.config = std::move(config);
  return task;
}

HeaderOperands operands(std::uint16_t input, std::uint16_t output, std::uint8_t source,
                        std::uint8_t destination) {
  return {{input, output}, {source, destination}};
}

constexpr std::uint16_t kNoSurface = SurfaceRegisters::kImplied;
constexpr std::uint8_t kNoBase = HeaderBases::kImplied;

// A planar task has in front of its inputs the mode, 28 registers of a pooling, 14 of element-wise
// work and 12 of a reduction, and two inputs of 13 in front of its output; a product 50 in front of
// its moving surface, and 13 of that and a channel in front of its output; a transfer 11 in front of
// its buffer: base, offset and four strides.
TEST(HeaderOperands, AreWhereTheConfigurationHasThem) {
  TransferTask transfer;
  transfer.dram.address.base = BaseIndex::kInput;
  CopyTask copy;
  copy.extents = copy.source_strides = copy.destination_strides = {1};
  copy.source.base = BaseIndex::kWeights;
  copy.destination.base = BaseIndex::kOutput;
  KernelTask kernel;
  kernel.source.base = BaseIndex::kWeights;
  EXPECT_EQ(configured_operands(plain_task(EngineKind::kNeural, NeuralTask{})),
            operands(50, 64, kNoBase, kNoBase));
  EXPECT_EQ(configured_operands(plain_task(EngineKind::kPlanar, PlanarTask{})),
            operands(55, 81, kNoBase, kNoBase));
  EXPECT_EQ(configured_operands(plain_task(EngineKind::kLoad, transfer)),
            operands(kNoSurface, 11, 2, kNoBase));
  EXPECT_EQ(configured_operands(plain_task(EngineKind::kStore, transfer)),
            operands(11, kNoSurface, kNoBase, 2));
  EXPECT_EQ(configured_operands(plain_task(EngineKind::kStore, copy)),
            operands(kNoSurface, kNoSurface, 0, 3));
  copy.fill = true;
  EXPECT_EQ(configured_operands(plain_task(EngineKind::kStore, copy)),
            operands(kNoSurface, kNoSurface, kNoBase, 3));
  EXPECT_EQ(configured_operands(plain_task(EngineKind::kKernel, kernel)),
            operands(kNoSurface, kNoSurface, 0, kNoBase));
  // Behind kind, queue, address and strides.
  MessageTask message;
  message.transfer = transfer;
  EXPECT_EQ(configured_operands(plain_task(EngineKind::kMessageIn, message)),
            operands(kNoSurface, 13, 2, kNoBase));
  EXPECT_EQ(configured_operands(plain_task(EngineKind::kMessageOut, message)),
            operands(13, kNoSurface, kNoBase, 2));
  message.kind = MessageKind::kMatrix;
  EXPECT_EQ(configured_operands(plain_task(EngineKind::kMessageIn, message)),
            operands(kNoSurface, kNoSurface, 2, kNoBase));
}

TEST(HeaderOperands, NamedOnesComeBackAndPassTheCheck) {
  TaskDescriptor task = plain_task(EngineKind::kPlanar, PlanarTask{});
  EXPECT_TRUE(check_operands(task).ok());
  name_operands(task);
  EXPECT_TRUE(check_operands(task).ok());
  std::size_t consumed = 0;
  const auto back = decode(encode(task), consumed);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->header, task.header);
}

std::string refusal_of(const TaskDescriptor& task) {
  const Status status = check_operands(task);
  return status.ok() ? "" : status.error().message;
}

TEST(HeaderOperands, OthersAreRefusedByNumber) {
  TaskDescriptor planar = plain_task(EngineKind::kPlanar, PlanarTask{});
  planar.header.surfaces.input = 5;
  EXPECT_EQ(refusal_of(planar),
            "the header has the input surface at register 5, the configuration 55");
  planar.header = {.bases = {.destination = 1}};
  EXPECT_EQ(refusal_of(planar),
            "the header has the destination's base index 1, the configuration none");
  TransferTask transfer;
  transfer.dram.address.base = BaseIndex::kOutput;
  TaskDescriptor store = plain_task(EngineKind::kStore, transfer);
  store.header.surfaces.output = 11;
  EXPECT_EQ(refusal_of(store),
            "the header has the output surface at register 11, the configuration none");
  store.header = {.bases = {.destination = 2}};
  EXPECT_EQ(refusal_of(store),
            "the header has the destination's base index 2, the configuration 3");
}

}  // namespace
}  // namespace tessera::isa
