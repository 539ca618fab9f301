#include "runtime/host_stages.h"

#include <fmt/format.h>

#include <exception>

#include "arith/vector_ops.h"
#include "device/device_form.h"
#include "runtime/check_inputs.h"
#include "runtime/job.h"

namespace tessera::runtime {
namespace {

using pipeline::Failure;

bool is_narrow_float(Format format) { return format == Format::kF16 || format == Format::kBf16; }

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
void convert_all(const std::vector<graph::EdgeConversion>& conversions,
                 const std::vector<TensorDescription>& wanted, std::vector<Tensor>& tensors) {
  for (std::size_t i = 0; i < conversions.size() && i < tensors.size(); ++i) {
    const graph::EdgeConversion& conversion = conversions[i];
    if (conversion.from == conversion.to) continue;
    Tensor converted;
    converted.format = wanted[i].format;
    converted.dims = wanted[i].dims;
    converted.bytes.resize(
        static_cast<std::size_t>(element_count(converted.dims) * format_bytes(converted.format)));
    device::convert(conversion, tensors[i].bytes, converted.bytes);
    tensors[i] = std::move(converted);
  }
}

class HostStage : public pipeline::StageFunction {
 public:
  explicit HostStage(HostFunction function) : function_(std::move(function)) {}
  void run(std::span<const pipeline::PacketPtr> batch) override {
    for (const pipeline::PacketPtr& packet : batch) {
      const Status status = call(network_packet(packet).task);
      if (!status.ok()) packet->fail(Failure::kError, status.error());
    }
  }

 private:
  Status call(Task& task) const {
    const ApplicationCall application;
    try {
      return function_(task);
    } catch (const std::exception& thrown) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("the stage's function threw: {}", thrown.what())};
    }
  }
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
        const Status status = check_inputs(model_->network.state(), inputs);
        if (!status.ok()) {
          packet->fail(Failure::kError, status.error());
          break;
        }
        convert_all(model_->inputs, model_->on_devices.inputs(), inputs);
      }
    }
  }

 private:
  // Whether anything was converted.
  bool prepare(std::vector<Tensor>& inputs) const {
    bool narrowed = false;
    const std::vector<TensorDescription>& wanted = model_->network.inputs();
    for (std::size_t i = 0; i < inputs.size() && i < wanted.size(); ++i) {
      const bool complete = static_cast<std::int64_t>(inputs[i].bytes.size()) ==
                            element_count(inputs[i].dims) * format_bytes(inputs[i].format);
      if (complete && inputs[i].format == Format::kF32 && is_narrow_float(wanted[i].format)) {
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
      for (std::vector<Tensor>& outputs : task.task.runs) {
        convert_all(model_->outputs, model_->network.outputs(), outputs);
      }
      if (!std::exchange(task.narrowed, false)) continue;
      for (std::vector<Tensor>& outputs : task.task.runs) {
        for (Tensor& output : outputs) {
          if (is_narrow_float(output.format)) convert(output, Format::kF32);
        }
      }
    }
  }

 private:
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
