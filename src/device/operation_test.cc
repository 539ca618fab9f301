// The four functions of a simple accelerator, against the network they make together.
#include "device/operation.h"

#include <gtest/gtest.h>

#include <array>

#include "arch/architecture_file.h"
#include "compile/testing/random_graph.h"
#include "device/make_device.h"

namespace tessera::device {
namespace {

using compile::testing::GraphBuilder;
using graph::TensorId;

constexpr ImageSize kImage{9, 8, 20};
constexpr Window kConvWindow{3, 2, 1}, kPoolWindow{2, 1, 0};
constexpr std::int64_t kOutputChannels = 24;

ChipConfig test_chip() { return *load_chip_config("tessera128"); }

std::unique_ptr<Device> open(DeviceKind kind, const ChipConfig& chip) {
  DeviceConfig options;
  options.kind = kind;
  options.chip = chip;
  options.threads = 1;
  return make_device(options).value();
}

using Values = std::vector<std::uint16_t>;  // bits of f16

Values random_values(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Values values(static_cast<std::size_t>(count));
  for (std::uint16_t& bits : values) {
    const auto value = random();
    bits = static_cast<std::uint16_t>((value & 0x83FF) | ((value >> 20) % 5 + 12) << 10);
  }
  return values;
}

// [a][b] to [b][a].
Values exchanged(const Values& values, std::size_t a, std::size_t b) {
  Values result(values.size());
  for (std::size_t i = 0; i < a; ++i) {
    for (std::size_t j = 0; j < b; ++j) result[j * a + i] = values[i * b + j];
  }
  return result;
}

MemoryBlock put(Device& device, const Values& values) {
  const auto bytes = std::as_bytes(std::span(values));
  const MemoryBlock block = *device.allocate(Bytes{std::ssize(bytes)});
  EXPECT_TRUE(device.write(block.base, bytes).ok());
  return block;
}

Values get(Device& device, Address address, std::int64_t count) {
  Values values(static_cast<std::size_t>(count));
  EXPECT_TRUE(device.read(address, std::as_writable_bytes(std::span(values))).ok());
  return values;
}

// A convolution without bias, ReLU, maximum pooling; weights as [OC, IC, 3, 3].
std::shared_ptr<const NetworkState> fused_network(const ChipConfig& chip, const ImageSize& image,
                                                  BlockCut cut, Values& weights) {
  GraphBuilder builder(5);
  const TensorId x = builder.input({1, image.channels, image.rows, image.columns});
  TensorId y = builder.conv(x, {.output_channels = kOutputChannels,
                                .kernel = kConvWindow.size,
                                .stride = kConvWindow.stride,
                                .pad = kConvWindow.pad});
  graph::Node& conv = builder.graph().nodes.back();
  conv.inputs.pop_back();  // the bias
  conv.as<graph::ConvAttributes>().cut = cut;
  const auto constant = builder.graph().tensor(conv.inputs[1]).constant->as<std::uint16_t>();
  weights.assign(constant.begin(), constant.end());
  y = builder.pool(y, PoolFunction::kMaximum, kPoolWindow.size, kPoolWindow.stride, 0);
  builder.output(y);
  return network::network_from_graph(builder.take(), chip, {})->share();
}

// The network's result as a matrix, a row for each pixel.
Values run_fused(Device& device, const std::shared_ptr<const NetworkState>& network,
                 const Values& image, const ImageSize& size) {
  const auto pixels = static_cast<std::size_t>(size.pixels());
  const auto channels = static_cast<std::size_t>(size.channels);
  const MemoryBlock input = put(device, exchanged(image, pixels, channels));
  const std::int64_t count = element_count(network->outputs[0].dims);
  const MemoryBlock output = *device.allocate(Bytes{count * 2});
  const auto loaded = device.load(network);
  EXPECT_TRUE(loaded.ok()) << loaded.error().message;
  const auto sequence = *device.submit({.loaded = *loaded,
                                        .inputs = std::span(&input.base, 1),
                                        .outputs = std::span(&output.base, 1)});
  EXPECT_TRUE(device.wait(sequence)->status.ok());
  return exchanged(get(device, output.base, count), kOutputChannels,
                   static_cast<std::size_t>(count / kOutputChannels));
}

// Four tasks, each on the last one's result; weights behind 64 bytes of others in their region.
Values run_chain(Device& device, OperationSet& operations, const Values& image,
                 const ImageSize& size, const Values& weights) {
  const ImageSize positions = window_positions(size, kConvWindow);
  const ImageSize convolved{positions.rows, positions.columns, kOutputChannels};
  const std::int64_t inner = kConvWindow.size * kConvWindow.size * size.channels;
  const std::array<Operation, 4> chain = {
      Im2col{size, kConvWindow}, MatrixProduct{positions.pixels(), inner, kOutputChannels},
      Relu{positions.pixels(), kOutputChannels}, MaximumPool{convolved, kPoolWindow}};
  Values region(32, 0x7E00);  // NaN: must not be read
  region.insert(region.end(), weights.begin(), weights.end());
  const MemoryBlock held = put(device, region);
  Address at = put(device, image).base;
  std::vector<SequenceNumber> sequences;
  for (const Operation& operation : chain) {
    const MemoryBlock output = *device.allocate(Bytes{element_count(output_dims(operation)) * 2});
    const auto sequence = operations.submit({.operation = operation,
                                             .input = at,
                                             .output = output.base,
                                             .weights = held.base,
                                             .weight_offset = Bytes{64},
                                             .kernel = 0});
    EXPECT_TRUE(sequence.ok()) << sequence.error().message;
    sequences.push_back(*sequence);
    at = output.base;
  }
  for (const SequenceNumber sequence : sequences) {
    const auto completion = device.wait(sequence);
    EXPECT_TRUE(completion.ok() && completion->status.ok());
  }
  return get(device, at, element_count(output_dims(chain[3])));
}

// [OC, IC, taps] to [taps, IC, OC].
Values as_matrix(const Values& weights, std::int64_t channels) {
  const auto inputs = static_cast<std::size_t>(channels);
  const auto taps = static_cast<std::size_t>(kConvWindow.size * kConvWindow.size);
  Values result(weights.size());
  for (std::size_t o = 0; o < kOutputChannels; ++o) {
    for (std::size_t i = 0; i < inputs; ++i) {
      for (std::size_t t = 0; t < taps; ++t) {
        result[(t * inputs + i) * kOutputChannels + o] = weights[(o * inputs + i) * taps + t];
      }
    }
  }
  return result;
}

struct Both {
  Values chain, fused;
};
Both run_both(DeviceKind kind, const ImageSize& size, BlockCut cut) {
  const ChipConfig chip = test_chip();
  Values weights;
  const auto network = fused_network(chip, size, cut, weights);
  const Values image = random_values(size.pixels() * size.channels, 17);
  const auto device = open(kind, chip);
  OperationSet operations(*device, chip);
  return {run_chain(*device, operations, image, size, as_matrix(weights, size.channels)),
          run_fused(*device, network, image, size)};
}

TEST(Operation, ChainEqualsTheFusedConvolutionWhoseBlocksRunAlongTapsAndChannels) {
  const Both sim = run_both(DeviceKind::kSim, kImage, BlockCut::kIm2col);
  EXPECT_EQ(sim.chain, sim.fused);
  const Both host = run_both(DeviceKind::kHost, kImage, BlockCut::kIm2col);
  EXPECT_EQ(host.chain, host.fused);
  EXPECT_EQ(host.chain, sim.chain);
  EXPECT_EQ(run_both(DeviceKind::kRef, kImage, BlockCut::kIm2col).chain, sim.chain);
}

TEST(Operation, ChainEqualsTheConvolutionCutByChannelsWhereBlocksAreWhole) {
  const Both whole = run_both(DeviceKind::kHost, {4, 4, 128}, BlockCut::kChannel);
  EXPECT_EQ(whole.chain, whole.fused);
  // A block of the convolution ends with its 20 channels, one of the product goes on to the next
  // taps: other exponents, other last bits.
  const Both cut = run_both(DeviceKind::kHost, kImage, BlockCut::kChannel);
  EXPECT_NE(cut.chain, cut.fused);
}

TEST(Operation, EachSizeIsCompiledOnceAndWeightsAreNamedByTheirOffset) {
  const ChipConfig chip = test_chip();
  const auto device = open(DeviceKind::kSim, chip);
  OperationSet operations(*device, chip);
  const Values region = random_values(2 * 6 * 5, 1);
  const MemoryBlock weights = put(*device, region);
  const MemoryBlock input = put(*device, random_values(4 * 6, 2));
  const std::int64_t moved = device->counters().bytes_to_device;
  std::vector<Values> results;
  for (int i = 0; i < 6; ++i) {
    const MemoryBlock output = *device->allocate(Bytes{4 * 5 * 2});
    const auto sequence = operations.submit({.operation = MatrixProduct{4, 6, 5},
                                             .input = input.base,
                                             .output = output.base,
                                             .weights = weights.base,
                                             .weight_offset = Bytes{(i % 2) * 60}});
    ASSERT_TRUE(device->wait(*sequence)->status.ok());
    results.push_back(get(*device, output.base, 20));
  }
  EXPECT_EQ(operations.compiled(), 1u);
  EXPECT_EQ(device->counters().bytes_to_device, moved);
  EXPECT_EQ(results[0], results[2]);
  EXPECT_EQ(results[1], results[5]);
  EXPECT_NE(results[0], results[1]);
}

TEST(Operation, SizesThatDoNotFitTogetherAreRefused) {
  const ChipConfig chip = test_chip();
  const auto device = open(DeviceKind::kHost, chip);
  OperationSet operations(*device, chip);
  EXPECT_EQ(
      operations.prepare(Im2col{{2, 8, 3}, {3, 1, 0}}).error().to_string(),
      "operation 'im2col': sizes that do not fit; allowed: a window no larger than the padded "
      "image   [invalid argument]");
  EXPECT_EQ(operations.prepare(MaximumPool{{2, 8, 3}, {2, 1, 2}}).error().message,
            "operation 'maximum pool': sizes that do not fit; allowed: sizes and stride from 1 on, "
            "windows up to 255, padding from 0 to less than the window");
  EXPECT_EQ(operations.prepare(Im2col{{1 << 20, 1 << 20, 1 << 20}, {255, 1, 0}}).error().message,
            "operation 'im2col': sizes that do not fit; allowed: tensors of at most 2147483648 "
            "elements");
  // A result of one pixel, of an unknown image.
  EXPECT_EQ(operations.prepare(Im2col{{1 << 20, 1 << 20, 8}, {1, 1 << 20, 0}}).error().message,
            "operation 'im2col': sizes that do not fit; allowed: tensors of at most 2147483648 "
            "elements");
  EXPECT_EQ(operations.prepare(MatrixProduct{0, 1, 1}).error().message,
            "operation 'matrix product': sizes that do not fit; allowed: sizes from 1 to 1048576");
}

}  // namespace
}  // namespace tessera::device
