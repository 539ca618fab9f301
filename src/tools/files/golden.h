// Golden vectors: inputs, the outputs they must give to the last bit, and a digest of all of it.
//
//   FOLDER/golden.json    {"digest": "...", "vectors": [{"source": "random:0",
//                           "inputs":  [{"name", "format", "dims", "file"}], "outputs": [...]}]}
//   FOLDER/vector0_input0.bin ...    dense row-major elements, little-endian
//
// The digest is 64-bit FNV-1a over the bytes of all tensors, vector after vector, inputs first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "tessera/session.h"
#include "tools/files/roles.h"

namespace tessera::tools {

struct GoldenVector {
  std::string source;  // "random:0", "edges:1", a file's name
  std::vector<Tensor> inputs, outputs;
};

struct GoldenSet {
  std::vector<std::string> input_names, output_names;
  std::vector<GoldenVector> vectors;
};

std::uint64_t golden_digest(const GoldenSet& set);
// Makes the folder where it does not exist. All files or none; none of `roles` is written over.
Status write_golden(const std::string& folder, const GoldenSet& set, FileRoles roles = {});

// Numbers that find what ordinary ones do not: zeros of both signs, subnormals, the largest,
// infinities and NaN, between random ones.
Tensor edge_tensor(const TensorDescription& wanted, std::uint64_t seed, std::size_t input_index);

}  // namespace tessera::tools
