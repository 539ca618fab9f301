// Every operator alone, on edge values, against the evaluator that the expansion is tested with.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "arith/rounding.h"
#include "concord/interpret.h"
#include "concord/steps.h"
#include "concord/testing/random_graph.h"
#include "written_program.h"

namespace tessera::concord::testing {
namespace {

// Collects one output per operator.
class Board {
 public:
  Board() : steps_(software_) {
    software_.layers.push_back({"operators", "Elementwise", {}, "", Format::kF64});
    steps_.begin_layer(0);
  }

  ValueId input(Format format, const Shape& dims, Values kind) {
    inputs_.push_back(random_tensor(format, dims, kind, random_));
    return steps_.input("x" + std::to_string(inputs_.size()), format, dims);
  }
  void show(ValueId id) { software_.outputs.push_back({id, steps().software().value(id).name}); }
  Steps& steps() { return steps_; }
  const Software& software() const { return software_; }
  const std::vector<Tensor>& inputs() const { return inputs_; }

 private:
  Software software_;
  Steps steps_;
  std::mt19937 random_{5};
  std::vector<Tensor> inputs_;
};

void add_arithmetic(Board& board, Format format) {
  Steps& steps = board.steps();
  const ValueId a = board.input(format, {2, 3, 40}, Values::kEdges);
  for (const Shape& dims : {Shape{2, 3, 40}, Shape{3, 1}, Shape{}, Shape{2, 1, 40}}) {
    const ValueId b = board.input(format, dims, Values::kEdges);
    for (const Operator op : {Operator::kAdd, Operator::kSubtract, Operator::kMultiply,
                              Operator::kDivide, Operator::kMinimum, Operator::kMaximum,
                              Operator::kEqual, Operator::kLess, Operator::kLessOrEqual}) {
      board.show(steps.binary(op, a, b));
      board.show(steps.binary(op, b, a));
    }
    const ValueId low = steps.less(b, a), nan = steps.is_nan(a);
    for (const Operator op : {Operator::kAnd, Operator::kOr}) {
      board.show(steps.binary(op, low, nan));
    }
    board.show(steps.unary(Operator::kNot, low));
    board.show(steps.where(low, steps.abs(a), b));
  }
  for (const Operator op :
       {Operator::kAbsolute, Operator::kNegate, Operator::kReciprocal, Operator::kSquareRoot,
        Operator::kFloor, Operator::kCeil, Operator::kRound, Operator::kIsNan}) {
    board.show(steps.unary(op, a));
  }
  const ValueId number = steps.where(steps.is_nan(a), steps.scalar(format, 3), a);
  board.show(steps.sign(number));
  board.show(steps.clip(number, -1.5, 2.25));
  board.show(steps.round(steps.mul(steps.clip(number, -9.0, 9.0), steps.scalar(format, 0.5))));
  const Format other = format == Format::kF32 ? Format::kF64 : Format::kF32;
  board.show(steps.cast(a, other));
}

void add_movement(Board& board, Format format) {
  Steps& steps = board.steps();
  const ValueId a = board.input(format, {3, 4, 5}, Values::kEdges);
  board.show(steps.reshape(a, {5, 12}));
  board.show(steps.transpose(a, {2, 0, 1}));
  board.show(steps.slice(a, 1, 1, 4, 2));
  board.show(steps.slice(a, 2, 2, 5, 1));
  board.show(steps.concat({a, steps.slice(a, 1, 0, 2, 1), a}, 1));
  board.show(steps.pad(a, {1, 0, 2}, {0, 3, 1}, 0.0));
  board.show(steps.expand(steps.slice(a, 1, 2, 3, 1), {3, 6, 5}));
  for (const std::int64_t axis : {0, 1, 2}) {
    board.show(steps.gather(a, steps.i64s({2, 0, 1, 1, 2, 0}, {2, 3}), axis));
  }
}

void add_sums(Board& board, Format format) {
  Steps& steps = board.steps();
  // Small whole numbers: every sum is exact.
  const auto whole = [&](const Shape& dims) {
    const ValueId x = board.input(format, dims, Values::kOrdinary);
    return steps.round(steps.clip(x, -50.0, 50.0));
  };
  board.show(steps.matmul(whole({5, 70}), whole({70, 35})));
  board.show(steps.matmul(whole({2, 1, 3, 7}), whole({4, 7, 2})));
  board.show(steps.matmul(whole({3, 7}), whole({2, 2, 7, 5})));
  const ValueId box = whole({3, 4, 6});
  for (const Operator op :
       {Operator::kReduceSum, Operator::kReduceMaximum, Operator::kReduceMinimum}) {
    board.show(steps.reduce(op, box, {1}));
    board.show(steps.reduce(op, box, {0, 2}));
    board.show(steps.reduce(op, box, {2}));
  }
  const ValueId rough = board.input(format, {3, 50, 2}, Values::kOrdinary);
  board.show(steps.running_sum(rough, 1));
  board.show(steps.running_sum(rough, 0));
}

void add_casts(Board& board) {
  Steps& steps = board.steps();
  for (const Format format : {Format::kF16, Format::kI8, Format::kU8, Format::kI16, Format::kU16,
                              Format::kI32, Format::kU32, Format::kI64}) {
    const ValueId x = board.input(format, {60}, Values::kEdges);
    const ValueId wide = steps.cast(x, Format::kF64);
    board.show(wide);
    if (format == Format::kF16) {
      board.show(steps.cast(x, Format::kF32));
      const ValueId nan = steps.scalar(Format::kF32, std::numeric_limits<double>::quiet_NaN());
      const ValueId narrow = steps.cast(wide, Format::kF32);
      board.show(steps.cast(steps.where(steps.is_nan(narrow), nan, narrow), format));
    } else {
      board.show(steps.cast(wide, format));
      board.show(steps.cast(x, Format::kBool));
      if (format != Format::kI64) board.show(steps.cast(x, Format::kI64));
    }
  }
  const ValueId index = board.input(Format::kI64, {7, 2}, Values::kOrdinary);
  board.show(steps.add(index, steps.i64s({5, -3}, {2})));
  board.show(steps.binary(Operator::kMultiply, index, steps.i64s({1'000'003, -7}, {2})));
  const ValueId any = board.input(Format::kI64, {40}, Values::kEdges);
  board.show(steps.binary(Operator::kMultiply, any, any));
  board.show(steps.add(any, any));
}

Board all_operators() {
  Board board;
  for (const Format format : {Format::kF32, Format::kF64}) {
    add_arithmetic(board, format);
    add_movement(board, format);
    add_sums(board, format);
  }
  for (const Format format : {Format::kI64, Format::kBool, Format::kF16}) {
    add_movement(board, format);
  }
  add_casts(board);
  return board;
}

// Bits, but for what software.h leaves open: the bits of a NaN; the sign of a zero from minimum,
// maximum and sign.
bool same(const Operation& operation, Format format, const Tensor& a, const Tensor& b) {
  if (a == b) return true;
  const bool zeros = operation.op == Operator::kMinimum || operation.op == Operator::kMaximum ||
                     operation.op == Operator::kSign || operation.op == Operator::kReduceMaximum ||
                     operation.op == Operator::kReduceMinimum ||
                     operation.op == Operator::kReduceSum || operation.op == Operator::kMatMul;
  for (std::int64_t i = 0; i < element_count(a.dims); ++i) {
    const double x = arith::read_element(format, a.bytes.data() + i * format_bytes(format));
    const double y = arith::read_element(format, b.bytes.data() + i * format_bytes(format));
    if (std::isnan(x) && std::isnan(y)) continue;
    if (arith::bits_of_f64(x) == arith::bits_of_f64(y)) continue;
    if (!zeros || x != 0 || y != 0) return false;
  }
  return true;
}

void check_operators(std::string (*build)(const Software&, const Folder&)) {
  const Board board = all_operators();
  const Software& software = board.software();
  const auto expected = interpret(software, board.inputs());
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  const Folder folder;
  const std::vector<Tensor> actual =
      run_files(software, build(software, folder), board.inputs(), folder);
  ASSERT_EQ(actual.size(), expected->size());
  std::vector<const Operation*> maker(software.values.size());
  for (const Operation& operation : software.operations) {
    maker[static_cast<std::size_t>(operation.outputs[0].value)] = &operation;
  }
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const ValueId id = software.outputs[i].value;
    const Operation& operation = *maker[static_cast<std::size_t>(id.value)];
    const Format format = software.value(id).format;
    EXPECT_TRUE(same(operation, format, (*expected)[i], actual[i]))
        << operator_name(operation.op) << " of " << format_name(format) << ", output " << i;
  }
}

TEST(WrittenCpp, EveryOperatorGivesTheBitsOfTheEvaluator) { check_operators(build_cpp); }

TEST(WrittenPytorch, EveryOperatorGivesTheBitsOfTheEvaluator) {
  if (!find_python("torch")) GTEST_SKIP() << "no python3 with torch and numpy";
  check_operators(build_pytorch);
}

}  // namespace
}  // namespace tessera::concord::testing
