// One DRAM channel against published figures of an independent simulator: bandwidth, latency and row
// hits of fixed access patterns.
//
//   row of the file ─► device, mapping, pattern, outstanding ─► drive_dram() ─► GB/s beside GB/s
//
// The channel is DramChannelModel with the device's own rules; nothing in it is set by the figures.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "arch/dram_channel_model.h"
#include "base/result.h"
#include "repro/csv.h"
#include "repro/dram_drive.h"
#include "repro/experiment_result.h"

namespace tessera::repro {

struct DramReferenceRow {
  std::string device_name, mapping_name, pattern_name;  // as the file has them
  const DramDevice* device = nullptr;
  DramInterleave interleave = DramInterleave::kRow;
  DramPattern pattern;
  std::int64_t outstanding = 1;
  std::int64_t requests = 1;  // measured
  double gigabytes_per_second = 0;
  std::optional<double> latency_mean_nanoseconds, latency_p99_nanoseconds;  // reads alone have them
  DramCounts counts;
};

struct DramReference {
  std::vector<DramReferenceRow> rows;
  std::int64_t left_out = 0;
  std::vector<std::string> notes;  // what was left out, and why
};

// Columns device, mapping, pattern, outstanding, requests, bandwidth_gbs, latency_mean_ns,
// latency_p99_ns (both may be empty), row_hits, row_misses, row_conflicts, refreshes; others are
// passed over. Rows with a device, mapping or pattern that is not known are left out and named;
// a value that is none is an error with its line.
Result<DramReference> read_dram_reference(const CsvTable& table, const std::string& file_name);

// Every file dram_*.csv of the folder, or the one file, all rows together. Figures mean_error,
// p95_error (nearest rank) and largest_error are percent of the published bandwidth.
Result<ExperimentResult> dram_timing(const std::string& data);

}  // namespace tessera::repro
