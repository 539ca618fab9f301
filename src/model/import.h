// ONNX file -> Model. A model is untrusted: every size is checked before it is used,
// nothing large is allocated for a header alone, and errors name node, attribute and reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/import_limits.h"
#include "model/model.h"

namespace tessera::model {

// Opsets 1 to 28 of ai.onnx; each operator checks its own history.
// External data is read relative to the model's folder and may not leave it.
Result<Model> import_file(const std::string& path, const ImportLimits& limits = {});
// The same from memory; `folder` is where external data may lie ("" = none allowed).
Result<Model> import_bytes(std::span<const std::byte> bytes, const std::string& name,
                           const std::string& folder = "", const ImportLimits& limits = {});

// One TensorProto (the .pb files of conformance tests).
Result<Tensor> import_tensor_file(const std::string& path);
// One TensorProto, SequenceProto or OptionalProto, whichever a value of this kind is stored as: its
// tensors in order; none if an optional is empty.
Result<std::vector<Tensor>> import_value_file(const std::string& path, ValueKind kind);
// One TensorProto from memory; no external data.
Result<Tensor> import_tensor_bytes(std::span<const std::byte> bytes, const std::string& name);

}  // namespace tessera::model
