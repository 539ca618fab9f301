// Every example of examples/firmware on the virtual processor: near plain float arithmetic within a
// bound that is written here, in a number of cycles that is written here: read from a run, for what goes
// into them is tested by hand where it is made. Results leave through message ports.
#include <gtest/gtest.h>

#include <cmath>

#include "arch/architecture_file.h"
#include "example.h"

namespace tessera::firmware {
namespace {

ChipConfig processor() {
  const auto chip = load_chip_config("brainwave");
  EXPECT_TRUE(chip.ok()) << chip.error().message;
  return *chip;
}

// Of `count` elements from `first` on.
Values part(const Values& values, std::size_t first, std::size_t count) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

Values softmax(const Values& x) {
  float largest = x[0];
  for (const float v : x) largest = std::max(largest, v);
  Values y;
  float sum = 0;
  for (const float v : x) {
    y.push_back(std::exp(v - largest));
    sum += y.back();
  }
  for (float& v : y) v /= sum;
  return y;
}

// Cycles are what the profile takes, not worked out by hand. Of the figures below, the way from memory is
// most: a request comes after 112 cycles where its row is open, 53 later where not, and 73.1 bytes a cycle
// follow (lpddr5-6400, two channels of four).
TEST(Examples, Perceptron) {
  const ChipConfig chip = processor();
  const Values x = random_values(77, 1, 784);
  const RunResult run =
      run_program(assemble_example("perceptron", chip), chip, {f16_tensor({1, 784}, x)});
  const Values b1 = random_values(3, 0.1, 256);
  const Values b2 = random_values(4, 0.1, 10);
  Values hidden = times(random_values(1, 0.06, 256 * 784), x, 256);
  for (std::size_t i = 0; i < 256; ++i) hidden[i] = std::max(0.0f, hidden[i] + b1[i]);
  Values classes = times(random_values(2, 0.2, 10 * 256), hidden, 10);
  for (std::size_t i = 0; i < 10; ++i) classes[i] += b2[i];
  ASSERT_EQ(run.outputs.size(), 1u);
  EXPECT_LT(distance(values_of(run.outputs[0]), softmax(classes)), 0.001f);
  EXPECT_EQ(run.cycles, 8224);
}

// The LSTM in float: outputs of all steps.
Values lstm(const Values& xs, std::size_t steps) {
  constexpr std::size_t kInputs = 64;
  constexpr std::size_t kHidden = 128;
  const Values w = random_values(1, 0.15, 4 * kHidden * kInputs);
  const Values r = random_values(2, 0.1, 4 * kHidden * kHidden);
  const Values b = random_values(3, 0.1, 4 * kHidden);
  Values h(kHidden, 0.0f);
  Values c(kHidden, 0.0f);
  Values out;
  for (std::size_t t = 0; t < steps; ++t) {
    const Values from_input = times(w, part(xs, t * kInputs, kInputs), 4 * kHidden);
    const Values from_state = times(r, h, 4 * kHidden);
    for (std::size_t k = 0; k < kHidden; ++k) {
      const auto gate = [&](std::size_t g) {
        const std::size_t at = g * kHidden + k;
        return from_input[at] + from_state[at] + b[at];
      };
      c[k] = sigmoid(gate(1)) * c[k] + sigmoid(gate(0)) * std::tanh(gate(2));
      h[k] = sigmoid(gate(3)) * std::tanh(c[k]);
    }
    out.insert(out.end(), h.begin(), h.end());
  }
  return out;
}

TEST(Examples, Lstm) {
  const ChipConfig chip = processor();
  const Values xs = random_values(77, 1, 5 * 64);
  const RunResult run =
      run_program(assemble_example("lstm", chip), chip, {f16_tensor({5, 64}, xs)});
  ASSERT_EQ(run.outputs.size(), 1u);
  EXPECT_EQ(run.outputs[0].dims, (Shape{5, 128}));
  EXPECT_LT(distance(values_of(run.outputs[0]), lstm(xs, 5)), 0.002f);
  EXPECT_EQ(run.cycles, 8818);
}

// The same vectors one by one through the program of one time step, which keeps its state.
TEST(Examples, StreamingGivesTheBitsOfTheUnrolledLoop) {
  const ChipConfig chip = processor();
  for (const auto& [name, inputs] : {std::pair{"lstm", 64}, std::pair{"gru", 40}}) {
    const auto count = static_cast<std::size_t>(inputs);
    const Values xs = random_values(9, 1, 5 * count);
    const RunResult whole =
        run_program(assemble_example(name, chip), chip, {f16_tensor({5, inputs}, xs)});
    device::ProgramRunOptions options;
    options.check_hazards = true;
    auto stream = device::ProgramRun::create(assemble_example(name, chip, true), chip, options);
    ASSERT_TRUE(stream.ok()) << stream.error().message;
    ASSERT_TRUE(stream.value()->begin().ok());
    std::vector<std::byte> outputs;
    for (std::size_t t = 0; t < 5; ++t) {
      const auto step = stream.value()->step({f16_tensor({1, inputs}, part(xs, t * count, count))});
      ASSERT_TRUE(step.ok()) << step.error().message;
      outputs.insert(outputs.end(), step->outputs[0].bytes.begin(), step->outputs[0].bytes.end());
    }
    EXPECT_EQ(outputs, whole.outputs[0].bytes) << name;
  }
}

TEST(Examples, Gru) {
  constexpr std::size_t kInputs = 40;
  constexpr std::size_t kHidden = 96;
  const ChipConfig chip = processor();
  const Values xs = random_values(77, 1, 5 * kInputs);
  const RunResult run =
      run_program(assemble_example("gru", chip), chip, {f16_tensor({5, kInputs}, xs)});
  const Values w = random_values(1, 0.2, 3 * kHidden * kInputs);
  const Values r = random_values(2, 0.12, 3 * kHidden * kHidden);
  const Values b = random_values(3, 0.1, 3 * kHidden);
  const Values bh = random_values(4, 0.1, kHidden);
  Values h(kHidden, 0.0f);
  Values expected;
  for (std::size_t t = 0; t < 5; ++t) {
    const Values from_input = times(w, part(xs, t * kInputs, kInputs), 3 * kHidden);
    const Values from_state = times(r, h, 3 * kHidden);
    for (std::size_t k = 0; k < kHidden; ++k) {
      const float z = sigmoid(from_input[k] + b[k] + from_state[k]);
      const std::size_t reset = kHidden + k;
      const float r_gate = sigmoid(from_input[reset] + b[reset] + from_state[reset]);
      const std::size_t n = 2 * kHidden + k;
      const float candidate = std::tanh(from_input[n] + b[n] + r_gate * (from_state[n] + bh[k]));
      h[k] = (1 - z) * candidate + z * h[k];
    }
    expected.insert(expected.end(), h.begin(), h.end());
  }
  ASSERT_EQ(run.outputs.size(), 1u);
  EXPECT_LT(distance(values_of(run.outputs[0]), expected), 0.003f);
  EXPECT_EQ(run.cycles, 6805);
}

TEST(Examples, PointwiseConvolution) {
  const ChipConfig chip = processor();
  const Values image = random_values(77, 1, 14 * 14 * 160);
  const RunResult run =
      run_program(assemble_example("conv1x1", chip), chip, {f16_tensor({14, 14, 160}, image)});
  const Values w = random_values(1, 0.1, 96 * 160);
  const Values b = random_values(2, 0.2, 96);
  Values expected;
  for (std::size_t pixel = 0; pixel < 14 * 14; ++pixel) {
    const Values y = times(w, part(image, pixel * 160, 160), 96);
    for (std::size_t o = 0; o < 96; ++o) expected.push_back(std::max(0.0f, y[o] + b[o]));
  }
  ASSERT_EQ(run.outputs.size(), 1u);
  EXPECT_LT(distance(values_of(run.outputs[0]), expected), 0.004f);
  EXPECT_EQ(run.cycles, 2887);
}

// 3 x 3, stride 2, pad 1 on 16 x 16 x 32, 48 filters [o][ky][kx][c].
Values strided_convolution(const Values& image) {
  const Values w = random_values(1, 0.1, 48 * 9 * 32);
  const Values b = random_values(2, 0.2, 48);
  Values out;
  for (int y = 0; y < 8; ++y) {
    for (int x = 0; x < 8; ++x) {
      for (int o = 0; o < 48; ++o) {
        float sum = b[static_cast<std::size_t>(o)];
        for (int tap = 0; tap < 9; ++tap) {
          const int row = 2 * y - 1 + tap / 3;
          const int column = 2 * x - 1 + tap % 3;
          if (row < 0 || row >= 16 || column < 0 || column >= 16) continue;
          for (int c = 0; c < 32; ++c) {
            const int weight = (o * 9 + tap) * 32 + c, value = (row * 16 + column) * 32 + c;
            sum += w[static_cast<std::size_t>(weight)] * image[static_cast<std::size_t>(value)];
          }
        }
        out.push_back(std::max(0.0f, sum));
      }
    }
  }
  return out;
}

TEST(Examples, StridedConvolutionInTheArray) {
  const ChipConfig chip = processor();
  const Values image = random_values(77, 1, 16 * 16 * 32);
  const RunResult run =
      run_program(assemble_example("conv3x3", chip), chip, {f16_tensor({16, 16, 32}, image)});
  ASSERT_EQ(run.outputs.size(), 1u);
  EXPECT_LT(distance(values_of(run.outputs[0]), strided_convolution(image)), 0.004f);
  EXPECT_EQ(run.cycles, 5197);
}

TEST(Examples, StridedConvolutionTapByTapRoundsAtEveryTap) {
  const ChipConfig chip = processor();
  const Values image = random_values(77, 1, 16 * 16 * 32);
  const std::vector<Tensor> inputs = {f16_tensor({16, 16, 32}, image)};
  const RunResult run = run_program(assemble_example("conv3x3_taps", chip), chip, inputs);
  const RunResult once = run_program(assemble_example("conv3x3", chip), chip, inputs);
  ASSERT_EQ(run.outputs.size(), 1u);
  EXPECT_LT(distance(values_of(run.outputs[0]), strided_convolution(image)), 0.008f);
  EXPECT_NE(run.outputs[0].bytes, once.outputs[0].bytes);
  EXPECT_EQ(run.cycles, 5031);
}

TEST(Examples, AttentionHead) {
  constexpr std::size_t kTokens = 16;
  constexpr std::size_t kWidth = 64;
  constexpr std::size_t kHead = 32;
  const ChipConfig chip = processor();
  const Values x = random_values(77, 1, kTokens * kWidth);
  const RunResult run =
      run_program(assemble_example("attention", chip), chip, {f16_tensor({kTokens, kWidth}, x)});
  std::vector<Values> q, k, v;
  for (std::size_t t = 0; t < kTokens; ++t) {
    const Values token = part(x, t * kWidth, kWidth);
    q.push_back(times(random_values(1, 0.3, kHead * kWidth), token, kHead));
    k.push_back(times(random_values(2, 0.3, kHead * kWidth), token, kHead));
    v.push_back(times(random_values(3, 0.3, kHead * kWidth), token, kHead));
  }
  Values expected;
  for (std::size_t t = 0; t < kTokens; ++t) {
    Values scores;
    for (std::size_t s = 0; s < kTokens; ++s) {
      scores.push_back(times(k[s], q[t], 1)[0] / std::sqrt(static_cast<float>(kHead)));
    }
    const Values p = softmax(scores);
    for (std::size_t d = 0; d < kHead; ++d) {
      float sum = 0;
      for (std::size_t s = 0; s < kTokens; ++s) sum += p[s] * v[s][d];
      expected.push_back(sum);
    }
  }
  ASSERT_EQ(run.outputs.size(), 1u);
  EXPECT_LT(distance(values_of(run.outputs[0]), expected), 0.004f);
  EXPECT_EQ(run.cycles, 2460);
}

}  // namespace
}  // namespace tessera::firmware
