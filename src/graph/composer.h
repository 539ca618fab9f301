// Operators that are composed of many nodes, written as expressions: each call emits one node and
// gives its output tensor. Shapes follow from the operands; formats are said at every step, because
// every step rounds. A step whose operands are constants that are only moved is carried out here.
//
//   Composer make(op);
//   const TensorId d = make.binary(BinaryFunction::kSubtract, x, mean, Format::kF32);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/composition.h"
#include "graph/lowering.h"

namespace tessera::graph {

class Composer {
 public:
  // `op` outlives the composer.
  explicit Composer(Op& op) : op_(op) {}

  Format vector() const { return op_.at.vector_format(); }
  Shape dims(TensorId x) const { return op_.at.tensor(x).dims; }
  Format format(TensorId x) const { return op_.at.tensor(x).format; }

  TensorId unary(UnaryFunction function, TensorId x, Format format);
  TensorId unary(const Activation& activation, TensorId x, Format format);
  // round(activation(round(function(a, b)))), broadcast.
  TensorId binary(BinaryFunction function, TensorId a, TensorId b, Format format,
                  const Activation& activation = {});
  TensorId reduce(ReduceFunction function, TensorId x, const std::vector<std::int64_t>& axes,
                  Format format, bool keep_dims = true);
  // a x b over the last two axes. b has rank 2, or a's leading axes. `bias` may be invalid.
  TensorId matmul(TensorId a, TensorId b, TensorId bias, Format format);
  // x in another format, by one rounding.
  TensorId converted(TensorId x, Format format);

  TensorId reshaped(TensorId x, const Shape& dims);
  TensorId transposed(TensorId x, const std::vector<std::int64_t>& permutation);
  // Elements [first, first + count) along `axis`.
  TensorId part(TensorId x, std::size_t axis, std::int64_t first, std::int64_t count);
  // x repeated along axes of extent 1; `dims` has x's rank.
  TensorId expanded(TensorId x, const Shape& dims);
  // The parts one after the other along `axis`.
  TensorId joined(const std::vector<TensorId>& parts, std::size_t axis);
  TensorId moved(TensorId x, MoveAttributes move, const Shape& dims);

  TensorId scalar(double value, Format format = Format::kF32);
  TensorId constant(const Shape& dims, const std::vector<double>& values,
                    Format format = Format::kF64);
  // The constant's value, or null.
  Constant known(TensorId x) const { return op_.at.tensor(x).constant; }

  // Output `index` of the operator is x: one rounding if the format differs.
  void output(std::size_t index, TensorId x);
  // Output `index` is function(a, b), by one rounding.
  void output(std::size_t index, BinaryFunction function, TensorId a, TensorId b);

 private:
  std::string suffix(const char* what);

  Op& op_;
  int count_ = 0;
};

// The shape of two operands' broadcast.
Shape broadcast_dims(const Shape& a, const Shape& b);

// The parts of inputs with `part_dims` joined along `axis`, as one Move; parts without elements
// must be left out.
MoveAttributes joining_move(const std::vector<Shape>& part_dims, std::size_t axis);

}  // namespace tessera::graph
