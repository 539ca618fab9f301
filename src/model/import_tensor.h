// TensorProto -> Tensor, in every form the file format has: raw bytes, typed fields, bytes in
// another file. Nothing is allocated before the bytes it is for have been seen.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>

#include "arith/tensor.h"
#include "base/result.h"
#include "model/import_limits.h"
#include "model/tensor_import.h"

namespace tessera::model {

// The format of an element type number, or an error that names the type we do not have.
Result<Format> import_format(std::int32_t onnx_type);

// "float16", "string", ... or "number 99".
std::string onnx_type_name(std::int32_t onnx_type);

// Checks dimensions against `limits` (rank, no negative one, no overflow of elements or bytes) and
// returns the bytes that such a tensor has.
Result<std::int64_t> checked_tensor_bytes(const Shape& dims, Format format,
                                          const ImportLimits& limits);

// Moves the data out of `proto`, which is left without, so that a model is in memory only once.
// Messages do not repeat the tensor's name.
Result<Tensor> import_tensor(onnx::TensorProto& proto, TensorImport& context);

}  // namespace tessera::model
