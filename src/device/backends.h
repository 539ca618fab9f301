// The kinds of processor behind a device.
#pragma once

#include <memory>

#include "device/backend.h"

namespace tessera::device {

// `sim`: link, verify, and run the program on one virtual core a kernel; host steps in between.
Result<std::unique_ptr<Backend>> make_sim_backend(const DeviceOptions& options);
// `host` and `ref`: the typed graph executed directly, fast or obviously; one executor a kernel.
Result<std::unique_ptr<Backend>> make_executor_backend(const DeviceOptions& options);

// Host threads of each kernel: those of the device, divided.
int threads_a_kernel(const DeviceOptions& options);
// The memory of this machine.
Bytes machine_memory();
// Names and sizes of a network's tensors.
std::vector<Loaded::Tensor> loaded_tensors(const std::vector<TensorDescription>& tensors);

}  // namespace tessera::device
