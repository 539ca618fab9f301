#include "graph/line_filters.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arith/format.h"

namespace tessera::graph {

namespace {

// The elements of a filter, tap by tap and channel by channel, as bytes.
class FilterElements {
 public:
  // The tensor outlives this.
  explicit FilterElements(const Tensor& weights)
      : weights_(weights),
        element_(static_cast<std::size_t>(format_bytes(weights.format))),
        zero_(element_, '\0') {}

  std::int64_t count() const { return weights_.dims[1] * taps(); }
  std::string_view at(std::int64_t filter, std::int64_t term) const {
    const std::int64_t channels = weights_.dims[1];
    const std::int64_t place = (filter * channels + term % channels) * taps() + term / channels;
    return {reinterpret_cast<const char*>(weights_.bytes.data()) +
                static_cast<std::size_t>(place) * element_,
            element_};
  }
  bool is_zero(std::string_view element) const { return element == zero_; }

 private:
  std::int64_t taps() const { return weights_.dims[2] * weights_.dims[3]; }
  const Tensor& weights_;
  std::size_t element_;
  std::string zero_;
};

// From the first weight of each filter to its last.
FilterTerms terms_between_ends(const Tensor& weights) {
  const FilterElements elements(weights);
  FilterTerms terms;
  std::set<std::string> seen;
  for (std::int64_t filter = 0; filter < weights.dims[0]; ++filter) {
    std::string bytes;  // from the first weight on
    std::size_t end = 0;
    for (std::int64_t term = 0; term < elements.count(); ++term) {
      const std::string_view element = elements.at(filter, term);
      if (bytes.empty() && elements.is_zero(element)) continue;
      bytes.append(element);
      if (!elements.is_zero(element)) end = bytes.size();
    }
    bytes.resize(end);
    const auto count = static_cast<std::int64_t>(end) / format_bytes(weights.format);
    terms.all += count;
    const std::size_t content = std::hash<std::string>{}(bytes);
    if (!seen.insert(std::move(bytes)).second) continue;
    terms.distinct += count;
    terms.content += content;
  }
  return terms;
}

// Whether so many weights are zero that each filter may have them between its own.
bool has_many_zeros(const Tensor& weights) {
  constexpr std::int64_t kShare = 16;
  const FilterElements elements(weights);
  std::int64_t zeros = 0;
  for (std::int64_t filter = 0; filter < weights.dims[0]; ++filter) {
    for (std::int64_t term = 0; term < elements.count(); ++term) {
      zeros += elements.is_zero(elements.at(filter, term)) ? 1 : 0;
    }
  }
  return zeros * kShare >= weights.dims[0] * elements.count();
}

// Of weights that are not zero, whatever their order: it follows the places.
std::optional<FilterTerms> terms_of_repeated(const Tensor& weights) {
  const FilterElements elements(weights);
  FilterTerms terms;
  std::map<std::vector<std::string_view>, std::int64_t> times;
  for (std::int64_t filter = 0; filter < weights.dims[0]; ++filter) {
    std::vector<std::string_view> found;
    for (std::int64_t term = 0; term < elements.count(); ++term) {
      const std::string_view element = elements.at(filter, term);
      if (!elements.is_zero(element)) found.push_back(element);
    }
    std::ranges::sort(found);
    const auto count = static_cast<std::int64_t>(found.size());
    terms.all += count;
    ++times[std::move(found)];
  }
  std::int64_t often = 0;
  for (const auto& [elements_of, count] : times) {
    often = std::gcd(often, count);
    std::string bytes;
    for (const std::string_view element : elements_of) bytes.append(element);
    terms.content += std::hash<std::string>{}(bytes);
  }
  terms.distinct = terms.all / often;
  return often > 1 ? std::optional(terms) : std::nullopt;
}

}  // namespace

std::optional<FilterTerms> filter_terms(const Tensor* weights, const Shape& output) {
  if (weights == nullptr || element_count(weights->dims) == 0) return std::nullopt;
  const bool line = output[2] == 1 && weights->dims[2] == 1;
  if (line && weights->dims[1] > 1 && weights->dims[3] > 1) return terms_between_ends(*weights);
  if (!format_is_float(weights->format) || !has_many_zeros(*weights)) return std::nullopt;
  return terms_of_repeated(*weights);
}

}  // namespace tessera::graph
