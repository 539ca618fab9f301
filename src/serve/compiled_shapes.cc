#include "serve/compiled_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tessera/session.h"

namespace tessera::serve {
namespace {

using std::chrono::nanoseconds;

std::vector<Shape> shapes_of(const std::vector<TensorDescription>& tensors) {
  std::vector<Shape> shapes;
  for (const TensorDescription& tensor : tensors) shapes.push_back(tensor.dims);
  return shapes;
}

// Numbers that differ from row to row, small enough for an index.
Tensor test_tensor(const TensorDescription& of, std::int64_t row) {
  Tensor tensor = Tensor::zeros(of.format, of.dims);
  std::uint64_t state = 0x9E3779B97F4A7C15ULL * static_cast<std::uint64_t>(row + 1);
  const auto next = [&] {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<float>(state >> 40) / static_cast<float>(1 << 24);
  };
  const auto bytes = static_cast<std::size_t>(format_bytes(of.format));
  for (std::size_t i = 0; i < tensor.bytes.size() / bytes; ++i) {
    const float value = next();
    std::byte* const at = tensor.bytes.data() + i * bytes;
    if (of.format == Format::kF32) {
      std::memcpy(at, &value, sizeof(value));
    } else if (of.format == Format::kF64) {
      const double wide = value;
      std::memcpy(at, &wide, sizeof(wide));
    } else if (of.format == Format::kF16 || of.format == Format::kBf16) {
      // A bit pattern between 0.5 and 1 of either format.
      const bool is_half = of.format == Format::kF16;
      const auto bits =
          static_cast<std::uint16_t>((is_half ? 0x3800 : 0x3F00) + static_cast<int>(value * 64));
      std::memcpy(at, &bits, sizeof(bits));
    } else {
      *at = std::byte{value < 0.5F};
    }
  }
  return tensor;
}

// Whether each of `rows` requests gets the bits in a batch that it gets alone.
Status check_batch(const Network& one, const Network& batch, std::int64_t rows) {
  const SessionOptions on_host{.device = DeviceKind::kHost};
  TESSERA_TRY(Session alone, Session::open(one, on_host));
  TESSERA_TRY(Session together, Session::open(batch, on_host));
  std::vector<std::vector<Tensor>> outputs;
  std::vector<Tensor> inputs;
  for (const TensorDescription& input : batch.inputs()) {
    inputs.push_back({input.format, input.dims, {}});
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<Tensor> own;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      own.push_back(test_tensor(one.inputs()[i], row));
      inputs[i].bytes.insert(inputs[i].bytes.end(), own[i].bytes.begin(), own[i].bytes.end());
    }
    TESSERA_TRY(RunResult run, alone.run(own));
    outputs.push_back(std::move(run.outputs));
  }
  TESSERA_TRY(const RunResult run, together.run(inputs));
  for (std::size_t i = 0; i < run.outputs.size(); ++i) {
    std::vector<std::byte> expected;
    for (const auto& own : outputs) {
      expected.insert(expected.end(), own[i].bytes.begin(), own[i].bytes.end());
    }
    if (expected == run.outputs[i].bytes) continue;
    return invalid(
        fmt::format("'batching': output '{}' of a request depends on the others in its "
                    "batch; leave 'batching' out",
                    batch.outputs()[i].name));
  }
  return {};
}

// Outputs of `rows` times the rows of one.
Status check_outputs(const Network& one, const Network& batch, std::int64_t rows) {
  for (std::size_t i = 0; i < one.outputs().size(); ++i) {
    Shape wanted = one.outputs()[i].dims;
    if (!wanted.empty()) wanted[0] *= rows;
    if (!wanted.empty() && batch.outputs()[i].dims == wanted) continue;
    return invalid(
        fmt::format("'batching': output '{}' has the shape {} for one request and {} for "
                    "{}, which is no batch of them; leave 'batching' out",
                    one.outputs()[i].name, shape_text(one.outputs()[i].dims),
                    shape_text(batch.outputs()[i].dims), rows));
  }
  return {};
}

// Of a run, which no value changes. Where it cannot be made without values nothing is known.
void set_cycles(CompiledModel& compiled, const ModelConfig& config) {
  SessionOptions options;
  options.device = DeviceKind::kSim;
  options.timing_only = true;
  options.cores = config.cores;
  options.cards = config.cards;
  auto session = Session::open(compiled.network, options);
  if (!session.ok()) return;
  std::vector<Tensor> zeros;
  for (const TensorDescription& input : compiled.network.inputs()) {
    zeros.push_back(Tensor::zeros(input.format, input.dims));
  }
  const auto run = session->run(zeros);
  if (!run.ok()) return;
  compiled.cycles = run->cycles + run->host_cycles + run->transfer_cycles;
  for (const EngineUse& engine : run->engines) {
    if (engine.kind != "neural" || engine.index != 0 || engine.core < 0) continue;
    const auto core = static_cast<std::size_t>(engine.core);
    if (core >= compiled.core_busy.size()) compiled.core_busy.resize(core + 1);
    compiled.core_busy[core] += engine.busy;
  }
  if (config.pace <= 0 || run->clock_hertz == 0) return;
  constexpr double kNanoseconds = 1e9;
  compiled.modelled =
      nanoseconds(static_cast<std::int64_t>(static_cast<double>(compiled.cycles) * kNanoseconds /
                                            static_cast<double>(run->clock_hertz) / config.pace));
}

// One of this machine, or a processor of the cluster for each instance.
std::vector<DeviceOptions> devices_of(const ModelConfig& config) {
  DeviceOptions device;
  device.arch = config.arch;
  device.cards = config.cards;
  device.pace = config.pace;
  if (!config.cluster.empty()) {
    device.kind = DeviceKind::kSim;
    const char separator = config.cluster.find('?') == std::string::npos ? '?' : '&';
    device.cluster = fmt::format("{}{}arch={}", config.cluster, separator, config.arch);
    // An allocation that there is has its cores; where some are asked for it is checked that it has as many.
    const bool is_there = config.cluster.find("?alloc=") != std::string::npos ||
                          config.cluster.find("&alloc=") != std::string::npos;
    if (!is_there || config.cores != 1) device.cluster += fmt::format("&cores={}", config.cores);
    return std::vector<DeviceOptions>(static_cast<std::size_t>(config.instances), device);
  }
  device.kind = config.device;
  device.kernels = config.instances;
  device.threads = config.threads;
  device.cores = config.cores;
  return {device};
}

const DeclaredShape* declared_of(const std::vector<DeclaredShape>& all, const std::string& name,
                                 std::size_t rank) {
  const auto found = std::ranges::find(all, name, &DeclaredShape::name);
  return found == all.end() || found->dims.size() != rank ? nullptr : &*found;
}

}  // namespace

CompiledModel::CompiledModel(Network of, Pipeline its)
    : network(std::move(of)),
      pipeline(std::move(its)),
      stream(pipeline.open_stream({.order = StreamOrder::kCompletion})),
      input_shapes(shapes_of(network.inputs())) {}

nanoseconds CompiledModel::predicted() const {
  return std::max(modelled, nanoseconds(measured_ns.load(std::memory_order_relaxed)));
}

void CompiledModel::note(nanoseconds run) {
  // An eighth of the newest, which counts as four times the mean at most: one during which the system did something
  // else hardly moves it.
  const std::int64_t before = measured_ns.load(std::memory_order_relaxed);
  const std::int64_t newest = before == 0 ? run.count() : std::min(run.count(), 4 * before);
  const std::int64_t after = before == 0 ? newest : before + (newest - before) / 8;
  measured_ns.store(std::max<std::int64_t>(after, 1), std::memory_order_relaxed);
}

std::int64_t batch_size(std::int64_t rows, std::int64_t rows_max) {
  std::int64_t size = 1;
  while (size < rows) size *= 2;
  return std::min(size, rows_max);
}

Result<std::unique_ptr<CompiledShapes>> CompiledShapes::open(const std::string& path,
                                                             const ModelConfig& config) {
  TESSERA_TRY(Runtime runtime, Runtime::open({.devices = devices_of(config), .metrics = false}));
  std::unique_ptr<CompiledShapes> shapes(new CompiledShapes(path, config, std::move(runtime)));
  TESSERA_TRY(shapes->first_, shapes->compile({}));
  for (const TensorDescription& input : shapes->first_->network.inputs()) {
    shapes->input_names_.push_back(input.name);
  }
  TESSERA_RETURN_IF_ERROR(shapes->set_form());
  if (config.batch_max > 1) TESSERA_RETURN_IF_ERROR(shapes->compile_batches());
  return shapes;
}

// What the model leaves open, and config.json does not settle, is open to clients.
Status CompiledShapes::set_form() {
  TESSERA_TRY(const DeclaredShapes declared, Network::declared_shapes(path_));
  form_ = {first_->network.inputs(), first_->network.outputs()};
  const auto open_dimensions = [&](std::vector<TensorDescription>& tensors,
                                   const std::vector<DeclaredShape>& shapes) {
    for (TensorDescription& tensor : tensors) {
      if (config_.shapes.contains(tensor.name)) continue;
      const DeclaredShape* const of = declared_of(shapes, tensor.name, tensor.dims.size());
      if (of == nullptr) continue;
      for (std::size_t i = 0; i < tensor.dims.size(); ++i) {
        if (of->dims[i] < 0) tensor.dims[i] = -1;
      }
    }
  };
  open_dimensions(form_.inputs, declared.inputs);
  is_open_ = std::ranges::any_of(form_.inputs, [](const TensorDescription& input) {
    return std::ranges::find(input.dims, -1) != input.dims.end();
  });
  if (is_open_) open_dimensions(form_.outputs, declared.outputs);
  return {};
}

Status CompiledShapes::compile_batches() {
  std::vector<Shape> shapes = shapes_of(first_->network.inputs());
  for (std::size_t i = 0; i < form_.inputs.size(); ++i) {
    if (!form_.inputs[i].dims.empty() && form_.inputs[i].dims[0] == -1) continue;
    return invalid(fmt::format(
        "'batching': the first dimension of input '{}' is fixed: {}; write the model with an open "
        "one, or leave 'batching' out",
        form_.inputs[i].name, shape_text(form_.inputs[i].dims)));
  }
  std::shared_ptr<CompiledModel> one;
  for (std::int64_t rows = 1;; rows = batch_size(rows + 1, config_.batch_max)) {
    for (Shape& shape : shapes) shape[0] = rows;
    TESSERA_TRY(const std::shared_ptr<CompiledModel> compiled, compile(shapes));
    if (one == nullptr) one = compiled;
    TESSERA_RETURN_IF_ERROR(check_outputs(one->network, compiled->network, rows));
    TESSERA_RETURN_IF_ERROR(check_batch(one->network, compiled->network, rows));
    if (rows == config_.batch_max) return {};
  }
}

Result<Network> CompiledShapes::load(const std::vector<Shape>& shapes) const {
  LoadOptions options;
  options.arch = config_.arch;
  options.shapes = config_.shapes;
  for (std::size_t i = 0; i < shapes.size(); ++i) options.shapes[input_names_[i]] = shapes[i];
  return Network::load(path_, options);
}

std::shared_ptr<CompiledModel> CompiledShapes::find(const std::vector<Shape>& shapes) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(compiled_, shapes, &CompiledModel::input_shapes);
  if (found == compiled_.end()) return nullptr;
  compiled_.splice(compiled_.begin(), compiled_, found);
  return compiled_.front();
}

Result<std::shared_ptr<CompiledModel>> CompiledShapes::compile(const std::vector<Shape>& shapes) {
  if (!shapes.empty()) {
    if (auto found = find(shapes)) return found;
  }
  TESSERA_TRY(Network network, load(shapes));
  TESSERA_TRY(const Model model, runtime_.load(network));
  PipelineOptions options;
  options.jobs_max = config_.queue;
  // Inputs and outputs are the application's: the device takes and gives them as they are.
  options.stages = {{.kind = StageKind::kExecute, .model = model}};
  TESSERA_TRY(Pipeline pipeline, runtime_.open_pipeline(std::move(options)));
  auto compiled = std::make_shared<CompiledModel>(network, std::move(pipeline));
  if (config_.device == DeviceKind::kSim && config_.cluster.empty()) set_cycles(*compiled, config_);
  std::shared_ptr<CompiledModel> oldest;  // goes behind the lock
  const std::lock_guard lock(mutex_);
  compiled_.push_front(compiled);
  // Those of batches besides.
  auto kept = static_cast<std::size_t>(config_.shapes_max);
  for (std::int64_t rows = 1; config_.batch_max > 1 && rows < 2 * config_.batch_max; rows *= 2)
    ++kept;
  if (compiled_.size() > kept) {
    // The default's own stays.
    auto last = std::prev(compiled_.end());
    if (*last == first_) --last;
    oldest = *last;
    compiled_.erase(last);
  }
  return compiled;
}

int CompiledShapes::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(compiled_.size());
}

}  // namespace tessera::serve
