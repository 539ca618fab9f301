// Instruction chains after parsing: loops unrolled, scalars evaluated, names resolved.
//
//   read ─► [ product ] ─► operation ─► operation ... ─► write, write ...
//
// Everything here is in elements, vectors and iterations; addresses of the
// state buffer, of kernel memory and of DRAM come later (chain_memory.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "arith/operation.h"
#include "firmware/lexer.h"
#include "firmware/task_text.h"

namespace tessera::firmware {

// The memories that a chain knows. The three register files lie in the state
// buffer, the matrix register file is kernel memory.
enum class ChainMemoryKind {
  kInitial,
  kAddSubtract,
  kMultiply,
  kMatrix,
  kQueueIn,
  kQueueOut,
  kDram,        // vectors
  kDramMatrix,  // a matrix that a chain moves into the matrix register file
};
inline constexpr int kRegisterFileCount = 3;
inline bool is_register_file(ChainMemoryKind memory) {
  return static_cast<int>(memory) < kRegisterFileCount;
}
inline bool is_queue(ChainMemoryKind memory) {
  return memory == ChainMemoryKind::kQueueIn || memory == ChainMemoryKind::kQueueOut;
}
const char* memory_name(ChainMemoryKind memory);
// Elements of a native vector: what an address of a register file counts.
std::int64_t native_vector(const ChipConfig& chip);

// Iterations, windows and volumes have up to three axes: planes, rows, columns.
inline constexpr int kAxes = 3;
using Extents = std::array<std::int64_t, kAxes>;

// What a declared name starts with.
struct Contents {
  enum class Kind { kNone, kFill, kList, kRandom, kIdentity, kFile };
  Kind kind = Kind::kNone;
  std::vector<double> values;  // kFill: one; kList: all
  std::uint64_t seed = 0;      // kRandom: uniform in [-scale, scale)
  double scale = 1;
  std::vector<std::byte> bytes;  // kFile: elements of `format`
  Format format = Format::kF16;
};

// Which part of DRAM.
enum class DramUse { kConstant, kInput, kOutput, kWorkspace };

struct Symbol {
  std::string name;
  Place place;
  ChainMemoryKind memory = ChainMemoryKind::kInitial;
  // Vectors: planes x rows x columns of vectors of `length` elements; `axes` of
  // the three were written.
  Extents extents = {1, 1, 1};
  int axes = 0;
  std::int64_t length = 1;
  // Matrices: `extents` counts the matrices (as one row), each rows x length,
  // or with a window rows x (planes x rows x columns of taps) x length.
  std::int64_t rows = 1;
  Extents window = {1, 1, 1};
  Contents contents;
  DramUse use = DramUse::kConstant;
  std::int64_t address = 0;    // of a register file: native vectors from its begin
  std::int64_t vectors = 0;    // native vectors that it takes
  std::int64_t transfers = 0;  // of a queue: how many vectors, or volumes, passed it
  bool written = false;

  std::int64_t volume() const { return extents[0] * extents[1] * extents[2]; }
  std::int64_t taps() const { return window[0] * window[1] * window[2]; }
};

// A vector at every iteration. Register files: pitches and origin in slots, the
// place of one element in every partition. DRAM and queues: in elements.
struct VectorView {
  ChainMemoryKind memory = ChainMemoryKind::kInitial;
  std::size_t symbol = SIZE_MAX;  // none: a raw address
  std::int64_t length = 0;
  std::int64_t origin = 0;       // from the symbol's begin; raw: from the file's
  std::int64_t block_pitch = 0;  // register files: from one block of channels to the next
  Extents pitch = {0, 0, 0};     // 0 broadcasts
  Extents extents = {1, 1, 1};   // of the volume, for windows
  Place place;
};

struct Window {
  bool used = false;
  Extents size = {1, 1, 1}, stride = {1, 1, 1}, pad = {0, 0, 0};
  bool has_tap = false;  // one tap alone
  Extents tap = {0, 0, 0};
};

struct MatrixUse {
  std::size_t symbol = SIZE_MAX;
  std::int64_t index = 0;  // of the matrices of one name
};

struct ChainOperation {
  enum class Kind { kProduct, kProductOfVectors, kUnary, kBinary, kSoftmax };
  Kind kind = Kind::kUnary;
  Place place;
  std::string word;
  MatrixUse matrix;    // kProduct
  VectorView operand;  // kBinary; kProductOfVectors: the matrix, a vector per row
  UnaryFunction unary = UnaryFunction::kIdentity;
  BinaryFunction binary = BinaryFunction::kAdd;
  bool swapped = false;     // operand - value
  std::int64_t length = 0;  // of the result
};

// Who takes a chain's tasks of a kind, and how.
struct ChainEngines {
  isa::EngineSet engines;
  isa::Sharing sharing = isa::Sharing::kAutomatic;
};

struct Chain {
  std::string name;
  Place place;
  Extents iterations = {1, 1, 1};
  VectorView source;
  Window window;
  std::vector<ChainOperation> operations;
  std::vector<VectorView> writes;
  bool quantised = false;                         // the vector units' inputs too
  std::vector<std::int64_t> shape;                // hint; empty: the iterations and the length
  std::optional<MatrixUse> moved_from, moved_to;  // a matrix chain
  std::optional<TaskText> task;                   // a descriptor written out, in place of a chain
  bool in_time_loop = false;
  ChainEngines neural, planar;
};

// A whole text of the chain level.
struct ChainProgram {
  std::vector<Symbol> symbols;
  std::vector<Chain> chains;
  std::array<std::int64_t, kRegisterFileCount> file_vectors = {0, 0, 0};
  bool has_time_loop = false;
};
// The number of a queue among those of its direction, in the order of declaration.
std::uint32_t queue_number(const ChainProgram& program, std::size_t symbol);

}  // namespace tessera::firmware
