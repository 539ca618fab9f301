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

double TimingTable::median_absolute_error_percent() const {
  std::vector<double> errors;
  for (const TimingRow& row : rows) errors.push_back(std::abs(row.error_percent()));
  if (errors.empty()) return 0;
  std::sort(errors.begin(), errors.end());
  const std::size_t middle = errors.size() / 2;
  return errors.size() % 2 == 1 ? errors[middle] : (errors[middle - 1] + errors[middle]) / 2;
}

std::string TimingTable::worst_row() const {
  const auto worst =
      std::max_element(rows.begin(), rows.end(), [](const TimingRow& a, const TimingRow& b) {
        return std::abs(a.error_percent()) < std::abs(b.error_percent());
      });
  return worst == rows.end() ? "" : worst->name;
}

}  // namespace tessera::repro
