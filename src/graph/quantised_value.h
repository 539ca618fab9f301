// DequantizeLinear and QuantizeLinear nodes as scales and zero points known at compile time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/lowering.h"

namespace tessera::graph {

// An integer value behind a DequantizeLinear, or in front of a QuantizeLinear.
struct QuantisedValue {
  const model::Node* node = nullptr;  // the DequantizeLinear or QuantizeLinear
  std::string value;                  // the ONNX name of the integer tensor
  Format format = Format::kU8;
  std::vector<float> scales;              // one, or one per channel along `axis`
  std::vector<std::int32_t> zero_points;  // as many as scales
  std::int64_t axis = 0;                  // non-negative
  bool per_tensor() const { return scales.size() == 1; }
  Affine affine() const { return {true, scales[0], zero_points[0]}; }
};

// The DequantizeLinear that produces `name`; nothing if it is not one, or if its scale or zero
// point are computed at run time, given by blocks, or the scale is no finite number above 0.
std::optional<QuantisedValue> dequantised(const Lowering& at, const std::string& name);

// Reads such a node; `quantising`: which side is the integer one.
std::optional<QuantisedValue> read_quantised(const Lowering& at, const model::Node& node,
                                             bool quantising);

// Scale and zero-point lists from constants; one element each or equally many. `zero_points` may be
// null (all zero). False also where a scale is no finite number above 0.
bool read_scales(const Constant& scales, const Constant& zero_points, QuantisedValue& value);

}  // namespace tessera::graph
