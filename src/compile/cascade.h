// A cascade: consecutive layers that are worked through together, slot by slot, so that what lies
// between them never leaves the state buffer.
//
//   rows of   slot 0    slot 1    slot 2
//   input     ████▌     ████      ████          loaded one slot ahead
//   conv 3x3  ▏███▌     ████      ████          each layer runs as far as its reader needs,
//   pool /2   ▏█▌       ██        ██            halo included
//   conv 3x3  ▏█        ██        ██
//
// Between two layers lies a ring: row r in place r mod ring rows. It holds the rows that later
// slots read again (the halo), the slot that is written and, where there is room, the slot that is
// still read, so that two slots overlap. Nothing is computed twice. The list of pieces stays
// correct when it is executed in order, so a cascade cannot deadlock.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compile/pieces.h"
#include "compile/plan.h"

namespace tessera::compile {

// Where an operand of a cascade's layer lies.
enum class Passage : std::uint8_t {
  kResident,  // in the block of a resident storage
  kRing,      // in a ring
  kWhole,     // loaded once, as a whole: constants and what is broadcast over rows
};

struct CascadeOperand {
  Passage passage = Passage::kResident;
  std::int32_t ring = -1;    // index into Cascade::rings (kRing, kWhole)
  std::int32_t writer = -1;  // of an input: the member that computes it, if one does
};

// Rows of a view on their way through the buffer.
struct Ring {
  StorageView view;          // all rows of it
  std::int32_t writer = -1;  // member of the cascade that writes it; -1: loaded from DRAM
  bool leaves = false;       // somebody outside the cascade reads it
  std::int64_t rows = 0;     // that it holds; all of them where they are fewer
};

struct CascadeMember {
  std::int32_t layer = -1;
  std::int64_t delay = 0;  // slots behind the first member, if slots overlap
  std::vector<CascadeOperand> inputs;
  CascadeOperand output;
};

// In the order of execution.
struct CascadeStep {
  std::int32_t member = -1;  // computes these rows, or -1:
  std::int32_t ring = -1;    // loads these rows
  RowRange rows;
};

struct Cascade {
  std::vector<CascadeMember> members;
  std::vector<Ring> rings;
  std::vector<CascadeStep> steps;
  std::int64_t slots = 0;
  bool overlap = true;     // two slots run beside each other; costs rows in every ring
  std::int64_t bytes = 0;  // of all rings, in a partition

  std::int32_t last_layer() const { return members.back().layer; }
};

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

// Rows of a step that lie in one piece in each ring where the operation cannot follow a wrap.
std::vector<RowRange> unwrapped_rows(const Cascade& cascade, const PlanInputs& inputs,
                                     const CascadeStep& step);

}  // namespace tessera::compile
