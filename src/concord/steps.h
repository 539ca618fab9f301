// Writes operations into a Software, one call each, with the result's format and shape derived.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "concord/software.h"

namespace tessera::concord {

class Steps {
 public:
  // Values are named `stem` and a number; no other name may be like that.
  explicit Steps(Software& software, std::string stem = "tessera.v")
      : software_(software), stem_(std::move(stem)) {}

  // What follows belongs to this layer.
  void begin_layer(std::int32_t layer) { layer_ = layer; }

  ValueId constant(Tensor tensor, const std::string& name = "");
  // The same elements by the shorter form of short_form.cc where that takes less than half of the bytes.
  ValueId short_constant(Tensor tensor);
  // A constant that may be changed by training.
  ValueId parameter(Tensor tensor, const std::string& name,
                    std::shared_ptr<const TrainedElements> elements = nullptr);
  ValueId scalar(Format format, double value);
  ValueId f64(double value) { return scalar(Format::kF64, value); }
  ValueId f32(float value) { return scalar(Format::kF32, static_cast<double>(value)); }
  // A constant of f64 numbers.
  ValueId f64s(const std::vector<double>& numbers, Shape dims);
  ValueId i64s(const std::vector<std::int64_t>& numbers, Shape dims);
  ValueId input(const std::string& name, Format format, Shape dims);

  // Both operands, or a and a scalar of a's format.
  ValueId binary(Operator op, ValueId a, ValueId b);
  ValueId binary(Operator op, ValueId a, double b) { return binary(op, a, scalar(format(a), b)); }
  template <typename B>
  ValueId add(ValueId a, B b) {
    return binary(Operator::kAdd, a, b);
  }
  template <typename B>
  ValueId sub(ValueId a, B b) {
    return binary(Operator::kSubtract, a, b);
  }
  template <typename B>
  ValueId mul(ValueId a, B b) {
    return binary(Operator::kMultiply, a, b);
  }
  template <typename B>
  ValueId div(ValueId a, B b) {
    return binary(Operator::kDivide, a, b);
  }
  template <typename B>
  ValueId max(ValueId a, B b) {
    return binary(Operator::kMaximum, a, b);
  }
  template <typename B>
  ValueId min(ValueId a, B b) {
    return binary(Operator::kMinimum, a, b);
  }
  template <typename B>
  ValueId less(ValueId a, B b) {
    return binary(Operator::kLess, a, b);
  }
  template <typename B>
  ValueId equal(ValueId a, B b) {
    return binary(Operator::kEqual, a, b);
  }
  ValueId unary(Operator op, ValueId a);
  ValueId abs(ValueId a) { return unary(Operator::kAbsolute, a); }
  ValueId round(ValueId a) { return unary(Operator::kRound, a); }
  ValueId sign(ValueId a) { return unary(Operator::kSign, a); }
  ValueId is_nan(ValueId a) { return unary(Operator::kIsNan, a); }
  ValueId clip(ValueId a, double lowest, double highest);
  ValueId where(ValueId condition, ValueId a, ValueId b);
  ValueId cast(ValueId a, Format to);  // nothing to do where it has that format

  // Nothing to do where it has these dims. Of a reshaped value: of what that was made of.
  ValueId reshape(ValueId a, Shape dims);
  ValueId transpose(ValueId a, std::vector<std::int64_t> axes);
  ValueId slice(ValueId a, std::int64_t axis, std::int64_t start, std::int64_t end,
                std::int64_t step = 1);
  ValueId concat(const std::vector<ValueId>& parts, std::int64_t axis);
  ValueId pad(ValueId a, std::vector<std::int64_t> before, std::vector<std::int64_t> behind,
              double value);
  ValueId expand(ValueId a, Shape dims);
  ValueId gather(ValueId a, ValueId indices, std::int64_t axis);
  ValueId matmul(ValueId a, ValueId b);
  ValueId reduce(Operator op, ValueId a, std::vector<std::int64_t> axes);
  ValueId running_sum(ValueId a, std::int64_t axis);
  std::vector<ValueId> host_node(std::shared_ptr<const model::Node> node, std::int64_t opset,
                                 const std::vector<ValueId>& inputs,
                                 const std::vector<std::pair<Format, Shape>>& outputs);

  Format format(ValueId id) const { return software_.value(id).format; }
  const Shape& dims(ValueId id) const { return software_.value(id).dims; }
  const Tensor* constant_of(ValueId id) const { return software_.value(id).constant.get(); }
  Software& software() { return software_; }

 private:
  // Large constant indices that follow a rule, computed by it (index_form.h), or in short (short_form.cc).
  ValueId by_rule(ValueId indices);
  ValueId new_value(Format format, Shape dims);
  ValueId emit(Operation operation, Format format, Shape dims);

  Software& software_;
  const std::string stem_;
  std::int32_t layer_ = -1;
  std::map<std::pair<Format, std::uint64_t>, ValueId> scalars_;
  std::map<std::string, ValueId> shared_;  // small constants by their bytes
  std::map<ValueId, ValueId> reshaped_;    // of what a reshaped value was made
};

// The common shape of two operands.
Shape broadcast_dims(const Shape& a, const Shape& b);

}  // namespace tessera::concord
