// What each line of a chain means: held against the rounding of one element at a time, or against
// another chain that must give the same bits.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "arch/architecture_file.h"
#include "arith/function.h"
#include "concord/lift/lift.h"
#include "example.h"
#include "firmware/disassembler.h"

namespace tessera::firmware {
namespace {

ChipConfig chip_named(const char* name) {
  const auto chip = load_chip_config(name);
  EXPECT_TRUE(chip.ok()) << chip.error().message;
  return *chip;
}

// The smaller processors with the number formats of the first, so that bits can be compared.
std::vector<ChipConfig> three_chips() {
  std::vector<ChipConfig> chips = {chip_named("tessera128"), chip_named("edge"),
                                   chip_named("pe128x64")};
  for (ChipConfig& chip : chips) chip.formats = chips[0].formats;
  return chips;
}

isa::Program assembled(const std::string& text, const ChipConfig& chip) {
  AssembleOptions options;
  options.chip = &chip;
  auto program = assemble("firmware 1\n" + text, "t.tasm", options);
  EXPECT_TRUE(program.ok()) << program.error().message;
  return program.ok() ? std::move(program).value() : isa::Program{};
}

Values run_text(const std::string& text, const std::vector<Tensor>& inputs,
                const ChipConfig& chip = chip_named("tessera128")) {
  const RunResult run = run_program(assembled(text, chip), chip, inputs);
  return run.outputs.empty() ? Values{} : values_of(run.outputs[0]);
}

std::int64_t tasks_of(const isa::Program& program, isa::EngineKind engine) {
  std::int64_t count = 0;
  for (const isa::TaskDescriptor& task : program.tasks) count += task.engine == engine;
  return count;
}

float f16(double value) {
  return static_cast<float>(arith::evaluate(Activation{}, value, Format::kF16));
}

TEST(Chains, EnginesOfAChainAreThoseOfItsTasks) {
  const ChipConfig chip = chip_named("edge");
  const std::string head =
      "queue x [64] in\nqueue y [64] out\nmatrix W [64, 64] in matrix = random 1 0.1\n"
      "chain \"c\"\n";
  const std::string chain = "read x\nproduct W\nrelu\nwrite y\nend\n";
  const isa::Program chosen = assembled(head + "engines neural 2 to 5 unicast\n" + chain, chip);
  const isa::Program plain = assembled(head + chain, chip);
  std::int64_t products = 0;
  for (const isa::TaskDescriptor& task : chosen.tasks) {
    const bool neural = task.engine == isa::EngineKind::kNeural;
    products += neural ? 1 : 0;
    EXPECT_EQ(task.header,
              neural ? (isa::TaskHeader{.engines = {2, 3}, .sharing = isa::Sharing::kUnicast})
                     : isa::TaskHeader{});
  }
  EXPECT_EQ(products, 1);
  const std::vector<Tensor> input = {f16_tensor({1, 64}, random_values(9, 1, 64))};
  EXPECT_EQ(values_of(run_program(chosen, chip, input).outputs[0]),
            values_of(run_program(plain, chip, input).outputs[0]));
}

TEST(Chains, EveryUnaryOperationRoundsOnce) {
  const Values x = random_values(5, 4, 200);
  for (const char* word : {"relu", "sigmoid", "tanh", "exp", "reciprocal", "square_root"}) {
    const Values y = run_text(
        fmt::format("queue x [200] in\nqueue y [200] out\nchain \"c\"\nread x\n{}\nwrite y\nend\n",
                    word),
        {f16_tensor({1, 200}, x)});
    Activation activation;
    activation.function = *unary_function_from_name(word);
    ASSERT_EQ(y.size(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto expected = static_cast<float>(arith::evaluate(activation, x[i], Format::kF16));
      EXPECT_TRUE(y[i] == expected || (std::isnan(y[i]) && std::isnan(expected))) << word << i;
    }
  }
}

TEST(Chains, EveryBinaryOperationTakesItsOperandInOrder) {
  const Values x = random_values(5, 4, 130);
  const Values b = random_values(8, 4, 130);
  struct Case {
    const char* word;
    const char* file;
    BinaryFunction function;
    bool swapped;
  };
  for (const Case& c : {Case{"add", "addsub", BinaryFunction::kAdd, false},
                        Case{"subtract", "addsub", BinaryFunction::kSubtract, false},
                        Case{"subtract_from", "addsub", BinaryFunction::kSubtract, true},
                        Case{"maximum", "addsub", BinaryFunction::kMaximum, false},
                        Case{"multiply", "multiply", BinaryFunction::kMultiply, false}}) {
    const Values y = run_text(
        fmt::format("queue x [130] in\nqueue y [130] out\nvector b [130] in {} = random 8 4\n"
                    "chain \"c\"\nread x\n{} b\nwrite y\nend\n",
                    c.file, c.word),
        {f16_tensor({1, 130}, x)});
    ASSERT_EQ(y.size(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double value = c.swapped ? arith::evaluate(c.function, b[i], x[i], Format::kF16)
                                     : arith::evaluate(c.function, x[i], b[i], Format::kF16);
      EXPECT_EQ(y[i], static_cast<float>(value)) << c.word << " " << i;
    }
  }
}

// Rows of the identity have an energy of 1, so what is left is x over its own length: 3 / 5, 4 / 5. A
// vector of zeros has none, and correlates with nothing.
TEST(Chains, ACorrelationIsTheProductOverBothLengths) {
  const std::string head =
      "queue x [2] in\nqueue y [2] out\nmatrix I [2, 2] in matrix = identity\nchain \"c\"\nread "
      "x\n";
  for (const ChipConfig& chip : three_chips()) {
    const auto of = [&](const Values& x) {
      return run_text(head + "correlate I\nwrite y\nend\n", {f16_tensor({1, 2}, x)}, chip);
    };
    EXPECT_EQ(of({3, 4}), (Values{f16(0.6), f16(0.8)}));
    EXPECT_EQ(of({-5, 12}), (Values{f16(-5.0 / 13), f16(12.0 / 13)}));
    EXPECT_EQ(of({0, 0}), (Values{0, 0}));
    const Values relu =
        run_text(head + "correlate I\nrelu\nwrite y\nend\n", {f16_tensor({1, 2}, {-3, 4})}, chip);
    EXPECT_EQ(relu, (Values{0, f16(0.8)}));
  }
  const auto error = [&](const std::string& chain) {
    AssembleOptions options;
    const ChipConfig chip = chip_named("tessera128");
    options.chip = &chip;
    const auto program = assemble(
        "firmware 1\nqueue y [8] out\nvector v [4, 9, 9, 128] in initial = 1\n"
        "matrix W [8, 128] window 2 x 3 x 3 in matrix = 1\nchain \"c\"\n" +
            chain + "end\n",
        "t.tasm", options);
    return program.ok() ? std::string() : program.error().message;
  };
  EXPECT_THAT(error("read v window 2 x 3 x 3\ncorrelate W\nwrite y\n"),
              ::testing::HasSubstr("'correlate' takes a window of one plane with all of its taps"));
}

// What a program's text says of the post-processor is what the descriptor has.
TEST(Chains, TextsNameWhatThePostProcessorDoes) {
  const ChipConfig chip = chip_named("tessera128");
  const isa::Program program = assembled(
      "queue x [2] in\nqueue y [2] out\nmatrix I [2, 2] in matrix = identity\n"
      "chain \"c\"\nread x\ncorrelate I\nwrite y\nend\n",
      chip);
  EXPECT_THAT(disassemble(program, {}), ::testing::HasSubstr("  product\n  correlate\n"));
  const auto lifted = concord::lift(program, chip);
  ASSERT_FALSE(lifted.ok());
  EXPECT_THAT(lifted.error().message,
              ::testing::HasSubstr("is a normalised cross-correlation, which no graph has"));
}

TEST(Chains, AProductOfManyTilesIsOneTask) {
  const ChipConfig chip = chip_named("tessera128");
  const isa::Program program = assembled(
      "queue x [384] in\nqueue y [512] out\nmatrix W [512, 384] in matrix = random 1 0.1\n"
      "chain \"c\"\nread x\nproduct W\nsigmoid\nwrite y\nend\n",
      chip);
  EXPECT_EQ(tasks_of(program, isa::EngineKind::kNeural), 1);
  EXPECT_EQ(tasks_of(program, isa::EngineKind::kPlanar), 0);
}

TEST(Chains, QuantisedUnitsTakeWhatAnIdentityProductGives) {
  const std::string head =
      "queue x [200] in\nqueue y [200] out\nvector b [200] in addsub = random 8 3\n"
      "vector bi [200] in initial = random 8 3\nvector bq [200] in addsub\n"
      "matrix I [200, 200] in matrix = identity\n";
  const std::vector<Tensor> inputs = {f16_tensor({1, 200}, random_values(5, 0.3, 200))};
  ChipConfig chip = chip_named("tessera128");
  chip.formats.matrix.mantissa_bits_moving = 5;  // so that much is lost
  const Values asked =
      run_text(head + "chain \"c\"\nread x\nquantised\nadd b\nwrite y\nend\n", inputs, chip);
  const Values shown = run_text(head + "chain \"b\"\nread bi\nproduct I\nwrite bq\nend\n" +
                                    "chain \"c\"\nread x\nproduct I\nadd bq\nwrite y\nend\n",
                                inputs, chip);
  const Values plain = run_text(head + "chain \"c\"\nread x\nadd b\nwrite y\nend\n", inputs, chip);
  EXPECT_EQ(asked, shown);
  EXPECT_NE(asked, plain);
}

TEST(Chains, AddressesAdvanceByTheirStepAndStepZeroBroadcasts) {
  const std::string text =
      "file initial 16\nfile addsub 8\ndram x [6, 128] input\ndram y [3, 128] output\n"
      "vector all [6, 128] in initial at 4\nvector b [2, 128] in addsub at 1 = random 8 1\n"
      "chain \"load\"\nread x\nwrite all\nend\n"
      "chain \"c\"\niterate 3\nread initial[5] step 2\nadd addsub[2] step 0\nwrite y\nend\n";
  const Values x = random_values(5, 1, 6 * 128);
  const Values b = random_values(8, 1, 2 * 128);
  const Values y = run_text(text, {f16_tensor({6, 128}, x)});
  ASSERT_EQ(y.size(), 3u * 128);
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t k = 0; k < 128; ++k) {
      // Vectors 1, 3, 5 of x and the second of b.
      EXPECT_EQ(y[i * 128 + k], f16(double{x[(2 * i + 1) * 128 + k]} + b[128 + k]));
    }
  }
}

TEST(Chains, AMatrixMovedFromDramIsTheMatrix) {
  const std::string text =
      "queue x [96] in\nqueue y [64] out\nmatrix D [64, 96] in dram = random 1 0.2\n"
      "matrix V [64, 96] in matrix\nmatrix W [64, 96] in matrix = random 1 0.2\n"
      "chain \"move\"\nread D\nwrite V\nend\nchain \"c\"\nread x\nproduct {}\nwrite y\nend\n";
  const std::vector<Tensor> inputs = {f16_tensor({1, 96}, random_values(5, 1, 96))};
  EXPECT_EQ(run_text(fmt::format(fmt::runtime(text), "V"), inputs),
            run_text(fmt::format(fmt::runtime(text), "W"), inputs));
}

TEST(Chains, AllWritesOfAChainGetItsValue) {
  const std::string text =
      "queue x [40] in\nqueue y [40] out\nqueue z [40] out\nvector a [40] in initial\n"
      "vector m [40] in multiply\nvector s [40] in addsub\n"
      "chain \"c\"\nread x\ntanh\nwrite m\nwrite a\nwrite s\nwrite z\nend\n"
      "chain \"d\"\nread a\nmultiply m\nadd s\nwrite y\nend\n";
  const ChipConfig chip = chip_named("tessera128");
  const Values x = random_values(5, 2, 40);
  const RunResult run = run_program(assembled(text, chip), chip, {f16_tensor({1, 40}, x)});
  ASSERT_EQ(run.outputs.size(), 2u);
  const Values y = values_of(run.outputs[0]);
  const Values z = values_of(run.outputs[1]);
  for (std::size_t i = 0; i < x.size(); ++i) {
    Activation tanh;
    tanh.function = UnaryFunction::kTanh;
    const double t = arith::evaluate(tanh, x[i], Format::kF16);
    EXPECT_EQ(z[i], static_cast<float>(t));
    EXPECT_EQ(y[i], f16(double{f16(t * t)} + t));
  }
}

// A chain may write over what it reads, shifted too.
TEST(Chains, OverlappingOperandsAndResultsAreKeptApart) {
  const std::string text =
      "file initial 8\ndram x [3, 128] input\ndram y [3, 128] output\n"
      "vector v [4, 128] in initial = 0\n"
      "chain \"load\"\niterate 3\nread x\nwrite v step 1\nend\n"
      "chain \"shift\"\niterate 3\nread initial[0]\nrelu\nwrite initial[1]\nend\n"
      "chain \"out\"\niterate 3\nread initial[1]\nwrite y\nend\n";
  const Values x = random_values(5, 1, 3 * 128);
  const Values y = run_text(text, {f16_tensor({3, 128}, x)});
  ASSERT_EQ(y.size(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], std::max(x[i], 0.0f));
}

// 3 x 4 x 5 vectors of 128 under a window of 2 x 3 x 2.
struct Volume3d {
  static constexpr int kD = 3, kH = 4, kW = 5, kC = 128, kO = 8;
  static constexpr int kOutD = 4, kOutH = 2, kOutW = 4;  // pad 1 x 1 x 0, stride 1 x 2 x 1
  static std::string text(const std::string& tap, const std::string& body) {
    return "dram x [3, 4, 5, 128] input\ndram y [4, 2, 4, 8] output\n"
           "vector v [3, 4, 5, 128] in initial\nvector s [4, 2, 4, 8] in addsub = 0\n"
           "vector l [4, 2, 4, 8] in initial\n"
           "matrix W [8, 128] window 2 x 3 x 2 in matrix = random 1 0.05\n"
           "chain \"load\"\nread x\nwrite v\nend\n" +
           body + "read v window 2 x 3 x 2 stride 1 x 2 x 1 pad 1 x 1 x 0" + tap + "\nproduct W\n";
  }
};

Values volume_reference(const Values& x) {
  using V = Volume3d;
  const Values w = random_values(1, 0.05, V::kO * 12 * V::kC);
  Values out;
  for (int d = 0; d < V::kOutD; ++d) {
    for (int y = 0; y < V::kOutH; ++y) {
      for (int c = 0; c < V::kOutW; ++c) {
        for (int o = 0; o < V::kO; ++o) {
          float sum = 0;
          for (int tap = 0; tap < 12; ++tap) {
            const int plane = d - 1 + tap / 6;
            const int row = 2 * y - 1 + tap / 2 % 3;
            const int column = c + tap % 2;
            if (plane < 0 || plane >= V::kD || row < 0 || row >= V::kH) continue;
            for (int k = 0; k < V::kC; ++k) {
              const int weight = (o * 12 + tap) * V::kC + k;
              const int value = ((plane * V::kH + row) * V::kW + column) * V::kC + k;
              sum += w[static_cast<std::size_t>(weight)] * x[static_cast<std::size_t>(value)];
            }
          }
          out.push_back(sum);
        }
      }
    }
  }
  return out;
}

TEST(Chains, AWindowOverPlanesRowsAndColumnsInTheArray) {
  const Values x = random_values(5, 1, 3 * 4 * 5 * 128);
  const Values y = run_text(Volume3d::text("", "chain \"c\"\n") + "write y\nend\n",
                            {f16_tensor({3, 4, 5, 128}, x)});
  EXPECT_LT(distance(y, volume_reference(x)), 0.004f);
}

TEST(Chains, AWindowOverPlanesTapByTap) {
  const Values x = random_values(5, 1, 3 * 4 * 5 * 128);
  const Values y = run_text(
      Volume3d::text(" tap d x h x w", "repeat d 2\nrepeat h 3\nrepeat w 2\nchain \"c\"\n") +
          "add s\nwrite s\nwrite l\nend\nend\nend\nend\nchain \"out\"\nread l\nwrite y\nend\n",
      {f16_tensor({3, 4, 5, 128}, x)});
  EXPECT_LT(distance(y, volume_reference(x)), 0.02f);
}

TEST(Chains, ATapWithoutAProductTakesEveryOtherVector) {
  const Values x = random_values(5, 1, 5 * 7 * 3);
  const Values y = run_text(
      "dram x [5, 7, 3] input\ndram y [2, 3, 3] output\nchain \"c\"\n"
      "read x window 2 x 2 stride 2 x 2 tap 1 x 0\nrelu\nwrite y\nend\n",
      {f16_tensor({5, 7, 3}, x)});
  ASSERT_EQ(y.size(), 18u);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t row = 2 * (i / 9) + 1;
    const std::size_t column = 2 * (i / 3 % 3);
    EXPECT_EQ(y[i], std::max(x[(row * 7 + column) * 3 + i % 3], 0.0f)) << i;
  }
}

TEST(Chains, ADescriptorAmongChainsRunsInItsPlace) {
  // The register file initial begins at byte 0: its first vector becomes its own square root.
  const Values y = run_text(
      "queue x [128] in\nqueue y [128] out\nvector v [128] in initial\n"
      "chain \"in\"\nread x\nwrite v\nend\n"
      "task planar planar bands 1 x 1 by 1\n"
      "  read buffer 0 f16 [1, 128, 1, 1] pitch [0, 2, 2] ring 1\n"
      "  activate square_root\n"
      "  write buffer 0 f16 [1, 128, 1, 1] pitch [0, 2, 2] ring 1\nend\n"
      "chain \"out\"\nread v\nwrite y\nend\n",
      {f16_tensor({1, 128}, Values(128, 4.0f))});
  EXPECT_EQ(y, Values(128, 2.0f));
}

// Step j of the descriptor reads vector j - 1 and writes vector j: the assembler lets it wait for the
// step before, in its text too.
TEST(Chains, ADescriptorThatReadsItsOwnResultsWaitsForItself) {
  const ChipConfig chip = chip_named("tessera128");
  const isa::Program program = assembled(
      "queue x [4, 128] in\nqueue y [4, 128] out\nvector v [4, 128] in initial\n"
      "chain \"in\"\niterate 4\nread x\nwrite v\nend\n"
      "task planar planar bands 1 x 3 by 1\n"
      "  read buffer 0 f16 [1, 128, 3, 1] pitch [0, 2, 2] ring 3\n"
      "  activate square_root\n"
      "  write buffer 2 f16 [1, 128, 3, 1] pitch [0, 2, 2] ring 3\nend\n"
      "chain \"out\"\niterate 4\nread v\nwrite y\nend\n",
      chip);
  std::size_t own_lines = 0;
  for (const isa::TaskDescriptor& task : program.tasks) {
    for (const isa::Dependency& line : task.dependencies) {
      if (line.task != task.id) continue;
      ++own_lines;
      EXPECT_EQ(line, (isa::Dependency{task.id, 1, 1, -1}));
      EXPECT_THAT(
          disassemble(program, {}),
          ::testing::HasSubstr(fmt::format("  after task {}: (1 j - 1) / 1 steps\n", task.id)));
    }
  }
  EXPECT_EQ(own_lines, 1u);
  const RunResult run =
      run_program(program, chip, {f16_tensor(program.inputs[0].dims, Values(512, 256.0f))});
  ASSERT_EQ(run.outputs.size(), 1u);
  const Values y = values_of(run.outputs[0]);
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_EQ(y[i], (std::array{256.0f, 16.0f, 4.0f, 2.0f}[i / 128]));
  }
}

// Three processors with the same N: the same bits, whatever their size and tiling. Another N:
// others.
TEST(Chains, TheSameProgramGivesTheSameBitsOnEveryProcessorOfEqualN) {
  const std::vector<ChipConfig> chips = three_chips();
  struct Case {
    const char* name;
    Shape dims;
  };
  for (const Case& c : {Case{"lstm", {5, 64}}, Case{"gru", {5, 40}}, Case{"conv1x1", {14, 14, 160}},
                        Case{"conv3x3", {16, 16, 32}}, Case{"conv3x3_taps", {16, 16, 32}},
                        Case{"attention", {16, 64}}}) {
    const Tensor input =
        f16_tensor(c.dims, random_values(3, 1, static_cast<std::size_t>(element_count(c.dims))));
    std::vector<std::byte> first;
    for (const ChipConfig& chip : chips) {
      const RunResult run = run_program(assemble_example(c.name, chip), chip, {input});
      ASSERT_EQ(run.outputs.size(), 1u) << c.name << " on " << chip.name;
      if (first.empty()) first = run.outputs[0].bytes;
      EXPECT_EQ(run.outputs[0].bytes, first) << c.name << " on " << chip.name;
    }
    ChipConfig other = chips[0];
    other.formats.matrix.native_dimension = 16;
    other.formats.matrix.mantissa_bits_moving = 5;
    const RunResult run = run_program(assemble_example(c.name, other), other, {input});
    ASSERT_EQ(run.outputs.size(), 1u);
    EXPECT_NE(run.outputs[0].bytes, first) << c.name;
  }
}

}  // namespace
}  // namespace tessera::firmware
