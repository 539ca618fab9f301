#include "runtime/host_stages.h"

#include <fmt/format.h>

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

// Each tensor as its conversion says, into the format and shape of `wanted`.
Status convert_all(const std::vector<graph::EdgeConversion>& conversions,
                   const std::vector<TensorDescription>& wanted, std::vector<Tensor>& tensors) {
  if (conversions.empty()) return {};
  if (tensors.size() != conversions.size()) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("{} tensors to convert, the model has {}",
                                                          tensors.size(), conversions.size())};
  }
  for (std::size_t i = 0; i < conversions.size(); ++i) {
    const graph::EdgeConversion& conversion = conversions[i];
    if (conversion.from == conversion.to) continue;
    const std::int64_t bytes = element_count(wanted[i].dims) * format_bytes(conversion.from);
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
    device::convert(conversion, tensors[i].bytes, converted.bytes);
    tensors[i] = std::move(converted);
  }
  return {};
}

class HostStage : public pipeline::StageFunction {
 public:
  explicit HostStage(HostFunction function) : function_(std::move(function)) {}
  void run(std::span<const pipeline::PacketPtr> batch) override {
    for (const pipeline::PacketPtr& packet : batch) {
      Task& task = network_packet(packet).task;
      const Status status =
          call_application("the stage's function", [&] { return function_(task); });
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
      for (std::vector<Tensor>& inputs : task.task.runs) {
        task.narrowed = prepare(inputs) || task.narrowed;
        Status status = check_inputs(model_->network.state(), inputs);
        if (status.ok()) {
          status = convert_all(model_->inputs, model_->on_devices.inputs(), inputs);
        }
        if (!status.ok()) {
          packet->fail(Failure::kError, status.error());
          break;
        }
      }
    }
  }

 private:
  // Whether anything was converted.
  bool prepare(std::vector<Tensor>& inputs) const {
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

class PostStage : public pipeline::StageFunction {
 public:
  explicit PostStage(std::shared_ptr<ModelState> model) : model_(std::move(model)) {}
  void run(std::span<const pipeline::PacketPtr> batch) override {
    for (const pipeline::PacketPtr& packet : batch) {
      NetworkPacket& task = network_packet(packet);
      const bool narrowed = std::exchange(task.narrowed, false);
      for (std::vector<Tensor>& outputs : task.task.runs) {
        const Status status = finish(outputs, narrowed);
        if (status.ok()) continue;
        packet->fail(Failure::kError, status.error());
        break;
      }
    }
  }

 private:
  // In the application's form; as float32 where float32 came in.
  Status finish(std::vector<Tensor>& outputs, bool narrowed) const {
    TESSERA_RETURN_IF_ERROR(convert_all(model_->outputs, model_->network.outputs(), outputs));
    if (!narrowed) return {};
    for (Tensor& output : outputs) {
      if (!is_narrow_float(output.format)) continue;
      if (!complete(output)) {
        return Error{ErrorCode::kInvalidArgument,
                     fmt::format("an output of {} bytes of {} that are not those of its shape "
                                 "{}; a stage of the application made it",
                                 output.bytes.size(), format_name(output.format),
                                 fmt::join(output.dims, "x"))};
      }
      convert(output, Format::kF32);
    }
    return {};
  }

  const std::shared_ptr<ModelState> model_;  // shared with the application's handles
};

}  // namespace

std::shared_ptr<pipeline::StageFunction> make_host_stage(HostFunction function) {
  return std::make_shared<HostStage>(std::move(function));
}
std::shared_ptr<pipeline::StageFunction> make_pre_stage(std::shared_ptr<ModelState> model) {
  return std::make_shared<PreStage>(std::move(model));
}
std::shared_ptr<pipeline::StageFunction> make_post_stage(std::shared_ptr<ModelState> model) {
  return std::make_shared<PostStage>(std::move(model));
}

}  // namespace tessera::runtime
