// Any text is either a table of published figures, whose cells are then read, or an error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "arch/architecture_file.h"
#include "base/check.h"
#include "repro/csv.h"
#include "repro/dram_timing.h"
#include "repro/gemmini_timing.h"
#include "repro/neuron_timing.h"
#include "repro/systolic_timing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::repro;
  static const tessera::ChipConfig chip = tessera::load_chip_config("gemmini8").value();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto table = CsvTable::parse(text, "fuzz.csv");
  if (!table.ok()) return 0;
  const auto dram = read_dram_reference(*table, "fuzz.csv");
  TESSERA_CHECK(!dram.ok() || std::ssize(dram->rows) + dram->left_out == std::ssize(table->rows()),
                "a row that is neither read nor left out");
  for (const CsvRow& row : table->rows()) {
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      const std::string& cell = row.cells[i];
      const auto layer = parse_tiled_layer(chip, i % 2 == 0 ? "conv" : "gemm", cell);
      TESSERA_CHECK(!layer.ok() || layer->tile.c >= 1, "a tile without channels");
      const auto shape = parse_matmul_shape(cell);
      TESSERA_CHECK(!shape.ok() || shape->k >= 1, "a product without a sum");
      const auto number = table->number(row, i);
      const auto integer = table->integer(row, i);
      TESSERA_CHECK(!integer.ok() || number.ok() || *integer > 1'000'000'000'000'000,
                    "a whole number that is none");
      const auto pattern = DramPattern::find(cell);
      TESSERA_CHECK(!pattern || pattern->at(std::uint64_t{1} << 40).address % 64 == 0 ||
                        pattern->pitch % 64 != 0,
                    "a request across two of 64 B");
      TESSERA_CHECK(!systolic_workload(cell).ok() || !cell.empty(), "a network without a name");
    }
  }
  return 0;
}
