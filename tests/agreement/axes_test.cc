// Reductions over every set of axes and broadcasts of any shapes: whatever the axes are, the model
// compiles in a large, a small and a float32 profile, runs on the processor as a whole, and the
// simulated core, the host and the reference give equal bits.
//
//   shape, axes or operands' shapes ─► model of several operators ─► check_on() for each profile
//
// The long form takes ten times as many shapes; the other one takes each set of axes in one profile, another
// than its neighbour.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/test_volume.h"
#include "graph/build.h"
#include "operator_check.h"
#include "random_runs.h"

namespace tessera::agreement {
namespace {

using graph::testing::TestModel;
using Ints = std::vector<std::int64_t>;
using Names = std::vector<std::string>;

// How often all sets and broadcasts are gone through, each time with other shapes.
std::uint64_t rounds() { return visit_one_in(2, 2) == 1 ? 10 : 1; }

void check_everywhere(const TestModel& model, std::uint64_t seed,
                      const Check& check = {.derive = true}) {
  for (const char* profile : kProfiles) check_on(profile, model, seed, check);
}

// In all profiles, or else in the one whose turn it is.
void check_in_turn(const TestModel& model, std::uint64_t turn,
                   const Check& check = {.derive = true}) {
  if (rounds() > 1) return check_everywhere(model, turn, check);
  check_on(kProfiles[turn % kProfiles.size()], model, turn, check);
}

Ints axes_of(std::uint32_t set, std::size_t rank) {
  Ints axes;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if ((set >> axis & 1U) != 0) axes.push_back(static_cast<std::int64_t>(axis));
  }
  return axes;
}

// ---- reductions ---------------------------------------------------------------------------------

constexpr std::array kReductions = {
    "ReduceSum", "ReduceMean", "ReduceMax",       "ReduceMin",    "ReduceProd",
    "ReduceL1",  "ReduceL2",   "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"};

// Every reduction of one tensor over one set of axes; `turn` decides which of them keep the axes.
// Products have no exact form in derived software.
TestModel reductions(const Shape& dims, const Ints& axes, std::uint64_t turn, bool products) {
  const bool as_input = turn % 2 == 0;  // axes are an input since opset 18
  TestModel model(as_input ? 18 : 13);
  model.input("x", dims).node("Abs", {"x"}, {"a"});
  std::vector<double> values(axes.begin(), axes.end());
  model.constant("axes", {static_cast<std::int64_t>(axes.size())}, values, Format::kI64);
  for (std::size_t i = 0; i < kReductions.size(); ++i) {
    const std::string name = kReductions[i];
    if (name == "ReduceProd" && !products) continue;
    const std::string y = fmt::format("y{}", i);
    model::Attributes attributes = {{"keepdims", static_cast<std::int64_t>((i + turn / 2) % 2)}};
    Names inputs = {name == "ReduceLogSum" ? "a" : "x"};
    if (as_input || name == "ReduceSum") {
      inputs.emplace_back("axes");
    } else {
      attributes["axes"] = axes;
    }
    model.node(name, inputs, {y}, attributes).output(y);
  }
  return model;
}

TEST(EveryAxisSet, OfRanksUpToSixReducesOnEveryDevice) {
  Maker maker(1);
  std::uint64_t turn = 0;
  for (std::size_t i = 0; i < 6 * rounds(); ++i) {
    const std::size_t rank = i % 6 + 1;
    for (std::uint32_t set = 1; set < 1U << rank && !HasFailure(); ++set, ++turn) {
      const Shape dims = random_shape(maker, rank);
      SCOPED_TRACE(fmt::format("axes {} of [{}]", axes_of(set, rank), fmt::join(dims, ", ")));
      check_in_turn(reductions(dims, axes_of(set, rank), turn, true), turn, {});
      check_in_turn(reductions(dims, axes_of(set, rank), turn + 2, false), turn + 1);
    }
  }
}

// No two neighbours fall together: the sets that take the most turning.
TEST(EveryAxisSet, AlternatingAxesOfRanksSevenToTwelveReduceOnEveryDevice) {
  for (std::size_t rank = 7; rank <= 12 && !HasFailure(); ++rank) {
    for (const std::uint32_t set : {0x555U, 0xAAAU}) {
      const Ints axes = axes_of(set, rank);
      SCOPED_TRACE(fmt::format("axes {} of rank {}", axes, rank));
      Shape dims(rank, 2);
      dims[rank / 2] = 3;
      check_in_turn(reductions(dims, axes, rank, true), rank + set, {});
      check_in_turn(reductions(dims, axes, rank, false), rank + set + 1);
    }
  }
}

// Sums and products of f32 elements are those of binary64 in row-major order over the reduced axes,
// also where the axes are turned for it; of these elements another order would give other bits.
TEST(EveryAxisSet, TurnedElementsAreAddedInTheirOrder) {
  const Shape dims = {3, 2, 5, 2, 7};  // over axes 0, 2 and 4
  Maker maker(4);
  Tensor x = Tensor::zeros(Format::kF32, dims);
  Tensor expected = Tensor::zeros(Format::kF32, {2, 2});
  bool ordered = false;
  for (std::size_t kept = 0; kept < 4; ++kept) {
    std::vector<double> elements;
    for (std::size_t i = 0; i < 3 * 5 * 7; ++i) {
      // What is added between a large number and its negative is lost.
      const double large = std::size_t{102} > i && i % 3 == 0 ? 0x1p80 : 0.0;
      const double value = i % 2 == 0 ? large : -large;
      elements.push_back(value != 0.0 ? value : static_cast<double>(maker.pick(-1000, 1000)));
      const std::size_t at = (i / 35 * 2 + kept / 2) * 70 + (i / 7 % 5 * 2 + kept % 2) * 7 + i % 7;
      x.as<float>()[at] = static_cast<float>(elements.back());
    }
    const double sum = std::accumulate(elements.begin(), elements.end(), 0.0);
    expected.as<float>()[kept] = static_cast<float>(sum);
    ordered |= sum != std::accumulate(elements.rbegin(), elements.rend(), 0.0);
  }
  ASSERT_TRUE(ordered);
  TestModel model(11);
  model.input("x", dims).output("y", {2, 2});
  model.node("ReduceSum", {"x"}, {"y"}, {{"axes", Ints{0, 2, 4}}, {"keepdims", std::int64_t{0}}});
  graph::BuildOptions options;
  options.vector_format = Format::kF32;
  options.matrix.kind = MatrixKind::kFloat;
  auto graph = graph::build(model.model(), options);
  ASSERT_TRUE(graph.ok()) << graph.error().to_string();
  const auto sums = run_reference(std::make_shared<graph::Graph>(*std::move(graph)), {x});
  ASSERT_TRUE(sums.ok()) << sums.error().to_string();
  EXPECT_TRUE((*sums)[0] == expected);
}

TEST(EveryAxisSet, NoAxesAreAllAxesOrNone) {
  for (const std::int64_t none : {0, 1}) {
    TestModel model(18);
    model.input("x", {2, 3, 5}).node("Abs", {"x"}, {"a"});
    for (const std::string name : kReductions) {
      const std::string x = name == "ReduceLogSum" ? "a" : "x";
      model.node(name, {x}, {name}, {{"noop_with_empty_axes", none}}).output(name);
    }
    check_everywhere(model, 1, {});
  }
}

TEST(EveryAxisSet, IntegersReduceOverThem) {
  Maker maker(2);
  for (std::uint32_t set = 1; set < 32 && !HasFailure(); ++set) {
    const Shape dims = random_shape(maker, 5, 300);
    const Ints axes = axes_of(set, 5);
    SCOPED_TRACE(fmt::format("axes {} of [{}]", axes, fmt::join(dims, ", ")));
    TestModel model(13);
    model.input("x", dims, set % 2 == 0 ? Format::kI32 : Format::kI8);
    model.node("ReduceMax", {"x"}, {"y"},
               {{"axes", axes}, {"keepdims", std::int64_t{set % 3 == 0}}});
    model.node("ReduceMin", {"x"}, {"z"}, {{"axes", axes}}).output("y").output("z");
    check_in_turn(model, set);
  }
}

TEST(EveryAxisSet, ExtremesHavePositionsAlongEveryAxis) {
  Maker maker(3);
  for (std::size_t rank = 1; rank <= 6; ++rank) {
    for (std::size_t axis = 0; axis < rank && !HasFailure(); ++axis) {
      const Shape dims = random_shape(maker, rank);
      SCOPED_TRACE(fmt::format("axis {} of [{}]", axis, fmt::join(dims, ", ")));
      TestModel model(13);
      model.input("x", dims).node("Round", {"x"}, {"r"});
      std::int64_t turn = 0;
      for (const char* name : {"ArgMax", "ArgMin", "ArgMax", "ArgMin"}) {
        const std::string y = fmt::format("y{}", turn);
        model.node(name, {"r"}, {y},
                   {{"axis", static_cast<std::int64_t>(axis)},
                    {"keepdims", turn / 2},
                    {"select_last_index", maker.pick(0, 1)}});
        model.output(y);
        ++turn;
      }
      check_in_turn(model, axis + rank);
    }
  }
}

// ---- broadcasts ---------------------------------------------------------------------------------

// An operand that broadcasts to `dims`: some axes are 1, some leading ones absent.
Shape operand_of(Maker& maker, const Shape& dims) {
  Shape operand = dims;
  for (std::int64_t& dim : operand) {
    if (maker.pick(0, 9) < 4) dim = 1;
  }
  if (maker.one_in(3)) {
    operand.erase(operand.begin(),
                  operand.begin() + maker.pick(0, static_cast<std::int64_t>(operand.size())));
  }
  return operand;
}

// Adds broadcasts of random operators to a model, each with operands of its own. `whole`: also of
// those that derived software has no exact form for, computed exponents and products of i32.
class Broadcasts {
 public:
  Broadcasts(Maker& maker, TestModel& model, bool whole)
      : maker_(maker), model_(model), whole_(whole) {}

  void add(const Shape& dims) {
    dims_ = &dims;
    y_ = fmt::format("y{}", count_++);
    const std::int64_t kind = maker_.pick(0, 9);
    if (kind <= 4) {
      binary();
    } else if (kind == 5) {
      logic();
    } else if (kind == 6) {
      model_.node("Where", {truth(), operand(), operand()}, {y_});
    } else if (kind == 7) {
      expand();
    } else if (kind == 8) {
      several();
    } else {
      integers();
    }
    model_.output(y_);
    shapes_ += "; ";
  }
  const std::string& shapes() const { return shapes_; }

 private:
  std::string operand(Format format = Format::kF32) {
    return of(operand_of(maker_, *dims_), format);
  }
  std::string of(const Shape& dims, Format format = Format::kF32) {
    const std::string name = fmt::format("{}_{}", y_, names_++);
    shapes_ += fmt::format("[{}] ", fmt::join(dims, ", "));
    if (format == Format::kF32 && maker_.one_in(5)) {
      model_.constant(name, dims, maker_.reals(dims));
    } else {
      model_.input(name, dims, format);
    }
    return name;
  }
  std::string truth() {
    const std::string name = fmt::format("{}_{}", y_, names_++);
    const std::string a = operand(), b = operand();
    model_.node("Greater", {a, b}, {name});
    return name;
  }
  void named(const std::string& name, const Names& inputs) {
    shapes_ += name;
    model_.node(name, inputs, {y_});
  }
  void binary() {
    const Names names = {
        "Add",         "Sub", "Mul", "Div", "PRelu", "Greater", "Less", "Equal", "GreaterOrEqual",
        "LessOrEqual", "Pow"};
    const std::string& name = names[static_cast<std::size_t>(maker_.pick(0, whole_ ? 10 : 9))];
    const std::string a = name == "PRelu" ? of(*dims_) : operand();
    named(name, {a, operand()});
  }
  void logic() {
    const char* names[] = {"And", "Or", "Xor"};
    const std::string a = truth();
    named(names[maker_.pick(0, 2)], {a, truth()});
  }
  void expand() {
    Shape to = operand_of(maker_, *dims_);
    if (to.empty()) to = {1};
    const std::string shape = fmt::format("{}_{}", y_, names_++);
    model_.constant(shape, {static_cast<std::int64_t>(to.size())}, {to.begin(), to.end()},
                    Format::kI64);
    named("Expand", {operand(), shape});
  }
  void several() {
    const char* names[] = {"Sum", "Mean", "Max", "Min"};
    Names inputs;
    for (std::int64_t i = maker_.pick(2, 5); i > 0; --i) inputs.push_back(operand());
    named(names[maker_.pick(0, 3)], inputs);
  }
  void integers() {
    const char* names[] = {"Add", "Sub", "Max", "Mul"};
    const Format format = maker_.one_in(2) ? Format::kI32 : Format::kU8;
    const std::string a = operand(format);
    named(names[maker_.pick(0, whole_ ? 3 : 2)], {a, operand(format)});
  }

  Maker& maker_;
  TestModel& model_;
  const bool whole_;
  const Shape* dims_ = nullptr;
  std::string y_, shapes_;
  int count_ = 0, names_ = 0;
};

TEST(EveryBroadcast, OfTwoThousandRandomOnesRunsOnEveryDevice) {
  constexpr int kTogether = 10;
  for (std::uint64_t seed = 0; seed < rounds() * 2000 / kTogether && !HasFailure(); ++seed) {
    Maker maker(seed);
    TestModel model(16);
    const bool whole = seed % 4 == 0;
    Broadcasts broadcasts(maker, model, whole);
    std::vector<Shape> shapes;
    for (int i = 0; i < kTogether; ++i) {
      shapes.push_back(random_shape(maker, static_cast<std::size_t>(maker.pick(0, 8)), 500));
    }
    for (const Shape& dims : shapes) broadcasts.add(dims);
    SCOPED_TRACE(broadcasts.shapes());
    check_in_turn(model, seed, {.derive = !whole});
  }
}

// The product wants 18 channels of x, which its conversion writes as nine images of two: on edge, of
// 16 partitions, the first and the last of them begin in partition 0, and those between elsewhere.
TEST(EveryBroadcast, OfImagesThatBeginBetweenPartitionsRunsOnEveryDevice) {
  TestModel model(16);
  model.input("x", {1, 3, 3, 2, 1, 1, 2, 2}).input("z", {2, 3, 3, 2, 1, 2, 1, 1});
  check_everywhere(model.node("Mul", {"x", "z"}, {"y"}).output("y"), 1);
}

// One operand has the axes in even places, the other those in odd places.
TEST(EveryBroadcast, OfAlternatingAxesOfRanksUpToTwelveRunsOnEveryDevice) {
  for (std::size_t rank = 2; rank <= 12 && !HasFailure(); ++rank) {
    Shape even(rank, 2), odd(rank, 2);
    for (std::size_t axis = 0; axis < rank; ++axis) (axis % 2 == 0 ? odd : even)[axis] = 1;
    TestModel model(16);
    model.input("a", even).input("b", odd);
    model.node("Sub", {"a", "b"}, {"y"}).node("Greater", {"b", "a"}, {"c"});
    model.node("Where", {"c", "a", "b"}, {"z"}).output("y").output("z");
    SCOPED_TRACE(rank);
    check_everywhere(model, rank);
  }
}

// ---- tensors without elements -------------------------------------------------------------------

TEST(EmptyTensors, ReduceAndBroadcast) {
  for (const std::int64_t keep : {0, 1}) {
    for (std::uint32_t set = 1; set < 8; ++set) {
      TestModel model(18);
      model.input("x", {2, 0, 3}).input("z", {2, 1, 3});
      const Ints axes = axes_of(set, 3);
      model.constant("axes", {static_cast<std::int64_t>(axes.size())}, {axes.begin(), axes.end()},
                     Format::kI64);
      for (const std::string name : {"ReduceSum", "ReduceProd", "ReduceL1", "ReduceSumSquare"}) {
        model.node(name, {"x", "axes"}, {name}, {{"keepdims", keep}}).output(name);
      }
      model.node("Add", {"x", "z"}, {"s"})
          .node("Concat", {"s", "z"}, {"y"}, {{"axis", std::int64_t{1}}});
      model.output("y").output("s");
      check_in_turn(model, set, {.offload = false});
    }
  }
}

}  // namespace
}  // namespace tessera::agreement
