// A float model with 8-bit products: what post-training quantisation makes of it, as ONNX says it.
//
//   x ─► Conv            x ─► QuantizeLinear ─► DequantizeLinear ─┐
//   w ─┘           =>    w (8 bits)        ─► DequantizeLinear ─┴─► Conv
//
// Activations become u8 with one scale and zero point a tensor, from the range given for it;
// weights become i8 with one scale an output channel and zero point 0. Biases stay, and are rounded
// to the sums' scales when the model is lowered. Only Conv, Gemm and MatMul with constant weights
// are touched, and of those only the ones in the model's own graph. A model of an older opset than
// 10 becomes one of opset 10, unless it has a TopK or an Upsample, which changed there.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/model.h"

namespace tessera::model {

// The computed inputs of such products, each once.
std::vector<std::string> quantisable_inputs(const Model& model);

struct ValueRange {
  float lowest = 0, highest = 0;
};
// Products whose input has no range stay as they are.
Model insert_quantisation(const Model& model, const std::map<std::string, ValueRange>& ranges);

}  // namespace tessera::model
