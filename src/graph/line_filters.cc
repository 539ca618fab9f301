#include "graph/line_filters.h"

#include <algorithm>
#include <set>
#include <string>

namespace tessera::graph {

bool are_line_filters(const Tensor* weights, const Shape& output) {
  return weights != nullptr && output[2] == 1 && weights->dims[1] > 1 && weights->dims[2] == 1 &&
         weights->dims[3] > 1;
}

FilterTerms filter_terms(const Tensor& weights) {
  const std::int64_t channels = weights.dims[1], taps = weights.dims[3];
  const auto element = static_cast<std::size_t>(format_bytes(weights.format));
  const std::string zero(element, '\0');
  FilterTerms terms;
  std::set<std::string> seen;
  for (std::int64_t filter = 0; filter < weights.dims[0]; ++filter) {
    std::string bytes;  // from the first weight on
    std::size_t end = 0;
    for (std::int64_t term = 0; term < channels * taps; ++term) {
      const std::int64_t at = (filter * channels + term % channels) * taps + term / channels;
      const auto* const from = reinterpret_cast<const char*>(weights.bytes.data()) +
                               static_cast<std::size_t>(at) * element;
      const bool is_zero = std::equal(from, from + element, zero.begin());
      if (bytes.empty() && is_zero) continue;
      bytes.append(from, element);
      if (!is_zero) end = bytes.size();
    }
    bytes.resize(end);
    const auto count = static_cast<std::int64_t>(end / element);
    terms.all += count;
    if (seen.insert(std::move(bytes)).second) terms.distinct += count;
  }
  return terms;
}

}  // namespace tessera::graph
