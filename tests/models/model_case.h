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
// The largest |found - expected| as a share of what is allowed: `relative` of the expected value
// and `of_range` of the range of all expected values and 0.
double error_over_allowed(const std::vector<double>& found, const std::vector<double>& expected,
                          double relative, double of_range);
std::size_t argmax(const std::vector<double>& values);

// One row of CASES.tsv with index "*": a result for every element of a data set or recording.
struct SeriesRow {
  std::string model, tensor, file, how;
};
std::vector<SeriesRow> read_series(const std::string& folder, const std::string& model);

// Row `index` of 8-bit pictures [N, ...] as the model takes it, a tensor of `dims`. `how` is that
// of CASES.tsv, "...; transform f32(u8)" included.
Tensor transform_picture(const Tensor& pictures, std::int64_t index, const std::string& how,
                         const Shape& dims);

// One row of MODELS.tsv.
struct ModelRow {
  std::string name, sanity, operators;
  double million_macs = 0;
  bool has_operator(const std::string& op_type) const;
  bool half = false;  // takes float16
};
Result<std::vector<ModelRow>> read_models(const std::string& folder);

// The lines of a file; none if it cannot be read.
std::vector<std::string> read_lines(const std::string& path);
std::vector<std::string> split(const std::string& text, char separator);

}  // namespace tessera::cases
