// Where the memories of a chain program lie.
//
//   state buffer, a partition:  initial | addsub | multiply | temporaries of the chains
//   kernel memory:              matrices, contiguous, as they are first used
//   DRAM:                       constants (weights), inputs, outputs, workspace
#pragma once

#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "arch/chip_config.h"
#include "arith/kernels/weights/kernel_image.h"
#include "firmware/chain.h"
#include "isa/program.h"

namespace tessera::firmware {

// Vectors in the state buffer at three axes of iterations; everything in bytes
// of a partition.
struct Volume {
  std::int64_t offset = 0, block_pitch = 0;
  Extents pitch = {0, 0, 0};
  Extents extents = {1, 1, 1};
  std::int64_t length = 0;
};
// The vectors of one plane as `rows` x `columns` of a surface.
isa::BufferSurface plane_surface(const Volume& volume, std::int64_t plane, std::int64_t rows,
                                 std::int64_t columns, Format format);

// A matrix in kernel memory, in the form that a product uses.
struct KernelPlace {
  KernelImageShape shape;
  std::int64_t kernel_offset = 0;   // bytes of a partition
  std::int64_t weights_offset = 0;  // of its image, where it has contents
};

// Which part of a matrix: all taps or one, and of the window's planes [first,
// last).
struct MatrixPart {
  MatrixUse use;
  std::int64_t tap = -1;  // in a plane, row-major; -1: all
  std::int64_t plane_first = 0, plane_last = 1;
};

class ChainMemory {
 public:
  ChainMemory(const ChainProgram& program, const ChipConfig& chip)
      : program_(program), chip_(chip) {}

  // Bases of the register files and addresses in DRAM; the error says what is
  // too large.
  Status lay_out();

  // Of a register file.
  Volume volume_of(const VectorView& view) const;
  // Of a queue or DRAM, with the byte strides of the view.
  isa::DramView dram_of(const VectorView& view, std::int64_t plane) const;

  // A dense volume of temporaries. Nothing where the rest of the buffer is too
  // small.
  std::optional<Volume> temporary(const Extents& extents, std::int64_t length, Format format);
  void restart_temporaries() { next_temporary_ = temporaries_first_; }
  std::int64_t temporary_bytes() const {
    return chip_.state_buffer.bytes_per_partition - temporaries_first_;
  }

  // The part of the matrix in kernel memory; `fresh` if it was placed just now.
  Result<KernelPlace> place_matrix(const MatrixPart& part, bool& fresh);
  // A matrix that lies in DRAM: its image in the weights, and no place in
  // kernel memory.
  KernelPlace place_source(const MatrixPart& part);
  // An identity matrix of this many rows.
  Result<KernelPlace> place_identity(std::int64_t rows, bool& fresh);

  // Contents of a declared name in the vector format, row-major, in the
  // weights.
  std::int64_t weights_of(std::size_t symbol) const { return dram_offset_[symbol]; }
  std::vector<std::byte> take_weights() { return std::move(weights_); }
  const isa::ByBase<std::int64_t>& region_bytes() const { return region_bytes_; }
  isa::DramAddress address_of(std::size_t symbol) const;
  std::int64_t element() const { return format_bytes(chip_.formats.vector); }

 private:
  std::int64_t append_weights(std::span<const std::byte> bytes);
  std::vector<std::byte> contents_of(const Symbol& symbol, std::int64_t first,
                                     std::int64_t count) const;
  KernelImageShape shape_of(const MatrixPart& part) const;
  // The part's elements as [rows, columns, taps].
  std::vector<std::byte> elements_of(const MatrixPart& part) const;
  Result<KernelPlace> place_image(const KernelImageShape& shape,
                                  const std::vector<std::byte>* oihw);

  const ChainProgram& program_;
  const ChipConfig& chip_;
  std::array<std::int64_t, kRegisterFileCount> file_base_{};
  std::int64_t temporaries_first_ = 0, next_temporary_ = 0;
  std::int64_t next_kernel_ = 0;
  std::vector<std::int64_t> dram_offset_;  // by symbol
  isa::ByBase<std::int64_t> region_bytes_{};
  std::vector<std::byte> weights_;
  using PartKey = std::tuple<std::size_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  static PartKey key_of(const MatrixPart& part);
  std::map<PartKey, KernelPlace> parts_, sources_;
  std::map<std::int64_t, KernelPlace> identities_;
};

// The part of DRAM that a declared name lies in.
isa::BaseIndex base_of(const Symbol& symbol);

}  // namespace tessera::firmware
