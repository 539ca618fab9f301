// The result of a comparison with a published measurement: a table of figures side by side.
#pragma once

#include <string>
#include <vector>

namespace tessera::repro {

struct TimingRow {
  std::string name;
  double measured = 0;
  double ours = 0;
  double difference() const { return ours - measured; }
  double error_percent() const { return difference() / measured * 100; }
  // Further figures of the row, one for each of TimingTable::extra.
  std::vector<double> extra = {};
};

struct TimingTable {
  std::string name;   // "systolic", "gemmini8", "neuron2"
  std::string title;  // of the table
  std::string unit;   // "cycles", "ms"
  int decimals = 0;   // of both figures
  std::vector<std::string> extra = {};
  std::vector<TimingRow> rows = {};
  std::vector<std::string> notes = {};

  double mean_absolute_error_percent() const;
  double median_absolute_error_percent() const;
  double largest_error_percent() const;  // absolute
  std::string worst_row() const;         // whose error that is; empty of an empty table
};

}  // namespace tessera::repro
