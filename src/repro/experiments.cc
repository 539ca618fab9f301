#include "repro/experiments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>

#include "arch/nearest.h"
#include "repro/card_tables.h"
#include "repro/csv.h"
#include "repro/dram_timing.h"
#include "repro/gemmini_timing.h"
#include "repro/neuron_timing.h"
#include "repro/systolic_timing.h"
#include "repro/workload_timing.h"

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
    "                           unit (ms)\n"
    "  tpuv3.csv                Workload (gemm_MxKxN, conv_BxHxWxCxOxKxSTRIDExPAD,\n"
    "                           attention_HEADSxLENGTHxDEPTH, layernorm_ROWSxCOLUMNS,\n"
    "                           softmax_ROWSxCOLUMNS, resnet18, resnet50, bert_base), TPUv3 "
    "(cycles)\n"
    "  tpuv6e.csv               workload (likewise), dtype (float16), cycles, latency_ns";

struct WorkloadFile {
  const char* name;
  Result<std::vector<TimingTable>> (*compare)(const CsvTable&, const WorkloadRunner&);
};
constexpr std::array<WorkloadFile, 2> kWorkloadFiles = {{
    {"tpuv3.csv", tpuv3_timing},
    {"tpuv6e.csv", tpuv6e_timing},
}};

// The path of a file below the folder; empty, and a note, where it is not there.
std::string file_in(const std::string& folder, const char* name, std::vector<std::string>& notes) {
  const std::filesystem::path path = std::filesystem::path(folder) / name;
  std::error_code error;
  if (std::filesystem::exists(path, error)) return path.string();
  notes.push_back(fmt::format("not compared: there is no {}", path.string()));
  return "";
}

Status compare_workloads(const ExperimentOptions& options, ExperimentResult& result) {
  for (const WorkloadFile& file : kWorkloadFiles) {
    const std::string path = file_in(options.data, file.name, result.notes);
    if (path.empty()) continue;
    if (!options.runner) {
      result.notes.push_back(fmt::format("not compared: nothing compiles the rows of {}", path));
      continue;
    }
    TESSERA_TRY(const CsvTable measured, CsvTable::read(path, BadRows::kLeftOut));
    TESSERA_TRY(std::vector<TimingTable> tables, file.compare(measured, options.runner));
    std::move(tables.begin(), tables.end(), std::back_inserter(result.tables));
  }
  return {};
}

Result<ExperimentResult> timing(const ExperimentOptions& options) {
  if (!options.profile.empty()) return workload_rows(options.profile, options.runner);
  ExperimentResult result;
  for (const TimingFile& file : kTimingFiles) {
    const std::string path = file_in(options.data, file.name, result.notes);
    if (path.empty()) continue;
    TESSERA_TRY(const CsvTable measured, CsvTable::read(path));
    TESSERA_TRY(TimingTable table, file.compare(measured));
    result.tables.push_back(std::move(table));
  }
  TESSERA_RETURN_IF_ERROR(compare_workloads(options, result));
  if (result.tables.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("nothing to compare with in '{}'; timing needs {}", options.data,
                             kTimingNeeds)};
  }
  return result;
}

Result<ExperimentResult> dram(const ExperimentOptions& options) {
  return dram_timing(options.data);
}

constexpr const char* kDramNeeds =
    "a file dram_reference.csv (every dram_*.csv of the folder is read; FOLDER may\n"
    "also be one file) with the columns\n"
    "  device (DDR4-2400, ...), mapping (RoBaRaCoCh, BI256, BG64), pattern (1_seq_read, ...),\n"
    "  outstanding, requests, bandwidth_gbs, latency_mean_ns, latency_p99_ns, row_hits,\n"
    "  row_misses, row_conflicts, refreshes";

Result<ExperimentResult> cores_of_cards(const ExperimentOptions& options) {
  if (!options.card_runner) {
    return Error{ErrorCode::kInvalidArgument, "card: nothing compiles and runs its cases"};
  }
  return card_tables(options.networks.empty() ? card_networks() : options.networks,
                     options.card_runner);
}

Result<ExperimentResult> remote_access(const ExperimentOptions& options) {
  if (!options.remote_runner) {
    return Error{ErrorCode::kInvalidArgument,
                 "remote: nothing starts a cluster and runs its cases"};
  }
  return remote_tables(options.networks.empty() ? remote_networks() : options.networks,
                       options.runs, options.remote_runner);
}

constexpr std::array<Experiment, 4> kExperiments = {{
    {"card", "latency and throughput of networks on the cores of cards, beside two baselines",
     "nothing: its published figures are ratios in the text", cores_of_cards, false, true},
    {"dram", "bandwidth of a DRAM channel held against a simulator's", kDramNeeds, dram},
    {"remote",
     "a processor here, in a cluster, and behind a driver that is called over the network",
     "nothing: it starts a cluster on this machine, with an etcd if there is one", remote_access,
     false, true},
    {"timing", "cycles and times held against what others measured", kTimingNeeds, timing, true},
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
