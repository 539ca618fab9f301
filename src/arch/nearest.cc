#include "arch/nearest.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace tessera {
namespace {

// Letters inserted, deleted or replaced to get from `a` to `b` (one row of the usual table at a
// time).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replace, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view word, std::span<const std::string> names) {
  std::string best;
  std::size_t best_distance = SIZE_MAX;
  for (const std::string& name : names) {
    const std::size_t distance = edit_distance(word, name);
    const std::size_t allowed = std::max<std::size_t>(2, name.size() / 3);
    if (distance > allowed || distance >= best_distance) continue;
    best = name;
    best_distance = distance;
  }
  return best;
}

}  // namespace tessera
