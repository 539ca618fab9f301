// Derived software: what a program computes, as a list of standard operators.
//
//   typed graph ──expand──► Software ──folded──► ONNX, PyTorch, C++ (one writer each)
//
// Every operator below exists in any tensor library, and every use of one is exact by construction:
// its result is the one correctly rounded (or exact) number whatever the library, the thread count
// or the optimiser does. Where an operator is not exact in general (a sum, a product of matrices),
// the expansion has proved that all its partial sums are representable. So a writer translates
// operator by operator and needs to know nothing about number formats.
//
// Values are dense row-major tensors of static shape. f16 and bf16 elements are carried in f64
// between the operators (on their own grid), integers of at most 32 bits too; f32 in f32, i64, u64
// and bool as they are. Only a program's inputs and outputs have other formats.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arith/tensor.h"
#include "base/table.h"
#include "model/model.h"

namespace tessera::concord {

struct ValueId {
  std::int32_t value = -1;
  bool valid() const { return value >= 0; }
  friend auto operator<=>(const ValueId&, const ValueId&) = default;
};

// What a trained number of an integer operand stands for: the element
//   clip(round_half_even(number / step) + zero_point, lowest, highest).
// `step` and `zero_point` are f64 constants that broadcast to the number's shape.
struct TrainedElements {
  ValueId step, zero_point;
  double lowest = 0, highest = 0;
  Format format = Format::kI8;
};

struct Value {
  std::string name;  // unique
  Format format = Format::kF64;
  Shape dims;
  std::shared_ptr<const Tensor> constant;                // null unless it is one
  bool trained = false;                                  // the constant is where training starts
  std::shared_ptr<const TrainedElements> elements = {};  // of integers that are trained, else null
};

// Operands are a, b, c in order. "Broadcast" is NumPy's. Floats are IEEE 754, each result rounded
// once, to nearest even; subnormal numbers are kept, -0 differs from +0.
enum class Operator : std::uint8_t {
  // Element by element, operands of one format, broadcast. f32 or f64; kAdd and kMultiply also i64,
  // modulo 2^64.
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kMinimum,  // NaN wins; which zero comes from -0 and +0 is open
  kMaximum,
  // Element by element, f32 or f64.
  kAbsolute,
  kNegate,
  kReciprocal,  // 1 / a
  kSquareRoot,
  kFloor,
  kCeil,
  kRound,  // half to even; keeps the sign of zero
  kSign,   // 1, 0 or -1 (the sign of a zero result is open); of NaN anything
  kClip,   // min(max(a, b), c) with scalars b <= c; of NaN anything; a is not -0 where b or c is 0
  kIsNan,  // bool
  // f32 or f64, broadcast; the result is bool, false where an operand is NaN.
  kEqual,
  kLess,
  kLessOrEqual,
  // bool.
  kAnd,
  kOr,
  kNot,
  // a (bool) ? b : c, broadcast, any format but f16. Where b is chosen it is not -0: some libraries
  // lose that sign.
  kWhere,
  // To `to`. f32 -> f64, f16 -> f32 or f64, integer -> f64: exact. f64 -> f32: one rounding.
  // f64 -> integer: the number is whole and in range. f32 -> f16: the number is an f16. To bool:
  // a != 0. Integer to integer: in range.
  kCast,
  // Movement; no bit of an element changes.
  kReshape,    // to the result's dims
  kTranspose,  // axes[i]: the operand's axis that becomes axis i
  kSlice,      // starts[i] .. ends[i] (exclusive) by steps[i] along axes[i]; all within the operand
  kConcat,     // all operands, along axis
  kPad,        // starts[i] elements before and ends[i] behind axis i, of value b (a scalar)
  kExpand,     // broadcast to the result's dims
  kGather,  // along axis, at the indices b (i64, in range): result dims a[:axis] b.dims a[axis+1:]
  // a [..., M, K] x b [..., K, N], leading axes broadcast, f32 or f64: every partial sum in every
  // order is exact.
  kMatMul,
  // Along axes, which stay with extent 1.
  kReduceSum,      // every partial sum in every order is exact
  kReduceMaximum,  // of NaN anything; which zero comes from -0 and +0 is open
  kReduceMinimum,
  // Sums along axis so far, in the order of the elements: r[0] = a[0], r[i] = r[i-1] + a[i], each
  // rounded to the format (f32 or f64). Not exact: the order is the definition.
  kRunningSum,
  kHostNode,  // the ONNX node `host`, as it is
  kRepeat,    // the operations of `repeat`, turn after turn; only folded() writes it
};
const char* operator_name(Operator op);  // "Add", ... as in ONNX where it has one

struct Repeat;

using LayerIndex = std::int32_t;  // place in Software::layers; -1: none

struct Operation {
  Operator op = Operator::kAdd;
  std::vector<ValueId> inputs = {};
  std::vector<ValueId> outputs = {};  // one, but for kHostNode
  Format to = Format::kF64;
  std::int64_t axis = 0;
  std::vector<std::int64_t> axes = {}, starts = {}, ends = {}, steps = {};
  std::shared_ptr<const model::Node> host = {};  // shared with the graph's node
  std::int64_t host_opset = 0;
  std::shared_ptr<const Repeat> repeat = {};
  LayerIndex layer = -1;  // of constants alone: none, once folded() has put it in front
};

// Operations that are done several times. Its operation's inputs are what is carried into the first
// turn, then the tensors given a row per turn, then whatever else the body reads; its outputs what
// is carried out of the last turn, then the tensors kept, a row per turn.
//
//   before ──► carried ──► body ──► next ──► carried of the next turn ... ──► outputs[i]
//   rows   ──► given   ──┘      └──► kept ──► row of outputs[carried.size() + i]
struct Repeat {
  std::int64_t turns = 0;
  std::vector<ValueId> carried, next;  // within the body, one as long as the other
  std::vector<ValueId> given;          // one row of what is given, without its first axis
  std::vector<ValueId> kept;
  std::vector<Operation> body;  // topological, each makes one value; no Repeat and no host node
};

// One layer of the program: the operations between the values of two graph nodes.
struct Layer {
  std::string name;              // the graph node's
  std::string kind;              // "Conv", "MatMul", "Elementwise", ...
  ValueId result;                // carries the node's output
  std::string tensor;            // the output's name in the graph
  Format format = Format::kF16;  // that it stands for
};

// A tensor the caller gives or gets, in exactly this format.
struct Port {
  ValueId value;
  std::string name;
};

struct Software {
  std::string name;
  Table<ValueId, Value> values;
  std::vector<Operation> operations;  // topological
  std::vector<Port> inputs, outputs;
  Table<LayerIndex, Layer> layers;  // in the order of their operations

  const Value& value(ValueId id) const { return values[id]; }
};

// Each operation, and those of the bodies behind theirs.
template <typename Visit>
void for_each_operation(const std::vector<Operation>& operations, const Visit& visit) {
  for (const Operation& operation : operations) {
    visit(operation);
    if (operation.repeat != nullptr) for_each_operation(operation.repeat->body, visit);
  }
}

}  // namespace tessera::concord
