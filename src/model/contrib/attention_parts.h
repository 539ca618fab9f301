// What operators with attention have in common: scores, what hides them, angles of positions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/contrib/body.h"

namespace tessera::model::contrib {

inline constexpr std::int64_t kSizeMax = std::int64_t{1} << 30;  // that an attribute may say

// Scores, values and what becomes of them.
struct Heads {
  std::string query, key, value;  // [..., S, H], [..., T, H], [..., T, H]
  std::string past;               // positions before the first query, one element; "" for none
  bool causal = false;
  std::string mask, bias;  // added to the scores
  std::string places;      // of the queries among the keys, int32 [..., S, 1]; "": behind the past
  std::int64_t window = -1;  // so many positions up to its own are what a query sees; -1: all
  float cap = 0;             // scores become cap * tanh(score / cap); 0: they stay
};

// Lists of whole numbers behind each other.
std::string joined(Body& body, const std::vector<std::string>& parts);
// softmax(query x key^T x scale + mask) x value; `turned` exchanges the last axes of the keys.
std::string attended(Body& body, const Heads& heads, const std::vector<std::int64_t>& turned);
// x behind `past` along axis 2.
std::string appended(Body& body, const std::string& past, const std::string& x);
// x [..., S, H] turned by the angles of its positions: [..., S, H / 2] each.
std::string rotated(Body& body, const std::string& x, const std::string& cosine,
                    const std::string& sine, bool interleaved);

}  // namespace tessera::model::contrib
