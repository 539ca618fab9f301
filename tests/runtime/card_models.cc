#include "card_models.h"

#include <gtest/gtest.h>

#include <span>

#include "arch/architecture_file.h"
#include "compile/testing/random_graph.h"
#include "model/testing/model_builder.h"
#include "network/network.h"

namespace tessera::testing {

using compile::testing::GraphBuilder;

Network residual_network(std::uint64_t seed, std::int64_t channels, const ChipConfig& chip) {
  GraphBuilder builder(seed);
  graph::TensorId x = builder.input({1, 3, 16, 16});
  x = builder.conv(x, {.output_channels = channels, .kernel = 3, .pad = 1});
  for (int block = 0; block < 2; ++block) {
    const graph::TensorId y = builder.conv(x, {.output_channels = channels, .kernel = 3, .pad = 1});
    x = builder.binary(x, builder.conv(y, {.output_channels = channels, .kernel = 3, .pad = 1}),
                       BinaryFunction::kAdd);
  }
  builder.output(builder.pool(x, PoolFunction::kMaximum, 2, 2, 0));
  return network::network_from_graph(builder.take(), chip, {}).value();
}

Network residual_network(std::uint64_t seed, std::int64_t channels) {
  return residual_network(seed, channels, *load_chip_config("cloud16"));
}

Network network_with_host_step() {
  model::testing::ModelBuilder builder;
  builder.input("x", Format::kF32, {40, 2, 2})
      .node("Relu", {"x"}, {"r"})
      .node("Det", {"r"}, {"d"})
      .node("Tanh", {"d"}, {"y"})
      .output("y");
  const std::string text = builder.bytes();
  return Network::load_bytes(std::as_bytes(std::span(text)), {.arch = "cloud16"}).value();
}

std::vector<Tensor> some_inputs(const Network& network, unsigned seed) {
  std::vector<Tensor> inputs;
  for (const TensorDescription& wanted : network.inputs()) {
    Tensor& tensor = inputs.emplace_back(Tensor::zeros(wanted.format, wanted.dims));
    for (std::size_t i = 0; i < tensor.bytes.size(); ++i) {
      tensor.bytes[i] = static_cast<std::byte>((i * 37 + seed) % 59);
    }
  }
  return inputs;
}

Sample::Sample(Network of, unsigned seed)
    : network(std::move(of)), inputs(some_inputs(network, seed)) {
  outputs = Session::open(network)->run(inputs).value().outputs;
}

VirtualProcessor take(const VirtualCard& card, const VirtualProcessorOptions& options) {
  auto processor = card.take(options);
  EXPECT_TRUE(processor.ok()) << processor.error().to_string();
  return *processor;
}

Session open(const Sample& sample, const VirtualProcessor& processor, SessionOptions options) {
  options.processor = processor;
  auto session = Session::open(sample.network, options);
  EXPECT_TRUE(session.ok()) << session.error().to_string();
  return std::move(*session);
}

}  // namespace tessera::testing
