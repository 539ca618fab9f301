#include "repro/systolic_timing.h"

#include <fmt/format.h>

#include <charconv>

#include "arch/architecture_file.h"
#include "arch/cost.h"
#include "repro/task_list.h"

namespace tessera::repro {
namespace {

constexpr std::int64_t kExtentMax = 1 << 20;

Error bad_name(std::string_view name, const char* allowed) {
  return {ErrorCode::kInvalidArgument, fmt::format("found '{}', allowed {}", name, allowed)};
}

// Numbers greater than 0 with an 'x' between them.
std::vector<std::int64_t> extents_of(std::string_view text) {
  std::vector<std::int64_t> extents;
  while (true) {
    std::int64_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc{} || value < 1 || value > kExtentMax) return {};
    extents.push_back(value);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) return extents;
    if (text[0] != 'x') return {};
    text.remove_prefix(1);
  }
}

// Version 1.5: the stride of a stage is in the 3 x 3 convolution of its first block.
std::vector<ProductSize> resnet50() {
  struct Stage {
    std::int64_t blocks, middle, outputs, width;
  };
  constexpr Stage kStages[] = {
      {3, 64, 256, 56}, {4, 128, 512, 28}, {6, 256, 1024, 14}, {3, 512, 2048, 7}};
  std::vector<ProductSize> layers = {{112 * 112, 64, 7 * 7 * 3}};
  std::int64_t inputs = 64;
  std::int64_t width_in = 56;
  for (const Stage& stage : kStages) {
    const std::int64_t pixels = stage.width * stage.width;
    for (std::int64_t block = 0; block < stage.blocks; ++block) {
      layers.push_back({width_in * width_in, stage.middle, inputs});
      layers.push_back({pixels, stage.middle, 9 * stage.middle});
      layers.push_back({pixels, stage.outputs, stage.middle});
      if (block == 0) layers.push_back({pixels, stage.outputs, inputs});  // projection
      inputs = stage.outputs;
      width_in = stage.width;
    }
  }
  layers.push_back({1, 1000, 2048});
  return layers;
}

std::vector<ProductSize> mobilenet_v1() {
  struct Block {
    std::int64_t outputs, stride;
  };
  constexpr Block kBlocks[] = {{64, 1},  {128, 2},  {128, 1}, {256, 2}, {256, 1},
                               {512, 2}, {512, 1},  {512, 1}, {512, 1}, {512, 1},
                               {512, 1}, {1024, 2}, {1024, 1}};
  std::int64_t width = 112;
  std::int64_t channels = 32;
  std::vector<ProductSize> layers = {{width * width, channels, 3 * 3 * 3}};
  for (const Block& block : kBlocks) {
    width /= block.stride;
    layers.push_back({width * width, 1, 9 * channels});
    layers.push_back({width * width, block.outputs, channels});
    channels = block.outputs;
  }
  layers.push_back({1, 1000, channels});
  return layers;
}

SurfaceShape matrix(std::int64_t channels, std::int64_t columns, Format format) {
  return {.channels = static_cast<std::uint32_t>(channels),
          .columns = static_cast<std::uint32_t>(columns),
          .format = format};
}

}  // namespace

Result<std::vector<ProductSize>> systolic_workload(std::string_view name) {
  if (name == "resnet50") return resnet50();
  if (name == "mobilenetv1") return mobilenet_v1();
  constexpr std::string_view kProduct = "gemm_";
  if (name.starts_with(kProduct)) {
    const std::vector<std::int64_t> extents = extents_of(name.substr(kProduct.size()));
    if (extents.size() == 3) {
      return std::vector<ProductSize>{{.m = extents[0], .n = extents[1], .k = extents[2]}};
    }
  }
  return bad_name(name, "gemm_MxNxK, resnet50 or mobilenetv1");
}

Result<ChipConfig> systolic_chip(std::string_view name) {
  TESSERA_TRY(ChipConfig chip, load_chip_config("systolic"));
  const bool sums_stay = name.ends_with("_os");
  if (sums_stay || name.ends_with("_ws")) {
    const std::vector<std::int64_t> extents = extents_of(name.substr(0, name.size() - 3));
    if (extents.size() == 2 && extents[0] <= 1024 && extents[1] <= 1024) {
      chip.name = fmt::format("systolic_{}", name);
      chip.neural.dataflow = sums_stay ? Dataflow::kOutputStationary : Dataflow::kWeightStationary;
      chip.neural.rows = static_cast<std::int32_t>(extents[0]);
      chip.neural.columns = static_cast<std::int32_t>(extents[1]);
      chip.formats.matrix.native_dimension = chip.neural.rows;
      // As many partitions as the array has rows or columns, a multiple of the rows.
      chip.state_buffer.partitions =
          static_cast<std::int32_t>(round_up(std::max(extents[0], extents[1]), extents[0]));
      chip.planar.lanes = chip.state_buffer.partitions;
      return chip;
    }
  }
  return bad_name(name, "ROWSxCOLUMNS_ws or ROWSxCOLUMNS_os, each 1 to 1024");
}

Result<std::int64_t> systolic_cycles(const ChipConfig& chip,
                                     const std::vector<ProductSize>& products) {
  TaskList tasks(chip);
  for (const ProductSize& product : products) {
    const SurfaceShape moving = matrix(product.k, product.m, Format::kI8);
    const SurfaceShape stationary = matrix(product.k, product.n, Format::kI8);
    const SurfaceShape output = matrix(product.n, product.m, Format::kI32);
    const std::int64_t stationary_at = surface_bytes(chip, moving);
    const std::int64_t output_at =
        round_up(stationary_at + surface_bytes(chip, stationary), format_bytes(output.format));
    const std::int64_t end = output_at + surface_bytes(chip, output);
    if (end > chip.state_buffer.bytes_per_partition) {
      return Error{
          ErrorCode::kDoesNotFit,
          fmt::format("a product of {} x {} x {} needs {} bytes of a partition of the state "
                      "buffer, which has {}",
                      product.m, product.k, product.n, end, chip.state_buffer.bytes_per_partition)};
    }
    add_product(tasks, dense_surface(chip, 0, moving),
                dense_surface(chip, stationary_at, stationary),
                dense_surface(chip, output_at, output), {});
  }
  const isa::Program program = tasks.finish(0, 0);
  TESSERA_TRY(const card::RunStatistics run, run_program(chip, program));
  const Cycles after_last_mac = neural_result_cycles(chip.neural);
  std::int64_t sum = 0;
  for (const card::TaskTiming& task : run.tasks) {
    sum += task.end - task.first_step_begin - after_last_mac - 1;  // counted from 0
  }
  return sum;
}

Result<TimingTable> systolic_timing(const CsvTable& measured) {
  TESSERA_TRY(const std::size_t array, measured.column("dataflow_array"));
  TESSERA_TRY(const std::size_t workload, measured.column("workload"));
  TESSERA_TRY(const std::size_t cycles, measured.column("cycles"));
  TimingTable table{
      .name = "systolic", .title = "closed forms: systolic simulator", .unit = "cycles"};
  for (const CsvRow& row : measured.rows()) {
    TESSERA_TRY(const std::int64_t expected, measured.integer(row, cycles));
    const auto chip = systolic_chip(row.cells[array]);
    if (!chip.ok()) return measured.error_at(row, chip.error().message);
    const auto products = systolic_workload(row.cells[workload]);
    if (!products.ok()) return measured.error_at(row, products.error().message);
    const auto ours = systolic_cycles(*chip, *products);
    if (!ours.ok()) return measured.error_at(row, ours.error().message);
    table.rows.push_back({.name = fmt::format("{} {}", row.cells[array], row.cells[workload]),
                          .measured = static_cast<double>(expected),
                          .ours = static_cast<double>(*ours)});
  }
  return table;
}

}  // namespace tessera::repro
