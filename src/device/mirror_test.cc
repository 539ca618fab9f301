#include "device/mirror.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "device/scripted_device.h"
#include "device/testing/forwarding_device.h"

namespace tessera::device {
namespace {

constexpr std::int64_t kBytes = 64;

// Adds 1 to every byte.
std::unique_ptr<Device> adding_device(bool shared_memory) {
  ScriptedOptions options;
  options.shared_memory = shared_memory;
  options.compute = [](const ActivityObserver::Run&, std::span<const std::span<std::byte>> inputs,
                       std::span<const std::span<std::byte>> outputs) -> Status {
    for (std::size_t i = 0; i < inputs[0].size(); ++i) {
      outputs[0][i] = static_cast<std::byte>(static_cast<int>(inputs[0][i]) + 1);
    }
    return {};
  };
  return make_scripted_device(options).value();
}

LoadedId load_layer(Device& device) {
  const std::array<std::int64_t, 1> bytes = {kBytes};
  return *device.load(scripted_network("add", bytes, bytes));
}

// A layer run without knowledge of what is where: everything is made current before and after.
void run_layer(Device& device, Mirror& mirror, LoadedId layer, std::span<const std::byte> input,
               std::span<const std::byte> output) {
  ASSERT_TRUE(mirror.to_device(input).ok());
  const std::array inputs = {*mirror.translate(input.data())};
  const std::array outputs = {*mirror.translate(output.data())};
  const auto sequence = *device.submit({.loaded = layer, .inputs = inputs, .outputs = outputs});
  ASSERT_TRUE(device.wait(sequence)->status.ok());
  ASSERT_TRUE(mirror.ran(output).ok());
}

TEST(Mirror, ChainOfFourLayersMovesTheFirstInputAndTheLastOutputAndNothingTwice) {
  const auto device = adding_device(false);
  const LoadedId layer = load_layer(*device);
  Mirror mirror(*device);
  const std::array<Bytes, 5> parts = {Bytes{kBytes}, Bytes{kBytes}, Bytes{kBytes}, Bytes{kBytes},
                                      Bytes{kBytes}};
  const MirroredBlock block = *mirror.allocate(parts);
  const auto tensor = [&](std::size_t i) { return block.host.subspan(i * kBytes, kBytes); };
  std::fill(tensor(0).begin(), tensor(0).end(), std::byte{10});
  ASSERT_TRUE(mirror.wrote(tensor(0)).ok());
  for (int run = 0; run < 3; ++run) {  // the image is there already after the first
    for (std::size_t i = 0; i < 4; ++i) {
      run_layer(*device, mirror, layer, tensor(i), tensor(i + 1));
    }
    ASSERT_TRUE(mirror.to_host(tensor(4)).ok());
    EXPECT_EQ(tensor(4)[5], std::byte{14});
    EXPECT_EQ(device->counters().bytes_to_device, kBytes);
    EXPECT_EQ(device->counters().bytes_to_host, (run + 1) * kBytes);
  }
  EXPECT_EQ(tensor(2)[5], std::byte{0});  // stayed on the device
  ASSERT_TRUE(mirror.to_host(tensor(2)).ok());
  EXPECT_EQ(tensor(2)[5], std::byte{12});
}

TEST(Mirror, ChangedBytesOfAnImageGoOverAloneWhereverItsBlockLies) {
  const auto device = adding_device(false);
  Mirror mirror(*device);
  const std::array<Bytes, 3> parts = {Bytes{100}, Bytes{200}, Bytes{300}};
  const MirroredBlock block = *mirror.allocate(parts);
  ASSERT_TRUE(mirror.wrote(block.host).ok());
  ASSERT_TRUE(mirror.to_device(block.host).ok());
  EXPECT_EQ(device->counters().transfers_to_device, 3);  // three blocks
  block.host[120] = std::byte{5};
  ASSERT_TRUE(mirror.wrote(block.host.subspan(120, 1)).ok());
  ASSERT_TRUE(mirror.to_device(block.host).ok());
  EXPECT_EQ(device->counters().bytes_to_device, 601);
  std::array<std::byte, 1> there{};
  ASSERT_TRUE(device->read(block.parts[1].base + Bytes{20}, there).ok());
  EXPECT_EQ(there[0], std::byte{5});
  ASSERT_TRUE(mirror.release(block).ok());
  EXPECT_EQ(device->counters().memory.used.value, 0);
  EXPECT_FALSE(mirror.to_device(block.host).ok());
}

// A device whose writes wait to be let through.
class SlowLink : public testing::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  Status write(Address address, std::span<const std::byte> bytes, const TransferTag& tag) override {
    began = true;
    began.notify_all();
    let_through.wait(false);
    const Status written = inner_->write(address, bytes, tag);
    arrived = true;
    return written;
  }
  std::atomic<bool> began{false}, let_through{false}, arrived{false};
};

// Weights, say, that two tasks need at once.
TEST(Mirror, WhoIsToldThatBytesAreThereFindsThemThoughAnotherThreadBringsThem) {
  SlowLink device(adding_device(false));
  Mirror mirror(device);
  const std::array parts = {Bytes{kBytes}};
  const MirroredBlock block = *mirror.allocate(parts);
  ASSERT_TRUE(mirror.wrote(block.host).ok());
  std::thread first([&] { EXPECT_TRUE(mirror.to_device(block.host).ok()); });
  device.began.wait(false);
  std::thread second([&] {
    EXPECT_TRUE(mirror.to_device(block.host).ok());
    EXPECT_TRUE(device.arrived);
  });
  std::thread link([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    device.let_through = true;
    device.let_through.notify_all();
  });
  first.join();
  second.join();
  link.join();
  EXPECT_EQ(device.counters().transfers_to_device, 1);
}

TEST(Mirror, SharedMemoryMovesNothing) {
  const auto device = adding_device(true);
  const LoadedId layer = load_layer(*device);
  {
    Mirror mirror(*device);
    const std::array<Bytes, 2> parts = {Bytes{kBytes}, Bytes{kBytes}};
    const MirroredBlock block = *mirror.allocate(parts);
    std::fill(block.host.begin(), block.host.end(), std::byte{10});
    const auto output = block.host.subspan(kBytes);
    run_layer(*device, mirror, layer, block.host.first(kBytes), output);
    ASSERT_TRUE(mirror.to_host(output).ok());
    EXPECT_EQ(output[5], std::byte{11});
    EXPECT_EQ(device->counters().bytes_to_device + device->counters().bytes_to_host, 0);
  }
  EXPECT_EQ(device->counters().memory.used.value, 0);
}

TEST(Mirror, BytesThatAreNotMirroredAreNamed) {
  const auto device = adding_device(false);
  Mirror mirror(*device);
  const std::array<std::byte, 4> stack{};
  EXPECT_EQ(mirror.to_device(stack).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace tessera::device
