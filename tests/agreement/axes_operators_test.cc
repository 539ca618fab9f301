// Normalisations over any axes and movement along any axis, of ranks up to eight: each is built for
// a large, a small and a float32 profile, runs on the processor as a whole, and the simulated core,
// the host and the reference give equal bits.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/test_volume.h"
#include "operator_check.h"

namespace tessera::agreement {
namespace {

using graph::testing::TestModel;
using Ints = std::vector<std::int64_t>;
using Names = std::vector<std::string>;

using MakeRanked = TestModel (*)(Maker& maker, std::size_t rank);

// `rounds` models of each rank; in the long form three times as many, and in every profile.
void check_ranks(MakeRanked make, std::size_t first, std::size_t last, int rounds) {
  for (std::size_t rank = first; rank <= last; ++rank) {
    for (int round = 0; round < rounds * (4 - visit_one_in(3, 3)); ++round) {
      if (::testing::Test::HasFailure()) return;
      const std::uint64_t seed = rank * 1000 + static_cast<std::uint64_t>(round);
      Maker maker(seed);
      SCOPED_TRACE(fmt::format("rank {}, round {}", rank, round));
      const TestModel model = make(maker, rank);
      for (std::size_t i = 0; i < kProfiles.size(); ++i) {
        if ((i + rank + seed) % static_cast<std::size_t>(visit_one_in(3, 3)) != 0) continue;
        check_on(kProfiles[i], model, seed, {.derive = true});
      }
    }
  }
}

std::int64_t axis_of(Maker& maker, const Shape& dims) {
  const auto rank = static_cast<std::int64_t>(dims.size());
  return maker.pick(-rank, rank - 1);
}

std::size_t place_of(std::int64_t axis, const Shape& dims) {
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(dims.size()) : axis);
}

std::string constant(TestModel& model, Maker& maker, const std::string& name, const Shape& dims) {
  model.constant(name, dims, maker.reals(dims));
  return name;
}

std::string integers(TestModel& model, const std::string& name, const Ints& values) {
  model.constant(name, {static_cast<std::int64_t>(values.size())}, {values.begin(), values.end()},
                 Format::kI64);
  return name;
}

// ---- normalisation ------------------------------------------------------------------------------

TestModel along_an_axis(Maker& maker, std::size_t rank) {
  TestModel model(23);
  const Shape dims = random_shape(maker, rank);
  model.input("x", dims);
  for (const std::string name : {"Softmax", "LogSoftmax", "Hardmax", "LpNormalization"}) {
    model.node(name, {"x"}, {name}, {{"axis", axis_of(maker, dims)}}).output(name);
  }
  const std::int64_t first = axis_of(maker, dims);
  const Shape behind(dims.begin() + static_cast<std::ptrdiff_t>(place_of(first, dims)), dims.end());
  const std::string scale = constant(model, maker, "scale", behind);
  const std::string bias = constant(model, maker, "bias", behind);
  model.node("LayerNormalization", {"x", scale, bias}, {"l", "m", "d"}, {{"axis", first}});
  model.node("RMSNormalization", {"x", scale}, {"r"}, {{"axis", first}});
  return model.output("l").output("m").output("d").output("r");
}

// Up to opset 12 a softmax goes over all axes from one on.
TestModel from_an_axis(Maker& maker, std::size_t rank) {
  TestModel model(11);
  const Shape dims = random_shape(maker, rank);
  model.input("x", dims);
  for (const std::string name : {"Softmax", "LogSoftmax", "Hardmax"}) {
    model.node(name, {"x"}, {name}, {{"axis", axis_of(maker, dims)}}).output(name);
  }
  return model;
}

TestModel over_some_axes(Maker& maker, std::size_t rank) {
  TestModel model(13);
  const Shape dims = random_shape(maker, rank);
  Ints axes;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (maker.one_in(2)) axes.push_back(static_cast<std::int64_t>(axis));
  }
  if (axes.empty()) axes = {0};
  if (maker.one_in(2)) std::reverse(axes.begin(), axes.end());
  if (maker.one_in(2)) axes[0] -= static_cast<std::int64_t>(rank);
  model.input("x", dims).node("MeanVarianceNormalization", {"x"}, {"y"}, {{"axes", axes}});
  return model.output("y");
}

TestModel by_channels(Maker& maker, std::size_t rank) {
  TestModel model(21);
  Shape dims = random_shape(maker, rank);
  const std::int64_t groups = maker.pick(1, 3);
  dims[1] = groups * maker.pick(1, 3);
  model.input("x", dims);
  const Shape channels = {dims[1]};
  const std::string s = constant(model, maker, "s", channels);
  const std::string b = constant(model, maker, "b", channels);
  model.constant("v", channels, {0.5}).constant("u", channels, {0.25});
  model.node("BatchNormalization", {"x", s, b, "u", "v"}, {"n"}).output("n");
  model.node("LRN", {"x"}, {"l"}, {{"size", maker.pick(1, 5)}}).output("l");
  model.node("GroupNormalization", {"x", s, b}, {"g"}, {{"num_groups", groups}}).output("g");
  if (rank < 3) return model;
  model.node("InstanceNormalization", {"x", s, b}, {"i"}).output("i");
  model.node("GlobalAveragePool", {"x"}, {"a"}).output("a");
  return model.node("GlobalMaxPool", {"x"}, {"p"}).output("p");
}

TEST(EveryAxis, IsNormalisedAlong) { check_ranks(along_an_axis, 1, 8, 6); }
TEST(EveryAxis, IsSummedFromInOlderSoftmaxes) { check_ranks(from_an_axis, 1, 6, 3); }
TEST(EveryAxis, IsPartOfAMeanAndVariance) { check_ranks(over_some_axes, 1, 8, 9); }
TEST(EveryAxis, IsNormalisedByChannels) { check_ranks(by_channels, 2, 6, 6); }

// ---- movement -----------------------------------------------------------------------------------

void add_slice(TestModel& model, Maker& maker, const Shape& dims) {
  Ints starts, ends, axes, steps;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (maker.one_in(3)) continue;
    const std::int64_t step = maker.one_in(2) ? maker.pick(1, 3) : -maker.pick(1, 3);
    const std::int64_t a = maker.pick(0, dims[axis] - 1), b = maker.pick(0, dims[axis] - 1);
    starts.push_back(step > 0 ? std::min(a, b) : std::max(a, b));
    ends.push_back(step > 0 ? std::max(a, b) + 1 : std::min(a, b) - 1 - dims[axis]);
    axes.push_back(static_cast<std::int64_t>(axis));
    steps.push_back(step);
  }
  if (axes.empty()) return;
  model.node("Slice",
             {"x", integers(model, "starts", starts), integers(model, "ends", ends),
              integers(model, "along", axes), integers(model, "steps", steps)},
             {"slice"});
  model.output("slice");
}

void add_pads(TestModel& model, Maker& maker, const Shape& dims) {
  for (const std::string mode : {"constant", "edge", "reflect", "wrap"}) {
    Ints pads(2 * dims.size(), 0);
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      const std::int64_t most = mode == "constant" ? 2 : std::min<std::int64_t>(2, dims[axis] - 1);
      if (maker.one_in(2)) continue;
      pads[axis] = maker.pick(0, most);
      pads[dims.size() + axis] = maker.pick(0, most);
    }
    model.node("Pad", {"x", integers(model, mode + "_pads", pads)}, {mode}, {{"mode", mode}});
    model.output(mode);
  }
}

void add_split(TestModel& model, Maker& maker, const Shape& dims) {
  const std::int64_t axis = axis_of(maker, dims);
  const std::int64_t extent = dims[place_of(axis, dims)];
  const std::int64_t first = maker.pick(0, extent);
  model.node("Split", {"x", integers(model, "sizes", {first, extent - first})}, {"low", "high"},
             {{"axis", axis}});
  model.output("low").output("high");
}

TestModel cut_and_padded(Maker& maker, std::size_t rank) {
  TestModel model(19);
  const Shape dims = random_shape(maker, rank);
  model.input("x", dims);
  add_slice(model, maker, dims);
  add_pads(model, maker, dims);
  add_split(model, maker, dims);
  return model;
}

TestModel turned_and_joined(Maker& maker, std::size_t rank) {
  TestModel model(19);
  const Shape dims = random_shape(maker, rank);
  Ints order(rank);
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = rank; i-- > 1;) {
    std::swap(order[i],
              order[static_cast<std::size_t>(maker.pick(0, static_cast<std::int64_t>(i)))]);
  }
  Shape other = dims;
  const std::int64_t axis = axis_of(maker, dims);
  other[place_of(axis, dims)] = maker.pick(0, 4);
  model.input("x", dims).input("o", other);
  model.node("Transpose", {"x"}, {"t"}, {{"perm", order}}).output("t");
  model.node("Concat", {"x", "o", "x"}, {"c"}, {{"axis", axis}}).output("c");
  Ints repeats(rank);
  for (std::int64_t& repeat : repeats) repeat = maker.one_in(3) ? maker.pick(1, 3) : 1;
  model.node("Tile", {"x", integers(model, "repeats", repeats)}, {"r"}).output("r");
  model.node("Flatten", {"x"}, {"f"}, {{"axis", axis}}).output("f");
  return model;
}

TestModel picked(Maker& maker, std::size_t rank) {
  TestModel model(18);
  const Shape dims = random_shape(maker, rank);
  model.input("x", dims);
  const std::int64_t axis = axis_of(maker, dims);
  const std::int64_t extent = dims[place_of(axis, dims)];
  Shape at(static_cast<std::size_t>(maker.pick(0, 2)), 2);
  model.constant("at", at, maker.whole_numbers(at, -extent, extent - 1), Format::kI64);
  model.node("Gather", {"x", "at"}, {"g"}, {{"axis", axis}}).output("g");
  model.constant("places", dims, maker.whole_numbers(dims, -extent, extent - 1), Format::kI64);
  model.node("GatherElements", {"x", "places"}, {"e"}, {{"axis", axis}}).output("e");
  if (rank < 2) return model;
  model.node("Trilu", {"x"}, {"u"}, {{"upper", maker.pick(0, 1)}}).output("u");
  Ints lengths;
  for (std::int64_t i = 0; i < dims[1]; ++i) lengths.push_back(maker.pick(1, dims[0]));
  model.node("ReverseSequence", {"x", integers(model, "lengths", lengths)}, {"v"}).output("v");
  return model;
}

TEST(EveryAxis, IsCutAndPadded) { check_ranks(cut_and_padded, 1, 8, 5); }
TEST(EveryAxis, IsTurnedAndJoined) { check_ranks(turned_and_joined, 1, 8, 5); }
TEST(EveryAxis, IsPickedFrom) { check_ranks(picked, 1, 8, 5); }

// Transposed axes are the host's where a copy has too few; all else takes several copies.
TEST(MoreAxesThanACopyHas, AreMovedAllTheSame) {
  const std::size_t most = visit_one_in(2, 2) == 1 ? 14 : 12;
  for (std::size_t rank = 9; rank <= most; ++rank) {
    Shape even(rank, 2), all(rank, 2), odd(rank, 2);
    for (std::size_t axis = 0; axis < rank; ++axis) (axis % 2 == 0 ? odd : even)[axis] = 1;
    TestModel model(13);
    model.input("a", even).input("b", odd);
    model.node("Expand", {"a", integers(model, "to", all)}, {"e"}).output("e");
    model.node("Tile", {"b", integers(model, "twice", even)}, {"t"}).output("t");
    Ints pads(2 * rank, 0);
    for (std::size_t axis = 0; axis < rank; axis += 2) pads[axis] = pads[rank + axis] = 1;
    model.node("Pad", {"b", integers(model, "pads", pads)}, {"p"}).output("p");
    Shape left = even, right = odd;
    left[rank - 2] = left[rank - 1] = right[rank - 2] = right[rank - 1] = 2;
    model.input("l", left).input("r", right).node("MatMul", {"l", "r"}, {"m"}).output("m");
    SCOPED_TRACE(rank);
    for (const char* profile : kProfiles) check_on(profile, model, rank, {.derive = true});
    model.input("x", all).node("Transpose", {"x"}, {"y"}).output("y");
    for (const char* profile : kProfiles) check_on(profile, model, rank, {.offload = false});
  }
}

// ---- long axes ----------------------------------------------------------------------------------

// A prime beyond what a partition of any of the processors holds, and beyond 16 bits.
constexpr std::int64_t kLong = 100003;

// Every operator of `make` with the long axis in each place, each in the profile whose turn it is.
using MakeLong = TestModel (*)(const Shape& dims);
void check_long(MakeLong make, const Shape& shape, const Check& check = {}) {
  Shape dims = shape;
  std::sort(dims.begin(), dims.end());
  std::uint64_t turn = 0;
  do {
    if (::testing::Test::HasFailure()) return;
    SCOPED_TRACE(fmt::format("[{}]", fmt::join(dims, ", ")));
    check_on(kProfiles[turn % kProfiles.size()], make(dims), turn, check);
    ++turn;
  } while (std::next_permutation(dims.begin(), dims.end()));
}

// Every other axis repeated, of one operand and of the other.
TestModel long_broadcasts(const Shape& dims) {
  Shape even = dims, odd = dims;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) (axis % 2 == 0 ? odd : even)[axis] = 1;
  TestModel model(13);
  model.input("a", even).input("b", odd).input("x", dims);
  model.node("Add", {"a", "b"}, {"s"})
      .node("Mul", {"a", "x"}, {"p"})
      .node("Max", {"x", "b"}, {"m"});
  return model.output("s").output("p").output("m");
}

TestModel long_reductions(const Shape& dims) {
  TestModel model(13);
  model.input("x", dims);
  for (std::uint32_t set = 1; set < 1U << dims.size(); ++set) {
    Ints axes;
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      if ((set >> axis & 1U) != 0) axes.push_back(static_cast<std::int64_t>(axis));
    }
    for (const std::string name : {"ReduceMean", "ReduceMax", "ReduceL2"}) {
      const std::string y = fmt::format("{}{}", name, set);
      model.node(name, {"x"}, {y}, {{"axes", axes}}).output(y);
    }
  }
  return model;
}

TestModel long_normalisations(const Shape& dims) {
  TestModel model(17);
  model.input("x", dims).constant("one", {1}, {1.0});
  for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(dims.size()); ++axis) {
    const auto y = [&](const char* name) { return fmt::format("{}{}", name, axis); };
    model.node("Softmax", {"x"}, {y("s")}, {{"axis", axis}}).output(y("s"));
    model.node("LpNormalization", {"x"}, {y("p")}, {{"axis", axis}}).output(y("p"));
    model.node("LayerNormalization", {"x", "one"}, {y("l")}, {{"axis", axis}}).output(y("l"));
    model.node("ArgMax", {"x"}, {y("a")}, {{"axis", axis}}).output(y("a"));
  }
  return model;
}

TestModel long_moves(const Shape& dims) {
  TestModel model(13);
  model.input("x", dims).node("Transpose", {"x"}, {"t"}).output("t");
  integers(model, "pads", {1, 0, 2, 0, 3, 0});
  integers(model, "repeats", {2, 1, 2});
  model.node("Pad", {"x", "pads"}, {"p"}).output("p");
  model.node("Tile", {"x", "repeats"}, {"r"}).output("r");
  for (std::int64_t axis = 0; axis < 3; ++axis) {
    const std::string at = fmt::format("{}", axis);
    model.node("Slice",
               {"x", integers(model, "from" + at, {-1}), integers(model, "to" + at, {-kLong - 1}),
                integers(model, "along" + at, {axis}), integers(model, "by" + at, {-1})},
               {"s" + at});
    model.node("Concat", {"x", "x"}, {"c" + at}, {{"axis", axis}})
        .output("s" + at)
        .output("c" + at);
  }
  return model;
}

// Both parts of a Concat lie in one buffer, by turns, and the first is read along another axis before
// the second is written: what is between its columns is nobody's yet.
TestModel turned_before_it_is_joined(Maker& maker) {
  TestModel model(17);
  const std::int64_t images = maker.pick(1, 4), channels = 8 * maker.pick(1, 2);
  const std::int64_t columns = maker.pick(5, 8);
  const Shape dims = {images, channels, columns}, turned = {columns, 1, images * channels, 1};
  model.input("x", dims).node("Relu", {"x"}, {"a"}).node("HardSigmoid", {"a"}, {"b"});
  model.node("Concat", {"x", "b"}, {"joined"}, {{"axis", std::int64_t{2}}}).output("joined");
  model.node("Transpose", {"a"}, {"t"}, {{"perm", Ints{1, 2, 0}}});
  model.node("Reshape", {"t", integers(model, "dims", turned)}, {"r"});
  model.node("Relu", {"r"}, {"y"}).output("y");
  return model;
}
TEST(Axes, PartIsReadTurnedBeforeTheOthersAreThere) { check(turned_before_it_is_joined, 12); }

// A copy to every other place, of more runs than are named one by one: what lies between is written later.
TestModel joined_by_turns(Maker& maker) {
  TestModel model(17);
  const std::int64_t rows = maker.pick(10, 40), columns = maker.pick(40, 70);
  model.input("x", {1, 2, rows, columns, 1})
      .node("Concat", {"x", "x"}, {"a"}, {{"axis", std::int64_t{1}}});
  model.node("Concat", {"a", "a"}, {"y"}, {{"axis", std::int64_t{4}}}).output("y");
  return model;
}
TEST(Axes, CopyOfManyRunsReadsWhatIsThere) { check(joined_by_turns, 4); }

bool whole() { return visit_one_in(2, 2) == 1; }

TEST(ALongAxis, IsBroadcast) {
  check_long(long_broadcasts, whole() ? Shape{2, 3, 2, kLong} : Shape{2, 2, kLong});
}
TEST(ALongAxis, IsReduced) {
  check_long(long_reductions, whole() ? Shape{2, 3, kLong} : Shape{3, kLong});
}
TEST(ALongAxis, IsNormalised) {
  check_long(long_normalisations, whole() ? Shape{2, 3, kLong} : Shape{3, kLong},
             {.define = false});
}
TEST(ALongAxis, IsMoved) { check_long(long_moves, {2, 2, kLong}); }

}  // namespace
}  // namespace tessera::agreement
