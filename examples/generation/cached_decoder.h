// A decoder in ONNX whose keys and values are inputs and outputs: "past_key_values.X" takes what the run
// before gave as "present.X". They grow by the run's tokens; an output without elements leaves what there was.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "costs.h"
#include "tessera/dynamic_network.h"

namespace generation {

class CachedDecoder {
 public:
  static tessera::Result<CachedDecoder> open(const std::string& path,
                                             const tessera::DynamicOptions& network,
                                             const tessera::SessionOptions& session);
  // Begins a new text: caches without a row.
  void forget();
  // One run on the inputs that are no caches, by name, which `costs` gets. The logits of the last token.
  tessera::Result<std::vector<float>> step(const std::map<std::string, tessera::Tensor>& inputs,
                                           Costs& costs);

  tessera::DynamicCounters counters() const { return network_.counters(); }

 private:
  CachedDecoder(tessera::DynamicNetwork network, tessera::DynamicSession session)
      : network_(std::move(network)), session_(std::move(session)) {}

  tessera::DynamicNetwork network_;
  tessera::DynamicSession session_;
  std::map<std::string, tessera::Tensor> caches_;  // by the input's name
};

}  // namespace generation
