// Where a model's time goes, layer by layer, beside ONNX Runtime's own profile: nodes whose names
// match are one layer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "tessera/session.h"

namespace tessera::bench {

struct LayerTime {
  std::string name, kind;
  double host_ms = 0;
  double ort_ms = -1;  // below 0: ONNX Runtime has no node of that name
};

// Means over `runs` runs of the host device; `ort_us` is OnnxRuntimeServer::layer_times().
Result<std::vector<LayerTime>> layer_times(const Network& network,
                                           const std::vector<Tensor>& inputs, int threads, int runs,
                                           const std::map<std::string, double>& ort_us);

// The layers that take longer than ONNX Runtime's, the largest loss first, at most `limit`; with
// what lies outside of matched layers. Empty where there is none.
std::string slower_layers_text(const std::vector<LayerTime>& layers, std::size_t limit);

// The layers that take longest here, at most `limit`, with ONNX Runtime's times where it has a node
// of that name.
std::vector<LayerTime> slowest_layers(std::vector<LayerTime> layers, std::size_t limit);
std::string slowest_layers_text(const std::vector<LayerTime>& slowest);

// How many layers of each kind there are and what they take together, the longest first.
struct KindTime {
  std::string kind;
  int layers = 0;
  double host_ms = 0;
};
std::vector<KindTime> times_by_kind(const std::vector<LayerTime>& layers);
std::string kinds_text(const std::vector<KindTime>& kinds);

}  // namespace tessera::bench
