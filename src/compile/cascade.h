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
#include <vector>

#include "arith/kernels/surface.h"
#include "compile/storage.h"

namespace tessera::compile {

// Where an operand of a cascade's layer lies.
enum class Passage : std::uint8_t {
  kResident,  // in the block of a resident storage
  kRing,      // in a ring
  kWhole,     // loaded once, as a whole: constants and what is broadcast over rows
};

using MemberIndex = std::int32_t;  // place in Cascade::members; -1: none
using RingIndex = std::int32_t;    // place in Cascade::rings; -1: none

struct CascadeOperand {
  Passage passage = Passage::kResident;
  RingIndex ring = -1;      // kRing, kWhole
  MemberIndex writer = -1;  // of an input: the member that computes it, if one does
};

// Rows of a view on their way through the buffer.
struct Ring {
  StorageView view;         // all rows of it
  MemberIndex writer = -1;  // that writes it; -1: loaded from DRAM
  bool leaves = false;      // somebody outside the cascade reads it
  std::int64_t rows = 0;    // that it holds; all of them where they are fewer
};

struct CascadeMember {
  std::int32_t layer = -1;
  std::int64_t delay = 0;  // slots behind the first member, if slots overlap
  std::vector<CascadeOperand> inputs;
  CascadeOperand output;
};

// In the order of execution.
struct CascadeStep {
  MemberIndex member = -1;  // computes these rows, or -1:
  RingIndex ring = -1;      // loads these rows
  RowRange rows;
};

struct Cascade {
  Table<MemberIndex, CascadeMember> members;
  Table<RingIndex, Ring> rings;
  std::vector<CascadeStep> steps;
  std::int64_t slots = 0;
  bool overlap = true;     // two slots run beside each other; costs rows in every ring
  std::int64_t bytes = 0;  // of all rings, in a partition

  std::int32_t last_layer() const { return members.back().layer; }
};

}  // namespace tessera::compile
