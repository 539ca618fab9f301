// A device that has warmed up takes no memory from the heap: every call of operator new is counted.
#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include "device/scripted_device.h"

namespace {

std::atomic<std::int64_t> g_allocations{0};

struct OwnAllocations {
  static bool fails() { return false; }
  static void made(void* /*block*/) { ++g_allocations; }
  static void gone(void* /*block*/) {}
};

}  // namespace

#include "base/testing/own_allocations.h"

namespace tessera::device {
namespace {

// Blocks, transfers, submissions, several in flight on two kernels, completions.
void round_of_runs(Device& device, LoadedId loaded) {
  std::array<std::byte, 96> bytes{};
  std::array<MemoryBlock, 6> inputs, outputs;
  std::array<SequenceNumber, 6> sequences;
  for (std::size_t i = 0; i < 6; ++i) {
    inputs[i] = *device.allocate(Bytes{96});
    outputs[i] = *device.allocate(Bytes{96});
    ASSERT_TRUE(device.write(inputs[i].base, bytes).ok());
    sequences[i] = *device.submit({.loaded = loaded,
                                   .kernel = static_cast<int>(i % 2),
                                   .inputs = std::span(&inputs[i].base, 1),
                                   .outputs = std::span(&outputs[i].base, 1),
                                   .tag = i});
  }
  for (std::size_t i = 0; i < 6; ++i) {
    ASSERT_TRUE(device.wait(sequences[i])->status.ok());
    ASSERT_TRUE(device.read(outputs[i].base, bytes).ok());
    ASSERT_TRUE(device.release(inputs[i]).ok());
    ASSERT_TRUE(device.release(outputs[i]).ok());
  }
}

TEST(DeviceAllocation, AThousandRoundsAfterTheFirstFewTakeNothingFromTheHeap) {
  const auto device = make_scripted_device({.kernels = 2}).value();
  const std::array<std::int64_t, 1> bytes = {96};
  const LoadedId loaded = *device->load(scripted_network("echo", bytes, bytes));
  for (int i = 0; i < 20; ++i) round_of_runs(*device, loaded);
  const std::int64_t before = g_allocations;
  for (int i = 0; i < 1000; ++i) round_of_runs(*device, loaded);
  EXPECT_EQ(g_allocations - before, 0);
  EXPECT_EQ(device->counters().completions, 1020 * 6);
}

}  // namespace
}  // namespace tessera::device
