#include "runtime/host_stages.h"

#include <fmt/format.h>

#include <exception>

#include "arith/vector_ops.h"
#include "runtime/check_inputs.h"

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
  explicit PreStage(const Network& network) : network_(network) {}
  void run(std::span<const pipeline::PacketPtr> batch) override {
    for (const pipeline::PacketPtr& packet : batch) {
      NetworkPacket& task = network_packet(packet);
      for (std::vector<Tensor>& inputs : task.task.runs) {
        task.narrowed = prepare(inputs) || task.narrowed;
        const Status status = check_inputs(network_.state(), inputs);
        if (!status.ok()) packet->fail(Failure::kError, status.error());
      }
    }
  }

 private:
  // Whether anything was converted.
  bool prepare(std::vector<Tensor>& inputs) const {
    bool narrowed = false;
    const std::vector<TensorDescription>& wanted = network_.inputs();
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
  const Network network_;
};

class PostStage : public pipeline::StageFunction {
 public:
  void run(std::span<const pipeline::PacketPtr> batch) override {
    for (const pipeline::PacketPtr& packet : batch) {
      NetworkPacket& task = network_packet(packet);
      if (!std::exchange(task.narrowed, false)) continue;
      for (std::vector<Tensor>& outputs : task.task.runs) {
        for (Tensor& output : outputs) {
          if (is_narrow_float(output.format)) convert(output, Format::kF32);
        }
      }
    }
  }
};

}  // namespace

std::shared_ptr<pipeline::StageFunction> make_host_stage(HostFunction function) {
  return std::make_shared<HostStage>(std::move(function));
}
std::shared_ptr<pipeline::StageFunction> make_pre_stage(const Network& network) {
  return std::make_shared<PreStage>(network);
}
std::shared_ptr<pipeline::StageFunction> make_post_stage() { return std::make_shared<PostStage>(); }

}  // namespace tessera::runtime
