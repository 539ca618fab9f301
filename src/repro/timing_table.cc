#include "repro/timing_table.h"

#include <algorithm>
#include <cmath>

namespace tessera::repro {

double TimingTable::mean_absolute_error_percent() const {
  double sum = 0;
  for (const TimingRow& row : rows) sum += std::abs(row.error_percent());
  return rows.empty() ? 0 : sum / static_cast<double>(rows.size());
}

double TimingTable::largest_error_percent() const {
  double largest = 0;
  for (const TimingRow& row : rows) largest = std::max(largest, std::abs(row.error_percent()));
  return largest;
}

}  // namespace tessera::repro
