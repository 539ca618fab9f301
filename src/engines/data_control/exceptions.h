// Exceptions of values: what of the kinds that a task traps its steps have met.
//
//   results in the state buffer ─► scanned behind the step   a NaN, an infinity, the end of the range
//   operands of the array       ─► its flags                 a NaN, an infinity, an accumulator
#pragma once

#include <cstdint>
#include <string>

#include "arith/block_float.h"
#include "arith/value_extent.h"
#include "engines/memory/partitioned_memory.h"
#include "isa/descriptor.h"

namespace tessera::engines {

// Traps as in isa::Traps. The first exception in row-major order of the step's results, as "trap
// nan: a NaN in image 0, channel 3, row 5, column 7 of the results"; "" if there is none. Infinities
// are those of formats that have them, and a result is saturated if it is the largest or smallest
// number of its format. Integers of 64 bits, f64 and truth values do not saturate; accumulators
// that a later part takes up are no results.
std::string exception_in_results(PartitionedMemory& state_buffer, const isa::TaskDescriptor& task,
                                 std::int64_t step, std::uint8_t traps);
// How far the results of a step reach: of float formats; kUnknown of a part that a later one takes up, and of
// transpositions, which make nothing new.
ValueExtent extent_of_results(PartitionedMemory& state_buffer, const isa::TaskDescriptor& task,
                              std::int64_t step);
// What a step's values came to.
struct StepValues {
  ValueExtent extent = ValueExtent::kUnknown;
  arith::StickyFlags flags;  // of the array
};
// What the array met while it computed a step, in the same form.
std::string exception_in_product(const arith::StickyFlags& flags, std::uint8_t traps);

}  // namespace tessera::engines
