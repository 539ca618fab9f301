#include "accuracy/outputs.h"

#include <algorithm>
#include <cmath>

#include "arith/format.h"
#include "arith/rounding.h"

namespace tessera::accuracy {

std::vector<double> values_of(const Tensor& tensor) {
  const std::int64_t element = format_bytes(tensor.format);
  std::vector<double> values;
  values.reserve(tensor.bytes.size() / static_cast<std::size_t>(element));
  for (std::size_t at = 0; at < tensor.bytes.size(); at += static_cast<std::size_t>(element)) {
    values.push_back(arith::read_element(tensor.format, tensor.bytes.data() + at));
  }
  return values;
}

void OutputSums::add(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = values_of(a);
  const std::vector<double> y = values_of(b);
  for (std::size_t i = 0; i < x.size() && i < y.size(); ++i) {
    if (!std::isfinite(x[i])) continue;
    const double error = std::isfinite(y[i]) ? std::abs(x[i] - y[i]) : HUGE_VAL;
    max_error = std::max(max_error, error);
    largest = std::max(largest, std::abs(x[i]));
    product += x[i] * y[i];
    expected += x[i] * x[i];
    found += y[i] * y[i];
    difference += error * error;
  }
}

double OutputSums::cosine() const {
  if (expected == 0 && found == 0) return 1;
  const double length = std::sqrt(expected) * std::sqrt(found);
  const double value = product / length;
  return std::isfinite(value) ? std::clamp(value, -1.0, 1.0) : 0;
}

double OutputSums::relative_error() const {
  if (difference == 0) return 0;
  return expected == 0 ? HUGE_VAL : std::sqrt(difference / expected);
}

double least_cosine(const std::vector<std::vector<Tensor>>& expected,
                    const std::vector<std::vector<Tensor>>& found) {
  double least = 1;
  const std::size_t outputs = expected.empty() ? 0 : expected[0].size();
  for (std::size_t output = 0; output < outputs; ++output) {
    OutputSums sums;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      sums.add(expected[i][output], found[i][output]);
    }
    least = std::min(least, sums.cosine());
  }
  return least;
}

}  // namespace tessera::accuracy
