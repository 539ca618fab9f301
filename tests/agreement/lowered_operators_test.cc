// Operators that lowering composes of several nodes: the whole operator runs on the processor, the
// simulated core, the host and the reference give equal bits in the default and in the float32
// profile, and the float32 profile agrees with the operator's definition on the host.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "operator_check.h"

namespace tessera::agreement {
namespace {

using graph::testing::TestModel;
using Ints = std::vector<std::int64_t>;
using Names = std::vector<std::string>;

// ---- recurrence ---------------------------------------------------------------------------------

struct RecurrentShape {
  std::int64_t time, batch, input, hidden, directions, gates;
};

RecurrentShape recurrent_shape(Maker& maker, std::int64_t gates) {
  return {maker.pick(1, 5),  maker.pick(1, 3), maker.pick(1, 9),
          maker.pick(1, 20), maker.pick(1, 2), gates};
}

// Operands X, W, R, B, lengths, initial h (and c, P) of a recurrent operator; some of them left
// out.
void add_recurrent(TestModel& model, Maker& maker, const std::string& type, const RecurrentShape& s,
                   model::Attributes attributes) {
  const std::int64_t rows = s.gates * s.hidden;
  const bool weights_computed = maker.one_in(4);
  Names inputs = {"x", "w", "r", "", "", "", ""};
  model.input("x", {s.time, s.batch, s.input});
  const Shape w = {s.directions, rows, s.input};
  const Shape r = {s.directions, rows, s.hidden};
  if (weights_computed) {
    model.input("w", w).input("r", r);
  } else {
    model.constant("w", w, maker.reals(w, 0.7)).constant("r", r, maker.reals(r, 0.7));
  }
  if (!maker.one_in(3)) {
    inputs[3] = "b";
    model.constant("b", {s.directions, 2 * rows}, maker.reals({s.directions, 2 * rows}));
  }
  if (maker.one_in(3)) {
    inputs[4] = "lengths";
    std::vector<double> lengths;
    for (std::int64_t i = 0; i < s.batch; ++i) {
      lengths.push_back(static_cast<double>(maker.pick(1, s.time)));
    }
    model.constant("lengths", {s.batch}, lengths, Format::kI32);
  }
  const Shape state = {s.directions, s.batch, s.hidden};
  if (!maker.one_in(3)) {
    inputs[5] = "h0";
    model.input("h0", state);
  }
  Names outputs = {"y", "yh"};
  if (type == "LSTM") {
    if (maker.one_in(2)) {
      inputs[6] = "c0";
      model.input("c0", state);
    }
    if (maker.one_in(2)) {
      inputs.emplace_back("p");
      model.constant("p", {s.directions, 3 * s.hidden}, maker.reals({s.directions, 3 * s.hidden}));
    }
    outputs.emplace_back("yc");
  }
  if (type != "LSTM") inputs.resize(6);
  attributes["hidden_size"] = s.hidden;
  if (s.directions == 2) {
    attributes["direction"] = std::string("bidirectional");
  } else if (maker.one_in(2)) {
    attributes["direction"] = std::string("reverse");
  }
  if (maker.one_in(3)) attributes["clip"] = 0.6f;
  model.node(type, inputs, outputs, attributes);
  model.output("y", {s.time, s.directions, s.batch, s.hidden}).output("yh", state);
  if (type == "LSTM") model.output("yc", state);
}

TestModel lstm(Maker& maker) {
  TestModel model(14);
  model::Attributes attributes;
  if (maker.one_in(4)) attributes["input_forget"] = std::int64_t{1};
  add_recurrent(model, maker, "LSTM", recurrent_shape(maker, 4), attributes);
  return model;
}

TestModel gru(Maker& maker) {
  TestModel model(14);
  model::Attributes attributes;
  attributes["linear_before_reset"] = maker.pick(0, 1);
  add_recurrent(model, maker, "GRU", recurrent_shape(maker, 3), attributes);
  return model;
}

TestModel rnn(Maker& maker) {
  TestModel model(14);
  const RecurrentShape shape = recurrent_shape(maker, 1);
  model::Attributes attributes;
  const Names all = {"Relu", "Tanh", "Sigmoid", "Softsign", "LeakyRelu", "HardSigmoid", "Elu"};
  Names names;
  for (std::int64_t d = 0; d < shape.directions; ++d) {
    names.push_back(all[static_cast<std::size_t>(maker.pick(0, 6))]);
  }
  attributes["activations"] = names;
  add_recurrent(model, maker, "RNN", shape, attributes);
  return model;
}

TEST(LoweredOperators, Lstm) { check(lstm, 12); }
TEST(LoweredOperators, Gru) { check(gru, 10); }
TEST(LoweredOperators, Rnn) { check(rnn, 8); }

// ---- choice and comparison ----------------------------------------------------------------------

TestModel where(Maker& maker) {
  TestModel model(16);
  const Shape dims = {maker.pick(1, 3), maker.pick(1, 9), maker.pick(1, 40)};
  const char* compare[] = {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"};
  model.input("a", dims).input("b", {dims[1], dims[2]}).input("c", {dims[2]});
  model.node(compare[maker.pick(0, 4)], {"a", "b"}, {"m"});
  model.node("Not", {"m"}, {"n"}).node(maker.one_in(2) ? "Xor" : "And", {"m", "n"}, {"o"});
  model.node("Or", {"o", "m"}, {"p"});
  model.node("Where", {maker.one_in(2) ? "m" : "p", "c", "a"}, {"y"}).output("y", dims);
  model.output("o", dims, Format::kBool);
  return model;
}

TestModel positions(Maker& maker) {
  TestModel model(13);
  const Shape dims = {maker.pick(1, 3), maker.pick(1, 9), maker.pick(1, 40)};
  const std::int64_t axis = maker.pick(0, 2);
  Shape kept = dims;
  kept[static_cast<std::size_t>(axis)] = 1;
  Shape dropped = dims;
  dropped.erase(dropped.begin() + axis);
  model.input("x", dims);
  // Few values, so that extremes repeat.
  model.node("Round", {"x"}, {"r"});
  model.node(
      "ArgMax", {"r"}, {"a"},
      {{"axis", axis}, {"keepdims", std::int64_t{0}}, {"select_last_index", maker.pick(0, 1)}});
  model.node("ArgMin", {"r"}, {"b"}, {{"axis", axis - 3}, {"select_last_index", maker.pick(0, 1)}});
  model.node("Hardmax", {"r"}, {"h"}, {{"axis", axis}});
  model.output("a", dropped, Format::kI64).output("b", kept, Format::kI64).output("h", dims);
  return model;
}

TEST(LoweredOperators, WhereAndComparisons) { check(where, 6); }
TEST(LoweredOperators, PositionsOfExtremes) { check(positions, 6); }

// ---- integers and conversions -------------------------------------------------------------------

TestModel integers(Maker& maker) {
  TestModel model(14);
  const Format formats[] = {Format::kI32, Format::kI8, Format::kU8, Format::kI16};
  const Format format = formats[maker.pick(0, 3)];
  const Shape dims = {maker.pick(1, 5), maker.pick(1, 60)};
  model.input("a", dims, format).input("b", dims, format);
  model.constant("three", {}, {3}, format);
  model.node("Add", {"a", "b"}, {"s"}).node("Mul", {"s", "b"}, {"p"});
  model.node("Sub", {"p", "three"}, {"d"}).node("Div", {"d", "three"}, {"q"});
  model.node("Max", {"q", "a"}, {"m"}).node("Clip", {"m", "three"}, {"y"});
  model.node("ReduceMax", {"p"}, {"r"}, {{"axes", Ints{1}}});
  model.output("y", dims, format).output("r", {dims[0], 1}, format);
  return model;
}

TestModel casts(Maker& maker) {
  TestModel model(13);
  const Shape dims = {maker.pick(1, 5), maker.pick(1, 60)};
  model.input("x", dims).constant("k", {}, {100.0}).node("Mul", {"x", "k"}, {"s"});
  model.node("Cast", {"s"}, {"i"}, {{"to", std::int64_t{7}}});
  model.node("Cast", {"i"}, {"n"}, {{"to", std::int64_t{6}}});
  model.node("Cast", {"n"}, {"b"}, {{"to", std::int64_t{9}}});
  model.node("Cast", {"i"}, {"f"}, {{"to", std::int64_t{1}}});
  model.node("Cast", {"n"}, {"c"}, {{"to", std::int64_t{3}}});
  model.node("Transpose", {"i"}, {"t"}).output("t", {dims[1], dims[0]}, Format::kI64);
  model.output("b", dims, Format::kBool).output("f", dims).output("c", dims, Format::kI8);
  return model;
}

TEST(LoweredOperators, IntegerArithmetic) { check(integers, 6); }
TEST(LoweredOperators, Casts) { check(casts, 4); }

// ---- normalisation ------------------------------------------------------------------------------

TestModel channel_norms(Maker& maker) {
  TestModel model(21);
  const std::int64_t groups = maker.pick(1, 3);
  const Shape dims = {maker.pick(1, 2), groups * maker.pick(1, 4), maker.pick(1, 7),
                      maker.pick(1, 9)};
  model.input("x", dims);
  model.constant("s", {dims[1]}, maker.reals({dims[1]}))
      .constant("o", {dims[1]}, maker.reals({dims[1]}));
  model.node("LRN", {"x"}, {"l"}, {{"size", maker.pick(1, 5)}, {"alpha", 0.5f}, {"bias", 2.0f}});
  model.node("LpNormalization", {"x"}, {"n"},
             {{"axis", maker.pick(0, 3)}, {"p", maker.pick(1, 2)}});
  model.output("l", dims).output("n", dims);
  return model;
}

TEST(LoweredOperators, ChannelNormalisations) { check(channel_norms, 5); }

// Behind a convolution, whose post-processor does it.
TestModel normalised_conv(Maker& maker) {
  TestModel model(14);
  const std::int64_t kernel = maker.pick(1, 3), groups = maker.pick(1, 2);
  const std::int64_t channels = maker.one_in(3) ? maker.pick(60, 90) : maker.pick(1, 9);
  const Shape in = {maker.pick(1, 2), groups * maker.pick(1, 6), maker.pick(kernel, 9),
                    maker.pick(kernel, 12)};
  const Shape weights = {groups * channels, in[1] / groups, kernel, kernel};
  const Shape out = {in[0], weights[0], in[2] - kernel + 1, in[3] - kernel + 1};
  model.input("x", in).constant("w", weights, maker.reals(weights));
  model.node("Conv", {"x", "w"}, {"c"}, {{"group", groups}}).node("Relu", {"c"}, {"r"});
  model.node("LRN", {"r"}, {"y"},
             {{"size", maker.pick(1, 6)}, {"alpha", 0.5f}, {"beta", 0.75f}, {"bias", 2.0f}});
  model.output("y", out);
  return model;
}

TEST(LoweredOperators, NormalisedConvolutions) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    for (const char* profile : {"tessera128", "f32", "edge"}) {
      Maker maker(seed);
      check_on(profile, normalised_conv(maker), seed, {.derive = true});
    }
  }
}

// ---- 16-bit integers ---------------------------------------------------------------------------

// Between scales, as a convolution or a matrix product; weights and results of 8 or 16 bits.
TestModel wide_quantised(Maker& maker) {
  TestModel model(21);
  const Format x = maker.one_in(2) ? Format::kI16 : Format::kU16;
  const Format w = maker.one_in(3) ? Format::kI16 : Format::kI8;
  const Format y = maker.one_in(2) ? Format::kI16 : Format::kU8;
  const bool conv = maker.one_in(2);
  const Shape in = conv ? Shape{1, maker.pick(1, 5), 6, maker.pick(3, 9)}
                        : Shape{maker.pick(1, 7), maker.pick(1, 9)};
  const Shape weights =
      conv ? Shape{maker.pick(1, 7), in[1], 3, 3} : Shape{in[1], maker.pick(1, 9)};
  const std::int64_t most = w == Format::kI16 ? 1000 : 127;
  model.input("x", in, x).constant("sx", {}, {0.01});
  model.constant("zx", {}, {static_cast<double>(maker.pick(0, 30000))}, x);
  model.constant("w", weights, maker.whole_numbers(weights, -most, most), w);
  model.constant("sw", {}, {0.02}).constant("zw", {}, {0}, w);
  model.constant("sy", {}, {0.5}).constant("zy", {}, {7}, y);
  model.node("DequantizeLinear", {"x", "sx", "zx"}, {"a"});
  model.node("DequantizeLinear", {"w", "sw", "zw"}, {"b"});
  model.node(conv ? "Conv" : "MatMul", {"a", "b"}, {"c"});
  model.node("QuantizeLinear", {"c", "sy", "zy"}, {"y"});
  model.output("y", conv ? Shape{1, weights[0], 4, in[3] - 2} : Shape{in[0], weights[1]}, y);
  return model;
}

TEST(LoweredOperators, QuantisedOperandsOf16Bits) {
  const std::string file = ::testing::TempDir() + "halves.toml";
  std::ofstream(file) << "[formats]\nquantised_bytes = 2\n";
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    Maker maker(seed);
    check_on(file, wide_quantised(maker), seed, {.derive = true});
  }
}

// ---- interpolation ------------------------------------------------------------------------------

TestModel resize(Maker& maker) {
  TestModel model(13);
  const Shape dims = {1, maker.pick(1, 4), maker.pick(1, 9), maker.pick(2, 9)};
  const auto resized = [&](std::int64_t extent) {
    return maker.one_in(2) ? maker.pick(1, 20) : extent * maker.pick(2, 4);
  };
  const Shape out = {1, dims[1], resized(dims[2]), resized(dims[3])};
  const char* modes[] = {"half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"};
  model.input("x", dims);
  model.constant(
      "sizes", {4},
      {1, static_cast<double>(out[1]), static_cast<double>(out[2]), static_cast<double>(out[3])},
      Format::kI64);
  model.node("Resize", {"x", "", "", "sizes"}, {"y"},
             {{"mode", std::string(maker.one_in(2) ? "linear" : "cubic")},
              {"coordinate_transformation_mode", std::string(modes[maker.pick(0, 3)])}});
  model.output("y", out);
  return model;
}

TEST(LoweredOperators, Interpolation) { check(resize, 8); }

// ---- indices known at compile time --------------------------------------------------------------

TestModel indexed(Maker& maker) {
  TestModel model(16);
  const Shape dims = {maker.pick(2, 5), maker.pick(2, 6), maker.pick(2, 9)};
  model.input("x", dims).input("u", {2, dims[2]});
  const auto at = [&](std::size_t axis) {
    return static_cast<double>(maker.pick(-dims[axis], dims[axis] - 1));
  };
  model.constant("pairs", {2, 2}, {0, at(1), 1, at(1)}, Format::kI64);
  model.node("ScatterND", {"x", "pairs", "u"}, {"s"}).output("s", dims);
  model.node("GatherND", {"x", "pairs"}, {"g"}).output("g", {2, dims[2]});
  std::vector<double> picks;
  for (std::int64_t i = 0; i < dims[0] * dims[1] * 3; ++i) picks.push_back(at(2));
  model.constant("picks", {dims[0], dims[1], 3}, picks, Format::kI64);
  model.node("GatherElements", {"x", "picks"}, {"e"}, {{"axis", std::int64_t{2}}});
  model.output("e", {dims[0], dims[1], 3});
  model.constant("k", {}, {static_cast<double>(maker.pick(-2, 2))}, Format::kI64);
  model.node("Trilu", {"x", "k"}, {"t"}, {{"upper", maker.pick(0, 1)}}).output("t", dims);
  return model;
}

TEST(LoweredOperators, ConstantIndices) { check(indexed, 5); }

TestModel spectrum(Maker& maker) {
  TestModel model(17);
  const std::int64_t frame = maker.pick(4, 24);
  const std::int64_t step = maker.pick(1, 6);
  const std::int64_t length = frame + maker.pick(0, 60);
  model.input("x", {2, length, 1}).constant("step", {}, {static_cast<double>(step)}, Format::kI64);
  model.constant("window", {frame}, maker.reals({frame}));
  model.node("STFT", {"x", "step", "window"}, {"y"});
  model.output("y", {2, (length - frame) / step + 1, frame / 2 + 1, 2});
  return model;
}

TEST(LoweredOperators, ShortTimeFourierTransform) { check(spectrum, 4); }

// Bands of energies that are thousands of times apart, of numbers as large as recorded sound.
TestModel logarithm_of_bands(Maker& maker) {
  TestModel model(17);
  const std::int64_t rows = maker.pick(1, 6), frame = maker.pick(8, 200), bins = maker.pick(4, 300),
                     bands = maker.pick(2, 20);
  const auto scaled = [&maker](const Shape& dims, double factor) {
    std::vector<double> values = maker.reals(dims);
    for (double& value : values) value *= factor;
    return values;
  };
  model.input("x", {rows, frame}).constant("loud", {}, {maker.pick(0, 1) == 0 ? 1.0 : 8000.0});
  model.constant("waves", {frame, bins}, scaled({frame, bins}, 1));
  std::vector<double> filters = scaled({bins, bands}, 1);
  for (double& value : filters) value = std::abs(value);
  model.constant("bank", {bins, bands}, filters).constant("two", {}, {2});
  model.constant("least", {}, {1e-10});
  model.node("Mul", {"x", "loud"}, {"s"}).node("MatMul", {"s", "waves"}, {"c"});
  model.node("Pow", {"c", "two"}, {"q"}).node("MatMul", {"q", "bank"}, {"b"});
  model.node("Max", {"b", "least"}, {"m"}).node("Log", {"m"}, {"y"}).output("y", {rows, bands});
  return model;
}

TEST(LoweredOperators, LogarithmOfAFilterBank) { check(logarithm_of_bands, 6); }

// ---- tensors without elements -------------------------------------------------------------------

TestModel without_elements(Maker& maker) {
  TestModel model(13);
  const std::int64_t width = maker.pick(1, 9);
  model.input("x", {2, width}).input("none", {0, width});
  model.node("Relu", {"none"}, {"r"})
      .node("Concat", {"x", "r"}, {"c"}, {{"axis", std::int64_t{0}}});
  model.constant("two", {1}, {2}, Format::kI64);
  model.node("Slice", {"c", "two", "two"}, {"s"});
  model.node("Concat", {"s", "c", "c"}, {"y"}, {{"axis", std::int64_t{0}}}).output("y", {4, width});
  return model;
}

TEST(LoweredOperators, TensorsWithoutElementsAreConstants) { check(without_elements); }

// ---- convolutions -------------------------------------------------------------------------------

TestModel computed_conv(Maker& maker) {
  TestModel model(13);
  const std::int64_t groups = maker.pick(1, 2);
  const Shape x = {maker.pick(1, 2), groups * maker.pick(1, 4), maker.pick(4, 8), maker.pick(4, 8)};
  const Shape w = {groups * maker.pick(1, 5), x[1] / groups, maker.pick(1, 3), maker.pick(1, 3)};
  const std::int64_t stride = maker.pick(1, 2);
  const std::int64_t pad = maker.pick(0, 1);
  model.input("x", x).input("w", w).input("b", {w[0]});
  const auto out = [&](std::size_t axis) { return (x[axis] + 2 * pad - w[axis]) / stride + 1; };
  model.node(
      "Conv", {"x", "w", "b"}, {"y"},
      {{"group", groups}, {"strides", Ints{stride, stride}}, {"pads", Ints{pad, pad, pad, pad}}});
  model.output("y", {x[0], w[0], out(2), out(3)});
  return model;
}

TestModel transposed_conv(Maker& maker) {
  TestModel model(13);
  const Shape x = {1, maker.pick(1, 4), maker.pick(2, 6), maker.pick(2, 6)};
  const Shape w = {x[1], maker.pick(1, 5), maker.pick(1, 3), maker.pick(1, 3)};
  const std::int64_t stride = maker.pick(1, 2);
  model.input("x", x).input("w", w);
  model.node("ConvTranspose", {"x", "w"}, {"y"}, {{"strides", Ints{stride, stride}}});
  model.output("y", {1, w[1], (x[2] - 1) * stride + w[2], (x[3] - 1) * stride + w[3]});
  return model;
}

// One with enough pixels to be computed phase by phase: kernels below and above the stride, cut at the
// edges, in groups, with a bias and a function behind it.
TestModel transposed_conv_of_phases(Maker& maker) {
  TestModel model(13);
  const std::int64_t groups = maker.pick(1, 2), stride = maker.pick(2, 3);
  const Shape x = {maker.pick(1, 2), groups * maker.pick(1, 3), maker.pick(12, 15),
                   maker.pick(12, 15)};
  const Shape w = {x[1], maker.pick(1, 5), maker.pick(stride - 1, 5), maker.pick(stride, 5)};
  const std::int64_t pad = maker.pick(0, 1), more = maker.pick(0, 1);
  model.input("x", x).constant("w", w, maker.reals(w));
  model.constant("b", {groups * w[1]}, maker.reals({groups * w[1]}));
  model.node("ConvTranspose", {"x", "w", "b"}, {"t"},
             {{"group", groups},
              {"strides", Ints{stride, stride}},
              {"pads", Ints{pad, 0, 0, pad}},
              {"output_padding", Ints{more, more}}});
  model.node("Relu", {"t"}, {"y"});
  const auto out = [&](std::size_t axis) { return (x[axis] - 1) * stride + w[axis] - pad + more; };
  model.output("y", {x[0], groups * w[1], out(2), out(3)});
  return model;
}

// One of few channels, whose planes are too large to be stored phase by phase.
TestModel transposed_conv_of_large_planes(Maker& maker) {
  TestModel model(13);
  const std::int64_t stride = maker.pick(2, 3);
  const Shape x = {1, maker.pick(1, 5), 256 / stride + maker.pick(1, 9), 288 / stride};
  const Shape w = {x[1], maker.pick(1, 4), stride, stride};
  model.input("x", x).constant("w", w, maker.reals(w));
  model.constant("b", {w[1]}, maker.reals({w[1]}));
  model.node("ConvTranspose", {"x", "w", "b"}, {"t"}, {{"strides", Ints{stride, stride}}});
  model.node("Relu", {"t"}, {"y"}).output("y", {1, w[1], x[2] * stride, x[3] * stride});
  return model;
}

// Copies of an image, shifted to either side and padded, as channels of which some columns are convolved.
TestModel shifted_copies(Maker& maker) {
  TestModel model(13);
  const std::int64_t rows = maker.pick(20, 60), columns = maker.pick(40, 120);
  const std::int64_t copies = maker.pick(2, 6), kept = columns - maker.pick(0, 12);
  model.input("x", {1, rows, columns, 1}).node("Neg", {"x"}, {"n"});
  model.constant("two", {1}, {2}, Format::kI64).constant("three", {1}, {3}, Format::kI64);
  std::vector<std::string> parts;
  for (std::int64_t i = 0; i < copies; ++i) {
    const std::string name = std::to_string(i);
    const double shift = static_cast<double>(maker.pick(-9, 9));
    const double before = std::max(0.0, -shift), behind = std::max(0.0, shift);
    model.constant("from" + name, {1}, {behind}, Format::kI64);
    model.constant("to" + name, {1}, {columns - before}, Format::kI64);
    model.constant("pads" + name, {8}, {0, 0, before, 0, 0, 0, behind, 0}, Format::kI64);
    model.node("Slice", {"n", "from" + name, "to" + name, "two"}, {"s" + name});
    parts.push_back("p" + name);
    model.node("Pad", {"s" + name, "pads" + name}, {parts.back()});
  }
  model.constant("zero", {1}, {0}, Format::kI64);
  model.constant("kept", {1}, {static_cast<double>(kept)}, Format::kI64);
  model.node("Concat", parts, {"c"}, {{"axis", std::int64_t{3}}});
  model.node("Transpose", {"c"}, {"t"}, {{"perm", Ints{0, 3, 1, 2}}});
  model.node("Slice", {"t", "zero", "kept", "three"}, {"u"});
  const Shape w = {maker.pick(1, 9), copies, 3, 3};
  model.constant("w", w, maker.reals(w)).node("Conv", {"u", "w"}, {"y"});
  model.output("y", {1, w[0], rows - 2, kept - 2});
  return model;
}

// Channels that become pixels of long lines, in both orders, which a conversion reads. The definition has
// the same bits: there are no sums.
TestModel depth_to_space(Maker& maker) {
  TestModel model(13);
  const std::int64_t block = maker.pick(2, 3), channels = maker.pick(1, 2);
  const Shape x = {1, 1, maker.pick(16, 40), maker.pick(60, 80)};
  std::vector<double> factors;
  for (std::int64_t i = 0; i < channels * block * block; ++i) factors.push_back((1.0 + i) / 8);
  model.input("x", x).constant("w", {channels * block * block, 1, 1, 1}, factors);
  model.node("Conv", {"x", "w"}, {"c"});
  model.node("DepthToSpace", {"c"}, {"d"},
             {{"blocksize", block}, {"mode", std::string(maker.one_in(2) ? "CRD" : "DCR")}});
  model.node("Cast", {"d"}, {"y"}, {{"to", std::int64_t{10}}});  // float16
  model.output("y", {1, channels, x[2] * block, x[3] * block}, Format::kF16);
  return model;
}

// Several images, and a stride that leaves their last rows unread, after a node that keeps its
// result in the state buffer.
TestModel unread_rows(Maker& maker) {
  TestModel model(13);
  const Shape x = {maker.pick(2, 4), maker.pick(1, 6), 8, 8};
  const Shape w = {maker.pick(1, 6), x[1], 3, 3};
  model.input("x", x).constant("w", w, maker.reals(w)).node("Relu", {"x"}, {"r"});
  model.node("Conv", {"r", "w"}, {"y"}, {{"strides", Ints{2, 2}}}).output("y", {x[0], w[0], 3, 3});
  model.node("MaxPool", {"r"}, {"m"}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{3, 3}}});
  model.output("m", {x[0], x[1], 3, 3});
  return model;
}

// A line too long for the state buffer, cut as a product of its columns.
TestModel long_line(Maker& maker) {
  TestModel model(13);
  const std::int64_t width = 64 * maker.pick(1094, 1100);
  const Shape w = {maker.pick(1, 4), maker.pick(1, 2), maker.pick(5, 9)};
  model.input("x", {1, w[1], width}).constant("w", w, maker.reals(w));
  model.constant("b", {w[0]}, maker.reals({w[0]}));
  model.node("Conv", {"x", "w", "b"}, {"y"}, {{"strides", Ints{16}}, {"pads", Ints{3, 2}}});
  model.output("y", {1, w[0], (width + 5 - w[2]) / 16 + 1});
  return model;
}

TestModel volume(Maker& maker) {
  TestModel model(13);
  const std::int64_t groups = maker.pick(1, 2);
  const Shape x = {maker.pick(1, 2), groups * maker.pick(1, 3), maker.pick(3, 5), maker.pick(3, 6),
                   maker.pick(3, 6)};
  const Shape w = {groups * maker.pick(1, 4), x[1] / groups, maker.pick(1, 3), maker.pick(1, 3),
                   maker.pick(1, 3)};
  const std::int64_t stride = maker.pick(1, 2);
  const std::int64_t pad = maker.pick(0, 1);
  model.input("x", x).constant("w", w, maker.reals(w)).constant("b", {w[0]}, maker.reals({w[0]}));
  const auto out = [&](std::size_t axis, std::int64_t kernel) {
    return (x[axis] + 2 * pad - kernel) / stride + 1;
  };
  model.node(
      "Conv", {"x", "w", "b"}, {"y"},
      {{"group", groups}, {"strides", Ints{stride, stride, stride}}, {"pads", Ints(6, pad)}});
  model.output("y", {x[0], w[0], out(2, w[2]), out(3, w[3]), out(4, w[4])});
  const Shape pooled = {x[0], x[1], out(2, 2), out(3, 2), out(4, 2)};
  const model::Attributes window = {{"kernel_shape", Ints{2, 2, 2}},
                                    {"strides", Ints{stride, stride, stride}},
                                    {"pads", Ints(6, pad)}};
  model.node("MaxPool", {"x"}, {"m"}, window).output("m", pooled);
  model.node("AveragePool", {"x"}, {"a"}, window).output("a", pooled);
  return model;
}

TEST(LoweredOperators, ConvolutionWithComputedWeights) { check(computed_conv, 5); }
TEST(LoweredOperators, TransposedConvolutionWithComputedWeights) { check(transposed_conv, 5); }
TEST(LoweredOperators, TransposedConvolutionByPhases) { check(transposed_conv_of_phases, 6); }
TEST(LoweredOperators, TransposedConvolutionIntoLargePlanes) {
  check(transposed_conv_of_large_planes, 2);
}
TEST(LoweredOperators, ShiftedCopiesOfAnImage) { check(shifted_copies, 6); }
TEST(LoweredOperators, ChannelsThatBecomePixels) { check(depth_to_space, 4); }
TEST(LoweredOperators, RowsThatNobodyReadsLieBetweenImages) { check(unread_rows, 3); }
// An extreme of more elements than a reduction holds at once.
TestModel long_extreme(Maker& maker) {
  TestModel model(13);
  const Shape dims = {maker.pick(1, 2), 300, 2 * maker.pick(90, 110)};
  model.input("x", dims);
  model.node("ReduceMin", {"x"}, {"y"}, {{"axes", Ints{1, 2}}, {"keepdims", maker.pick(0, 1)}});
  model.node("ReduceMax", {"x"}, {"z"}, {{"keepdims", std::int64_t{0}}}).output("z", {});
  const bool keeps = std::get<std::int64_t>(model.model().graph.nodes[0].attributes.at("keepdims"));
  model.output("y", keeps ? Shape{dims[0], 1, 1} : Shape{dims[0]});
  return model;
}

// A factor and a summand a channel: constants along any axis, or one number.
TestModel gain_bias(Maker& maker) {
  TestModel model(14);
  Shape dims = {maker.pick(1, 3), maker.pick(1, 20), maker.pick(1, 9), maker.pick(1, 9)};
  if (maker.one_in(3)) dims = {maker.pick(1, 40), maker.pick(1, 150)};
  const auto along = [&](std::size_t axis) {
    Shape shape(dims.size(), 1);
    if (!maker.one_in(4)) shape[axis] = dims[axis];
    return shape;
  };
  const auto axis =
      static_cast<std::size_t>(maker.pick(0, static_cast<std::int64_t>(dims.size()) - 1));
  const Shape gain = along(axis), bias = along(axis);
  model.input("x", dims).constant("g", gain, maker.reals(gain));
  model.constant("b", bias, maker.reals(bias));
  model.node("Mul", {"x", "g"}, {"m"}).node("Add", {"m", "b"}, {"a"});
  model.node(maker.one_in(2) ? "Relu" : "Neg", {"a"}, {"y"}).output("y", dims);
  return model;
}
TEST(LoweredOperators, GainAndBias) { check(gain_bias, 12); }

// A function in front of a filter, one behind it, and a reduction at the end.
TestModel converters(Maker& maker) {
  TestModel model(14);
  const std::int64_t channels = maker.pick(1, 20), rows = maker.pick(4, 12);
  const std::int64_t window = maker.one_in(4) ? rows : maker.pick(1, 3);
  model.input("x", {2, channels, rows, rows}).constant("s", {}, {0.3});
  const std::int64_t which = maker.pick(0, 3);
  if (which == 0) {
    model.node("Mul", {"x", "s"}, {"c"});
  } else {
    model.node(which == 1 ? "Relu" : which == 2 ? "Abs" : "LeakyRelu", {"x"}, {"c"});
  }
  model.node(maker.one_in(2) ? "MaxPool" : "AveragePool", {"c"}, {"p"},
             {{"kernel_shape", Ints{window, window}}});
  model.node(maker.one_in(2) ? "Neg" : "Sigmoid", {"p"}, {"n"});
  model.node("Add", {"n", "s"}, {"d"}).node(maker.one_in(2) ? "Abs" : "Relu", {"d"}, {"a"});
  model.node("Transpose", {"a"}, {"t"}, {{"perm", Ints{0, 1, 3, 2}}});
  model.node("Neg", {"t"}, {"b"});
  model.node(maker.one_in(2) ? "ReduceMax" : "ReduceMean", {"b"}, {"y"}, {{"axes", Ints{2, 3}}});
  model.output("y", {2, channels, 1, 1});
  return model;
}
TEST(LoweredOperators, ConvertersAroundFilters) { check(converters, 12); }

TEST(LoweredOperators, LongExtremes) { check(long_extreme, 3); }
TEST(LoweredOperators, LongLines) { check(long_line, 2); }
TEST(LoweredOperators, Volumes) { check(volume, 5); }

}  // namespace
}  // namespace tessera::agreement
