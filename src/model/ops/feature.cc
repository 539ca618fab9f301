#include "model/ops/feature.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "model/ops/elements.h"
#include "model/ops/generate.h"

namespace tessera::model::ops {

// --- MelWeightMatrix -----------------------------------------------------------------------------

namespace {

double to_mel(double hertz) { return 2595.0 * std::log10(1.0 + hertz / 700.0); }
double to_hertz(double mel) { return 700.0 * (std::pow(10.0, mel / 2595.0) - 1.0); }

}  // namespace

Result<Outputs> mel_weight_matrix_shape(const Call& call) {
  constexpr std::array<std::string_view, 5> kNames = {"num_mel_bins", "dft_length", "sample_rate",
                                                      "lower_edge_hertz", "upper_edge_hertz"};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    TESSERA_RETURN_IF_ERROR(call.require_one_element(i, kNames[i]));
  }
  TESSERA_TRY(const std::int64_t bins, call.integer(0));
  TESSERA_TRY(const std::int64_t length, call.integer(1));
  TESSERA_TRY(const Format format, format_of_data_type(call.attribute("output_datatype", 1)));
  if (bins < 1 || length < 1) return invalid(fmt::format("{} bins of {} samples", bins, length));
  return one_output(format, {length / 2 + 1, bins});
}

// Triangles over the spectrum, their corners at equal distances in mel.
Status mel_weight_matrix(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const std::int64_t length, call.integer(1));
  const auto number = [&](std::size_t i) { return Reader<double>(call.tensor(i))[0]; };
  const std::int64_t spectrum = outputs[0].dims[0], bins = outputs[0].dims[1];
  const double low = to_mel(number(3)), high = to_mel(number(4));
  const double step = (high - low) / static_cast<double>(bins + 2);
  std::vector<std::int64_t> corners;
  for (std::int64_t i = 0; i < bins + 2; ++i) {
    const double hertz = to_hertz(low + static_cast<double>(i) * step);
    const double corner = std::floor(static_cast<double>(length + 1) * hertz / number(2));
    if (!(corner >= 0.0 && corner < static_cast<double>(spectrum))) {
      return invalid(
          fmt::format("corner {} lies at {}, the spectrum has {} places", i, corner, spectrum));
    }
    corners.push_back(static_cast<std::int64_t>(corner));
  }
  const Writer<double> out(outputs[0]);
  for (std::int64_t i = 0; i < bins; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t left = corners[at], centre = corners[at + 1], right = corners[at + 2];
    const auto rising = static_cast<double>(centre - left);
    const auto falling = static_cast<double>(right - centre);
    if (left == centre) out.set(centre * bins + i, 1.0);
    for (std::int64_t k = left; left < centre && k <= centre; ++k) {
      out.set(k * bins + i, static_cast<double>(k - left) / rising);
    }
    for (std::int64_t k = centre; k < right; ++k) {
      out.set(k * bins + i, static_cast<double>(right - k) / falling);
    }
  }
  return {};
}

// --- TfIdfVectorizer -----------------------------------------------------------------------------

namespace {

struct Grams {
  Integers pool, counts, indexes;
  std::vector<float> weights;
  std::int64_t shortest = 1, longest = 1, skips = 0, columns = 0;
};

// The pool holds all 1-grams, then all 2-grams, ...; counts[n-1] is where the n-grams begin.
Status check_pool(const Grams& grams) {
  std::size_t total = 0;
  for (std::size_t n = 0; n < grams.counts.size(); ++n) {
    const std::int64_t begin = grams.counts[n];
    const std::int64_t end = n + 1 < grams.counts.size()
                                 ? grams.counts[n + 1]
                                 : static_cast<std::int64_t>(grams.pool.size());
    const auto length = static_cast<std::int64_t>(n + 1);
    if (begin < 0 || end < begin || end > static_cast<std::int64_t>(grams.pool.size()) ||
        (end - begin) % length != 0) {
      return invalid(fmt::format("the {}-grams lie from {} to {} of the pool", length, begin, end));
    }
    total += static_cast<std::size_t>((end - begin) / length);
  }
  if (total == grams.indexes.size()) return {};
  return invalid(fmt::format("{} n-grams and {} indexes", total, grams.indexes.size()));
}

Result<Grams> grams_of(const Call& call) {
  if (call.has_attribute("pool_strings")) return unsupported("n-grams of strings");
  if (!format_is_integer(call.format(0))) return invalid("input 0 is not an integer tensor");
  if (call.rank(0) < 1 || call.rank(0) > 2) return invalid("input 0 is not of rank 1 or 2");
  Grams grams;
  grams.pool = call.attribute_integers("pool_int64s", {});
  grams.counts = call.attribute_integers("ngram_counts", {});
  grams.indexes = call.attribute_integers("ngram_indexes", {});
  if (call.has_attribute("weights")) {
    grams.weights = std::get<std::vector<float>>(call.attribute_value("weights"));
    if (grams.weights.size() != grams.indexes.size()) return invalid("a weight for each n-gram");
  }
  grams.shortest = call.attribute("min_gram_length", 1);
  grams.longest = call.attribute("max_gram_length", 1);
  grams.skips = call.attribute("max_skip_count", 0);
  if (grams.shortest < 1 || grams.longest < grams.shortest || grams.skips < 0 ||
      grams.longest > static_cast<std::int64_t>(grams.counts.size())) {
    return invalid(fmt::format("n-grams of {} to {} elements, {} skips, counts of {}",
                               grams.shortest, grams.longest, grams.skips, grams.counts.size()));
  }
  for (const std::int64_t index : grams.indexes) {
    if (index < 0 || index >= kDimensionMax) {
      return invalid(fmt::format("attribute 'ngram_indexes' holds {}, allowed: 0 to {}", index,
                                 kDimensionMax - 1));
    }
    grams.columns = std::max(grams.columns, index + 1);
  }
  TESSERA_RETURN_IF_ERROR(check_pool(grams));
  return grams;
}

// f(place in `indexes`) for every n-gram of length n that is in the row at `first`, `step` apart.
template <typename F>
void find_grams(const Grams& grams, std::span<const std::int64_t> row, std::int64_t n,
                std::int64_t step, F&& f) {
  const auto begin = static_cast<std::size_t>(grams.counts[static_cast<std::size_t>(n - 1)]);
  const auto next = static_cast<std::size_t>(n);
  const std::size_t end =
      next < grams.counts.size() ? static_cast<std::size_t>(grams.counts[next]) : grams.pool.size();
  std::size_t before = 0;  // shorter n-grams
  for (std::size_t m = 1; m < next; ++m) {
    before += static_cast<std::size_t>(grams.counts[m] - grams.counts[m - 1]) / m;
  }
  const auto length = static_cast<std::int64_t>(row.size());
  for (std::int64_t first = 0; first < length && (n - 1) <= (length - 1 - first) / step; ++first) {
    for (std::size_t gram = begin; gram < end; gram += next) {
      bool equal = true;
      for (std::int64_t k = 0; equal && k < n; ++k) {
        equal = row[static_cast<std::size_t>(first + k * step)] ==
                grams.pool[gram + static_cast<std::size_t>(k)];
      }
      if (equal) f(before + (gram - begin) / next);
    }
  }
}

}  // namespace

Result<Outputs> tf_idf_shape(const Call& call) {
  TESSERA_TRY(const Grams grams, grams_of(call));
  Shape dims = call.dims(0);
  dims.back() = grams.columns;
  return one_output(Format::kF32, std::move(dims));
}

Status tf_idf(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const Grams grams, grams_of(call));
  const std::string mode = call.attribute_string("mode", "TF");
  const std::vector<std::int64_t> values = load<std::int64_t>(call.tensor(0));
  const auto length = static_cast<std::size_t>(call.dims(0).back());
  const Writer<double> out(outputs[0]);
  for (std::size_t row = 0; length > 0 && row * length < values.size(); ++row) {
    std::vector<double> counts(grams.indexes.size(), 0.0);
    for (std::int64_t n = grams.shortest; n <= grams.longest; ++n) {
      const std::int64_t steps =
          n == 1 ? 1 : std::min(grams.skips, static_cast<std::int64_t>(length) - 1) + 1;
      for (std::int64_t step = 1; step <= steps; ++step) {
        find_grams(grams, std::span(values).subspan(row * length, length), n, step,
                   [&](std::size_t gram) { counts[gram] += 1.0; });
      }
    }
    for (std::size_t gram = 0; gram < counts.size(); ++gram) {
      if (counts[gram] == 0.0) continue;
      const double weight =
          mode == "TF" || grams.weights.empty() ? 1.0 : static_cast<double>(grams.weights[gram]);
      out.set(static_cast<std::int64_t>(row) * grams.columns + grams.indexes[gram],
              mode == "IDF" ? weight : weight * counts[gram]);
    }
  }
  return {};
}

}  // namespace tessera::model::ops
