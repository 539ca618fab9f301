#include "repro/workload_timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <map>
#include <optional>
#include <thread>

#include "arch/architecture_file.h"

namespace tessera::repro {
namespace {

// Runs of all distinct workloads of a file, by name.
using Runs = std::map<std::string, Result<WorkloadRun>>;

// A row that can be compared.
struct Sample {
  Workload workload;
  std::int64_t line = 0;
  double cycles = 0;
  double nanoseconds = 0;  // 0 where the file has none
};

struct Samples {
  std::vector<Sample> rows;
  std::vector<std::string> left_out;
};

// The largest first, so that no thread is left with one at the end.
std::vector<const Workload*> by_work(const std::map<std::string, Workload>& workloads) {
  std::vector<const Workload*> order;
  for (const auto& [name, workload] : workloads) order.push_back(&workload);
  std::stable_sort(order.begin(), order.end(), [](const Workload* a, const Workload* b) {
    return workload_macs(*a) > workload_macs(*b);
  });
  return order;
}

Runs run_all(const std::map<std::string, Workload>& workloads, const ChipConfig& chip,
             const WorkloadRunner& runner) {
  const std::vector<const Workload*> order = by_work(workloads);
  std::vector<std::optional<Result<WorkloadRun>>> results(order.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < order.size(); i = next++) results[i] = runner(*order[i], chip);
  };
  constexpr std::size_t kThreadsMax = 8;
  const std::size_t hardware = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::thread> others;
  for (std::size_t t = 1; t < std::min({hardware, order.size(), kThreadsMax}); ++t) {
    others.emplace_back(work);
  }
  work();
  for (std::thread& other : others) other.join();
  Runs runs;
  for (std::size_t i = 0; i < order.size(); ++i) runs.emplace(order[i]->name, *results[i]);
  return runs;
}

Runs run_samples(const Samples& samples, const ChipConfig& chip, const WorkloadRunner& runner) {
  std::map<std::string, Workload> workloads;
  for (const Sample& sample : samples.rows)
    workloads.emplace(sample.workload.name, sample.workload);
  return run_all(workloads, chip, runner);
}

// Takes rows one by one: the workload and what `figures` reads, or a line for `left_out`.
template <typename Figures>
Samples read_samples(const CsvTable& measured, std::size_t name, Figures figures) {
  Samples samples{.rows = {}, .left_out = measured.left_out()};
  for (const CsvRow& row : measured.rows()) {
    auto workload = parse_workload(row.cells[name]);
    if (!workload.ok()) {
      samples.left_out.push_back(measured.error_at(row, workload.error().message).message);
      continue;
    }
    Sample sample{.workload = std::move(*workload), .line = row.line};
    const Status read = figures(row, sample);
    if (!read.ok()) {
      samples.left_out.push_back(read.error().message);
      continue;
    }
    samples.rows.push_back(std::move(sample));
  }
  return samples;
}

double nanoseconds_of(const ChipConfig& chip, Cycles cycles) {
  return static_cast<double>(cycles) * 1e9 / static_cast<double>(chip.clock_hertz);
}

TimingTable empty_table(const std::string& name, const std::string& title, const char* unit) {
  return {.name = name, .title = title, .unit = unit, .extra = {"array bound", "memory bound"}};
}

// A row of both runs, and of what bounds ours; `per_cycle`: what a cycle of ours is in the unit.
void add_row(const ChipConfig& chip, const Sample& sample, double measured, const WorkloadRun& run,
             double per_cycle, TimingTable& table) {
  table.rows.push_back({.name = sample.workload.name,
                        .measured = measured,
                        .ours = static_cast<double>(run.cycles) * per_cycle,
                        .extra = {array_bound_cycles(chip, run.macs) * per_cycle,
                                  memory_bound_cycles(chip, run.dram_bytes) * per_cycle}});
}

void note_left_out(const std::vector<std::string>& left_out, TimingTable& table) {
  for (const std::string& line : left_out) table.notes.push_back("left out: " + line);
}

// Notes what does not run, with its line; what does is given to `add`.
template <typename Add>
void compare(const Samples& samples, const Runs& runs, TimingTable& table, Add add) {
  note_left_out(samples.left_out, table);
  for (const Sample& sample : samples.rows) {
    const Result<WorkloadRun>& run = runs.at(sample.workload.name);
    if (run.ok()) {
      add(sample, *run);
    } else {
      table.notes.push_back(fmt::format("left out: line {}: workload '{}': {}", sample.line,
                                        sample.workload.name, run.error().message));
    }
  }
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// What the file's cycles count, and whether that is the profile's clock.
void note_clock(const ChipConfig& chip, const Samples& samples, TimingTable& cycles) {
  std::vector<double> clocks;  // GHz
  for (const Sample& sample : samples.rows) {
    if (sample.nanoseconds > 0) clocks.push_back(sample.cycles / sample.nanoseconds);
  }
  if (clocks.empty()) return;
  const double theirs = median(clocks);
  const double ours = static_cast<double>(chip.clock_hertz) / 1e9;
  const bool same = std::abs(theirs / ours - 1) < 0.02;
  cycles.notes.push_back(fmt::format(
      "the file counts cycles of {:.3f} GHz (the median of cycles / latency_ns), the profile runs "
      "at {:.3f} GHz{}",
      theirs, ours,
      same ? "" : "; so cycles of the two differ by that factor: compare nanoseconds"));
}

// What every table says of itself.
constexpr const char* kNotModelled =
    "ours is one core with operands and results in its memory; the start from the host, other "
    "cores, and fusions and padding of the vendor's compiler are not modelled";

constexpr std::array<const char*, 38> kBuiltinRows = {
    "gemm_128x128x128",
    "gemm_256x256x256",
    "gemm_512x512x512",
    "gemm_1024x1024x1024",
    "gemm_2048x2048x2048",
    "gemm_4096x4096x4096",
    "gemm_8192x8192x8192",
    "gemm_1x4096x4096",
    "gemm_128x4096x4096",
    "gemm_512x768x3072",
    "gemm_512x3072x768",
    "gemm_4096x1024x4096",
    "gemm_4096x4096x1024",
    "gemm_1000x1000x1000",
    "gemm_77x333x555",
    "conv_1x56x56x64x64x3x1x1",
    "conv_1x28x28x128x128x3x1x1",
    "conv_1x14x14x256x256x3x1x1",
    "conv_1x7x7x512x512x3x1x1",
    "conv_1x224x224x3x64x7x2x3",
    "conv_1x56x56x256x64x1x1x0",
    "conv_1x56x56x128x128x3x2x1",
    "conv_8x56x56x64x64x3x1x1",
    "conv_64x14x14x256x256x3x1x1",
    "attention_12x128x64",
    "attention_12x512x64",
    "attention_16x512x64",
    "attention_12x1024x64",
    "attention_16x2048x128",
    "layernorm_512x768",
    "layernorm_128x1024",
    "layernorm_4096x4096",
    "softmax_512x512",
    "softmax_1024x1024",
    "softmax_4096x4096",
    "resnet18",
    "resnet50",
    "bert_base",
};

}  // namespace

Result<std::vector<TimingTable>> tpuv3_timing(const CsvTable& measured,
                                              const WorkloadRunner& runner) {
  TESSERA_TRY(const ChipConfig chip, load_chip_config("tpuv3"));
  TESSERA_TRY(const std::size_t name, measured.column("Workload"));
  TESSERA_TRY(const std::size_t cycles, measured.column("TPUv3"));
  const Samples samples =
      read_samples(measured, name, [&](const CsvRow& row, Sample& sample) -> Status {
        TESSERA_TRY(sample.cycles, measured.number(row, cycles));
        return {};
      });
  const Runs runs = run_samples(samples, chip, runner);
  TimingTable table = empty_table("tpuv3", "silicon: a core with two 128 x 128 arrays", "cycles");
  compare(samples, runs, table, [&](const Sample& sample, const WorkloadRun& run) {
    add_row(chip, sample, sample.cycles, run, 1, table);
  });
  table.notes.emplace_back(kNotModelled);
  return std::vector<TimingTable>{std::move(table)};
}

Result<std::vector<TimingTable>> tpuv6e_timing(const CsvTable& measured,
                                               const WorkloadRunner& runner) {
  TESSERA_TRY(const ChipConfig chip, load_chip_config("tpuv6e"));
  TESSERA_TRY(const std::size_t name, measured.column("workload"));
  TESSERA_TRY(const std::size_t dtype, measured.column("dtype"));
  TESSERA_TRY(const std::size_t cycles, measured.column("cycles"));
  TESSERA_TRY(const std::size_t latency, measured.column("latency_ns"));
  const Samples samples =
      read_samples(measured, name, [&](const CsvRow& row, Sample& sample) -> Status {
        const std::string& type = row.cells[dtype];
        if (type != "float16" && type != "bfloat16") {
          return measured.error_at(
              row, fmt::format("dtype: found '{}', allowed float16 or bfloat16", type));
        }
        TESSERA_TRY(sample.cycles, measured.number(row, cycles));
        TESSERA_TRY(sample.nanoseconds, measured.number(row, latency));
        return {};
      });
  const Runs runs = run_samples(samples, chip, runner);
  const std::string title = "silicon: a core with 256 x 256 arrays";
  TimingTable in_cycles = empty_table("tpuv6e", title, "cycles");
  TimingTable in_time = empty_table("tpuv6e_ns", title, "ns");
  compare(samples, runs, in_cycles, [&](const Sample& sample, const WorkloadRun& run) {
    add_row(chip, sample, sample.cycles, run, 1, in_cycles);
    add_row(chip, sample, sample.nanoseconds, run, nanoseconds_of(chip, 1), in_time);
  });
  note_clock(chip, samples, in_cycles);
  in_cycles.notes.emplace_back(kNotModelled);
  return std::vector<TimingTable>{std::move(in_cycles), std::move(in_time)};
}

Result<ExperimentResult> workload_rows(const std::string& profile, const WorkloadRunner& runner) {
  TESSERA_TRY(const ChipConfig chip, load_chip_config(profile));
  std::map<std::string, Workload> workloads;
  for (const char* const name : kBuiltinRows) {
    TESSERA_TRY(Workload workload, parse_workload(name));
    workloads.emplace(workload.name, std::move(workload));
  }
  const Runs runs = run_all(workloads, chip, runner);
  ExperimentResult result;
  FigureTable table{.name = "rows",
                    .columns = {"workload", "cycles", "microseconds", "array_bound_cycles",
                                "memory_bound_cycles", "array_percent"}};
  for (const char* const name : kBuiltinRows) {
    const Result<WorkloadRun>& run = runs.at(name);
    if (!run.ok()) {
      result.notes.push_back(fmt::format("left out: workload '{}': {}", name, run.error().message));
      continue;
    }
    const double array = array_bound_cycles(chip, run->macs);
    table.rows.push_back({std::string(name), std::int64_t{run->cycles},
                          nanoseconds_of(chip, run->cycles) / 1e3, array,
                          memory_bound_cycles(chip, run->dram_bytes),
                          100 * array / static_cast<double>(run->cycles)});
  }
  result.figures.emplace_back("profile", chip.name);
  result.figure_tables.push_back(std::move(table));
  result.notes.emplace_back(kNotModelled);
  return result;
}

}  // namespace tessera::repro
