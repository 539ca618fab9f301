#include "random_runs.h"

#include <random>

#include "host/executor.h"
#include "isa/verify.h"
#include "link/link.h"

namespace tessera::agreement {

std::vector<Tensor> random_inputs(const graph::Graph& graph, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Tensor> inputs;
  for (const graph::TensorId id : graph.inputs) {
    const graph::TensorInfo& info = graph.tensor(id);
    Tensor tensor = Tensor::zeros(info.format, info.dims);
    if (info.format == Format::kF32) {
      for (float& x : tensor.as<float>()) {
        x = static_cast<float>(static_cast<std::int64_t>(random() % 8001) - 4000) / 1024.0f;
      }
    } else {
      for (std::byte& b : tensor.bytes) b = static_cast<std::byte>(random() & 0x3B);
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

Result<std::vector<Tensor>> run_reference(std::shared_ptr<const graph::Graph> graph,
                                          const std::vector<Tensor>& inputs) {
  TESSERA_TRY(const auto executor, host::make_reference_executor(std::move(graph)));
  return executor->run(inputs);
}

Result<isa::Program> build_program(std::shared_ptr<const graph::Graph> graph,
                                   const ChipConfig& chip, const compile::CompileOptions& options) {
  TESSERA_TRY(const auto package, compile::compile(std::move(graph), chip, options));
  TESSERA_TRY(isa::Program program, link::link(package, chip));
  TESSERA_RETURN_IF_ERROR(isa::verify_program(program, chip));
  return program;
}

Result<std::vector<Tensor>> run_program(const isa::Program& program, const ChipConfig& chip,
                                        const std::vector<Tensor>& inputs,
                                        const card::CoreOptions& options) {
  TESSERA_TRY(const auto core, card::Core::create(chip));
  TESSERA_RETURN_IF_ERROR(core->load(program));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TESSERA_RETURN_IF_ERROR(core->write(program.inputs[i].address, inputs[i].bytes));
  }
  for (std::size_t s = 0; s < program.segments.size(); ++s) {
    TESSERA_TRY(const auto statistics, core->run_segment(s, options));
    static_cast<void>(statistics);
  }
  std::vector<Tensor> outputs;
  for (const isa::TensorSlot& slot : program.outputs) {
    Tensor tensor = Tensor::zeros(slot.format, slot.dims);
    TESSERA_RETURN_IF_ERROR(core->read(slot.address, tensor.bytes));
    outputs.push_back(std::move(tensor));
  }
  return outputs;
}

}  // namespace tessera::agreement
