// A firmware example on the virtual processor, and the plain float arithmetic it is held against.
#pragma once

#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "device/program_run.h"
#include "firmware/assembler.h"

namespace tessera::firmware {

using Values = std::vector<float>;

// examples/firmware/NAME.tasm, assembled; an error fails the test.
isa::Program assemble_example(const std::string& name, const ChipConfig& chip,
                              bool streaming = false);
// Runs it with hazards watched.
RunResult run_program(const isa::Program& program, const ChipConfig& chip,
                      const std::vector<Tensor>& inputs);

// Vectors in f16 from the values.
Tensor f16_tensor(const Shape& dims, const Values& values);
Values values_of(const Tensor& tensor);

// What `random SEED SCALE` stands for (docs/formats/firmware.md), written anew; in f16.
Values random_values(std::uint64_t seed, double scale, std::size_t count);

// y[o] = sum of w[o][k] x[k], in float.
Values times(const Values& matrix, const Values& x, std::size_t rows, std::size_t first = 0);
float sigmoid(float x);

// The largest difference of two results.
float distance(const Values& a, const Values& b);

}  // namespace tessera::firmware
