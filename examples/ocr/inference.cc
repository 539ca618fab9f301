#include "inference.h"

#include <algorithm>

namespace ocr {

TesseraInference::TesseraInference(std::string name, std::string path, TesseraOptions options)
    : name_(std::move(name)), path_(std::move(path)), options_(std::move(options)) {
  use_.name = name_;
}

tessera::Result<TesseraInference::Compiled*> TesseraInference::compiled_for(
    const tessera::Shape& dims) {
  if (const auto found = compiled_.find(dims); found != compiled_.end()) return &found->second;
  tessera::LoadOptions load;
  load.arch = options_.arch;
  load.shapes["x"] = dims;  // the PP-OCR models call their input "x"
  if (options_.progress) {
    load.progress = [this](const std::string& stage, double fraction) {
      options_.progress(name_ + ": " + stage, fraction);
    };
  }
  TESSERA_TRY(tessera::Network network, tessera::Network::load(path_, load));
  tessera::SessionOptions session;
  session.device = options_.device;
  session.threads = options_.threads;
  session.cores = options_.cores;
  session.trace = options_.trace;
  TESSERA_TRY(tessera::Session opened, tessera::Session::open(network, session));
  const auto [entry, inserted] =
      compiled_.emplace(dims, Compiled{std::move(network), std::move(opened)});
  return &entry->second;
}

void TesseraInference::add_use(const tessera::RunResult& result, const tessera::Network& network) {
  ++use_.runs;
  use_.cycles += result.cycles;
  use_.clock_hertz = result.clock_hertz;
  use_.placement = network.placement();
  if (use_.engines.empty()) {
    use_.engines = result.engines;
    return;
  }
  for (std::size_t i = 0; i < std::min(use_.engines.size(), result.engines.size()); ++i) {
    tessera::EngineUse& sum = use_.engines[i];
    const tessera::EngineUse& engine = result.engines[i];
    sum.busy += engine.busy;
    sum.blocked_dependency += engine.blocked_dependency;
    sum.blocked_memory += engine.blocked_memory;
    sum.blocked_ports += engine.blocked_ports;
    sum.idle += engine.idle;
    sum.tasks += engine.tasks;
    sum.steps += engine.steps;
    sum.macs += engine.macs;
    sum.dram_bytes_read += engine.dram_bytes_read;
    sum.dram_bytes_written += engine.dram_bytes_written;
  }
}

tessera::Status TesseraInference::prepare(const tessera::Shape& dims) {
  TESSERA_TRY(Compiled* const compiled, compiled_for(dims));
  (void)compiled;
  return {};
}

tessera::Result<tessera::Tensor> TesseraInference::run(const tessera::Tensor& input) {
  TESSERA_TRY(Compiled* const compiled, compiled_for(input.dims));
  if (options_.progress) options_.progress(name_ + ": run", 0);
  TESSERA_TRY(tessera::RunResult result, compiled->session.run({input}));
  if (options_.progress) options_.progress(name_ + ": run", 1);
  add_use(result, compiled->network);
  tessera::Tensor output = result.outputs.at(0);
  last_run_ = std::make_unique<tessera::RunResult>(std::move(result));
  last_network_ = &compiled->network;
  return output;
}

}  // namespace ocr
