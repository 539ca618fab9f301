// Any bytes are a seed; its random firmware gives the same bits on the virtual processor, on host
// and ref, and from the software derived from it.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "arch/architecture_file.h"
#include "base/check.h"
#include "concord/expand/expand.h"
#include "concord/fold/fold.h"
#include "concord/interpret.h"
#include "concord/lift/lift.h"
#include "device/program_run.h"
#include "firmware/assembler.h"
#include "firmware/testing/random_chains.h"
#include "host/executor.h"

namespace {

using namespace tessera;  // a fuzz target

template <typename T>
T must(Result<T> result) {
  TESSERA_CHECK(result.ok(), "{}", result.error().to_string());
  return std::move(result).value();
}

// 64-bit FNV-1a.
std::uint64_t seed_of(const std::uint8_t* data, std::size_t size) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (std::size_t i = 0; i < size; ++i) hash = (hash ^ data[i]) * 0x100000001B3;
  return hash;
}

// Bit patterns of f16, of which a few are infinities and NaN.
Tensor input_of(const isa::TensorSlot& slot, std::uint64_t state) {
  Tensor tensor = Tensor::zeros(slot.format, slot.dims);
  for (std::byte& byte : tensor.bytes) {
    state = state * 6364136223846793005 + 1442695040888963407;
    byte = static_cast<std::byte>(state >> 56);
  }
  return tensor;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ChipConfig chip = must(load_chip_config("tessera128"));
  const std::uint64_t seed = seed_of(data, size);
  firmware::AssembleOptions options;
  options.chip = &chip;
  const isa::Program program =
      must(firmware::assemble(firmware::testing::random_chains(seed), "fuzz.tasm", options));
  std::vector<Tensor> inputs;
  for (const isa::TensorSlot& slot : program.inputs) inputs.push_back(input_of(slot, seed));
  const auto processor = must(device::ProgramRun::create(program, chip, {}));
  const std::vector<Tensor> expected = must(processor->run(inputs)).outputs;
  const auto graph = must(concord::lift(program, chip));
  const auto host = must(host::make_host_executor(graph, {.threads = 1}));
  TESSERA_CHECK(must(host->run(inputs)) == expected, "host differs for seed {}", seed);
  const auto reference = must(host::make_reference_executor(graph));
  TESSERA_CHECK(must(reference->run(inputs)) == expected, "ref differs for seed {}", seed);
  const concord::Software software = concord::folded(must(concord::expand(*graph)));
  TESSERA_CHECK(must(concord::interpret(software, inputs)) == expected,
                "the derived software differs for seed {}", seed);
  return 0;
}
