// Small networks for tenants of a card, each with what one core makes of its inputs.
#pragma once

#include <vector>

#include "arch/chip_config.h"
#include "tessera/session.h"
#include "tessera/virtual_card.h"

namespace tessera::testing {

// Convolutions with ways around them, as in a residual network.
Network residual_network(std::uint64_t seed, std::int64_t channels, const ChipConfig& chip);
Network residual_network(std::uint64_t seed, std::int64_t channels);  // for cloud16
// For cloud16; three segments: the processor, the host, the processor.
Network network_with_host_step();

std::vector<Tensor> some_inputs(const Network& network, unsigned seed);

// A network with inputs, and the outputs of one core.
struct Sample {
  Network network;
  std::vector<Tensor> inputs, outputs;
  explicit Sample(Network of, unsigned seed = 1);
};

// Of a tenant, which must succeed.
VirtualProcessor take(const VirtualCard& card, const VirtualProcessorOptions& options);
Session open(const Sample& sample, const VirtualProcessor& processor, SessionOptions options = {});

template <typename Outcome>
std::string error_of(const Outcome& outcome) {
  return outcome.ok() ? std::string() : outcome.error().message;
}

}  // namespace tessera::testing
