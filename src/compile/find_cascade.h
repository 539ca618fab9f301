// Chooses cascades.
#pragma once

#include <cstdint>
#include <optional>

#include "compile/cascade.h"
#include "compile/pieces.h"
#include "compile/plan.h"

namespace tessera::compile {

// What the planner knows about the surroundings.
class CascadeContext {
 public:
  virtual ~CascadeContext() = default;
  // Layer `index` takes its input (gives its output) in the block of a resident storage.
  virtual bool input_resident(std::int32_t index, std::size_t input) const = 0;
  virtual bool output_resident(std::int32_t index) const = 0;
  // Layers after `index` read what layer `writer` leaves, or a host step, a copy or the caller.
  virtual bool read_after(std::int32_t writer, std::int32_t index) const = 0;
  // Layer `index` is to be worked through by itself.
  virtual bool alone(std::int32_t index) const = 0;
  // The last layer that a cascade which begins with layer `first` may have.
  virtual std::int32_t cascade_end(std::int32_t first) const = 0;
  // What layers [first, last] find free for rings.
  virtual PieceRoom room(std::int32_t first, std::int32_t last) const = 0;
};

// The cascade that begins at layer `first` and saves most DRAM cycles; none if that costs more
// than it saves.
std::optional<Cascade> find_cascade(const PlanInputs& inputs, const CascadeContext& context,
                                    std::int32_t first);

}  // namespace tessera::compile
