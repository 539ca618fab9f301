#include "concord/write/tensorflow.h"

#include <fmt/format.h>

#include "base/check.h"
#include "concord/runtime_text.h"

namespace tessera::concord {
namespace {

constexpr std::string_view kHead =
    "class Derived:\n"
    "    def __init__(self):\n"
    "        for number, tensor in read_constants():\n"
    "            setattr(self, f\"v{number}\", tensor)\n"
    "        self.prepare()\n\n"
    "    def __call__(self, *given):\n"
    "        return self.forward(*given)\n\n"
    "    def results(self, *given):\n"
    "        return [result.numpy() for result in self(*given)]\n\n";

std::string list(const std::vector<std::int64_t>& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

// Operations that take x, or x and y, and nothing else; null for the others.
const char* plain_name(Operator op) {
  switch (op) {
    case Operator::kAdd:
      return "AddV2";
    case Operator::kSubtract:
      return "Sub";
    case Operator::kMultiply:
      return "Mul";
    case Operator::kDivide:
      return "RealDiv";
    case Operator::kAbsolute:
      return "Abs";
    case Operator::kNegate:
      return "Neg";
    case Operator::kFloor:
      return "Floor";
    case Operator::kCeil:
      return "Ceil";
    case Operator::kRound:
      return "Rint";
    case Operator::kSign:
      return "Sign";
    case Operator::kIsNan:
      return "IsNan";
    case Operator::kEqual:
      return "Equal";
    case Operator::kLess:
      return "Less";
    case Operator::kLessOrEqual:
      return "LessEqual";
    case Operator::kAnd:
      return "LogicalAnd";
    case Operator::kOr:
      return "LogicalOr";
    case Operator::kNot:
      return "LogicalNot";
    case Operator::kMatMul:
      return "BatchMatMulV2";
    default:
      return nullptr;
  }
}

std::string slice(const Software& software, const Operation& operation, const std::string& a) {
  const Shape& dims = software.value(operation.inputs[0]).dims;
  std::vector<std::int64_t> begin(dims.size(), 0), end = dims, steps(dims.size(), 1);
  for (std::size_t i = 0; i < operation.axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(operation.axes[i]);
    begin[axis] = operation.starts[i];
    end[axis] = operation.ends[i];
    steps[axis] = operation.steps[i];
  }
  return fmt::format("tf.raw_ops.StridedSlice(input={}, begin={}, end={}, strides={})", a,
                     list(begin), list(end), list(steps));
}

std::string pad(const Operation& operation, const std::vector<std::string>& n) {
  std::string paddings;
  for (std::size_t i = 0; i < operation.starts.size(); ++i) {
    paddings +=
        fmt::format("{}[{}, {}]", i == 0 ? "" : ", ", operation.starts[i], operation.ends[i]);
  }
  return fmt::format("tf.raw_ops.PadV2(input={}, paddings=[{}], constant_values={})", n[0],
                     paddings, n[1]);
}

std::string movement(const Software& software, const Operation& operation,
                     const std::vector<std::string>& n) {
  const Shape& dims = software.value(operation.outputs[0]).dims;
  switch (operation.op) {
    case Operator::kReshape:
      // An empty list would be one of float32 numbers.
      return fmt::format("tf.raw_ops.Reshape(tensor={}, shape={})", n[0],
                         dims.empty() ? "numpy.zeros(0, numpy.int32)" : list(dims));
    case Operator::kTranspose:
      return fmt::format("tf.raw_ops.Transpose(x={}, perm={})", n[0], list(operation.axes));
    case Operator::kSlice:
      return slice(software, operation, n[0]);
    case Operator::kConcat:
      return fmt::format("tf.raw_ops.ConcatV2(values=[{}], axis={})", fmt::join(n, ", "),
                         operation.axis);
    case Operator::kPad:
      return pad(operation, n);
    case Operator::kExpand:
      return fmt::format("tf.raw_ops.BroadcastTo(input={}, shape={})", n[0], list(dims));
    case Operator::kGather:
      return fmt::format("tf.raw_ops.GatherV2(params={}, indices={}, axis={})", n[0], n[1],
                         operation.axis);
    default:
      TESSERA_CHECK(false, "'{}' has no TensorFlow operation", operator_name(operation.op));
      return "";
  }
}

std::string reduction(const char* name, const Operation& operation, const std::string& a) {
  return fmt::format("tf.raw_ops.{}(input={}, axis={}, keep_dims=True)", name, a,
                     list(operation.axes));
}

std::string expression(const Software& software, const Operation& operation,
                       const std::vector<std::string>& n) {
  if (const char* name = plain_name(operation.op)) {
    return n.size() == 1 ? fmt::format("tf.raw_ops.{}(x={})", name, n[0])
                         : fmt::format("tf.raw_ops.{}(x={}, y={})", name, n[0], n[1]);
  }
  switch (operation.op) {
    case Operator::kMinimum:
      return fmt::format("minimum({}, {})", n[0], n[1]);
    case Operator::kMaximum:
      return fmt::format("maximum({}, {})", n[0], n[1]);
    case Operator::kReciprocal:
      return fmt::format("reciprocal({})", n[0]);
    case Operator::kSquareRoot:
      return fmt::format("square_root({})", n[0]);
    case Operator::kClip:
      return fmt::format("tf.raw_ops.Minimum(x=tf.raw_ops.Maximum(x={}, y={}), y={})", n[0], n[1],
                         n[2]);
    case Operator::kWhere:
      return fmt::format("tf.raw_ops.SelectV2(condition={}, t={}, e={})", n[0], n[1], n[2]);
    case Operator::kCast:
      return fmt::format("tf.raw_ops.Cast(x={}, DstT=tf.{})", n[0], numpy_name(operation.to));
    case Operator::kReduceSum:
      return reduction("Sum", operation, n[0]);
    case Operator::kReduceMaximum:
      return reduction("Max", operation, n[0]);
    case Operator::kReduceMinimum:
      return reduction("Min", operation, n[0]);
    case Operator::kRunningSum:
      return fmt::format(
          "running_sum({}, {}, {})", n[0], operation.axis,
          software.value(operation.inputs[0]).dims[static_cast<std::size_t>(operation.axis)]);
    default:
      return movement(software, operation, n);
  }
}

}  // namespace

Result<PythonModule> write_tensorflow(const Software& software, const std::string& weights_name) {
  TESSERA_RETURN_IF_ERROR(check_python(software, "TensorFlow"));
  PythonDialect dialect;
  dialect.target = "TensorFlow";
  dialect.runtime = kTensorflowRuntime;
  dialect.head = kHead;
  dialect.row = "tf.raw_ops.GatherV2(params={}, indices=tf.constant(turn, dtype=tf.int64), axis=0)";
  dialect.stack = "tf.raw_ops.Pack(values={}, axis=0)";
  dialect.expression = [&](const Operation& operation, const std::vector<std::string>& operands) {
    return expression(software, operation, operands);
  };
  return write_python(software, weights_name, dialect);
}

}  // namespace tessera::concord
