// Whole graphs, expanded and written, against the reference device: equal bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "arith/rounding.h"
#include "base/test_volume.h"
#include "concord/expand/expand.h"
#include "concord/fold/fold.h"
#include "concord/interpret.h"
#include "concord/steps.h"
#include "concord/testing/random_graph.h"
#include "concord/testing/trained_graph.h"
#include "concord/testing/unrolled.h"
#include "concord/write/cpp.h"
#include "concord/write/packed_constant.h"
#include "concord/write/pytorch.h"
#include "host/executor.h"
#include "written_program.h"

namespace tessera::concord::testing {
namespace {

using graph::Graph;

constexpr std::uint32_t kSeed = 20261122;

struct Sample {
  std::vector<Tensor> inputs, outputs;
};

// Random graphs, all functions of all f16 numbers; each with what the reference makes of it.
struct Suite {
  std::vector<Software> programs;
  std::vector<std::shared_ptr<const Graph>> graphs;

  void add(Graph graph) {
    auto software = expand(graph);
    if (!software.ok()) return;  // refused by name; tests of the expansion look at that
    programs.push_back(*std::move(software));
    graphs.push_back(std::make_shared<const Graph>(std::move(graph)));
  }

  Sample sample(Values kind, std::uint32_t seed) const {
    Sample result;
    for (const auto& graph : graphs) {
      const std::vector<Tensor> inputs = random_inputs(*graph, kind, seed++);
      const auto outputs = (*host::make_reference_executor(graph))->run(inputs);
      EXPECT_TRUE(outputs.ok()) << outputs.error().to_string();
      result.inputs.insert(result.inputs.end(), inputs.begin(), inputs.end());
      result.outputs.insert(result.outputs.end(), outputs->begin(), outputs->end());
    }
    return result;
  }
};

Suite random_suite() {
  Suite suite;
  const auto count = static_cast<std::uint32_t>(40 / visit_one_in(4, 4));
  for (std::uint32_t i = 0; i < count; ++i) {
    Graph graph = random_graph(kSeed + i, 5);
    if (i % 4 == 3) graph = with_bf16_vectors(std::move(graph));
    suite.add(std::move(graph));
  }
  EXPECT_GT(suite.programs.size(), count * 5 / 8);
  return suite;
}

void expect_equal(const Software& software, const std::vector<Tensor>& expected,
                  const std::vector<Tensor>& actual) {
  ASSERT_EQ(expected.size(), actual.size());
  std::int64_t values = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(expected[i] == actual[i]) << "output '" << software.outputs[i].name << "'";
    values += element_count(expected[i].dims);
  }
  std::printf("%lld values equal\n", static_cast<long long>(values));
}

void check_suite(const Suite& suite, std::string (*build)(const Software&, const Folder&)) {
  const Folder folder;
  const Software whole = all_of(suite.programs);
  const std::string command = build(whole, folder);
  for (const Values kind : {Values::kOrdinary, Values::kEdges}) {
    SCOPED_TRACE(kind == Values::kEdges ? "edges" : "ordinary");
    const Sample sample = suite.sample(kind, 7);
    expect_equal(whole, sample.outputs, run_files(whole, command, sample.inputs, folder));
  }
}

TEST(WrittenCpp, RandomGraphsGiveTheBitsOfTheReference) { check_suite(random_suite(), build_cpp); }

TEST(WrittenPytorch, RandomGraphsGiveTheBitsOfTheReference) {
  if (!find_python("torch")) GTEST_SKIP() << "no python3 with torch and numpy";
  check_suite(random_suite(), build_pytorch);
}

// The gradient of a written module against that of the float32 functions it stands for.
graph::Graph perceptron() {
  const auto tensor = [](const char* name, Format format, Shape dims) {
    return graph::TensorInfo{name, format, std::move(dims), nullptr};
  };
  Graph graph;
  graph.name = "perceptron";
  graph.tensors = {tensor("x", Format::kF32, {6, 20}),    tensor("w1", Format::kF32, {20, 12}),
                   tensor("w2", Format::kF32, {12, 5}),   tensor("x16", Format::kF16, {6, 20}),
                   tensor("a16", Format::kF16, {20, 12}), tensor("b16", Format::kF16, {12, 5}),
                   tensor("h", Format::kF16, {6, 12}),    tensor("t", Format::kF16, {6, 12}),
                   tensor("y16", Format::kF16, {6, 5}),   tensor("y", Format::kF32, {6, 5})};
  const auto node = [&](const char* name, std::vector<graph::TensorId> in, int out,
                        graph::NodeAttributes attributes) {
    graph.nodes.push_back({name, {}, std::move(in), {{out}}, std::move(attributes)});
  };
  graph::MatMulAttributes coarse, fine;
  coarse.matrix.native_dimension = fine.matrix.native_dimension = 16;
  coarse.matrix.mantissa_bits_moving = coarse.matrix.mantissa_bits_stationary = 7;
  fine.matrix.mantissa_bits_moving = fine.matrix.mantissa_bits_stationary = 11;
  graph::ElementwiseAttributes tanh;
  tanh.activation.function = UnaryFunction::kTanh;
  for (int i = 0; i < 3; ++i) node("narrow", {{i}}, 3 + i, graph::ElementwiseAttributes{});
  node("first", {{3}, {4}}, 6, coarse);
  node("tanh", {{6}}, 7, tanh);
  node("second", {{7}, {5}}, 8, fine);
  node("widen", {{8}}, 9, graph::ElementwiseAttributes{});
  graph.inputs = {{0}, {1}, {2}};
  graph.outputs = {{9}};
  return graph;
}

double element(const Tensor& tensor, std::int64_t i) {
  return arith::read_element(tensor.format, tensor.bytes.data() + i * format_bytes(tensor.format));
}

// A loop that was written out, as a loop of the language.
void check_loop(std::string (*build)(const Software&, const Folder&)) {
  const Folder folder;
  const Software software = folded(unrolled(7));
  ASSERT_TRUE(std::any_of(software.operations.begin(), software.operations.end(),
                          [](const Operation& operation) { return operation.repeat != nullptr; }));
  const std::string command = build(software, folder);
  for (const Values kind : {Values::kOrdinary, Values::kEdges}) {
    std::mt19937 random(3);
    std::vector<Tensor> inputs;
    for (const Port& port : software.inputs) {
      const Value& value = software.value(port.value);
      inputs.push_back(random_tensor(value.format, value.dims, kind, random));
    }
    const auto expected = interpret(unrolled(7), inputs);
    ASSERT_TRUE(expected.ok());
    std::vector<Tensor> actual = run_files(software, command, inputs, folder);
    ASSERT_EQ(actual.size(), expected->size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      // Signs of NaN are the operators' own.
      for (std::int64_t k = 0; k < element_count(actual[i].dims); ++k) {
        const double a = element(actual[i], k), b = element((*expected)[i], k);
        EXPECT_TRUE((std::isnan(a) && std::isnan(b)) ||
                    arith::bits_of_f64(a) == arith::bits_of_f64(b))
            << software.outputs[i].name << " " << k << ": " << a << ", not " << b;
      }
    }
  }
}

TEST(WrittenCpp, ALoopGivesTheBitsOfItsTurns) { check_loop(build_cpp_plainly); }

TEST(WrittenPytorch, ALoopGivesTheBitsOfItsTurns) {
  if (!find_python("torch")) GTEST_SKIP() << "no python3 with torch and numpy";
  check_loop(build_pytorch);
}

TEST(WrittenPytorch, GradientsAreThoseOfTheFunctionsItStandsFor) {
  const auto python = find_python("torch");
  if (!python) GTEST_SKIP() << "no python3 with torch and numpy";
  const auto software = expand(perceptron());
  ASSERT_TRUE(software.ok()) << software.error().to_string();
  const Folder folder;
  build_pytorch(*software, folder);
  const int status =
      run_command(*python + " " + TESSERA_WRITERS_SOURCE + "/check_gradient.py " + folder.path(""),
                  folder.path("log"));
  EXPECT_EQ(status, 0) << read_text(folder.path("log"));
}

// The gradients of what is trained, by the layers of a graph, against those of float functions.
void check_trained(const Graph& graph, const std::string& layers) {
  const auto python = find_python("torch");
  if (!python) GTEST_SKIP() << "no python3 with torch and numpy";
  const auto software = expand(graph, {.fault_node = "", .trainable = true});
  ASSERT_TRUE(software.ok()) << software.error().to_string();
  const Folder folder;
  build_pytorch(*software, folder);
  const int status = run_command(*python + " " + TESSERA_WRITERS_SOURCE + "/check_trained.py " +
                                     folder.path("") + " " + layers,
                                 folder.path("log"));
  EXPECT_EQ(status, 0) << read_text(folder.path("log"));
  std::printf("%s", read_text(folder.path("log")).c_str());
}

TEST(WrittenPytorch, GradientsOfChannelWiseAndPlainWeightsAreThoseOfFloats) {
  check_trained(float_layers(Format::kF16, kSeed), "floats");
}

TEST(WrittenPytorch, GradientsOfIntegerWeightsAreThoseOfFloats) {
  check_trained(integer_layers(kSeed), "integers");
}

// The same programs with a rounding of one bit less in their first product.
TEST(WrittenCpp, AFaultInARoundingIsSeen) {
  Suite suite;
  std::vector<Software> faulty;
  for (std::uint32_t i = 0; i < 12; ++i) {
    const Graph graph = random_graph(kSeed + i, 4);
    for (const graph::Node& node : graph.nodes) {
      if (node.kind() != graph::NodeKind::kConv) continue;
      auto software = expand(graph, {.fault_node = node.name});
      if (!software.ok()) break;
      suite.add(graph);
      faulty.push_back(*std::move(software));
      break;
    }
  }
  const Folder folder;
  const Software whole = all_of(faulty);
  const Sample sample = suite.sample(Values::kOrdinary, 3);
  const auto actual = run_files(whole, build_cpp_plainly(whole, folder), sample.inputs, folder);
  ASSERT_EQ(actual.size(), sample.outputs.size());
  int different = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) different += !(actual[i] == sample.outputs[i]);
  EXPECT_GT(different, 1) << "of " << actual.size();
}

Software small_program() {
  Graph graph = random_graph(kSeed, 3);
  auto software = expand(graph);
  EXPECT_TRUE(software.ok());
  return *std::move(software);
}

TEST(WrittenCpp, WrongFlagsDoNotCompile) {
  const Folder folder;
  write_text(folder.path("derived.cpp"), *write_cpp(small_program()));
  const std::string compile = std::string(TESSERA_CXX) + " -std=c++17 -fsyntax-only ";
  for (const std::string flag : {"-ffast-math", "-ffinite-math-only"}) {
    EXPECT_NE(run_command(compile + flag + " " + folder.path("derived.cpp"), folder.path("log")),
              0);
    EXPECT_NE(read_text(folder.path("log")).find("every rounding in this file is meant"),
              std::string::npos)
        << read_text(folder.path("log"));
  }
}

TEST(WrittenCpp, FilesOfTheWrongSizeAreRefused) {
  const Folder folder;
  const Software software = small_program();
  const std::string program = build_cpp_plainly(software, folder);
  write_text(folder.path("short"), "abc");
  std::string line = program + " " + folder.path("short");
  EXPECT_EQ(run_command(line, folder.path("log")), 2);
  EXPECT_NE(read_text(folder.path("log")).find("usage"), std::string::npos);
  for (std::size_t i = 0; i < software.outputs.size(); ++i) line += " " + folder.path("out");
  EXPECT_EQ(run_command(line, folder.path("log")), 1);
  EXPECT_NE(read_text(folder.path("log")).find("has 3 bytes, needed"), std::string::npos);
}

// Rows at places that are inputs: one that is not there is an error of the written program.
void check_places(std::string (*build)(const Software&, const Folder&)) {
  Software software;
  Steps steps(software, "v");
  software.layers = {{"gather", "HostStep", {}, "", Format::kF64}};
  steps.begin_layer(0);
  const ValueId table = steps.input("table", Format::kF64, {5, 3});
  const ValueId places = steps.input("places", Format::kI64, {2});
  const ValueId rows = steps.gather(table, places, 0);
  software.outputs = {{rows, software.value(rows).name}};
  const Folder folder;
  const std::string command = build(software, folder);
  Tensor numbers = Tensor::zeros(Format::kI64, {2});
  write_bytes(folder.path("table"), Tensor::zeros(Format::kF64, {5, 3}).bytes);
  for (const std::int64_t place : {4, 5, 1000000}) {
    numbers.as<std::int64_t>()[1] = place;
    write_bytes(folder.path("places"), numbers.bytes);
    const int status = run_command(command + " " + folder.path("table") + " " +
                                       folder.path("places") + " " + folder.path("out"),
                                   folder.path("log"));
    EXPECT_EQ(status, place < 5 ? 0 : 1) << place << ": " << read_text(folder.path("log"));
  }
}

TEST(WrittenCpp, PlacesThatAreNotThereAreAnError) { check_places(build_cpp_plainly); }

TEST(WrittenPytorch, PlacesThatAreNotThereAreAnError) {
  if (!find_python("torch")) GTEST_SKIP() << "no python3 with torch and numpy";
  check_places(build_pytorch);
}

TEST(Writers, HostStepsAreRefusedByName) {
  Software software;
  software.values = {{"x", Format::kF32, {2}, nullptr}, {"y", Format::kF32, {2}, nullptr}};
  software.layers = {{"n", "HostStep", {1}, "y", Format::kF32}};
  auto node = std::make_shared<model::Node>();
  node->name = "resize_me";
  node->op_type = "Resize";
  Operation operation{.op = Operator::kHostNode, .inputs = {{0}}, .outputs = {{1}}};
  operation.host = node;
  operation.layer = 0;
  software.operations = {operation};
  software.inputs = {{{0}, "x"}};
  software.outputs = {{{1}, "y"}};
  const auto cpp = write_cpp(software);
  ASSERT_FALSE(cpp.ok());
  EXPECT_NE(cpp.error().to_string().find("'resize_me' (Resize)"), std::string::npos);
  const auto torch = write_pytorch(software, "w");
  ASSERT_FALSE(torch.ok());
  EXPECT_NE(torch.error().to_string().find("'resize_me' (Resize)"), std::string::npos);
}

TEST(PackedConstant, TakesTheSmallestFormatThatHoldsEveryBit) {
  const auto format_of = [](const std::vector<double>& numbers) {
    Tensor tensor = Tensor::zeros(Format::kF64, {static_cast<std::int64_t>(numbers.size())});
    std::copy(numbers.begin(), numbers.end(), tensor.as<double>().begin());
    return packed(tensor).format;
  };
  EXPECT_EQ(format_of({0.0, 127.0, -128.0}), Format::kI8);
  EXPECT_EQ(format_of({0.0, -0.0}), Format::kF16);
  EXPECT_EQ(format_of({128.0, 0x1p-24}), Format::kF16);
  EXPECT_EQ(format_of({0.5, 0x1p-25}), Format::kF32);
  EXPECT_EQ(format_of({0x1p-140}), Format::kF32);
  EXPECT_EQ(format_of({0.1}), Format::kF64);
}

}  // namespace
}  // namespace tessera::concord::testing
