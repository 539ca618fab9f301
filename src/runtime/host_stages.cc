#include "runtime/host_stages.h"

#include <fmt/format.h>

#include <algorithm>

#include "arith/vector_ops.h"
#include "base/application_call.h"
#include "device/device_form.h"
#include "runtime/check_inputs.h"

namespace tessera::runtime {
namespace {

using pipeline::Failure;

// Whether its bytes are those of its shape; the application's stages make what they like.
bool complete(const Tensor& tensor) {
  std::int64_t bytes = format_bytes(tensor.format);
  for (const std::int64_t extent : tensor.dims) {
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) return false;
  }
  return std::ssize(tensor.bytes) == bytes;
}

bool is_value(const RunValues& values, std::size_t index) {
  return index < values.size() && values[index].present();
}

// The tensor in another float format, each element rounded once.
void convert(Tensor& tensor, Format format) {
  Tensor converted;
  converted.format = format;
  converted.dims = std::move(tensor.dims);
  const std::int64_t count = element_count(converted.dims);
  converted.bytes.resize(static_cast<std::size_t>(count * format_bytes(format)));
  arith::simd::convert({tensor.format, tensor.bytes.data()},
                       {format, converted.bytes.data(), count});
  tensor = std::move(converted);
}

enum class Way : std::uint8_t { kToDevice, kFromDevice };

// Elements that a tensor has before it is converted to `wanted`.
std::int64_t elements_before(Way way, const graph::EdgeConversion& conversion,
                             const TensorDescription& wanted) {
  if (!conversion.layout.blocked()) return element_count(wanted.dims);
  if (way == Way::kToDevice) return conversion.matrix.rows * conversion.matrix.columns;
  return device::blocked_bytes(conversion.matrix, conversion.layout, 1).value;
}

// Each tensor as its conversion says, into the form of `wanted`. Values are in place.
Status convert_all(Way way, const std::vector<graph::EdgeConversion>& conversions,
                   const std::vector<TensorDescription>& wanted, std::vector<Tensor>& tensors,
                   const RunValues& values) {
  if (conversions.empty()) return {};
  if (tensors.size() != conversions.size()) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("{} tensors to convert, the model has {}",
                                                          tensors.size(), conversions.size())};
  }
  for (std::size_t i = 0; i < conversions.size(); ++i) {
    const graph::EdgeConversion& conversion = conversions[i];
    if (!conversion.changes() || is_value(values, i)) continue;
    const std::int64_t bytes =
        elements_before(way, conversion, wanted[i]) * format_bytes(conversion.from);
    if (tensors[i].format != conversion.from || std::ssize(tensors[i].bytes) != bytes) {
      return Error{
          ErrorCode::kInvalidArgument,
          fmt::format("'{}': found {} bytes of {}, what is converted has {} bytes of {}; was a "
                      "stage skipped, or did one in between change it?",
                      wanted[i].name, tensors[i].bytes.size(), format_name(tensors[i].format),
                      bytes, format_name(conversion.from))};
    }
    Tensor converted;
    converted.format = wanted[i].format;
    converted.dims = wanted[i].dims;
    converted.bytes.resize(
        static_cast<std::size_t>(element_count(converted.dims) * format_bytes(converted.format)));
    const auto turn = way == Way::kToDevice ? device::to_device : device::from_device;
    turn(conversion, tensors[i].bytes, converted.bytes);
    tensors[i] = std::move(converted);
  }
  return {};
}

class HostStage : public pipeline::StageFunction {
 public:
  explicit HostStage(HostFunction function) : function_(std::move(function)) {}
  void run(std::span<const pipeline::PacketPtr> batch) override {
    for (const pipeline::PacketPtr& packet : batch) {
      NetworkPacket& task = network_packet(packet);
      Status status = task.gather_runs();
      if (status.ok()) {
        status = call_application("the stage's function", [&] { return function_(task.task); });
      }
      if (!status.ok()) packet->fail(Failure::kError, status.error());
    }
  }

 private:
  const HostFunction function_;
};

class PreStage : public pipeline::StageFunction {
 public:
  explicit PreStage(std::shared_ptr<ModelState> model) : model_(std::move(model)) {}
  void run(std::span<const pipeline::PacketPtr> batch) override {
    for (const pipeline::PacketPtr& packet : batch) {
      NetworkPacket& task = network_packet(packet);
      for (std::size_t run = 0; run < task.task.runs.size(); ++run) {
        const Status status = prepare(task, run);
        if (status.ok()) continue;
        packet->fail(Failure::kError, status.error());
        break;
      }
    }
  }

 private:
  Status prepare(NetworkPacket& task, std::size_t run) const {
    static const RunValues kNone;
    std::vector<Tensor>& inputs = task.task.runs[run];
    if (run < task.values.size()) TESSERA_RETURN_IF_ERROR(place(inputs, task.values[run]));
    const RunValues& values = run < task.values.size() ? task.values[run] : kNone;
    task.narrowed = narrow(inputs) || task.narrowed;
    // What is in place is the devices'; all else is the application's still.
    TESSERA_RETURN_IF_ERROR(
        check_inputs({model_->network.inputs(), model_->device_inputs()}, inputs, values));
    return convert_all(Way::kToDevice, model_->inputs, model_->device_inputs(), inputs, values);
  }
  // Values that the devices take as they are stay; others become tensors of the application's form.
  Status place(std::vector<Tensor>& inputs, RunValues& values) const {
    const std::vector<TensorDescription>& devices = model_->device_inputs();
    for (std::size_t i = 0; i < std::min(inputs.size(), values.size()); ++i) {
      if (!values[i].present() || i >= devices.size() || values[i].fits(devices[i])) continue;
      TensorDescription wide = model_->network.inputs()[i];
      if (!values[i].stands_for(wide)) wide.format = Format::kF32;
      if (!values[i].stands_for(wide)) continue;  // nothing becomes of it
      TESSERA_RETURN_IF_ERROR(values[i].valid(devices[i].name));
      TESSERA_RETURN_IF_ERROR(gather_dense(wide, inputs[i], values[i]));
    }
    return {};
  }
  // Whether anything was converted.
  bool narrow(std::vector<Tensor>& inputs) const {
    bool narrowed = false;
    const std::vector<TensorDescription>& wanted = model_->network.inputs();
    for (std::size_t i = 0; i < inputs.size() && i < wanted.size(); ++i) {
      if (complete(inputs[i]) && is_narrowed(inputs[i].format, wanted[i].format)) {
        convert(inputs[i], wanted[i].format);
        narrowed = true;
      }
    }
    return narrowed;
  }
  const std::shared_ptr<ModelState> model_;  // shared with the application's handles
};

// Whether the outputs of one model, as its devices give them, are the inputs of the next.
bool are_inputs_of(const ModelState& model, const ModelState* next) {
  if (next == nullptr) return false;
  const auto same = [](const TensorDescription& a, const TensorDescription& b) {
    return a.format == b.format && a.dims == b.dims && a.dense_dims == b.dense_dims;
  };
  const auto changes_format = [](const graph::EdgeConversion& conversion) {
    return conversion.changes_format();
  };
  const auto& given = model.device_outputs();
  const auto& taken = next->device_inputs();
  return std::none_of(model.outputs.begin(), model.outputs.end(), changes_format) &&
         std::none_of(next->inputs.begin(), next->inputs.end(), changes_format) &&
         std::equal(given.begin(), given.end(), taken.begin(), taken.end(), same);
}

class PostStage : public pipeline::StageFunction {
 public:
  PostStage(std::shared_ptr<ModelState> model, const ModelState* next)
      : model_(std::move(model)), hands_on_(are_inputs_of(*model_, next)) {}
  void run(std::span<const pipeline::PacketPtr> batch) override {
    if (hands_on_ && model_->outputs.empty()) return;
    for (const pipeline::PacketPtr& packet : batch) {
      NetworkPacket& task = network_packet(packet);
      // Between two networks nothing is widened to be narrowed again.
      const bool narrowed = !hands_on_ && std::exchange(task.narrowed, false);
      for (std::size_t run = 0; run < task.task.runs.size(); ++run) {
        const Status status = finish(task, run, narrowed);
        if (status.ok()) continue;
        packet->fail(Failure::kError, status.error());
        break;
      }
    }
  }

 private:
  // In the application's form; as float32 where float32 came in. What the task wants where it is,
  // or what lies on a device and need not be converted, stays as it is.
  Status finish(NetworkPacket& task, std::size_t run, bool narrowed) const {
    static const RunValues kNone;
    std::vector<Tensor>& outputs = task.task.runs[run];
    const bool wanted = run == 0 && !task.outputs.empty();
    if (run < task.values.size() && !wanted) {
      for (std::size_t i = 0; i < std::min(outputs.size(), task.values[run].size()); ++i) {
        if (!stays(i, narrowed, outputs[i].format)) {
          TESSERA_RETURN_IF_ERROR(gather(outputs[i], task.values[run][i]));
        }
      }
    }
    const RunValues& values = run < task.values.size() ? task.values[run] : kNone;
    TESSERA_RETURN_IF_ERROR(
        convert_all(Way::kFromDevice, model_->outputs, model_->network.outputs(), outputs, values));
    if (!narrowed) return {};
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (is_value(values, i) || !is_narrow_float(outputs[i].format)) continue;
      // Where the task wants it, it has the network's format.
      if (wanted && i < task.outputs.size() && !is_tensor(task.outputs[i])) continue;
      TESSERA_RETURN_IF_ERROR(widen(outputs[i]));
    }
    return {};
  }
  bool stays(std::size_t index, bool narrowed, Format format) const {
    const bool converted =
        !hands_on_ && index < model_->outputs.size() && model_->outputs[index].changes();
    return !converted && !(narrowed && is_narrow_float(format));
  }
  static bool is_tensor(const NetworkOutput& output) {
    return !output.block && !output.keep && !output.view;
  }
  static Status widen(Tensor& output) {
    if (!complete(output)) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("an output of {} bytes of {} that are not those of its shape "
                               "{}; a stage of the application made it",
                               output.bytes.size(), format_name(output.format),
                               fmt::join(output.dims, "x"))};
    }
    convert(output, Format::kF32);
    return {};
  }

  const std::shared_ptr<ModelState> model_;  // shared with the application's handles
  const bool hands_on_;                      // what lies on a device stays there for the next model
};

}  // namespace

std::shared_ptr<pipeline::StageFunction> make_host_stage(HostFunction function) {
  return std::make_shared<HostStage>(std::move(function));
}
std::shared_ptr<pipeline::StageFunction> make_pre_stage(std::shared_ptr<ModelState> model) {
  return std::make_shared<PreStage>(std::move(model));
}
std::shared_ptr<pipeline::StageFunction> make_post_stage(std::shared_ptr<ModelState> model,
                                                         const ModelState* next) {
  return std::make_shared<PostStage>(std::move(model), next);
}

}  // namespace tessera::runtime
