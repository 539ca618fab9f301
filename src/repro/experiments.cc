#include "repro/experiments.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "arch/nearest.h"
#include "repro/csv.h"
#include "repro/dram_timing.h"
#include "repro/gemmini_timing.h"
#include "repro/neuron_timing.h"
#include "repro/systolic_timing.h"

namespace tessera::repro {
namespace {

struct TimingFile {
  const char* name;
  Result<TimingTable> (*compare)(const CsvTable&);
};
constexpr std::array<TimingFile, 3> kTimingFiles = {{
    {"scalesim_v3.csv", systolic_timing},
    {"gemmini_rtl_8x8_ws.csv", gemmini_timing},
    {"neuron_trn1_matmul.csv", neuron_timing},
}};

constexpr const char* kTimingNeeds =
    "one or more of these files of comma-separated values\n"
    "  scalesim_v3.csv          dataflow_array (128x64_os), workload (gemm_MxNxK, resnet50,\n"
    "                           mobilenetv1), cycles\n"
    "  gemmini_rtl_8x8_ws.csv   kind (conv, gemm), test, mapping ([T] N1 C3 ... - [O] ... - [I]\n"
    "                           ...), gemmini_rtl_cycles\n"
    "  neuron_trn1_matmul.csv   kernel (nki_matmul_tiled_, ...), shape ([M,K]@[K,N]), dtype, "
    "value,\n"
    "                           unit (ms)";

Result<ExperimentResult> timing(const std::string& data_folder) {
  ExperimentResult result;
  for (const TimingFile& file : kTimingFiles) {
    const std::filesystem::path path = std::filesystem::path(data_folder) / file.name;
    std::error_code error;
    if (!std::filesystem::exists(path, error)) {
      result.notes.push_back(fmt::format("not compared: there is no {}", path.string()));
      continue;
    }
    TESSERA_TRY(const CsvTable measured, CsvTable::read(path.string()));
    TESSERA_TRY(TimingTable table, file.compare(measured));
    result.tables.push_back(std::move(table));
  }
  if (result.tables.empty()) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("nothing to compare with in '{}'; timing needs {}", data_folder, kTimingNeeds)};
  }
  return result;
}

constexpr const char* kDramNeeds =
    "a file dram_reference.csv (every dram_*.csv of the folder is read; FOLDER may\n"
    "also be one file) with the columns\n"
    "  device (DDR4-2400, ...), mapping (RoBaRaCoCh, BI256, BG64), pattern (1_seq_read, ...),\n"
    "  outstanding, requests, bandwidth_gbs, latency_mean_ns, latency_p99_ns, row_hits,\n"
    "  row_misses, row_conflicts, refreshes";

constexpr std::array<Experiment, 2> kExperiments = {{
    {"dram", "bandwidth of a DRAM channel held against a simulator's", kDramNeeds, dram_timing},
    {"timing", "cycles and times held against what others measured", kTimingNeeds, timing},
}};

}  // namespace

std::span<const Experiment> experiments() { return kExperiments; }

Result<const Experiment*> find_experiment(const std::string& name) {
  std::vector<std::string> names;
  std::string list;
  for (const Experiment& experiment : kExperiments) {
    if (name == experiment.name) return &experiment;
    names.emplace_back(experiment.name);
    list += fmt::format("{}{}", list.empty() ? "" : ", ", experiment.name);
  }
  const std::string nearest = nearest_name(name, names);
  return Error{
      ErrorCode::kInvalidArgument,
      fmt::format("unknown experiment '{}';{} allowed {}", name,
                  nearest.empty() ? "" : fmt::format(" did you mean '{}'?", nearest), list)};
}

}  // namespace tessera::repro
