#include "repro/neuron_timing.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "arch/architecture_file.h"
#include "repro/task_list.h"

namespace tessera::repro {
namespace {

struct NamedSchedule {
  std::string_view kernel;
  MatmulSchedule schedule;
};
constexpr std::array<NamedSchedule, 4> kSchedules = {{
    {"nki_matmul_tiled_", MatmulSchedule::kTiled},
    {"nki_matmul_hoist_load_", MatmulSchedule::kHoisted},
    {"nki_matmul_block_free_dimension_", MatmulSchedule::kBlockFree},
    {"nki_matmul_fully_optimized_", MatmulSchedule::kBlockAll},
}};

Result<MatmulSchedule> schedule_of(std::string_view kernel) {
  std::string names;
  for (const NamedSchedule& named : kSchedules) {
    if (named.kernel == kernel) return named.schedule;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", named.kernel);
  }
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("kernel: found '{}', allowed {}", kernel, names)};
}

Result<double> milliseconds(const ChipConfig& chip, const MatmulShape& shape,
                            MatmulSchedule schedule) {
  TESSERA_TRY(const isa::Program program, matmul_program(chip, shape, schedule));
  TESSERA_TRY(const card::RunStatistics run, run_program(chip, program));
  return static_cast<double>(run.cycles) / static_cast<double>(chip.clock_hertz) * 1e3;
}

}  // namespace

Result<MatmulShape> parse_matmul_shape(std::string_view text) {
  constexpr std::int64_t kExtentMax = 1 << 15;
  std::array<std::int64_t, 4> extents{};
  constexpr std::array<std::string_view, 5> kBetween = {"[", ",", "]@[", ",", "]"};
  std::string_view rest = text;
  bool good = true;
  for (std::size_t i = 0; i < kBetween.size() && good; ++i) {
    good = rest.starts_with(kBetween[i]);
    if (!good) break;
    rest.remove_prefix(kBetween[i].size());
    if (i == extents.size()) break;
    const auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), extents[i]);
    good = code == std::errc{} && extents[i] >= 1 && extents[i] <= kExtentMax;
    if (good) rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  }
  if (good && rest.empty() && extents[1] == extents[2]) {
    return MatmulShape{.m = extents[0], .k = extents[1], .n = extents[3]};
  }
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("shape: found '{}', allowed [M,K]@[K,N] with numbers up to {}", text,
                           kExtentMax)};
}

Result<TimingTable> neuron_timing(const CsvTable& measured) {
  TESSERA_TRY(const ChipConfig chip, load_chip_config("neuron2"));
  TESSERA_TRY(const std::size_t kernel, measured.column("kernel"));
  TESSERA_TRY(const std::size_t shape, measured.column("shape"));
  TESSERA_TRY(const std::size_t dtype, measured.column("dtype"));
  TESSERA_TRY(const std::size_t value, measured.column("value"));
  TESSERA_TRY(const std::size_t unit, measured.column("unit"));
  TimingTable table{.name = "neuron2",
                    .title = "silicon: one product, four schedules",
                    .unit = "ms",
                    .decimals = 2,
                    .extra = {"ideal ms"}};
  for (const CsvRow& row : measured.rows()) {
    TESSERA_TRY(const double expected, measured.number(row, value));
    if (!row.cells[unit].starts_with("ms")) return measured.error_at(row, "unit: allowed is ms");
    if (row.cells[dtype] != "bf16") return measured.error_at(row, "dtype: allowed is bf16");
    const auto schedule = schedule_of(row.cells[kernel]);
    if (!schedule.ok()) return measured.error_at(row, schedule.error().message);
    const auto product = parse_matmul_shape(row.cells[shape]);
    if (!product.ok()) return measured.error_at(row, product.error().message);
    const auto ours = milliseconds(chip, *product, *schedule);
    if (!ours.ok()) return measured.error_at(row, ours.error().message);
    const double macs = static_cast<double>(product->m) * static_cast<double>(product->n) *
                        static_cast<double>(product->k);
    const double ideal =
        macs / chip.neural.rows / chip.neural.columns / static_cast<double>(chip.clock_hertz) * 1e3;
    table.rows.push_back(
        {.name = row.cells[kernel], .measured = expected, .ours = *ours, .extra = {ideal}});
  }
  return table;
}

}  // namespace tessera::repro
