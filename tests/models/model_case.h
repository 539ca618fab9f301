// Stored cases of the shared models: inputs with their preprocessing, float32 results.
#pragma once

#include <string>
#include <vector>

#include "tessera/tessera.h"

namespace tessera::cases {

// One row of CASES.tsv.
struct CaseTensor {
  std::string model, name;  // model and case
  bool is_input = false;
  std::size_t index = 0;
  std::string tensor, dtype, file, how;
  Shape dims;
};

struct ModelCase {
  std::string model, name;
  std::vector<CaseTensor> inputs, outputs;
};

// The cases of one model, in the file's order. `folder` holds cases/CASES.tsv.
Result<std::vector<ModelCase>> read_cases(const std::string& folder, const std::string& model);

// The input as the model takes it: raw, or an 8-bit picture preprocessed as the row says.
Result<Tensor> read_case_input(const std::string& folder, const CaseTensor& row);
Result<Tensor> read_case_output(const std::string& folder, const CaseTensor& row);

// Float values of any float tensor.
std::vector<double> values_of(const Tensor& tensor);
double cosine(const std::vector<double>& a, const std::vector<double>& b);
std::size_t argmax(const std::vector<double>& values);

// A detection of the FastestDet head [1, 85, H, W]: class, score, corners in network pixels.
struct Detection {
  std::size_t category = 0;
  double score = 0;
  double left = 0, top = 0, right = 0, bottom = 0;
};
// Scores above 0.5, suppressed where boxes of a class overlap by more than 0.45; best first.
std::vector<Detection> decode_fastestdet(const std::vector<double>& head, const Shape& dims,
                                         double network_pixels);

}  // namespace tessera::cases
