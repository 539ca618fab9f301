// Names of the workloads that others measured: one operator of given extents, or a network.
//
//   gemm_MxKxN                        [M, K] x [K, N]
//   conv_BxHxWxCxOxKxSTRIDExPAD       images [B, C, H, W], O kernels of K x K
//   attention_HEADSxLENGTHxDEPTH      softmax(Q Kᵀ / √DEPTH) V, each [HEADS, LENGTH, DEPTH]
//   layernorm_ROWSxCOLUMNS            along the last axis; softmax likewise; 1 to 6 extents
//   resnet18, resnet50, bert_base     one image, one sequence
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "arch/chip_config.h"
#include "base/quantity.h"
#include "base/result.h"

namespace tessera::repro {

enum class WorkloadKind : std::uint8_t {
  kProduct,
  kConvolution,
  kAttention,
  kLayerNorm,
  kSoftmax,
  kNetwork
};

struct Workload {
  WorkloadKind kind = WorkloadKind::kNetwork;
  std::string name;                   // as written above, without spaces, in lower case
  std::vector<std::int64_t> extents;  // in the order of the name; none of a network
};

// Spaces around the name and upper case are taken. An error names what was found and the forms:
// extents from 1 to 131,072 (a padding from 0), no operand of more than 2^30 elements, a
// convolution with at least one output pixel.
Result<Workload> parse_workload(std::string_view name);

// The forms, for messages.
const char* workload_forms();

// Multiply-accumulates of its products; 0 of a network, which its builder knows.
std::int64_t workload_macs(const Workload& workload);

// What a run of a workload on the virtual processor gives.
struct WorkloadRun {
  Cycles cycles = 0;
  std::int64_t macs = 0;        // that the arrays and lanes did
  std::int64_t dram_bytes = 0;  // that crossed the memory channels
};

// Cycles in which the arrays of the chip could do so many multiply-accumulates, if none had to wait.
double array_bound_cycles(const ChipConfig& chip, std::int64_t macs);
// The same of bytes and the memory, refreshes taken off.
double memory_bound_cycles(const ChipConfig& chip, std::int64_t bytes);

// Compiles a workload for a chip and runs it for its timing alone; an error says what the chip does
// not run. Callable from several threads at once.
using WorkloadRunner = std::function<Result<WorkloadRun>(const Workload&, const ChipConfig&)>;

}  // namespace tessera::repro
