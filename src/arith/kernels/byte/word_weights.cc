#include "arith/kernels/byte/word_weights.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "base/quantity.h"

namespace tessera::kernels {
namespace {

constexpr std::int64_t kWordsOfQuad = 2;
constexpr std::int64_t kTermsOfWord = 2;

// What one quad costs in multiplications of vectors, against 2 for pairs of 16 bits: a product each and the widening
// that `together` quads share. Excess is read through an index, so it counts half as much again.
double cost_of(std::int64_t together, std::int64_t quads, std::int64_t excess) {
  constexpr double kOfExcess = 3.0;
  return 1.0 + 1.0 / static_cast<double>(together) +
         kOfExcess * static_cast<double>(excess) / static_cast<double>(quads);
}
constexpr double kCostOfPairs =
    2.5;  // as measured: they have more instructions and twice the bytes

// The magnitudes of the weights of one sign of the word of a quad.
std::int32_t signed_sum(const std::int16_t* quad, std::int64_t word, std::int32_t sign) {
  std::int32_t sum = 0;
  for (std::int64_t i = 0; i < kTermsOfWord; ++i) {
    sum += std::max(0, sign * quad[word * kTermsOfWord + i]);
  }
  return sum;
}

// Takes up to `surplus` from the weights of one sign of a word, to `taken`.
void take(std::int16_t* quad, std::int64_t word, std::int32_t sign, std::int32_t surplus,
          std::int16_t* taken) {
  for (std::int64_t i = word * kTermsOfWord; i < (word + 1) * kTermsOfWord; ++i) {
    const std::int32_t part = std::clamp(sign * quad[i], 0, std::max(0, surplus));
    quad[i] = static_cast<std::int16_t>(quad[i] - sign * part);
    taken[i] = static_cast<std::int16_t>(taken[i] + sign * part);
    surplus -= part;
  }
}

// By how much a word passes its bound over `together` quads.
std::int32_t surplus_of(const std::int16_t* group, std::int64_t together, std::int64_t word,
                        std::int32_t sign) {
  std::int32_t sum = -kWordWeightMax;
  for (std::int64_t q = 0; q < together; ++q) sum += signed_sum(group + q * kQuadTerms, word, sign);
  return std::max(0, sum);
}

// Cuts the excess of a quad into such as a word holds by itself.
void add_excess(std::int32_t quad, std::int16_t* rest, std::vector<ExcessQuad>& excess) {
  while (std::any_of(rest, rest + kQuadTerms, [](std::int16_t w) { return w != 0; })) {
    std::int8_t part[kQuadTerms] = {};
    for (std::int64_t word = 0; word < kWordsOfQuad; ++word) {
      std::int32_t room = kWordWeightMax - 1;
      for (std::int64_t i = word * kTermsOfWord; i < (word + 1) * kTermsOfWord; ++i) {
        const std::int32_t some = std::clamp<std::int32_t>(rest[i], -room, room);
        part[i] = static_cast<std::int8_t>(some);
        rest[i] = static_cast<std::int16_t>(rest[i] - some);
        room -= std::abs(some);
      }
    }
    ExcessQuad& next = excess.emplace_back();
    next.quad = quad;
    std::memcpy(&next.weights, part, sizeof next.weights);
  }
}

// One group of quads that share their words.
void split_group(std::int16_t* group, std::int64_t together, std::int32_t first_quad,
                 std::vector<ExcessQuad>& excess) {
  constexpr std::int64_t kTogetherMax = 4;
  TESSERA_CHECK(together <= kTogetherMax, "{} quads to a word", together);
  std::int16_t rest[kTogetherMax][kQuadTerms] = {};
  for (std::int64_t i = 0; i < together * kQuadTerms; ++i) {
    const std::int32_t within = std::clamp<std::int32_t>(group[i], INT8_MIN, INT8_MAX);
    rest[i / kQuadTerms][i % kQuadTerms] = static_cast<std::int16_t>(group[i] - within);
    group[i] = static_cast<std::int16_t>(within);
  }
  // From the heaviest quad first, so that few of them have excess.
  const auto weight_of = [&](std::int64_t q) {
    std::int32_t most = 0;
    for (std::int64_t word = 0; word < kWordsOfQuad; ++word) {
      for (const std::int32_t sign : {1, -1}) {
        if (surplus_of(group, together, word, sign) == 0) continue;
        most = std::max(most, signed_sum(group + q * kQuadTerms, word, sign));
      }
    }
    return most;
  };
  for (std::int64_t turn = 0; turn < together; ++turn) {
    std::int64_t heaviest = 0;
    for (std::int64_t q = 1; q < together; ++q) {
      if (weight_of(q) > weight_of(heaviest)) heaviest = q;
    }
    if (weight_of(heaviest) == 0) break;
    for (std::int64_t word = 0; word < kWordsOfQuad; ++word) {
      for (const std::int32_t sign : {1, -1}) {
        take(group + heaviest * kQuadTerms, word, sign, surplus_of(group, together, word, sign),
             rest[heaviest]);
      }
    }
  }
  for (std::int64_t q = 0; q < together; ++q) {
    add_excess(first_quad + static_cast<std::int32_t>(q), rest[q], excess);
  }
}

bool holds(const std::int16_t* group, std::int64_t together) {
  std::int32_t sums[2 * kWordsOfQuad] = {};
  for (std::int64_t i = 0; i < together * kQuadTerms; ++i) {
    const std::int32_t w = group[i];
    if (w < INT8_MIN || w > INT8_MAX) return false;
    sums[i / kTermsOfWord % kWordsOfQuad * 2 + (w < 0 ? 1 : 0)] += std::abs(w);
  }
  return std::all_of(std::begin(sums), std::end(sums),
                     [](std::int32_t sum) { return sum <= kWordWeightMax; });
}

// The weights of an output channel less their zero point, zeros up to `row`'s size; their sum.
std::int32_t read_channel(const PlainWeights& weights, std::int64_t oc, std::int32_t zero_point,
                          std::span<std::int16_t> row) {
  std::fill(row.begin(), row.end(), std::int16_t{0});
  std::int32_t sum = 0;
  const std::byte* const bytes = weights.at(oc, 0);
  for (std::int64_t k = 0; k < weights.terms; ++k) {
    const std::int32_t w = weights.format == Format::kI8 ? static_cast<std::int8_t>(bytes[k])
                                                         : std::to_integer<std::int32_t>(bytes[k]);
    row[static_cast<std::size_t>(k)] = static_cast<std::int16_t>(w - zero_point);
    sum += w - zero_point;
  }
  return sum;
}

// Zero points of 8-bit weights are 8-bit numbers; of others the differences would not fit.
bool fits(const PlainWeights& weights, const std::vector<std::int32_t>& zero_points) {
  const std::int32_t lowest = weights.format == Format::kI8 ? INT8_MIN : 0;
  return std::all_of(zero_points.begin(), zero_points.end(), [&](std::int32_t zero_point) {
    return zero_point >= lowest && zero_point <= lowest + UINT8_MAX;
  });
}

WordWeights pack(const KernelImageShape& shape, const PlainWeights& weights,
                 const std::vector<std::int32_t>& zero_points, std::int64_t together) {
  WordWeights words;
  words.together = together;
  words.steps = ceil_div(weights.terms, together * kQuadTerms);
  words.excess_ends.push_back(0);
  const std::int64_t channels = shape.groups * shape.output_channels;
  const std::int64_t step_terms = together * kQuadTerms;
  std::int8_t* const main = words.main.reserve(channels * words.steps * step_terms);
  std::vector<std::int16_t> row(static_cast<std::size_t>(words.steps * step_terms));
  for (std::int64_t oc = 0; oc < channels; ++oc) {
    words.weight_sums.push_back(read_channel(weights, oc, vector_element(zero_points, oc, 0), row));
    split_word_weights(row, together, words.excess);
    words.excess_ends.push_back(static_cast<std::int32_t>(words.excess.size()));
    const std::int64_t local = oc % shape.output_channels;
    const std::int64_t tile = local / kWordTileChannels * kWordTileChannels;
    const std::int64_t width = std::min(kWordTileChannels, shape.output_channels - tile);
    std::int8_t* const target = main + (oc - local + tile) * words.steps * step_terms;
    for (std::int64_t i = 0; i < std::ssize(row); ++i) {
      target[(i / step_terms * width + local - tile) * step_terms + i % step_terms] =
          static_cast<std::int8_t>(row[static_cast<std::size_t>(i)]);
    }
  }
  return words;
}

double cost_of(const WordWeights& words, std::int64_t channels) {
  return cost_of(words.together, channels * words.steps * words.together, std::ssize(words.excess));
}

}  // namespace

void split_word_weights(std::span<std::int16_t> weights, std::int64_t together,
                        std::vector<ExcessQuad>& excess) {
  const std::int64_t group = together * kQuadTerms;
  TESSERA_CHECK(std::ssize(weights) % group == 0, "{} weights in steps of {}", weights.size(),
                group);
  for (std::int64_t first = 0; first < std::ssize(weights); first += group) {
    std::int16_t* const at = weights.data() + first;
    if (holds(at, together)) continue;
    split_group(at, together, static_cast<std::int32_t>(first / kQuadTerms), excess);
  }
}

std::optional<WordWeights> make_word_weights(const KernelImageShape& shape,
                                             const PlainWeights& weights,
                                             const std::vector<std::int32_t>& zero_points) {
  if (!fits(weights, zero_points)) return std::nullopt;
  const std::int64_t channels = shape.groups * shape.output_channels;
  WordWeights two = pack(shape, weights, zero_points, 2);
  // Four quads have more excess than two.
  if (cost_of(4, two.steps * 2 * channels, std::ssize(two.excess)) < cost_of(two, channels)) {
    WordWeights four = pack(shape, weights, zero_points, 4);
    if (cost_of(four, channels) < cost_of(two, channels)) two = std::move(four);
  }
  if (cost_of(two, channels) > kCostOfPairs) return std::nullopt;
  return two;
}

std::optional<WordLanes> make_word_lanes(const WordLaneShape& shape, const PlainWeights& weights,
                                         const std::vector<std::int32_t>& zero_points) {
  constexpr std::int64_t kLanesMax = 16;
  const std::int64_t lanes = shape.lanes, all_lanes = shape.vectors * lanes;
  TESSERA_CHECK(lanes <= kLanesMax, "{} lanes to a vector of channels", lanes);
  if (!fits(weights, zero_points)) return std::nullopt;
  WordLanes words;
  words.lanes = lanes;
  words.steps = ceil_div(weights.terms, WordLanes::kTogether * kQuadTerms);
  const std::int64_t quads = words.steps * WordLanes::kTogether;
  std::int8_t* const main = words.main.reserve(all_lanes * quads * kQuadTerms);
  std::fill_n(main, all_lanes * quads * kQuadTerms, std::int8_t{0});
  std::vector<std::int8_t> all;
  words.excess_ends.push_back(0);
  std::vector<std::int16_t> row(static_cast<std::size_t>(quads * kQuadTerms));
  for (std::int64_t vector = 0; vector < shape.vectors; ++vector) {
    std::vector<ExcessQuad> of_lane[kLanesMax];
    for (std::int64_t lane = 0; lane < lanes && vector * lanes + lane < shape.channels; ++lane) {
      const std::int64_t oc = vector * lanes + lane;
      words.weight_sums.push_back(
          read_channel(weights, oc, vector_element(zero_points, oc, 0), row));
      split_word_weights(row, WordLanes::kTogether, of_lane[lane]);
      for (std::int64_t i = 0; i < std::ssize(row); ++i) {
        main[((vector * quads + i / kQuadTerms) * lanes + lane) * kQuadTerms + i % kQuadTerms] =
            static_cast<std::int8_t>(row[static_cast<std::size_t>(i)]);
      }
    }
    // Those of the same quad together, as far as each lane has one.
    std::size_t next[kLanesMax] = {};
    for (std::int32_t quad = 0; quad < quads;) {
      bool any = false;
      std::int8_t together[kLanesMax * kQuadTerms] = {};
      for (std::int64_t lane = 0; lane < lanes; ++lane) {
        if (next[lane] == of_lane[lane].size() || of_lane[lane][next[lane]].quad != quad) continue;
        std::memcpy(together + lane * kQuadTerms, &of_lane[lane][next[lane]++].weights, kQuadTerms);
        any = true;
      }
      if (!any) {
        ++quad;
        continue;
      }
      words.excess_quads.push_back(quad);
      all.insert(all.end(), together, together + lanes * kQuadTerms);
    }
    words.excess_ends.push_back(static_cast<std::int32_t>(words.excess_quads.size()));
  }
  std::copy(all.begin(), all.end(), words.excess.reserve(std::ssize(all)));
  const double cost =
      cost_of(WordLanes::kTogether, shape.vectors * quads, std::ssize(words.excess_quads));
  if (cost > kCostOfPairs) return std::nullopt;
  return words;
}

}  // namespace tessera::kernels
