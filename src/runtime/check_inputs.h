// What an application gives for a network's inputs.
#pragma once

#include <cstdint>
#include <vector>

#include "network/network.h"
#include "runtime/run_values.h"

namespace tessera::runtime {

inline bool is_narrow_float(Format format) {
  return format == Format::kF16 || format == Format::kBf16;
}
// Whether the stage pre rounds it to the model's format.
inline bool is_narrowed(Format found, Format wanted) {
  return found == Format::kF32 && is_narrow_float(wanted);
}

enum class Accepted : std::uint8_t {
  kModelsFormats,
  kFloat32Too,  // in place of a narrow float, as the stage pre takes it
};

// The error names the first input that is not the network's, what it is and what it should be.
Status check_inputs(const NetworkState& network, const std::vector<Tensor>& inputs,
                    Accepted accepted = Accepted::kModelsFormats);
Status check_inputs(const std::vector<TensorDescription>& wanted, const std::vector<Tensor>& inputs,
                    Accepted accepted = Accepted::kModelsFormats);
// What the inputs should be: those that are tensors, and those that are values.
struct WantedInputs {
  const std::vector<TensorDescription>& tensors;
  const std::vector<TensorDescription>& values;
};
// Where there is a value, that is what the input is, and the tensor gets its header.
Status check_inputs(const WantedInputs& wanted, std::vector<Tensor>& inputs,
                    const RunValues& values);

}  // namespace tessera::runtime
