// ONNX file -> Model. A model is a stranger's file: every size is checked before it is believed,
// nothing large is allocated on the word of a header, and every error names node, attribute and
// reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/model.h"

namespace tessera::model {

struct ImportLimits {
  std::int64_t file_bytes_max = std::int64_t{2} << 30;
  std::int64_t nodes_max = 200'000;
  std::int64_t tensor_bytes_max = std::int64_t{2} << 30;
  std::int64_t external_bytes_max = std::int64_t{16} << 30;  // all external data of a model
  int rank_max = 16;
  int subgraph_depth_max = 16;
  int function_depth_max = 64;                              // calls of functions in functions
  std::int64_t function_bytes_max = std::int64_t{1} << 28;  // of their bodies, written out
};

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
