// How far tensors lie from those in float32: the sums of many elements.
#pragma once

#include <vector>

#include "arith/tensor.h"

namespace tessera::accuracy {

std::vector<double> values_of(const Tensor& tensor);

// Sums over the elements of one output in all cases. Numbers that are not finite in float32 are left out.
struct OutputSums {
  double product = 0, expected = 0, found = 0;
  double difference = 0;  // of the squares
  double max_error = 0, largest = 0;

  void add(const Tensor& a, const Tensor& b);
  // Two outputs of zeros point the same way. Without a number there is no direction at all: 0.
  double cosine() const;
  // The root of the differences' squares over that of the expected ones'; 0 where both are zeros.
  double relative_error() const;
};

// Of the output that has the smallest; `expected` and `found` by case and output.
double least_cosine(const std::vector<std::vector<Tensor>>& expected,
                    const std::vector<std::vector<Tensor>>& found);

}  // namespace tessera::accuracy
