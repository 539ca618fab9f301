#include "isa/verify_networks.h"

#include <gtest/gtest.h>

#include "isa/encoding.h"

namespace tessera::isa {
namespace {

constexpr std::uint32_t kNetworkValues = 16;

// A load and a store of 16 values through the state buffer at `offset`.
Program copy_through(std::uint32_t offset, std::optional<CoreRegion> region) {
  Program program;
  TransferTask transfer;
  transfer.dram.address = {BaseIndex::kInput, 0};
  transfer.dram.strides = {0, 0, 0, 2};
  transfer.buffer.offset = offset;
  transfer.buffer.columns = kNetworkValues;
  transfer.buffer.row_pitch = kNetworkValues * 2;
  transfer.buffer.column_pitch = 2;
  transfer.channel_count = 1;
  program.tasks.resize(2);
  program.tasks[0].engine = EngineKind::kLoad;
  program.tasks[0].config = transfer;
  transfer.dram.address.base = BaseIndex::kOutput;
  program.tasks[1].id = 1;
  program.tasks[1].engine = EngineKind::kStore;
  program.tasks[1].config = transfer;
  program.tasks[1].dependencies = {{0, 0, 1, 1}};
  program.segments = {{.task_first = 0, .task_last = 2, .host_steps = {}}};
  program.input_bytes = program.output_bytes = kNetworkValues * 2;
  program.inputs = {{"x", 0, Format::kF16, {kNetworkValues}, {BaseIndex::kInput, 0}}};
  program.region = region;
  return program;
}

CoreRegion region(std::int64_t first, std::int64_t bytes) {
  return {.state_buffer = {first, bytes}, .kernel_memory = {first, bytes}};
}

std::string verdict(const Program& a, const Program& b, const ChipConfig& chip = {}) {
  const Program* const programs[] = {&a, &b};
  const Status status = verify_networks(programs, chip);
  return status.ok() ? "" : status.error().message;
}

TEST(VerifyNetworks, ProgramsInRegionsThatAreApartAreAccepted) {
  EXPECT_EQ(verdict(copy_through(0, region(0, 64)), copy_through(64, region(64, 64))), "");
}

TEST(VerifyNetworks, RegionsThatShareBytesAreRefused) {
  EXPECT_EQ(verdict(copy_through(0, region(0, 128)), copy_through(64, region(64, 64))),
            "networks 0 and 1 share bytes of the state buffer: [0, 128) and [64, 128)");
}

TEST(VerifyNetworks, AProgramForTheWholeMemoriesIsRefused) {
  EXPECT_EQ(verdict(copy_through(0, region(0, 64)), copy_through(64, {})),
            "network 1 has no region: it was linked for the whole memories, which 2 networks "
            "share; link it for a region");
}

TEST(VerifyNetworks, ATaskOutsideItsRegionIsNamed) {
  EXPECT_EQ(verdict(copy_through(0, region(0, 64)), copy_through(96, region(64, 32))),
            "network 1: task 0 (load, layer '?'): the buffer surface takes bytes [96, 128) of a "
            "state buffer partition, the network's region is [64, 96)");
}

TEST(VerifyNetworks, ADependencyOnALaterTaskIsRefused) {
  Program forward = copy_through(64, region(64, 64));
  // A second store, which the first one waits for.
  forward.tasks.push_back(forward.tasks[1]);
  forward.tasks[2].id = 2;
  forward.tasks[2].engine = EngineKind::kLoad;
  std::get<TransferTask>(forward.tasks[2].config).dram.address.base = BaseIndex::kInput;
  forward.tasks[2].dependencies = {{0, 0, 1, 1}};
  forward.tasks[1].dependencies = {{2, 0, 1, 1}};
  forward.segments[0].task_last = 3;
  EXPECT_EQ(verdict(copy_through(0, region(0, 64)), forward),
            "network 1: task 1 depends on task 2, which comes later; a network that shares a core "
            "depends on earlier tasks only");
}

TEST(VerifyNetworks, GuaranteedEntriesThatAreNotThereAreRefused) {
  ChipConfig chip;
  chip.task_manager.task_buffer_entries = 7;
  chip.task_manager.guaranteed_entries = 4;
  EXPECT_EQ(verdict(copy_through(0, region(0, 64)), copy_through(64, region(64, 64)), chip),
            "2 networks with 4 guaranteed entries each, the task buffer has 7");
  chip.task_manager.queues = 1;
  EXPECT_EQ(verdict(copy_through(0, region(0, 64)), copy_through(64, region(64, 64)), chip),
            "2 networks, the task manager has 1 queues");
}

TEST(VerifyNetworks, ARegionOutsideTheMemoryOrOffItsAlignmentIsRefused) {
  EXPECT_EQ(verdict(copy_through(0, region(0, 64)), copy_through(64, region(64, 1 << 20))),
            "network 1: a region of 1048576 bytes at 64 of a state buffer partition, which has "
            "196608");
  EXPECT_EQ(verdict(copy_through(0, region(0, 64)), copy_through(72, region(72, 64))),
            "network 1: a region that begins at byte 72 of a state buffer partition, allowed are "
            "multiples of 64");
}

}  // namespace
}  // namespace tessera::isa
