// Tensors from and to files: .npy, .pb (ONNX TensorProto), .png/.jpg with stated preprocessing, and
// the reproducible "random[:seed]".
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "tessera/picture.h"
#include "tessera/session.h"

namespace tessera::tools {

// What turns 8-bit RGB pixels into an image input: y = (pixel - mean) / std, a channel order and a
// layout. The picture is resized (bilinear, whole picture) to the input's height and width.
using ImagePreprocessing = PictureInput;
// "mean=127.5,127.5,127.5;std=127.5,127.5,127.5;order=bgr"
Result<ImagePreprocessing> parse_preprocessing(const std::string& text);

Result<Tensor> read_npy(const std::string& path);
// From and to memory; messages name `path`.
Result<Tensor> parse_npy(std::span<const std::byte> bytes, const std::string& path);
Result<std::vector<std::byte>> npy_bytes(const Tensor& tensor, const std::string& path);
Status write_npy(const std::string& path, const Tensor& tensor);

// Any of the sources above, checked against the wanted description. `random:7` gives the same
// bytes everywhere: SplitMix64 seeded with seed * 1000003 + input_index; floats uniform in
// [-1, 1), 8-bit integers over their range, wider integers in [0, 10), booleans 0 or 1.
Result<Tensor> read_input(const std::string& source, const TensorDescription& wanted,
                          std::size_t input_index, const ImagePreprocessing& preprocessing);
// One tensor for each input, from "NAME=SOURCE" or, where there is one input, "SOURCE". A
// "random:7" without a name is of all inputs that are not named, each with numbers of its own;
// without one they are random:0. An error lists the names.
Result<std::vector<Tensor>> read_inputs(const std::vector<std::string>& texts,
                                        const std::vector<TensorDescription>& wanted,
                                        const ImagePreprocessing& preprocessing);
Tensor random_tensor(const TensorDescription& wanted, std::uint64_t seed, std::size_t input_index);

}  // namespace tessera::tools
