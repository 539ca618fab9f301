#include "concord/steps.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "arith/rounding.h"
#include "base/check.h"
#include "concord/index_form.h"

namespace tessera::concord {
namespace {

// Larger constants are not looked up by their bytes.
constexpr std::size_t kSharedBytesMax = 4096;

constexpr const char* kNames[] = {
    "Add",        "Sub",       "Mul",         "Div",    "Min",      "Max",    "Abs",    "Neg",
    "Reciprocal", "Sqrt",      "Floor",       "Ceil",   "Round",    "Sign",   "Clip",   "IsNaN",
    "Equal",      "Less",      "LessOrEqual", "And",    "Or",       "Not",    "Where",  "Cast",
    "Reshape",    "Transpose", "Slice",       "Concat", "Pad",      "Expand", "Gather", "MatMul",
    "ReduceSum",  "ReduceMax", "ReduceMin",   "CumSum", "HostNode", "Repeat"};

bool gives_bool(Operator op) {
  return op == Operator::kEqual || op == Operator::kLess || op == Operator::kLessOrEqual ||
         op == Operator::kIsNan;
}

}  // namespace

const char* operator_name(Operator op) { return kNames[static_cast<std::size_t>(op)]; }

Shape broadcast_dims(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 1; i <= result.size(); ++i) {
    const std::int64_t left = i <= a.size() ? a[a.size() - i] : 1;
    const std::int64_t right = i <= b.size() ? b[b.size() - i] : 1;
    TESSERA_CHECK(left == right || left == 1 || right == 1, "{} and {} do not broadcast", left,
                  right);
    result[result.size() - i] = left == 1 ? right : left;
  }
  return result;
}

ValueId Steps::new_value(Format format, Shape dims) {
  const ValueId id{static_cast<std::int32_t>(software_.values.size())};
  software_.values.push_back({stem_ + std::to_string(id.value), format, std::move(dims), nullptr});
  return id;
}

ValueId Steps::emit(Operation operation, Format format, Shape dims) {
  const ValueId id = new_value(format, std::move(dims));
  operation.outputs = {id};
  operation.layer = layer_;
  software_.operations.push_back(std::move(operation));
  return id;
}

ValueId Steps::parameter(Tensor tensor, const std::string& name,
                         std::shared_ptr<const TrainedElements> elements) {
  const ValueId id = new_value(tensor.format, tensor.dims);
  Value& value = software_.values.back();
  value.name = name;
  value.trained = true;
  value.elements = std::move(elements);
  value.constant = std::make_shared<const Tensor>(std::move(tensor));
  return id;
}

ValueId Steps::constant(Tensor tensor, const std::string& name) {
  std::string key;
  if (name.empty() && tensor.bytes.size() <= kSharedBytesMax) {
    key = std::string(format_name(tensor.format));
    for (const std::int64_t extent : tensor.dims) key += "," + std::to_string(extent);
    key += ":";
    key.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    if (const auto found = shared_.find(key); found != shared_.end()) return found->second;
  }
  const ValueId id = new_value(tensor.format, tensor.dims);
  Value& value = software_.values.back();
  if (!name.empty()) value.name = name;
  value.constant = std::make_shared<const Tensor>(std::move(tensor));
  if (!key.empty()) shared_[key] = id;
  return id;
}

ValueId Steps::scalar(Format format, double value) {
  const auto key = std::pair(format, arith::bits_of_f64(value));
  if (const auto found = scalars_.find(key); found != scalars_.end()) return found->second;
  Tensor tensor = Tensor::zeros(format, {});
  arith::write_element(format, value, tensor.bytes.data());
  return scalars_[key] = constant(std::move(tensor));
}

ValueId Steps::f64s(const std::vector<double>& numbers, Shape dims) {
  Tensor tensor = Tensor::zeros(Format::kF64, std::move(dims));
  TESSERA_CHECK(tensor.bytes.size() == numbers.size() * sizeof(double), "{} numbers",
                numbers.size());
  std::memcpy(tensor.bytes.data(), numbers.data(), tensor.bytes.size());
  return constant(std::move(tensor));
}

ValueId Steps::i64s(const std::vector<std::int64_t>& numbers, Shape dims) {
  Tensor tensor = Tensor::zeros(Format::kI64, std::move(dims));
  TESSERA_CHECK(tensor.bytes.size() == numbers.size() * sizeof(std::int64_t), "{} numbers",
                numbers.size());
  std::memcpy(tensor.bytes.data(), numbers.data(), tensor.bytes.size());
  return constant(std::move(tensor));
}

ValueId Steps::input(const std::string& name, Format format, Shape dims) {
  const ValueId id = new_value(format, std::move(dims));
  software_.values.back().name = name;
  software_.inputs.push_back({id, name});
  return id;
}

ValueId Steps::binary(Operator op, ValueId a, ValueId b) {
  TESSERA_CHECK(format(a) == format(b), "{} of {} and {}", operator_name(op),
                format_name(format(a)), format_name(format(b)));
  return emit({.op = op, .inputs = {a, b}}, gives_bool(op) ? Format::kBool : format(a),
              broadcast_dims(dims(a), dims(b)));
}

ValueId Steps::unary(Operator op, ValueId a) {
  return emit({.op = op, .inputs = {a}}, gives_bool(op) ? Format::kBool : format(a), dims(a));
}

ValueId Steps::clip(ValueId a, double lowest, double highest) {
  return emit(
      {.op = Operator::kClip, .inputs = {a, scalar(format(a), lowest), scalar(format(a), highest)}},
      format(a), dims(a));
}

ValueId Steps::where(ValueId condition, ValueId a, ValueId b) {
  TESSERA_CHECK(format(a) == format(b), "a choice of {} and {}", format_name(format(a)),
                format_name(format(b)));
  return emit({.op = Operator::kWhere, .inputs = {condition, a, b}}, format(a),
              broadcast_dims(dims(condition), broadcast_dims(dims(a), dims(b))));
}

ValueId Steps::cast(ValueId a, Format to) {
  if (format(a) == to) return a;
  return emit({.op = Operator::kCast, .inputs = {a}, .to = to}, to, dims(a));
}

ValueId Steps::reshape(ValueId a, Shape to) {
  if (dims(a) == to) return a;
  TESSERA_CHECK(element_count(dims(a)) == element_count(to), "a reshape of {} elements to {}",
                element_count(dims(a)), element_count(to));
  const auto found = reshaped_.find(a);
  const ValueId source = found == reshaped_.end() ? a : found->second;
  const ValueId result =
      emit({.op = Operator::kReshape, .inputs = {source}}, format(a), std::move(to));
  reshaped_[result] = source;
  return result;
}

ValueId Steps::transpose(ValueId a, std::vector<std::int64_t> axes) {
  if (std::is_sorted(axes.begin(), axes.end())) return a;
  Shape to;
  for (const std::int64_t axis : axes) to.push_back(dims(a)[static_cast<std::size_t>(axis)]);
  return emit({.op = Operator::kTranspose, .inputs = {a}, .axes = std::move(axes)}, format(a), to);
}

ValueId Steps::slice(ValueId a, std::int64_t axis, std::int64_t start, std::int64_t end,
                     std::int64_t step) {
  Shape to = dims(a);
  std::int64_t& extent = to[static_cast<std::size_t>(axis)];
  if (start == 0 && end == extent && step == 1) return a;
  extent = (end - start + step - 1) / step;
  return emit({.op = Operator::kSlice,
               .inputs = {a},
               .axes = {axis},
               .starts = {start},
               .ends = {end},
               .steps = {step}},
              format(a), to);
}

ValueId Steps::concat(const std::vector<ValueId>& parts, std::int64_t axis) {
  if (parts.size() == 1) return parts[0];
  Shape to = dims(parts[0]);
  std::int64_t& extent = to[static_cast<std::size_t>(axis)];
  extent = 0;
  for (const ValueId part : parts) extent += dims(part)[static_cast<std::size_t>(axis)];
  return emit({.op = Operator::kConcat, .inputs = parts, .axis = axis}, format(parts[0]), to);
}

ValueId Steps::pad(ValueId a, std::vector<std::int64_t> before, std::vector<std::int64_t> behind,
                   double value) {
  Shape to = dims(a);
  bool none = true;
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i] += before[i] + behind[i];
    none &= before[i] == 0 && behind[i] == 0;
  }
  if (none) return a;
  return emit({.op = Operator::kPad,
               .inputs = {a, scalar(format(a), value)},
               .starts = std::move(before),
               .ends = std::move(behind)},
              format(a), to);
}

ValueId Steps::expand(ValueId a, Shape to) {
  if (dims(a) == to) return a;
  return emit({.op = Operator::kExpand, .inputs = {a}}, format(a), std::move(to));
}

ValueId Steps::by_rule(ValueId indices) {
  const Tensor* const known = constant_of(indices);
  if (known == nullptr) return indices;
  const std::optional<IndexForm> form = index_form(*known);
  if (!form) return short_constant(*known);
  const Shape shape = dims(indices);
  const bool by_sum = form->outside_is == IndexForm::Outside::kBySum;
  ValueId sum;
  for (std::size_t axis = 0; axis < form->along.size(); ++axis) {
    Shape line(shape.size(), 1);
    line[axis] = shape[axis];
    const std::vector<std::int64_t>& numbers = form->along[axis];
    const bool nothing =
        std::all_of(numbers.begin(), numbers.end(), [](std::int64_t i) { return i == 0; });
    if (nothing && axis > 0 && shape[axis] == 1) continue;
    const ValueId part =
        by_sum ? f64s({numbers.begin(), numbers.end()}, line) : i64s(numbers, line);
    sum = sum.valid() ? add(sum, part) : part;
  }
  const auto outside = static_cast<double>(form->outside);
  switch (form->outside_is) {
    case IndexForm::Outside::kNowhere:
      return sum;
    case IndexForm::Outside::kByMask:
      return where(short_constant(form->mask), scalar(Format::kI64, outside), sum);
    case IndexForm::Outside::kBySum:
      break;
  }
  const ValueId below = min(sum, outside);
  return cast(where(less(below, 0.0), f64(outside), below), Format::kI64);
}

ValueId Steps::gather(ValueId a, ValueId indices, std::int64_t axis) {
  indices = by_rule(indices);
  const Shape& from = dims(a);
  Shape to(from.begin(), from.begin() + axis);
  to.insert(to.end(), dims(indices).begin(), dims(indices).end());
  to.insert(to.end(), from.begin() + axis + 1, from.end());
  return emit({.op = Operator::kGather, .inputs = {a, indices}, .axis = axis}, format(a), to);
}

ValueId Steps::matmul(ValueId a, ValueId b) {
  const Shape& left = dims(a);
  const Shape& right = dims(b);
  TESSERA_CHECK(left.size() >= 2 && right.size() >= 2 && left.back() == right[right.size() - 2],
                "a product of matrices with {} and {} terms", left.back(), right[right.size() - 2]);
  Shape to =
      broadcast_dims(Shape(left.begin(), left.end() - 2), Shape(right.begin(), right.end() - 2));
  to.push_back(left[left.size() - 2]);
  to.push_back(right.back());
  return emit({.op = Operator::kMatMul, .inputs = {a, b}}, format(a), to);
}

ValueId Steps::reduce(Operator op, ValueId a, std::vector<std::int64_t> axes) {
  Shape to = dims(a);
  bool none = true;
  for (const std::int64_t axis : axes) {
    none &= to[static_cast<std::size_t>(axis)] == 1;
    to[static_cast<std::size_t>(axis)] = 1;
  }
  if (none) return a;
  return emit({.op = op, .inputs = {a}, .axes = std::move(axes)}, format(a), to);
}

ValueId Steps::running_sum(ValueId a, std::int64_t axis) {
  return emit({.op = Operator::kRunningSum, .inputs = {a}, .axis = axis}, format(a), dims(a));
}

std::vector<ValueId> Steps::host_node(std::shared_ptr<const model::Node> node, std::int64_t opset,
                                      const std::vector<ValueId>& inputs,
                                      const std::vector<std::pair<Format, Shape>>& outputs) {
  Operation operation{.op = Operator::kHostNode, .inputs = inputs};
  operation.host = std::move(node);
  operation.host_opset = opset;
  operation.layer = layer_;
  for (const auto& [format, shape] : outputs) {
    operation.outputs.push_back(new_value(format, shape));
  }
  const std::vector<ValueId> results = operation.outputs;
  software_.operations.push_back(std::move(operation));
  return results;
}

}  // namespace tessera::concord
