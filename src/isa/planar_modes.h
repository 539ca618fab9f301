// What each mode of the planar engine means to those who compute no values: the rows that it reads,
// its work, and what must hold of its descriptor. A mode is a case of each function in
// planar_modes.cc; its values are a case in engines/planar/planar_math.cc.
#pragma once

#include <cstdint>
#include <variant>

#include "arch/chip_config.h"
#include "arch/cost.h"
#include "base/result.h"
#include "isa/descriptor.h"

namespace tessera::isa {

// Rows of input `input` (0, 1 or 2) that output rows [rows.first, rows.last) read, clipped to the
// input's. Broadcast rows are row 0.
RowRange planar_rows_read(const PlanarTask& task, int input, RowRange rows);
// Elements of a channel that input rows [read.first, read.last) have.
std::int64_t elements_read(const RowRange& read, const BufferSurface& input);

// Some output rows of a task on the planar engine.
struct PlanarStep {
  std::variant<PlanarWork, PlanarTranspose> work;
  std::int64_t macs = 0;  // multiply-accumulates
};
PlanarStep planar_task_step(const PlanarTask& task, RowRange rows);

// Larger than any extent, small enough that products of an extent, a count and a pitch stay exact.
inline constexpr std::int64_t kExtentMax = std::int64_t{1} << 24;

// The parts of check_descriptor() that depend on the mode. Errors are kInvalidModel.
int planar_inputs(const PlanarTask& task);  // surfaces that it reads, 1 to kPlanarInputsMax
bool planar_comes_in_parts(const PlanarTask& task);  // whether its elements may come in parts
Status check_planar_input(const PlanarTask& task, int input);  // the surfaces fit each other
Status check_planar_converters(const PlanarTask& task);        // formats and scales
Status check_planar_extents(const PlanarTask& task, const PlanarEngineConfig& limits);

// A window of rows x columns fits the planar engine.
Status check_window_extents(std::int64_t rows, std::int64_t columns,
                            const PlanarEngineConfig& limits);
// What a transposition on any engine asks of its surfaces.
Status check_mirror(const BufferSurface& in, const BufferSurface& out);

}  // namespace tessera::isa
