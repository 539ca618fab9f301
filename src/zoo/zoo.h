// Networks by structure: the layer shapes as published, with weights generated from a seed.
//
//   name ─► family (mobilenet.cc, resnet.cc, ...) ─► NetworkBuilder ─► one ONNX file
//
// The weights mean nothing, but their scale does: every layer keeps the spread of its input, so
// that values neither die nor leave f16. Batch normalisation is folded already, as a bias.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "zoo/summary.h"
#include "zoo/value_ranges.h"

namespace tessera::zoo {

class NetworkBuilder;

struct ZooNetwork {
  const char* name;
  const char* description;  // input, version, what is left out
  void (*build)(NetworkBuilder& builder);
};

// In a fixed order.
std::span<const ZooNetwork> networks();
// The error names the networks there are.
Result<ZooNetwork> find_network(const std::string& name);

Summary summarise(const ZooNetwork& network);

// Writes the network with weights from `seed`: the same bytes on every machine.
Result<Summary> write_network(const ZooNetwork& network, std::uint64_t seed,
                              const std::string& path);

// The values, by their names in what write_network() writes, that are rounded to 8 bits in the form below. Those of
// a group have one scale there: they are moved into each other.
std::vector<std::vector<std::string>> rounded_values(const ZooNetwork& network);
// The same network in 8 bits, weights from the same seed; inputs and outputs are u8 (network_builder.h). `ranges` has
// all rounded values; those of a group have one range.
Result<Summary> write_network_in_8_bits(const ZooNetwork& network, std::uint64_t seed,
                                        const ValueRanges& ranges, const std::string& path);

}  // namespace tessera::zoo
