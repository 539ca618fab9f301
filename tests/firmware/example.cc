#include "example.h"

#include <gtest/gtest.h>

#include <cmath>

#include "arith/rounding.h"
#include "package/container.h"
#include "tessera/file.h"

namespace tessera::firmware {

isa::Program assemble_example(const std::string& name, const ChipConfig& chip, bool streaming) {
  const std::string path = std::string(TESSERA_FIRMWARE_EXAMPLES) + "/" + name + ".tasm";
  const auto text = read_file(path);
  EXPECT_TRUE(text.ok()) << text.error().message;
  if (!text.ok()) return {};
  AssembleOptions options;
  options.chip = &chip;
  options.streaming = streaming;
  auto program = assemble({reinterpret_cast<const char*>(text->data()), text->size()},
                          name + ".tasm", options);
  EXPECT_TRUE(program.ok()) << program.error().message;
  return program.ok() ? std::move(program).value() : isa::Program{};
}

RunResult run_program(const isa::Program& program, const ChipConfig& chip,
                      const std::vector<Tensor>& inputs) {
  device::ProgramRunOptions options;
  options.check_hazards = true;
  auto run = device::ProgramRun::create(program, chip, options);
  EXPECT_TRUE(run.ok()) << run.error().message;
  if (!run.ok()) return {};
  auto result = run.value()->run(inputs);
  EXPECT_TRUE(result.ok()) << result.error().message;
  return result.ok() ? std::move(result).value() : RunResult{};
}

Tensor f16_tensor(const Shape& dims, const Values& values) {
  Tensor tensor = Tensor::zeros(Format::kF16, dims);
  EXPECT_EQ(tensor.bytes.size(), values.size() * 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    arith::write_element(Format::kF16, values[i], tensor.bytes.data() + i * 2);
  }
  return tensor;
}

Values values_of(const Tensor& tensor) {
  Values values;
  const auto bytes = static_cast<std::size_t>(format_bytes(tensor.format));
  for (std::size_t i = 0; i < tensor.bytes.size(); i += bytes) {
    values.push_back(
        static_cast<float>(arith::read_element(tensor.format, tensor.bytes.data() + i)));
  }
  return values;
}

Values random_values(std::uint64_t seed, double scale, std::size_t count) {
  Values values;
  for (std::size_t i = 1; i <= count; ++i) {
    std::uint64_t z = seed + i * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    z ^= z >> 31;
    const double unit = std::ldexp(static_cast<double>(z >> 40), -23) - 1;
    values.push_back(static_cast<float>(arith::round_value(Format::kF16, unit * scale)));
  }
  return values;
}

Values times(const Values& matrix, const Values& x, std::size_t rows, std::size_t first) {
  Values y(rows, 0.0f);
  for (std::size_t o = 0; o < rows; ++o) {
    for (std::size_t k = 0; k < x.size(); ++k) y[o] += matrix[first + o * x.size() + k] * x[k];
  }
  return y;
}

float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

float distance(const Values& a, const Values& b) {
  EXPECT_EQ(a.size(), b.size());
  float largest = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const float difference = std::fabs(a[i] - b[i]);
    largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
  }
  return largest;
}

}  // namespace tessera::firmware
