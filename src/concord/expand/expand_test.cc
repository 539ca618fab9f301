// Derived software, run by the project's own evaluator, against the reference device: equal bits
// after every layer.
#include "concord/expand/expand.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <random>
#include <string>

#include "arith/rounding.h"
#include "concord/interpret.h"
#include "concord/testing/random_graph.h"
#include "concord/write/onnx_node.h"
#include "graph/graph_text.h"
#include "host/executor.h"

namespace tessera::concord {
namespace {

using graph::Graph;
using graph::TensorId;
using testing::random_graph;
using testing::random_inputs;
using testing::Values;
using testing::zeros_graph;

constexpr std::uint32_t kSeed = 20261122;

// Same bits, or both NaN (an intermediate NaN may have any sign; outputs are compared as bytes).
bool same_number(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || arith::bits_of_f64(a) == arith::bits_of_f64(b);
}

double element(const Tensor& tensor, std::int64_t i) {
  return arith::read_element(tensor.format, tensor.bytes.data() + i * format_bytes(tensor.format));
}

Tensor converted(const Tensor& tensor, Format format) {
  Tensor result = Tensor::zeros(format, tensor.dims);
  for (std::int64_t i = 0; i < element_count(tensor.dims); ++i) {
    arith::write_element(format, element(tensor, i),
                         result.bytes.data() + i * format_bytes(format));
  }
  return result;
}

// "" or where the layer's value differs first.
std::string first_difference(const Layer& layer, const Tensor& expected, const Tensor& actual) {
  for (std::int64_t i = 0; i < element_count(expected.dims); ++i) {
    const double a = element(expected, i), b = element(actual, i);
    if (same_number(a, b)) continue;
    return layer.kind + " '" + layer.name + "' element " + std::to_string(i) + ": reference " +
           std::to_string(a) + ", derived " + std::to_string(b);
  }
  return "";
}

struct Outcome {
  std::string difference;  // "" where all bits are equal
  std::int64_t values = 0;
};

Outcome compare(const std::shared_ptr<const Graph>& graph, const Software& software,
                const std::vector<Tensor>& inputs) {
  Outcome outcome;
  std::map<std::string, Tensor> expected;
  auto reference = host::make_reference_executor(graph);
  auto outputs =
      (*reference)->run(inputs, [&](const graph::Node&, TensorId id, const Tensor& value) {
        expected[graph->tensor(id).name] = value;
      });
  EXPECT_TRUE(outputs.ok()) << outputs.error().to_string();
  std::map<std::int32_t, const Layer*> layers;
  for (const Layer& layer : software.layers) {
    if (!layer.tensor.empty()) layers[layer.result.value] = &layer;
  }
  auto derived = interpret(software, inputs, [&](ValueId id, const Tensor& value) {
    const auto layer = layers.find(id.value);
    if (layer == layers.end() || !outcome.difference.empty()) return;
    const Tensor& wanted = expected[layer->second->tensor];
    outcome.values += element_count(wanted.dims);
    outcome.difference = first_difference(*layer->second, wanted, value);
  });
  EXPECT_TRUE(derived.ok()) << derived.error().to_string();
  if (!derived.ok() || !outputs.ok()) return outcome;
  if (outcome.difference.empty() && !(*derived == *outputs)) outcome.difference = "an output";
  return outcome;
}

TEST(Expand, RandomGraphsGiveTheBitsOfTheReferenceAfterEveryLayer) {
  std::int64_t values = 0;
  int refused = 0;
  for (std::uint32_t round = 0; round < 150; ++round) {
    SCOPED_TRACE("seed " + std::to_string(kSeed + round));
    const auto graph = std::make_shared<const Graph>(random_graph(kSeed + round, 5));
    const auto software = expand(*graph);
    if (!software.ok()) {
      ++refused;
      EXPECT_NE(software.error().to_string().find("cannot be derived exactly"), std::string::npos);
      continue;
    }
    for (const Values kind : {Values::kOrdinary, Values::kEdges}) {
      const Outcome outcome = compare(graph, *software, random_inputs(*graph, kind, round));
      EXPECT_EQ(outcome.difference, "") << graph::dump(*graph);
      values += outcome.values;
    }
  }
  RecordProperty("values_compared", std::to_string(values));
  RecordProperty("refused", refused);
  EXPECT_LT(refused, 40);
  EXPECT_GT(values, 100000);
}

TEST(Expand, RandomGraphsOfBf16VectorsGiveTheBitsOfTheReferenceAfterEveryLayer) {
  std::int64_t values = 0;
  int refused = 0;
  for (std::uint32_t round = 0; round < 150; ++round) {
    SCOPED_TRACE("seed " + std::to_string(kSeed + round));
    const auto graph =
        std::make_shared<const Graph>(testing::with_bf16_vectors(random_graph(kSeed + round, 5)));
    const auto software = expand(*graph);
    if (!software.ok()) {
      ++refused;
      EXPECT_NE(software.error().to_string().find("cannot be derived exactly"), std::string::npos)
          << software.error().to_string();
      continue;
    }
    for (const Values kind : {Values::kOrdinary, Values::kEdges}) {
      const Outcome outcome = compare(graph, *software, random_inputs(*graph, kind, round));
      EXPECT_EQ(outcome.difference, "") << graph::dump(*graph);
      values += outcome.values;
    }
  }
  EXPECT_LT(refused, 40);
  EXPECT_GT(values, 100000);
}

Graph reduction(ReduceFunction function, const Shape& dims, Format format) {
  Graph graph;
  graph.inputs = {{0}};
  graph.outputs = {{1}};
  graph.tensors = {{"x", Format::kF16, dims, nullptr}, {"y", format, {dims[0], 1}, nullptr}};
  graph::ReduceAttributes reduce;
  reduce.function = function;
  reduce.axes = {1};
  graph.nodes = {{"r", {}, {{0}}, {{1}}, reduce}};
  return graph;
}

// Rows of `length` elements that begin with these and are zero behind.
Tensor rows_of_halves(const std::vector<std::vector<double>>& rows, std::int64_t length) {
  Tensor tensor = Tensor::zeros(Format::kF16, {static_cast<std::int64_t>(rows.size()), length});
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (std::size_t i = 0; i < rows[row].size(); ++i) {
      const auto place = row * static_cast<std::size_t>(length) + i;
      arith::write_element(Format::kF16, rows[row][i], tensor.bytes.data() + place * 2);
    }
  }
  return tensor;
}

void expect_equal(const Graph& graph, const Tensor& input) {
  const auto shared = std::make_shared<const Graph>(graph);
  const auto software = expand(*shared);
  ASSERT_TRUE(software.ok()) << software.error().to_string();
  EXPECT_EQ(compare(shared, *software, {input}).difference, "");
}

// Sums of 6,000 times 1 + 2^-24, which lies between two f32 numbers, a little less and a little
// more.
TEST(Expand, MeansToF32BesideATieAreRoundedOnce) {
  std::vector<std::vector<double>> rows;
  for (const double beside : {-0x1p-24, 0.0, 0x1p-24}) {
    for (const double sign : {1.0, -1.0}) {
      std::vector<double> row(5998, sign);
      row[0] = sign * 3;  // 6,000 in 5,998 elements
      row.insert(row.end(), {sign * 6000 * 0x1p-24, sign * beside});
      rows.push_back(std::move(row));
    }
  }
  expect_equal(reduction(ReduceFunction::kMean, {6, 6000}, Format::kF32),
               rows_of_halves(rows, 6000));
  // Two float64 numbers hold the sum of this many.
  expect_equal(reduction(ReduceFunction::kSum, {6, 20000}, Format::kF32),
               rows_of_halves(rows, 20000));
  std::mt19937 random(kSeed);
  for (const Values kind : {Values::kOrdinary, Values::kEdges}) {
    for (const ReduceFunction function : {ReduceFunction::kMean, ReduceFunction::kSum}) {
      expect_equal(reduction(function, {3, 20000}, Format::kF32),
                   testing::random_tensor(Format::kF16, {3, 20000}, kind, random));
    }
  }
}

// (1 + 2^-24)^2 = 1 + 2^-23 + 2^-48 is a sum of squares; its root lies between two f32 numbers.
TEST(Expand, RootsOfSquaresBesideATieAreRoundedOnce) {
  const std::vector<double> tie = {1, 0x1p-12, 0x1p-12, 0x1p-24};
  std::vector<double> above = tie, below = tie;
  above.push_back(0x1p-24);
  below.pop_back();
  for (const Format format : {Format::kF32, Format::kF16}) {
    for (const ReduceFunction function :
         {ReduceFunction::kSumSquare, ReduceFunction::kRootSumSquare}) {
      expect_equal(reduction(function, {4, 8000}, format),
                   rows_of_halves({below, tie, above, {}}, 8000));
      std::mt19937 random(kSeed);
      for (const Values kind : {Values::kOrdinary, Values::kEdges, Values::kOrdinary}) {
        expect_equal(reduction(function, {40, 50}, format),
                     testing::random_tensor(Format::kF16, {40, 50}, kind, random));
      }
    }
  }
}

// A convolution over more than one block of channels with padding, or one of the two products of
// matrices.
enum class ProductKind : std::uint8_t { kConvByChannel, kConvAcrossTaps, kConstant, kComputed };

Graph one_product(ProductKind kind, const MatrixFormat& matrix, Format format, std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto constant = [&](const Shape& dims) {
    return std::make_shared<const Tensor>(
        testing::random_tensor(format, dims, Values::kOrdinary, random));
  };
  Graph graph;
  graph.inputs = {{0}};
  graph.outputs = {{3}};
  if (kind == ProductKind::kConvByChannel || kind == ProductKind::kConvAcrossTaps) {
    graph.tensors = {{"x", format, {1, 72, 4, 5}, nullptr},
                     {"w", format, {6, 36, 3, 3}, constant({6, 36, 3, 3})},
                     {"b", format, {6}, constant({6})},
                     {"y", format, {1, 6, 2, 5}, nullptr}};
    graph::ConvAttributes conv;
    conv.matrix = matrix;
    conv.cut = kind == ProductKind::kConvByChannel ? BlockCut::kChannel : BlockCut::kIm2col;
    conv.groups = 2;
    conv.stride_h = 2;
    conv.pad_top = conv.pad_bottom = conv.pad_left = conv.pad_right = 1;
    graph.nodes = {{"p", {}, {{0}, {1}, {2}}, {{3}}, conv}};
    return graph;
  }
  const bool computed = kind == ProductKind::kComputed;
  const Shape stationary = computed ? Shape{2, 70, 5} : Shape{70, 5};
  graph.tensors = {{"x", format, {2, 3, 70}, nullptr},
                   {"w", format, stationary, computed ? nullptr : constant(stationary)},
                   {"b", format, {5}, constant({5})},
                   {"y", format, {2, 3, 5}, nullptr}};
  if (computed) graph.inputs.push_back({1});
  graph::MatMulAttributes product;
  product.matrix = matrix;
  graph.nodes = {{"p", {}, {{0}, {1}, {2}}, {{3}}, product}};
  return graph;
}

constexpr ProductKind kProductKinds[] = {ProductKind::kConvByChannel, ProductKind::kConvAcrossTaps,
                                         ProductKind::kConstant, ProductKind::kComputed};

TEST(Expand, EveryMicroscalingFormatGivesTheBitsOfTheReference) {
  std::int64_t values = 0;
  for (int pair = 0; pair < 36 * 3; ++pair) {
    MatrixFormat matrix;
    matrix.kind = MatrixKind::kMicroscaling;
    matrix.element_moving = static_cast<MicroElement>(pair % 6);
    matrix.element_stationary = static_cast<MicroElement>(pair / 6 % 6);
    matrix.micro_scale = static_cast<MicroScale>(pair / 36);
    for (const ProductKind kind : kProductKinds) {
      SCOPED_TRACE(fmt::format("moving {}, stationary {}, scale {}, product {}", pair % 6,
                               pair / 6 % 6, pair / 36, static_cast<int>(kind)));
      const auto graph = std::make_shared<const Graph>(
          one_product(kind, matrix, Format::kF16, kSeed + static_cast<std::uint32_t>(pair)));
      const auto software = expand(*graph);
      ASSERT_TRUE(software.ok()) << software.error().to_string();
      for (std::uint32_t round = 0; round < 3; ++round) {
        const Values inputs = round == 2 ? Values::kEdges : Values::kOrdinary;
        const Outcome outcome = compare(graph, *software, random_inputs(*graph, inputs, round));
        EXPECT_EQ(outcome.difference, "");
        values += outcome.values;
      }
    }
  }
  RecordProperty("values_compared", std::to_string(values));
  EXPECT_GT(values, 50000);
}

TEST(Expand, NamesBecomeUtf8AndStayApart) {
  Graph graph = random_graph(kSeed, 4);
  graph.name = "g\xff";
  graph.tensor(graph.inputs[0]).name = "x\xff";
  graph.tensor(graph.outputs[0]).name = "x\xfe";
  const auto software = expand(graph);
  ASSERT_TRUE(software.ok()) << software.error().to_string();
  const std::string none = "\xEF\xBF\xBD";
  EXPECT_EQ(software->name, "g" + none);
  EXPECT_EQ(software->inputs[0].name, fmt::format("x{}_{}", none, graph.inputs[0].value));
  EXPECT_EQ(software->outputs[0].name, fmt::format("x{}_{}", none, graph.outputs[0].value));
}

TEST(Expand, GraphWithoutOutputsIsRefused) {
  const auto software = expand(Graph{});
  ASSERT_FALSE(software.ok());
  EXPECT_EQ(software.error().to_string(),
            "the program has no outputs, so there is nothing to derive; let it write an output "
            "queue or DRAM output   [invalid argument]");
}

// What stands for the padding is beyond every value, and not what the processor makes of nothing.
TEST(Expand, MaximumOfPaddingAloneIsRefused) {
  const auto graph_of = [](std::int64_t pad) {
    graph::PoolAttributes pool;
    pool.window_h = pool.window_w = pool.stride_h = pool.stride_w = 2;
    pool.pad_bottom = pad;
    Graph graph;
    graph.inputs = {{0}};
    graph.outputs = {{1}};
    graph.tensors = {{"x", Format::kF16, {1, 1, 4, 4}, nullptr},
                     {"y", Format::kF16, {1, 1, 2 + pad / 2, 2}, nullptr}};
    graph.nodes = {{"pool", {}, {{0}}, {{1}}, pool}};
    return graph;
  };
  EXPECT_TRUE(expand(graph_of(0)).ok());
  const auto refused = expand(graph_of(2));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().to_string().find("a window that lies in the padding"),
            std::string::npos)
      << refused.error().to_string();
}

// One block a sum: more of them would spread over too many exponents.
TEST(Expand, MicroscalingOfF32ElementsIsDerivedOrRefused) {
  for (int element = 0; element < 6; ++element) {
    MatrixFormat matrix;
    matrix.kind = MatrixKind::kMicroscaling;
    matrix.element_moving = matrix.element_stationary = static_cast<MicroElement>(element);
    Graph graph = one_product(ProductKind::kConstant, matrix, Format::kF32, kSeed);
    const auto refused = expand(graph);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().to_string().find("choose f16 vectors"), std::string::npos);
    std::mt19937 random(kSeed);
    graph.tensors[0].dims = {2, 3, 30};
    graph.tensors[1] = {"w",
                        Format::kF32,
                        {30, 5},
                        std::make_shared<const Tensor>(testing::random_tensor(
                            Format::kF32, {30, 5}, Values::kOrdinary, random))};
    const auto software = expand(graph);
    if (matrix.element_moving == MicroElement::kE5M2) {
      EXPECT_FALSE(software.ok());  // 32 products of 64 bits
      continue;
    }
    ASSERT_TRUE(software.ok()) << software.error().to_string();
    const auto shared = std::make_shared<const Graph>(graph);
    for (std::uint32_t round = 0; round < 6; ++round) {
      const Values kind = round % 2 == 1 ? Values::kEdges : Values::kOrdinary;
      EXPECT_EQ(compare(shared, *software, random_inputs(graph, kind, round)).difference, "");
    }
  }
}

// Weights that training may change are rounded and quantised by steps: the same bits.
TEST(Expand, TrainableWeightsGiveTheBitsOfConstantOnes) {
  MatrixFormat narrow, compact, long_format, micro;
  narrow.native_dimension = 16;
  compact.mantissa_bits_moving = compact.mantissa_bits_stationary = 7;
  long_format.long_format = LongFormat::kQ34_40;
  long_format.native_dimension = 32;
  micro.kind = MatrixKind::kMicroscaling;
  for (const MatrixFormat& matrix : {MatrixFormat{}, narrow, compact, long_format, micro}) {
    for (const ProductKind kind : kProductKinds) {
      const auto graph =
          std::make_shared<const Graph>(one_product(kind, matrix, Format::kF16, kSeed));
      const auto software = expand(*graph, {.fault_node = "", .trainable = true});
      ASSERT_TRUE(software.ok()) << software.error().to_string();
      const auto trained = std::count_if(software->values.begin(), software->values.end(),
                                         [](const Value& value) { return value.trained; });
      EXPECT_EQ(trained, kind == ProductKind::kComputed ? 0 : 2);
      for (const Values values : {Values::kOrdinary, Values::kEdges}) {
        EXPECT_EQ(compare(graph, *software, random_inputs(*graph, values, 3)).difference, "");
      }
    }
  }
}

// One node over all numbers of a format of 16 bits.
Graph function_graph(const Activation& activation, Format source, Format format) {
  Graph graph;
  graph.tensors = {{"x", source, {65536}, nullptr}, {"y", format, {65536}, nullptr}};
  graph::ElementwiseAttributes work;
  work.activation = activation;
  graph.nodes = {{"f", {}, {{0}}, {{1}}, work}};
  graph.inputs = {{0}};
  graph.outputs = {{1}};
  return graph;
}

void check_functions(Format source, Format format) {
  Tensor all = Tensor::zeros(source, {65536});
  for (int i = 0; i < 65536; ++i)
    all.as<std::uint16_t>()[static_cast<std::size_t>(i)] = static_cast<std::uint16_t>(i);
  if (source == Format::kBf16) all = converted(all, Format::kF32);
  for (int f = 0; f < kUnaryFunctionCount; ++f) {
    Activation activation = {static_cast<UnaryFunction>(f), 0.3f, 0.7f};
    SCOPED_TRACE(std::string(unary_function_name(activation.function)));
    Graph graph = function_graph(activation, source, format);
    if (source == Format::kBf16) graph = testing::with_bf16_vectors(std::move(graph));
    const auto shared = std::make_shared<const Graph>(std::move(graph));
    const auto software = expand(*shared);
    ASSERT_TRUE(software.ok()) << software.error().to_string();
    EXPECT_EQ(compare(shared, *software, {all}).difference, "");
  }
}

TEST(Expand, EveryFunctionOfEveryF16GivesTheBitsOfTheReference) {
  check_functions(Format::kF16, Format::kF16);
}

TEST(Expand, EveryFunctionOfEveryBf16GivesTheBitsOfTheReference) {
  check_functions(Format::kBf16, Format::kBf16);
}

// Numbers that are exact powers or beside a tie, all exceptions of C's pow, and any bits.
Tensor power_operands(Format format, bool exponents, std::int64_t count, std::mt19937& random) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double special[] = {0.0, -0.0, 1.0,  -1.0, 2.0,      -2.0,      0.5, 3.0, -3.0,
                            2.5, 1e-4, -0.5, 1.5,  infinity, -infinity, NAN, 4.0, 100.0};
  Tensor tensor = Tensor::zeros(format, {count});
  for (std::int64_t i = 0; i < count; ++i) {
    double value = special[static_cast<std::size_t>((exponents ? i / std::ssize(special) : i) %
                                                    std::ssize(special))];
    if (i >= std::ssize(special) * std::ssize(special)) {
      const double unit = static_cast<double>(random()) * 0x1p-32;
      switch (random() % 4) {
        case 0:
          value = exponents ? std::floor(unit * 12) - 4 : std::floor(unit * 64) / 8 - 2;
          break;
        case 1:
          value = exponents ? std::floor(unit * 16) / 4 - 2 : std::floor(unit * 40) * 0.25;
          break;
        case 2:
          value = exponents ? unit * 40 - 20 : std::exp2(unit * 20 - 10);
          break;
        default:
          value = exponents ? (unit - 0.5) * 0x1p20 : 1 + (unit - 0.5) * 0x1p-12;
      }
    }
    arith::write_element(format, value, tensor.bytes.data() + i * format_bytes(format));
  }
  return tensor;
}

TEST(Expand, ComputedPowersGiveTheBitsOfTheReference) {
  std::mt19937 random(kSeed);
  constexpr Format kFormats[] = {Format::kF16, Format::kF32};
  for (const Format base : kFormats) {
    for (const Format exponent : kFormats) {
      for (const Format format : {Format::kF16, Format::kBf16, Format::kF32}) {
        SCOPED_TRACE(fmt::format("{} ^ {} to {}", format_name(base), format_name(exponent),
                                 format_name(format)));
        constexpr std::int64_t kCount = 20000;
        Graph graph;
        graph.tensors = {{"a", base, {kCount}, nullptr},
                         {"b", exponent, {kCount}, nullptr},
                         {"p", format, {kCount}, nullptr},
                         {"y", Format::kF32, {kCount}, nullptr}};
        graph::ElementwiseAttributes power;
        power.binary = true;
        power.function = BinaryFunction::kPower;
        graph.nodes = {{"power", {}, {{0}, {1}}, {{2}}, power},
                       {"widen", {}, {{2}}, {{3}}, graph::ElementwiseAttributes{}}};
        graph.inputs = {{0}, {1}};
        graph.outputs = {{3}};
        const auto shared = std::make_shared<const Graph>(std::move(graph));
        const auto software = expand(*shared);
        ASSERT_TRUE(software.ok()) << software.error().to_string();
        const Outcome outcome = compare(shared, *software,
                                        {power_operands(base, false, kCount, random),
                                         power_operands(exponent, true, kCount, random)});
        EXPECT_EQ(outcome.difference, "");
        EXPECT_EQ(outcome.values, 2 * kCount);
      }
    }
  }
}

// Any bits, numbers around 1, where the logarithm is small, and some from -16 to 16.
Tensor many_f32(std::uint32_t seed) {
  std::mt19937 random(seed);
  Tensor tensor = Tensor::zeros(Format::kF32, {65536});
  for (std::size_t i = 0; i < 65536; ++i) {
    const std::uint32_t bits = i % 3 == 0 ? static_cast<std::uint32_t>(random())
                                          : 0x3F800000u + random() % 0x200000u - 0x100000u;
    tensor.as<float>()[i] = i % 3 == 2
                                ? static_cast<float>(static_cast<double>(random()) * 0x1p-27 - 16)
                                : std::bit_cast<float>(bits);
  }
  const float edges[] = {0.0f,       -0.0f,      1.0f,  0x1p-149f,  -1.0f,  INFINITY,
                         -INFINITY,  NAN,        20.0f, 0x3p-149f,  -20.0f, -0x1p-149f,
                         0x1.002p3f, 0x1.002p5f, 1e30f, -0x3p-149f, -1e30f, 0x1.fffffep127f};
  std::copy(std::begin(edges), std::end(edges), tensor.as<float>().begin());
  return tensor;
}

TEST(Expand, FunctionsOfF32GiveTheBitsOfTheReference) {
  for (const UnaryFunction function :
       {UnaryFunction::kLog, UnaryFunction::kExp, UnaryFunction::kTanh, UnaryFunction::kSigmoid,
        UnaryFunction::kErf, UnaryFunction::kGelu, UnaryFunction::kSilu}) {
    for (const Format format : {Format::kF16, Format::kF32}) {
      SCOPED_TRACE(fmt::format("{} to {}", unary_function_name(function), format_name(format)));
      Graph made = function_graph({function, 0.0f, 0.0f}, Format::kF16, format);
      made.tensors[0].format = Format::kF32;
      const auto graph = std::make_shared<const Graph>(made);
      const auto software = expand(*graph);
      ASSERT_TRUE(software.ok()) << software.error().to_string();
      for (std::uint32_t round = 0; round < 2; ++round) {
        EXPECT_EQ(compare(graph, *software, {many_f32(kSeed + round)}).difference, "");
      }
    }
  }
}

TEST(Expand, ZerosHaveTheSignsOfTheReference) {
  const auto graph = std::make_shared<const Graph>(zeros_graph());
  const auto software = expand(*graph);
  ASSERT_TRUE(software.ok()) << software.error().to_string();
  for (std::uint32_t round = 0; round < 4; ++round) {
    const auto inputs = random_inputs(*graph, Values::kEdges, round);
    EXPECT_EQ(compare(graph, *software, inputs).difference, "");
  }
}

// Of 20,000 f16 numbers, more than one float64 holds; the largest ones make ties of the mean.
TEST(Expand, LongSumsGiveTheBitsOfTheReference) {
  constexpr std::int64_t kTerms = 20000, kRows = 64;
  std::mt19937 random(kSeed);
  Tensor rows = Tensor::zeros(Format::kF16, {kRows, kTerms});
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t i = 0; i < kTerms; ++i) {
      double value = 0;
      if (row % 2 == 0) {
        value = 65504 - 32.0 * ((i + row / 2) % 2);  // about half way between two f16
        if (i < row / 16) value -= 0x1p-24;
        if (i == 7) value = row % 8 == 0 ? 0x1p-24 : -0x1p-24;
      } else {
        value = (static_cast<double>(random()) - 0x1p31) * std::exp2(-31 - row % 7);
      }
      arith::write_element(Format::kF16, value, rows.bytes.data() + (row * kTerms + i) * 2);
    }
  }
  rows.as<std::uint16_t>()[1 * kTerms + 5] = 0x7C00;
  rows.as<std::uint16_t>()[3 * kTerms + 5] = 0x7E00;
  for (const ReduceFunction function :
       {ReduceFunction::kSum, ReduceFunction::kMean, ReduceFunction::kSumAbsolute}) {
    Graph made;
    made.tensors = {{"x", Format::kF16, {kRows, kTerms}, nullptr},
                    {"y", Format::kF16, {kRows, 1}, nullptr}};
    graph::ReduceAttributes reduce;
    reduce.function = function;
    reduce.axes = {1};
    made.nodes = {{"r", {}, {{0}}, {{1}}, reduce}};
    made.inputs = {{0}};
    made.outputs = {{1}};
    const auto graph = std::make_shared<const Graph>(made);
    const auto software = expand(*graph);
    ASSERT_TRUE(software.ok()) << software.error().to_string();
    EXPECT_EQ(compare(graph, *software, {rows}).difference, "");
  }
}

TEST(Expand, ExtremesOfInfinitiesGiveTheBitsOfTheReference) {
  for (const BinaryFunction function : {BinaryFunction::kMaximum, BinaryFunction::kMinimum}) {
    Graph made;
    made.tensors = {{"x", Format::kF32, {8, 1}, nullptr},
                    {"z", Format::kF32, {1, 8}, nullptr},
                    {"y", Format::kF32, {8, 8}, nullptr}};
    graph::ElementwiseAttributes work;
    work.binary = true;
    work.function = function;
    made.nodes = {{"m", {}, {{0}, {1}}, {{2}}, work}};
    made.inputs = {{0}, {1}};
    made.outputs = {{2}};
    const float edges[] = {0.0f, -0.0f, 3.0f, 0x1p-149f, -1.0f, INFINITY, -INFINITY, NAN};
    Tensor x = Tensor::zeros(Format::kF32, {8, 1}), z = Tensor::zeros(Format::kF32, {1, 8});
    std::copy(std::begin(edges), std::end(edges), x.as<float>().begin());
    std::copy(std::begin(edges), std::end(edges), z.as<float>().begin());
    const auto graph = std::make_shared<const Graph>(made);
    const auto software = expand(*graph);
    ASSERT_TRUE(software.ok()) << software.error().to_string();
    EXPECT_EQ(compare(graph, *software, {x, z}).difference, "");
  }
}

// Rows of [5, 3] at four computed places.
std::shared_ptr<const Graph> gather_graph(Format places, std::int64_t axis) {
  Graph graph;
  graph.name = "gather";
  graph.tensors = {{"table", Format::kF16, {5, 3}, nullptr},
                   {"places", places, {2, 2}, nullptr},
                   {"rows", Format::kF16, axis == 0 ? Shape{2, 2, 3} : Shape{5, 2, 2}, nullptr}};
  graph::HostStepAttributes step;
  step.node.name = "gather";
  step.node.op_type = "Gather";
  step.node.inputs = {"table", "places"};
  step.node.outputs = {"rows"};
  step.node.attributes["axis"] = axis == 0 ? axis : axis - 2;
  step.opset = 17;
  graph.nodes.push_back({"gather", {}, {{0}, {1}}, {{2}}, std::move(step)});
  graph.inputs = {{0}, {1}};
  graph.outputs = {{2}};
  return std::make_shared<const Graph>(std::move(graph));
}

Tensor places_of(Format format, const std::vector<double>& numbers) {
  Tensor places = Tensor::zeros(format, {2, 2});
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    arith::write_element(format, numbers[i],
                         places.bytes.data() + i * static_cast<std::size_t>(format_bytes(format)));
  }
  return places;
}

TEST(Expand, GatherAtComputedPlacesIsAnOperator) {
  std::mt19937 random(kSeed);
  const Tensor table = testing::random_tensor(Format::kF16, {5, 3}, Values::kEdges, random);
  for (const Format format : {Format::kI64, Format::kI32}) {
    for (const std::int64_t axis : {0, 1}) {
      const auto graph = gather_graph(format, axis);
      const auto software = expand(*graph);
      ASSERT_TRUE(software.ok()) << software.error().to_string();
      for (const Operation& operation : software->operations) {
        EXPECT_NE(operation.op, Operator::kHostNode);
      }
      const std::vector<double> numbers =
          axis == 0 ? std::vector<double>{4, 0, -1, -5} : std::vector<double>{2, 0, -1, -3};
      const Outcome outcome = compare(graph, *software, {table, places_of(format, numbers)});
      EXPECT_EQ(outcome.difference, "");
    }
  }
}

// A place that is not there ends the software with an error, as it ends the program.
TEST(Expand, GatherOutOfRangeIsAnError) {
  for (const Format format : {Format::kI64, Format::kI32}) {
    const auto graph = gather_graph(format, 0);
    const auto software = expand(*graph);
    ASSERT_TRUE(software.ok()) << software.error().to_string();
    const auto reference = host::make_reference_executor(graph);
    for (const double place : {5.0, -6.0, 2147483647.0, -2147483648.0}) {
      const std::vector<Tensor> inputs = {Tensor::zeros(Format::kF16, {5, 3}),
                                          places_of(format, {0, 1, place, 2})};
      EXPECT_FALSE((*reference)->run(inputs).ok()) << place;
      EXPECT_FALSE(interpret(*software, inputs).ok()) << place;
    }
  }
}

// f32 ─► f64 ─► Sub on the host ─► f32, and a mask that opset 18 has.
std::shared_ptr<const Graph> wide_graph() {
  Graph graph;
  graph.name = "wide";
  graph.tensors = {
      {"x", Format::kF32, {2, 3}, nullptr},     {"wide", Format::kF64, {2, 3}, nullptr},
      {"twice", Format::kF64, {2, 3}, nullptr}, {"y", Format::kF32, {2, 3}, nullptr},
      {"m", Format::kI32, {2, 3}, nullptr},     {"n", Format::kI32, {2, 3}, nullptr}};
  const auto host = [](const char* op, const char* read, const char* made) {
    graph::HostStepAttributes step;
    step.node = {op, op, "", {read, read}, {made}, {}};
    step.opset = 21;
    return step;
  };
  graph.nodes.push_back({"widen", {}, {{0}}, {{1}}, graph::ElementwiseAttributes{}});
  graph.nodes.push_back({"sum", {}, {{1}, {1}}, {{2}}, host("Add", "wide", "twice")});
  graph.nodes.push_back({"narrow", {}, {{2}}, {{3}}, graph::ElementwiseAttributes{}});
  graph.nodes.push_back({"mask", {}, {{4}, {4}}, {{5}}, host("BitwiseAnd", "m", "n")});
  // As opset 11 writes it.
  graph::HostStepAttributes total;
  total.node = {"total",  "ReduceSum", "",
                {"wide"}, {"sums"},    {{"axes", std::vector<std::int64_t>{1}}}};
  total.opset = 11;
  graph.tensors.push_back({"sums", Format::kF64, {2, 1}, nullptr});
  graph.nodes.push_back({"total", {}, {{1}}, {{6}}, std::move(total)});
  graph.inputs = {{0}, {4}};
  graph.outputs = {{3}, {5}, {6}};
  return std::make_shared<const Graph>(std::move(graph));
}

TEST(Expand, ValuesOfF64AndNewerHostStepsGiveTheBitsOfTheReference) {
  std::mt19937 random(kSeed);
  const auto graph = wide_graph();
  const auto software = expand(*graph);
  ASSERT_TRUE(software.ok()) << software.error().to_string();
  EXPECT_EQ(onnx_opset(*software), 18);
  const auto total = std::ranges::find_if(software->operations, [](const Operation& operation) {
    return operation.op == Operator::kHostNode && operation.host->op_type == "ReduceSum";
  });
  ASSERT_NE(total, software->operations.end());
  EXPECT_EQ(onnx_node(*software, *total, 18).node.inputs.size(), 2U);
  const Outcome outcome =
      compare(graph, *software,
              {testing::random_tensor(Format::kF32, {2, 3}, Values::kEdges, random),
               testing::random_tensor(Format::kI32, {2, 3}, Values::kEdges, random)});
  EXPECT_EQ(outcome.difference, "");
}

TEST(Expand, WholeNumbersOfSixtyFourBitsBecomeSmallerOnesModuloTheirRange) {
  for (const Format format : {Format::kI32, Format::kU32, Format::kI8, Format::kU16}) {
    Graph graph;
    graph.name = "narrow";
    const auto zero = std::make_shared<const Tensor>(Tensor::zeros(Format::kF32, {}));
    graph.tensors = {{"x", Format::kI64, {9}, nullptr},
                     {"zero", Format::kF32, {}, zero},
                     {"y", format, {9}, nullptr}};
    graph::ElementwiseAttributes sum;
    sum.binary = true;
    graph.nodes.push_back({"cast", {}, {{0}, {1}}, {{2}}, sum});
    graph.inputs = {{0}};
    graph.outputs = {{2}};
    const auto shared = std::make_shared<const Graph>(std::move(graph));
    const auto software = expand(*shared);
    ASSERT_TRUE(software.ok()) << software.error().to_string();
    Tensor x = Tensor::zeros(Format::kI64, {9});
    const std::vector<std::int64_t> values = {0,
                                              -1,
                                              255,
                                              32768,
                                              2147483648,
                                              -2147483649,
                                              4294967296,
                                              (std::int64_t{1} << 52) + 7,
                                              -(std::int64_t{1} << 52) - 129};
    std::ranges::copy(values, x.as<std::int64_t>().begin());
    EXPECT_EQ(compare(shared, *software, {x}).difference, "");
  }
}

TEST(Expand, AFaultInOneRoundingIsFoundInItsLayer) {
  int found = 0;
  for (std::uint32_t round = 0; round < 12; ++round) {
    const auto graph = std::make_shared<const Graph>(random_graph(kSeed + round, 4));
    for (const graph::Node& node : graph->nodes) {
      if (node.kind() != graph::NodeKind::kConv) continue;
      const auto software = expand(*graph, {.fault_node = node.name});
      if (!software.ok()) continue;
      const Outcome outcome =
          compare(graph, *software, random_inputs(*graph, Values::kOrdinary, round));
      if (outcome.difference.empty()) continue;  // all zeros, say
      EXPECT_EQ(outcome.difference.find("conv '" + node.name + "'"), 0U) << outcome.difference;
      ++found;
    }
  }
  EXPECT_GT(found, 2);
}

}  // namespace
}  // namespace tessera::concord
