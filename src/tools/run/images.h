// Inputs and outputs of `tessera run --cores-per-image`: several images at once, a team of cores each.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/files/tensor_file.h"

namespace tessera::tools {

// Of each image what read_inputs() gives, those of the first image first. Files are of all images;
// random numbers have the seed that is named, and one more for each image.
Result<std::vector<Tensor>> read_images(const std::vector<std::string>& texts,
                                        const std::vector<TensorDescription>& inputs,
                                        const ImagePreprocessing& preprocessing, int images);
// Named "y@0", "y@1", ...; of one image as they are.
std::vector<TensorDescription> outputs_of_images(const std::vector<TensorDescription>& outputs,
                                                 int images);
// "; 4 images at once, 123.4 a second", or "" of one.
std::string images_text(const RunResult& run);
// "images" and "images_per_second", where there are several.
void add_images(const RunResult& run, nlohmann::json& document);

}  // namespace tessera::tools
