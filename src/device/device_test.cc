// The devices sim, host and ref: what is loaded, what is moved, which bits come out.
#include "device/device.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>

#include "arch/architecture_file.h"
#include "compile/testing/random_graph.h"
#include "device/make_device.h"

namespace tessera::device {
namespace {

using compile::testing::GraphBuilder;
using graph::TensorId;

// conv -> pool -> conv -> unary, on a small image.
std::shared_ptr<const NetworkState> four_layers(const ChipConfig& chip) {
  GraphBuilder builder(3);
  const TensorId x = builder.input({1, 5, 12, 12});
  TensorId y = builder.conv(x, {.output_channels = 12, .kernel = 3, .pad = 1});
  y = builder.pool(y, PoolFunction::kMaximum, 2, 2, 0);
  y = builder.conv(y, {.output_channels = 7, .kernel = 3, .stride = 2, .pad = 1});
  y = builder.unary(y, UnaryFunction::kTanh);
  builder.output(y);
  return network::network_from_graph(builder.take(), chip, {})->share();
}

ChipConfig test_chip() { return *load_chip_config("tessera128"); }

Bytes bytes_of(const graph::TensorInfo& info) {
  return Bytes{element_count(info.dims) * format_bytes(info.format)};
}

std::vector<std::byte> input_bytes(const NetworkState& network, unsigned seed) {
  const graph::TensorInfo& info = network.graph().tensor(network.graph().inputs[0]);
  Tensor tensor = Tensor::zeros(info.format, info.dims);
  unsigned state = seed * 2654435761u + 1;
  for (std::uint16_t& bits : tensor.as<std::uint16_t>()) {
    state = state * 1664525u + 1013904223u;
    bits = static_cast<std::uint16_t>((state >> 16 & 0x83FF) | (((state >> 8) % 5 + 12) << 10));
  }
  return tensor.bytes;
}

std::unique_ptr<Device> open(DeviceKind kind, const ChipConfig& chip, int kernels = 1,
                             Values values = Values::kSimulated) {
  DeviceConfig options;
  options.kind = kind;
  options.chip = chip;
  options.kernels = kernels;
  options.threads = kernels;
  options.values = values;
  return make_device(options).value();
}

// One input, one output, in blocks of their own.
struct Blocks {
  MemoryBlock input, output;
};
Blocks blocks_for(Device& device, const NetworkState& network) {
  const graph::Graph& graph = network.graph();
  return {*device.allocate(bytes_of(graph.tensor(graph.inputs[0]))),
          *device.allocate(bytes_of(graph.tensor(graph.outputs[0])))};
}

Completion run(Device& device, LoadedId loaded, const Blocks& blocks, int kernel = 0) {
  const std::array inputs = {blocks.input.base};
  const std::array outputs = {blocks.output.base};
  const auto sequence =
      device.submit({.loaded = loaded, .kernel = kernel, .inputs = inputs, .outputs = outputs});
  EXPECT_TRUE(sequence.ok()) << sequence.error().message;
  Completion completion = *device.wait(*sequence);
  EXPECT_TRUE(completion.status.ok()) << completion.status.error().message;
  return completion;
}

std::vector<std::byte> read_block(Device& device, const MemoryBlock& block) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(block.bytes.value));
  EXPECT_TRUE(device.read(block.base, bytes).ok());
  return bytes;
}

TEST(Device, SimHostAndRefGiveTheSameBitsOnEveryKernel) {
  const ChipConfig chip = test_chip();
  const auto network = four_layers(chip);
  const auto input = input_bytes(*network, 1);
  std::vector<std::vector<std::byte>> results;
  for (const DeviceKind kind : {DeviceKind::kSim, DeviceKind::kHost, DeviceKind::kRef}) {
    const auto device = open(kind, chip, 2);
    const LoadedId loaded = *device->load(network);
    for (int kernel = 0; kernel < 2; ++kernel) {
      const Blocks blocks = blocks_for(*device, *network);
      ASSERT_TRUE(device->write(blocks.input.base, input).ok());
      run(*device, loaded, blocks, kernel);
      results.push_back(read_block(*device, blocks.output));
    }
  }
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

TEST(Device, KernelsThatRunAtTheSameTimeOnSharedWeightsDoNotDisturbEachOther) {
  const ChipConfig chip = test_chip();
  const auto network = four_layers(chip);
  const auto ref = open(DeviceKind::kRef, chip);
  const LoadedId loaded_ref = *ref->load(network);
  const Blocks plain = blocks_for(*ref, *network);
  std::vector<std::vector<std::byte>> expected;
  for (unsigned seed = 0; seed < 12; ++seed) {
    ASSERT_TRUE(ref->write(plain.input.base, input_bytes(*network, seed)).ok());
    run(*ref, loaded_ref, plain);
    expected.push_back(read_block(*ref, plain.output));
  }
  for (const DeviceKind kind : {DeviceKind::kSim, DeviceKind::kHost}) {
    const auto device = open(kind, chip, 3);
    const LoadedId loaded = *device->load(network);
    std::vector<Blocks> blocks;
    std::vector<SequenceNumber> sequences;
    for (unsigned seed = 0; seed < 12; ++seed) {
      blocks.push_back(blocks_for(*device, *network));
      ASSERT_TRUE(device->write(blocks[seed].input.base, input_bytes(*network, seed)).ok());
      sequences.push_back(*device->submit({.loaded = loaded,
                                           .kernel = static_cast<int>(seed % 3),
                                           .inputs = std::span(&blocks[seed].input.base, 1),
                                           .outputs = std::span(&blocks[seed].output.base, 1)}));
    }
    for (unsigned seed = 0; seed < 12; ++seed) {
      ASSERT_TRUE(device->wait(sequences[seed])->status.ok());
      EXPECT_EQ(read_block(*device, blocks[seed].output), expected[seed]);
    }
  }
}

TEST(Device, WeightsGoOverOnceHoweverManyKernelsLoadsAndRunsThereAre) {
  const ChipConfig chip = test_chip();
  const auto network = four_layers(chip);
  const auto device = open(DeviceKind::kSim, chip, 3);
  const LoadedId loaded = *device->load(network);
  const auto weights = std::ssize(network->package.weights);
  ASSERT_GT(weights, 0);
  EXPECT_EQ(device->counters().bytes_to_device, weights);
  EXPECT_EQ(device->counters().transfers_to_device, 1);
  EXPECT_EQ(*device->load(network), loaded);
  const Blocks blocks = blocks_for(*device, *network);
  for (int i = 0; i < 6; ++i) run(*device, loaded, blocks, i % 3);
  EXPECT_EQ(device->counters().bytes_to_device, weights);
  EXPECT_EQ(device->counters().bytes_to_host, 0);
}

// Networks whose weights differ in size.
std::shared_ptr<const NetworkState> small_network(unsigned seed) {
  GraphBuilder builder(seed);
  const TensorId x = builder.input({1, 5, 6, 6});
  builder.output(builder.conv(x, {.output_channels = 4 + seed % 7, .kernel = 3, .pad = 1}));
  return network::network_from_graph(builder.take(), test_chip(), {})->share();
}

TEST(Device, AHundredNetworksInTurnFitWhereFewDoAtOnce) {
  DeviceConfig options;
  options.chip = test_chip();
  options.memory = Bytes{std::ssize(small_network(6)->package.weights) * 3};
  const auto device = make_device(options).value();
  const auto ref = open(DeviceKind::kRef, test_chip());
  std::int64_t sent = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    const auto network = small_network(seed);
    const auto loaded = device->load(network);
    ASSERT_TRUE(loaded.ok()) << seed << ": " << loaded.error().message;
    sent += std::ssize(network->package.weights);
    EXPECT_EQ(device->counters().weight_bytes, sent);
    if (seed % 25 == 7) {  // what is loaded there works
      std::vector<std::vector<std::byte>> results;
      for (Device* const one : {device.get(), ref.get()}) {
        const LoadedId id = *one->load(network);
        const Blocks blocks = blocks_for(*one, *network);
        ASSERT_TRUE(one->write(blocks.input.base, input_bytes(*network, seed)).ok());
        run(*one, id, blocks);
        results.push_back(read_block(*one, blocks.output));
        ASSERT_TRUE(one->release(blocks.input).ok());
        ASSERT_TRUE(one->release(blocks.output).ok());
        ASSERT_TRUE(one->unload(id).ok());
      }
      EXPECT_EQ(results[0], results[1]);
    }
    ASSERT_TRUE(device->unload(*loaded).ok());
    EXPECT_EQ(device->counters().memory.used.value, 0);
  }
  EXPECT_EQ(device->counters().programs_loaded, 100);
  EXPECT_EQ(device->counters().programs_unloaded, 100);
  EXPECT_GT(device->counters().memory.blocks_reused, 50);
}

TEST(Device, LayersAreUnloadedTogether) {
  const auto network = four_layers(test_chip());
  const auto device = open(DeviceKind::kSim, test_chip());
  const auto layers = *device->load_layers(network);
  EXPECT_EQ(device->load_layers(network)->front().id, layers.front().id);
  ASSERT_TRUE(device->unload(layers[2].id).ok());
  EXPECT_GT(device->counters().memory.used.value, 0);  // loaded twice
  ASSERT_TRUE(device->unload(layers[0].id).ok());
  EXPECT_EQ(device->counters().memory.used.value, 0);
  EXPECT_FALSE(device->unload(layers[1].id).ok());
}

TEST(Device, AThousandRunsMakeNoBlocksAfterTheFirst) {
  const ChipConfig chip = test_chip();
  const auto network = four_layers(chip);
  const auto device = open(DeviceKind::kHost, chip);
  const LoadedId loaded = *device->load(network);
  std::int64_t made = 0;
  for (int i = 0; i < 1000; ++i) {
    const Blocks blocks = blocks_for(*device, *network);
    run(*device, loaded, blocks);
    ASSERT_TRUE(device->release(blocks.input).ok());
    ASSERT_TRUE(device->release(blocks.output).ok());
    if (i == 0) made = device->counters().memory.blocks_made;
  }
  EXPECT_EQ(device->counters().memory.blocks_made, made);
  EXPECT_EQ(device->counters().memory.blocks_reused, 1998);
}

// Layer after layer on the device, values staying there.
class LayerChain {
 public:
  LayerChain(Device& device, const NetworkState& network, std::vector<LoadedLayer> layers)
      : device_(device), graph_(network.graph()), layers_(std::move(layers)) {
    for (const LoadedLayer& layer : layers_) {
      for (const TensorId id : layer.inputs) place(id);
      for (const TensorId id : layer.outputs) place(id);
    }
  }
  std::vector<std::byte> run(const std::vector<std::byte>& input) {
    EXPECT_TRUE(device_.write(blocks_.at(graph_.inputs[0]).base, input).ok());
    std::vector<SequenceNumber> sequences;
    for (const LoadedLayer& layer : layers_) {
      std::vector<Address> inputs, outputs;
      for (const TensorId id : layer.inputs) inputs.push_back(blocks_.at(id).base);
      for (const TensorId id : layer.outputs) outputs.push_back(blocks_.at(id).base);
      sequences.push_back(
          *device_.submit({.loaded = layer.id, .kernel = 0, .inputs = inputs, .outputs = outputs}));
    }
    for (const SequenceNumber sequence : sequences) {
      EXPECT_TRUE(device_.wait(sequence)->status.ok());
    }
    return read_block(device_, blocks_.at(graph_.outputs[0]));
  }

 private:
  void place(TensorId id) {
    if (!blocks_.contains(id)) blocks_[id] = *device_.allocate(bytes_of(graph_.tensor(id)));
  }
  Device& device_;
  const graph::Graph& graph_;
  const std::vector<LoadedLayer> layers_;
  std::map<TensorId, MemoryBlock> blocks_;
};

TEST(Device, FourChainedLayersMoveTheFirstInputAndTheLastOutput) {
  const ChipConfig chip = test_chip();
  const auto network = four_layers(chip);
  const auto input = input_bytes(*network, 2);
  const auto whole = open(DeviceKind::kRef, chip);
  const Blocks blocks = blocks_for(*whole, *network);
  ASSERT_TRUE(whole->write(blocks.input.base, input).ok());
  run(*whole, *whole->load(network), blocks);
  const auto expected = read_block(*whole, blocks.output);
  for (const DeviceKind kind : {DeviceKind::kSim, DeviceKind::kHost}) {
    const auto device = open(kind, chip);
    const auto layers = *device->load_layers(network);
    ASSERT_EQ(layers.size(), 4u);
    LayerChain chain(*device, *network, layers);
    const DeviceCounters before = device->counters();
    // Sim: one region for all layers. Host: it shares the memory, nothing is sent.
    EXPECT_EQ(before.transfers_to_device, kind == DeviceKind::kSim ? 1 : 0);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(chain.run(input), expected);
      const DeviceCounters after = device->counters();
      EXPECT_EQ(after.bytes_to_device - before.bytes_to_device, (i + 1) * std::ssize(input));
      EXPECT_EQ(after.bytes_to_host, (i + 1) * std::ssize(expected));
      EXPECT_EQ(after.transfers_to_device - before.transfers_to_device, i + 1);
    }
    // Known already: the same ids, and nothing moves.
    EXPECT_EQ((*device->load_layers(network))[3].id, layers[3].id);
    EXPECT_EQ(device->counters().transfers_to_device, before.transfers_to_device + 2);
  }
}

TEST(Device, LayersNameOffsetsInOneWeightRegion) {
  const ChipConfig chip = test_chip();
  const auto network = four_layers(chip);
  const auto device = open(DeviceKind::kSim, chip);
  const auto layers = *device->load_layers(network);
  std::int64_t end = 0;
  for (const LoadedLayer& layer : layers) {
    EXPECT_GE(layer.weight_offset.value, end) << layer.name;
    end = layer.weight_offset.value + layer.weight_bytes.value;
  }
  EXPECT_EQ(device->counters().bytes_to_device, end);
  EXPECT_GT(layers[0].weight_bytes.value, 0);
  EXPECT_EQ(layers[1].weight_bytes.value, 0);  // a pooling has none
}

TEST(Device, HostViewIsTheDevicesMemoryWhereItIsShared) {
  const ChipConfig chip = test_chip();
  const auto host = open(DeviceKind::kHost, chip);
  const MemoryBlock block = *host->allocate(Bytes{4});
  (*host->host_view(block.base, Bytes{4}))[2] = std::byte{7};
  EXPECT_EQ(read_block(*host, block)[2], std::byte{7});
  EXPECT_EQ(host->counters().bytes_to_device, 0);
  const auto sim = open(DeviceKind::kSim, chip);
  EXPECT_EQ(sim->host_view((*sim->allocate(Bytes{4})).base, Bytes{4}).error().to_string(),
            "device 'sim' has memory of its own; use read() and write()   [unsupported]");
}

// Memory of the caller's, at its exact size: a run reads and writes it in place.
TEST(Device, AdoptedMemoryIsReadAndWrittenInPlaceWhereMemoryIsShared) {
  const ChipConfig chip = test_chip();
  const auto network = four_layers(chip);
  const auto host = open(DeviceKind::kHost, chip);
  const LoadedId loaded = *host->load(network);
  const Blocks ordinary = blocks_for(*host, *network);
  const std::vector<std::byte> bytes = input_bytes(*network, 5);
  ASSERT_TRUE(host->write(ordinary.input.base, bytes).ok());
  run(*host, loaded, ordinary);
  const std::vector<std::byte> expected = read_block(*host, ordinary.output);
  EXPECT_EQ(host->counters().bytes_copied, 0);

  const auto input = std::make_shared<std::vector<std::byte>>(bytes);
  const auto output = std::make_shared<std::vector<std::byte>>(expected.size());
  const Bytes used = host->counters().memory.used;
  const Blocks adopted = {*host->adopt(*input, input), *host->adopt(*output, output)};
  EXPECT_EQ(host->counters().memory.used, used);
  run(*host, loaded, adopted);
  EXPECT_EQ(*output, expected);
  EXPECT_EQ(host->counters().bytes_copied, 0);
  EXPECT_GT(input.use_count(), 1);
  ASSERT_TRUE(host->release(adopted.input).ok());
  ASSERT_TRUE(host->release(adopted.output).ok());
  EXPECT_EQ(input.use_count(), 1);
  EXPECT_EQ(output.use_count(), 1);
  EXPECT_EQ(host->read(adopted.input.base, *input).error().code, ErrorCode::kInvalidArgument);

  // Where it begins between two elements of a vector register it is copied, and counted.
  std::vector<std::byte> shifted(bytes.size() + 2);
  std::copy(bytes.begin(), bytes.end(), shifted.begin() + 2);
  run(*host, loaded, {*host->adopt({shifted.data() + 2, bytes.size()}, nullptr), ordinary.output});
  EXPECT_EQ(read_block(*host, ordinary.output), expected);
  EXPECT_EQ(host->counters().bytes_copied, std::ssize(bytes));

  const auto sim = open(DeviceKind::kSim, chip);
  EXPECT_EQ(sim->adopt(*input, input).error().to_string(),
            "device 'sim' has memory of its own and cannot use the host's in place   "
            "[unsupported]");
}

TEST(Device, TimingIsTheSameHoweverTheValuesAreComputed) {
  const ChipConfig chip = test_chip();
  const auto network = four_layers(chip);
  std::vector<Completion> completions;
  std::vector<std::vector<std::byte>> results;
  for (const Values values : {Values::kSimulated, Values::kHost, Values::kNone}) {
    const auto device = open(DeviceKind::kSim, chip, 1, values);
    const LoadedId loaded = *device->load(network);
    const Blocks blocks = blocks_for(*device, *network);
    for (unsigned seed = 1; seed <= 3; ++seed) {  // whatever the values are
      ASSERT_TRUE(device->write(blocks.input.base, input_bytes(*network, seed)).ok());
      completions.push_back(run(*device, loaded, blocks));
      if (values != Values::kNone) results.push_back(read_block(*device, blocks.output));
    }
    EXPECT_EQ(device->counters().timings_reused, values == Values::kHost ? 3 : 0);
  }
  for (const Completion& completion : completions) {
    EXPECT_EQ(completion.cycles, completions[0].cycles);
    ASSERT_EQ(completion.details->engines.size(), completions[0].details->engines.size());
    for (std::size_t i = 0; i < completion.details->engines.size(); ++i) {
      EXPECT_EQ(completion.details->engines[i].busy, completions[0].details->engines[i].busy);
    }
  }
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(results[i], results[i + 3]);
  EXPECT_NE(results[0], results[1]);
}

TEST(Device, ReusedTimingIsThatOfASimulation) {
  const ChipConfig chip = test_chip();
  const auto network = four_layers(chip);
  DeviceConfig options;
  options.chip = chip;
  options.values = Values::kNone;
  std::vector<Cycles> cycles;
  for (const bool reuse : {false, true}) {
    options.reuse_timing = reuse;
    const auto device = make_device(options).value();
    const LoadedId loaded = *device->load(network);
    const Blocks blocks = blocks_for(*device, *network);
    for (int i = 0; i < 3; ++i) cycles.push_back(run(*device, loaded, blocks).cycles);
    EXPECT_EQ(device->counters().timings_reused, reuse ? 3 : 0);
  }
  for (const Cycles c : cycles) EXPECT_EQ(c, cycles[0]);
}

TEST(Device, PacedRunTakesItsCyclesAtTheClock) {
  const ChipConfig chip = test_chip();
  const auto network = four_layers(chip);
  DeviceConfig options;
  options.chip = chip;
  options.values = Values::kNone;
  options.reuse_timing = true;
  options.pace = {.enabled = true, .factor = 100};
  const auto device = make_device(options).value();
  const LoadedId loaded = *device->load(network);
  const Blocks blocks = blocks_for(*device, *network);
  const Completion completion = run(*device, loaded, blocks);
  const double seconds = std::chrono::duration<double>(completion.end - completion.begin).count();
  const double modelled =
      100.0 * static_cast<double>(completion.cycles) / static_cast<double>(chip.clock_hertz);
  EXPECT_GE(seconds, modelled - 1e-9);
  if (!completion.late) {
    EXPECT_NEAR(seconds, modelled, 1e-9);
  }
}

TEST(Device, NetworkOfAnotherArchitectureIsRefused) {
  const auto network = four_layers(*load_chip_config("edge"));
  const auto device = open(DeviceKind::kSim, test_chip());
  const auto loaded = device->load(network);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().message.substr(0, 42), "the package was compiled for chip 'edge' (");
}

TEST(Device, OptionsThatMakeNoSenseAreRefused) {
  EXPECT_EQ(make_device({}).error().to_string(),
            "a device 'sim' without a chip configuration; give it the architecture that its "
            "networks are compiled for   [invalid argument]");
  DeviceConfig options;
  options.kernels = 0;
  EXPECT_EQ(make_device(options).error().message, "a device with 0 kernels; allowed: 1 to 256");
  options = {.kind = DeviceKind::kHost, .threads = 1'000'000};
  EXPECT_EQ(make_device(options).error().message,
            "a device with 1000000 threads; allowed: 0 (one a core) to 1024");
  options = {.chip = test_chip(), .run_limit = std::chrono::nanoseconds(-1)};
  EXPECT_EQ(make_device(options).error().message,
            "a limit of -1e-09 s for a run; allowed: 0 (none) to a year");
  for (const double factor : {0.0, -1.0, 2e9, double{INFINITY}, double{NAN}}) {
    options = {.chip = test_chip(), .pace = {.enabled = true, .factor = factor}};
    EXPECT_FALSE(make_device(options).ok()) << factor;
  }
  options = {.chip = test_chip(), .pace = {.link_bytes_per_second = -5}};
  EXPECT_EQ(make_device(options).error().message,
            "a link of -5 bytes a second; allowed: 0 (no limit) or more");
}

}  // namespace
}  // namespace tessera::device
