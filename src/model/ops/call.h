// What an operator's functions are given: one node, its opset and its arguments.
//
//   Node + opset + arguments ──► Call ──► shape function    ──► format and shape of each output
//                                    └──► evaluate function ──► the outputs' elements
//
// While shapes are inferred an argument may be without elements; while a node is evaluated every
// present argument has them. Errors made here say what is wrong with the node; the caller adds the
// node's name and operator.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "arith/format.h"
#include "base/result.h"
#include "model/model.h"
#include "model/ops/errors.h"

namespace tessera::model::ops {

// No dimension of any tensor is larger than this, so that the product of two fits 64 bits.
inline constexpr std::int64_t kDimensionMax = std::int64_t{1} << 31;
inline constexpr std::size_t kRankMax = 64;
// No output is larger than this.
inline constexpr std::int64_t kOutputBytesMax = std::int64_t{1} << 31;

struct Argument {
  bool present = false;  // false: an optional input that is left out
  Format format = Format::kF32;
  const Shape* dims = nullptr;
  const Tensor* constant = nullptr;  // the elements, where they are known
};

using Integers = std::vector<std::int64_t>;

class Call {
 public:
  // `node` outlives the call, and so do the shapes and tensors of `arguments`.
  Call(const Node& node, std::int64_t opset, std::vector<Argument> arguments)
      : node_(node), opset_(opset), arguments_(std::move(arguments)) {}

  const std::string& op_type() const { return node_.op_type; }
  std::int64_t opset() const { return opset_; }
  std::size_t output_count() const { return node_.outputs.size(); }
  bool wants_output(std::size_t index) const {
    return index < node_.outputs.size() && !node_.outputs[index].empty();
  }

  std::size_t count() const { return arguments_.size(); }
  bool has(std::size_t index) const {
    return index < arguments_.size() && arguments_[index].present;
  }
  Format format(std::size_t index) const { return argument(index).format; }
  const Shape& dims(std::size_t index) const { return *argument(index).dims; }
  std::int64_t rank(std::size_t index) const {
    return static_cast<std::int64_t>(dims(index).size());
  }
  bool is_constant(std::size_t index) const { return argument(index).constant != nullptr; }
  // The elements; only for an argument that is_constant().
  const Tensor& tensor(std::size_t index) const;

  // The values of an integer input of rank 0 or 1 on which the output's shape depends.
  Result<Integers> integers(std::size_t index) const;
  // The same for a single value.
  Result<std::int64_t> integer(std::size_t index) const;

  bool has_attribute(const std::string& name) const { return node_.attributes.contains(name); }
  std::int64_t attribute(const std::string& name, std::int64_t otherwise) const;
  double attribute_float(const std::string& name, float otherwise) const;
  std::string attribute_string(const std::string& name, const std::string& otherwise) const;
  Integers attribute_integers(const std::string& name, const Integers& otherwise) const;
  const Tensor* attribute_tensor(const std::string& name) const;
  const AttributeValue& attribute_value(const std::string& name) const;

  // "input 1 has format f32, allowed: ..." unless the format is a float.
  Status require_float(std::size_t index) const;
  Status require_rank_at_least(std::size_t index, std::int64_t rank) const;
  // Inputs `a` and `b` have one format. Where one is left out, there is nothing to compare.
  Status require_same_format(std::size_t a, std::size_t b) const;
  // Each of these asks nothing of an input that is left out.
  // Input `index` has this shape.
  Status require_shape(std::size_t index, const Shape& needed) const;
  // ... is a vector of `length` elements.
  Status require_vector(std::size_t index, std::int64_t length) const;
  // ... is one number: a scalar, or a tensor of one element, as many files have it. `name` is the
  // operand's in ONNX.
  Status require_one_element(std::size_t index, std::string_view name) const;
  // ... is one number, or a vector of `length`.
  Status require_one_or_vector(std::size_t index, std::string_view name, std::int64_t length) const;
  Status require_format(std::size_t index, Format needed) const;
  Status require_integer(std::size_t index) const;

 private:
  const Argument& argument(std::size_t index) const;

  const Node& node_;
  std::int64_t opset_;
  std::vector<Argument> arguments_;
};

// axis in [-rank, rank-1] -> [0, rank-1].
Result<std::int64_t> normalise_axis(std::int64_t axis, std::int64_t rank);
// All of them, sorted, without repetition.
Result<Integers> normalise_axes(const Integers& axes, std::int64_t rank);

// Every dimension within 0..kDimensionMax and all of it within kOutputBytesMax.
Status check_size(Format format, const Shape& dims);

// One output of this format and shape.
inline std::vector<TypedValue> one_output(Format format, Shape dims) {
  return {TypedValue{format, std::move(dims), nullptr}};
}

using Outputs = std::vector<TypedValue>;
// Formats and shapes of the outputs (at least as many as the node names). May set `constant`
// where the value follows from shapes alone.
using ShapeFunction = Result<Outputs> (*)(const Call& call);
// Fills `outputs`, which have the formats and shapes of the shape function and are all zero.
using EvaluateFunction = Status (*)(const Call& call, std::vector<Tensor>& outputs);

}  // namespace tessera::model::ops
