// The tasks of one chain after the other.
#pragma once

#include <vector>

#include "firmware/chain_memory.h"

namespace tessera::firmware {

class TaskEmitter {
 public:
  // Both outlive the emitter.
  TaskEmitter(const ChainProgram& program, const ChipConfig& chip, const Lexer& text,
              ChainMemory& memory)
      : program_(program), chip_(chip), text_(text), memory_(memory) {}

  // Appends the chain's tasks under the layer's number.
  Status emit(const Chain& chain, std::uint32_t layer);
  // Loads what the declared names start with.
  void emit_contents();

  // What goes in front: constants and matrices.
  std::vector<isa::TaskDescriptor> take_prologue() { return std::move(prologue_); }
  std::vector<isa::TaskDescriptor>& tasks() { return tasks_; }
  std::int64_t macs() const { return macs_; }  // of the last chain

 private:
  using Surface = isa::BufferSurface;

  Status emit_once(const Chain& chain);
  Status emit_matrix(const Chain& chain);
  Status emit_plane(std::int64_t plane);
  Status stage_source();
  Result<Surface> source_surface(std::int64_t plane);
  Result<Surface> product(const ChainOperation& operation, std::int64_t plane, bool last,
                          const ChainOperation* activation);
  Result<Surface> product_of_matrix(const ChainOperation& operation, std::int64_t plane,
                                    isa::NeuralTask& task);
  Result<Surface> vector_pass(const ChainOperation& operation, const Surface& value,
                              std::int64_t plane, bool last, const ChainOperation* activation);
  Result<Surface> softmax(const Surface& value, std::int64_t plane, bool last);
  Result<Surface> quantised(const Surface& value);
  Status finish(const Surface& value, std::size_t first, std::int64_t plane);

  // Where an operation's result goes: the chain's first write if this is the
  // last operation and nothing that it reads lies there, else a temporary.
  // `moved`: it still has to be copied.
  Result<Surface> target(bool last, std::int64_t length, std::int64_t plane,
                         std::initializer_list<const Surface*> inputs, bool in_place);
  Result<Surface> temporary(std::int64_t length, std::int64_t columns, Format format);
  void add(isa::EngineKind engine, isa::TaskConfig config, std::int64_t rows);
  // Vectors of a queue or of DRAM into the state buffer, or out of it.
  void move_vectors(bool in, const VectorView& view, const isa::TransferTask& transfer,
                    std::int64_t rows);
  void receive_matrix(const Chain& chain, const KernelPlace& place);
  void unary(const Surface& in, const Surface& out, UnaryFunction function);
  void binary(BinaryFunction function, const Surface& a, const Surface& b, const Surface& out,
              UnaryFunction activation);
  void load_kernel(const KernelPlace& place);
  Result<KernelPlace> matrix_part(const MatrixPart& part);

  const ChainProgram& program_;
  const ChipConfig& chip_;
  const Lexer& text_;
  ChainMemory& memory_;
  std::vector<isa::TaskDescriptor> prologue_, tasks_;

  // Of the chain at hand.
  const Chain* chain_ = nullptr;
  std::uint32_t layer_ = 0;
  std::int64_t rows_ = 1, columns_ = 1;
  std::optional<Volume> staged_;  // what was loaded from a queue or DRAM
  bool stored_in_first_write_ = false;
  bool overflow_ = false;
  std::int64_t macs_ = 0;
};

}  // namespace tessera::firmware
