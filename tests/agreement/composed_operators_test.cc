// Operators of transformers and of dynamically quantised models, see operator_check.h.
#include <gtest/gtest.h>

#include "operator_check.h"

namespace tessera::agreement {
namespace {

using graph::testing::TestModel;
using Ints = std::vector<std::int64_t>;
using Names = std::vector<std::string>;

// ---- attention ----------------------------------------------------------------------------------

struct AttentionShape {
  std::int64_t batch, shared_heads, heads, rows, columns, past, width, value_width;
  bool rank_4;

  Shape of(std::int64_t head_count, std::int64_t length, std::int64_t head_width) const {
    if (rank_4) return {batch, head_count, length, head_width};
    return {batch, length, head_count * head_width};
  }
};

AttentionShape attention_shape(Maker& maker) {
  AttentionShape s{};
  s.batch = maker.pick(1, 2);
  s.shared_heads = maker.pick(1, 3);
  s.heads = s.shared_heads * maker.pick(1, 2);
  s.rows = maker.pick(1, 9);
  s.past = maker.one_in(2) ? maker.pick(1, 5) : 0;
  s.columns = maker.pick(1, 11) + s.past;
  s.width = maker.pick(1, 16);
  s.value_width = maker.pick(1, 16);
  s.rank_4 = maker.one_in(2);
  return s;
}

// Input "mask": numbers that are added, or places that may be seen.
std::string add_mask(TestModel& model, Maker& maker, const AttentionShape& s) {
  if (maker.one_in(3)) return "";
  const Shape dims = maker.one_in(2)
                         ? Shape{s.rows, s.columns}
                         : Shape{s.batch, maker.one_in(2) ? s.heads : 1, s.rows, s.columns};
  model.input("mask", dims);
  if (maker.one_in(2)) return "mask";
  model.constant("level", {}, {-1.0}).node("Greater", {"mask", "level"}, {"seen"});
  return "seen";
}

TestModel attention(Maker& maker) {
  TestModel model(23);
  const AttentionShape s = attention_shape(maker);
  const std::int64_t fresh = s.columns - s.past;
  model.input("q", s.of(s.heads, s.rows, s.width));
  model.input("k", s.of(s.shared_heads, fresh, s.width));
  model.input("v", s.of(s.shared_heads, fresh, s.value_width));
  Names inputs = {"q", "k", "v", add_mask(model, maker, s)};
  Names outputs = {"y"};
  const Shape keys = {s.batch, s.shared_heads, s.columns, s.width};
  const Shape values = {s.batch, s.shared_heads, s.columns, s.value_width};
  if (s.past > 0) {
    model.input("past_k", {s.batch, s.shared_heads, s.past, s.width});
    model.input("past_v", {s.batch, s.shared_heads, s.past, s.value_width});
    inputs.insert(inputs.end(), {"past_k", "past_v"});
    outputs.insert(outputs.end(), {"all_k", "all_v"});
    model.output("all_k", keys).output("all_v", values);
  }
  model::Attributes attributes = {{"is_causal", maker.pick(0, 1)}};
  if (!s.rank_4) {
    attributes["q_num_heads"] = s.heads;
    attributes["kv_num_heads"] = s.shared_heads;
  }
  if (maker.one_in(2)) attributes["scale"] = 0.375f;
  if (maker.one_in(3)) attributes["softcap"] = 2.0f;
  model.node("Attention", inputs, outputs, attributes);
  model.output("y", s.of(s.heads, s.rows, s.value_width));
  return model;
}

TestModel rotary_embedding(Maker& maker) {
  TestModel model(23);
  const bool rank_4 = maker.one_in(2);
  const bool positions = maker.one_in(2);
  const std::int64_t batch = maker.pick(1, 2);
  const std::int64_t heads = maker.pick(1, 3);
  const std::int64_t length = maker.pick(1, 9);
  const std::int64_t half = maker.pick(1, 8);
  const std::int64_t width = 2 * half + (maker.one_in(2) ? 2 * maker.pick(1, 3) : 0);
  const Shape dims =
      rank_4 ? Shape{batch, heads, length, width} : Shape{batch, length, heads * width};
  const std::int64_t table = 2 * length;
  const Shape waves = positions ? Shape{table, half} : Shape{batch, length, half};
  model.input("x", dims).input("cos", waves).input("sin", waves);
  Names inputs = {"x", "cos", "sin"};
  if (positions) {
    inputs.emplace_back("at");
    model.constant("at", {batch, length}, maker.whole_numbers({batch, length}, 0, table - 1),
                   Format::kI64);
  }
  model::Attributes attributes = {{"interleaved", maker.pick(0, 1)}};
  if (!rank_4) attributes["num_heads"] = heads;
  if (width != 2 * half) attributes["rotary_embedding_dim"] = 2 * half;
  model.node("RotaryEmbedding", inputs, {"y"}, attributes).output("y", dims);
  return model;
}

TEST(ComposedOperators, Attention) { check(attention, 14); }
TEST(ComposedOperators, RotaryEmbedding) { check(rotary_embedding, 10); }

// ---- normalisation and activation ---------------------------------------------------------------

TestModel root_mean_square(Maker& maker) {
  TestModel model(23);
  const Shape dims = {maker.pick(1, 3), maker.pick(1, 9), maker.pick(1, 40)};
  const std::int64_t axis = maker.pick(0, 2);
  const Shape scale(dims.begin() + axis, dims.end());
  model.input("x", dims);
  if (maker.one_in(2)) {
    model.input("scale", scale);
  } else {
    model.constant("scale", scale, maker.reals(scale));
  }
  model::Attributes attributes = {{"axis", maker.one_in(2) ? axis : axis - 3}};
  if (maker.one_in(2)) attributes["epsilon"] = 0.01f;
  model.node("RMSNormalization", {"x", "scale"}, {"y"}, attributes).output("y", dims);
  return model;
}

TestModel group_normalisation(Maker& maker) {
  const bool by_group = maker.one_in(3);  // scales of opset 18 are one per group
  TestModel model(by_group ? 18 : 21);
  const std::int64_t groups = maker.pick(1, 4);
  const Shape dims = {maker.pick(1, 2), groups * maker.pick(1, 5), maker.pick(1, 7),
                      maker.pick(1, 9)};
  const Shape count = {by_group ? groups : dims[1]};
  model.input("x", dims).constant("scale", count, maker.reals(count));
  if (maker.one_in(2)) {
    model.input("bias", count);
  } else {
    model.constant("bias", count, maker.reals(count));
  }
  model.node("GroupNormalization", {"x", "scale", "bias"}, {"y"}, {{"num_groups", groups}});
  model.output("y", dims);
  return model;
}

TestModel swish(Maker& maker) {
  TestModel model(24);
  const Shape dims = {maker.pick(1, 3), maker.pick(1, 9), maker.pick(1, 40)};
  model::Attributes attributes;
  if (!maker.one_in(3)) attributes["alpha"] = static_cast<float>(maker.pick(-6, 6)) / 4.0f;
  model.input("x", dims).node("Swish", {"x"}, {"y"}, attributes).output("y", dims);
  return model;
}

TEST(ComposedOperators, RmsNormalization) { check(root_mean_square, 8); }
TEST(ComposedOperators, GroupNormalization) { check(group_normalisation, 8); }
TEST(ComposedOperators, Swish) { check(swish, 8); }

// ---- 64-bit integers that are known to be small -------------------------------------------------

TestModel positions_compared(Maker& maker) {
  TestModel model(13);
  const Shape dims = {maker.pick(1, 3), maker.pick(1, 9), maker.pick(1, 40)};
  const Shape kept = {dims[0], dims[1], 1};
  model.input("x", dims).node("ArgMax", {"x"}, {"at"}, {{"axis", std::int64_t{2}}});
  model.constant("c", {}, {static_cast<double>(maker.pick(-9, 40))}, Format::kI64);
  model.node("Sub", {"at", "c"}, {"d"}).node("Abs", {"d"}, {"a"}).node("Neg", {"a"}, {"n"});
  model.node("Mul", {"n", "d"}, {"m"}).node("Max", {"m", "at"}, {"y"});
  const char* compare[] = {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"};
  model.node(compare[maker.pick(0, 4)], {"a", "c"}, {"b"});
  model.output("y", kept, Format::kI64).output("m", kept, Format::kI64);
  return model.output("b", kept, Format::kBool);
}

TEST(ComposedOperators, SmallIntegersOf64Bits) { check(positions_compared, 10); }

// ---- scales computed at run time ----------------------------------------------------------------

Format byte_format(Maker& maker) { return maker.one_in(2) ? Format::kI8 : Format::kU8; }

std::vector<double> bytes(Maker& maker, const Shape& dims, Format format) {
  const bool is_signed = format == Format::kI8;
  return maker.whole_numbers(dims, is_signed ? -128 : 0, is_signed ? 127 : 255);
}

// A zero point: left out, a constant, or an input.
std::string zero_point(TestModel& model, Maker& maker, const std::string& name, const Shape& dims,
                       Format format) {
  const std::int64_t kind = maker.pick(0, 2);
  if (kind == 0) return "";
  if (kind == 1) {
    model.constant(name, dims, bytes(maker, dims, format), format);
  } else {
    model.input(name, dims, format);
  }
  return name;
}

TestModel integer_matrix_product(Maker& maker) {
  TestModel model(13);
  const std::int64_t rows = maker.pick(1, 9);
  const std::int64_t length = maker.pick(1, 300);
  const std::int64_t columns = maker.pick(1, 20);
  const Shape lead = maker.one_in(2) ? Shape{} : Shape{maker.pick(1, 3)};
  const Format a_format = byte_format(maker);
  const Format b_format = byte_format(maker);
  Shape a = lead;
  a.insert(a.end(), {rows, length});
  Shape b = maker.one_in(2) ? lead : Shape{};
  b.insert(b.end(), {length, columns});
  model.input("a", a, a_format);
  if (maker.one_in(2)) {
    model.input("b", b, b_format);
  } else {
    model.constant("b", b, bytes(maker, b, b_format), b_format);
  }
  const Shape row_points = a.size() == 2 && maker.one_in(3) ? Shape{rows} : Shape{};
  const Shape column_points = b.size() == 2 && maker.one_in(3) ? Shape{columns} : Shape{};
  const std::string za = zero_point(model, maker, "za", row_points, a_format);
  const std::string zb = zero_point(model, maker, "zb", column_points, b_format);
  model.node("MatMulInteger", {"a", "b", za, zb}, {"y"});
  Shape y = lead;
  y.insert(y.end(), {rows, columns});
  model.output("y", y, Format::kI32);
  return model;
}

// Weights that are constant and differ from image to image.
TestModel batched_weights(Maker& maker) {
  TestModel model(13);
  const Shape a = {maker.pick(1, 3), maker.pick(2, 3), maker.pick(1, 9), maker.pick(1, 150)};
  const Shape b = {maker.one_in(2) ? a[0] : 1, a[1], a[3], maker.pick(1, 20)};
  model.input("a", a).constant("b", b, maker.reals(b));
  model.node("MatMul", {"a", "b"}, {"y"}).output("y", {a[0], a[1], a[2], b[3]});
  return model;
}

TestModel integer_convolution(Maker& maker) {
  TestModel model(13);
  const bool line = maker.one_in(3);
  const std::int64_t groups = maker.pick(1, 2);
  const std::int64_t pad = maker.pick(0, 1);
  const std::int64_t stride = maker.pick(1, 2);
  const Format x_format = byte_format(maker);
  const Format w_format = byte_format(maker);
  Shape x = {maker.pick(1, 2), groups * maker.pick(1, 6)};
  Shape w = {groups * maker.pick(1, 5), x[1] / groups};
  Shape y = {x[0], w[0]};
  const std::int64_t axes = line ? 1 : 2;
  for (std::int64_t i = 0; i < axes; ++i) {
    x.push_back(maker.pick(4, 9));
    w.push_back(maker.pick(1, 3));
    y.push_back((x.back() + 2 * pad - w.back()) / stride + 1);
  }
  model.input("x", x, x_format).input("zx", {}, x_format);
  model.constant("w", w, bytes(maker, w, w_format), w_format);
  Names inputs = {"x", "w", "zx"};
  if (maker.one_in(2)) {
    inputs.emplace_back("zw");
    model.constant("zw", {}, {static_cast<double>(maker.pick(0, 100))}, w_format);
  }
  model.node("ConvInteger", inputs, {"y"},
             {{"group", groups},
              {"strides", Ints(static_cast<std::size_t>(axes), stride)},
              {"pads", Ints(2 * static_cast<std::size_t>(axes), pad)}});
  model.output("y", y, Format::kI32);
  return model;
}

// x quantised by its own extremes, times integer weights, dequantised.
TestModel dynamically_quantised(Maker& maker) {
  TestModel model(13);
  const Shape dims = maker.one_in(3) ? Shape{2, maker.pick(100, 140), 96}
                                     : Shape{maker.pick(1, 3), maker.pick(1, 9), maker.pick(1, 40)};
  const Shape w = {dims[2], maker.pick(1, 20)};
  const Shape y = {dims[0], dims[1], w[1]};
  model.input("x", dims);
  if (maker.one_in(4)) {
    // No range at all: the scale is 1.
    model.constant("none", {}, {0}).node("Mul", {"x", "none"}, {"data"});
  } else {
    const double shift = static_cast<double>(maker.pick(-6, 6));
    model.constant("shift", {}, {shift}).node("Add", {"x", "shift"}, {"data"});
  }
  model.node("DynamicQuantizeLinear", {"data"}, {"q", "s", "z"});
  model.constant("w", w, bytes(maker, w, Format::kI8), Format::kI8);
  model.constant("sw", {}, {0.0003}).constant("b", {w[1]}, maker.reals({w[1]}));
  model.node("MatMulInteger", {"q", "w", "z"}, {"sum"});
  model.node("Cast", {"sum"}, {"real"}, {{"to", std::int64_t{1}}});
  model.node("Mul", {"s", "sw"}, {"scale"}).node("Mul", {"real", "scale"}, {"scaled"});
  model.node("Add", {"b", "scaled"}, {"y"}).output("y", y);
  model.output("q", dims, Format::kU8).output("s", {}).output("z", {}, Format::kU8);
  return model;
}

// Scales that are inputs, one or one per channel.
TestModel computed_scales(Maker& maker) {
  TestModel model(13);
  const Shape dims = {maker.pick(1, 3), maker.pick(1, 9), maker.pick(1, 40)};
  const std::int64_t axis = maker.pick(0, 2);
  const Shape scale = maker.one_in(2) ? Shape{} : Shape{dims[static_cast<std::size_t>(axis)]};
  const Format format = byte_format(maker);
  model.input("x", dims).input("raw", scale).constant("one", {}, {5.0});
  model.node("Add", {"raw", "one"}, {"s"});
  Names inputs = {"x", "s"};
  const std::string point = zero_point(model, maker, "z", scale, format);
  if (!point.empty()) inputs.push_back(point);
  const Format q = point.empty() ? Format::kU8 : format;
  const model::Attributes attributes = {{"axis", axis}};
  model.node("QuantizeLinear", inputs, {"q"}, attributes).output("q", dims, q);
  inputs[0] = "q";
  model.node("DequantizeLinear", inputs, {"y"}, attributes).output("y", dims);
  return model;
}

TEST(ComposedOperators, MatMulInteger) { check(integer_matrix_product, 24); }
TEST(ComposedOperators, MatMulWithConstantBatches) { check(batched_weights, 6); }
TEST(ComposedOperators, ConvIntegerWithComputedZeroPoint) { check(integer_convolution, 10); }
TEST(ComposedOperators, DynamicQuantisation) { check(dynamically_quantised, 10); }
TEST(ComposedOperators, QuantisationWithComputedScales) { check(computed_scales, 10); }

}  // namespace
}  // namespace tessera::agreement
