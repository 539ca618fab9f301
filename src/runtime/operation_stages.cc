#include "runtime/operation_stages.h"

#include <fmt/format.h>

#include "runtime/operation_packet.h"

namespace tessera::runtime {
namespace {

using pipeline::Failure;
using pipeline::Nanoseconds;
using pipeline::PacketPtr;

// Calls `work` on each packet of the batch and notes what goes wrong.
template <typename Work>
class EachPacket : public pipeline::StageFunction {
 public:
  explicit EachPacket(Work work) : work_(work) {}
  void run(std::span<const PacketPtr> batch) override {
    for (const PacketPtr& pointer : batch) {
      const Status status = work_(operation_packet(pointer));
      if (!status.ok() && pointer->failure == Failure::kNone) {
        pointer->fail(Failure::kError, status.error());
      }
    }
  }

 private:
  const Work work_;
};

Status check_valid(const BlockState& block) {
  const Status status = block.valid();
  if (status.ok()) return {};
  return status.error().with_context("a block that the task reads holds nothing");
}

Status bring_inputs_over(OperationPacket& packet) {
  DeviceEntry& entry = packet.outputs.front()->entry();
  packet.transfers.task = packet.header.id;
  if (entry.device().properties().kernels == 1) packet.transfers.kernel = 0;
  const Nanoseconds begin = pipeline::now();
  for (const auto& input : packet.inputs) {
    TESSERA_RETURN_IF_ERROR(check_valid(*input));
    TESSERA_RETURN_IF_ERROR(input->to_device(packet.transfers));
    packet.input_addresses.push_back(input->address());
  }
  for (const auto& output : packet.outputs) packet.output_addresses.push_back(output->address());
  if (packet.weights != nullptr) {
    TESSERA_RETURN_IF_ERROR(check_valid(*packet.weights));
    TESSERA_RETURN_IF_ERROR(packet.weights->to_device());
    packet.weight_address = packet.weights->address();
  }
  packet.transfer_in += pipeline::now() - begin;
  return {};
}

Result<device::SequenceNumber> submit(OperationPacket& packet, MemoryState& memory,
                                      device::TimePoint deadline) {
  if (packet.operation.has_value()) {
    return memory.operations.submit({.operation = *packet.operation,
                                     .input = packet.input_addresses.front(),
                                     .output = packet.output_addresses.front(),
                                     .weights = packet.weight_address,
                                     .weight_offset = {packet.weight_offset},
                                     .tag = packet.header.id,
                                     .keeps = packet.turn},
                                    deadline);
  }
  return memory.entry.device().submit({.loaded = packet.layers->ids[packet.layer_index],
                                       .inputs = packet.input_addresses,
                                       .outputs = packet.output_addresses,
                                       .tag = packet.header.id,
                                       .keeps = packet.turn},
                                      deadline);
}

Status execute(OperationPacket& packet) {
  MemoryState& memory = *packet.outputs.front()->memory;
  packet.device = &memory.entry.name();
  const bool forever = packet.header.deadline == pipeline::kNoDeadline;
  const device::TimePoint deadline =
      forever ? device::kNoDeadline
              : device::TimePoint(std::chrono::nanoseconds(packet.header.deadline));
  const auto refuse = [&](const Error& error) -> Status {
    packet.fail(memory.entry.judge(error, packet.header.deadline), error);
    return {};
  };
  if (memory.entry.usable() == DeviceEntry::Usable::kNo) {
    packet.fail(Failure::kDevice,
                {ErrorCode::kUnavailable,
                 fmt::format("device '{}' is not in order: {}", memory.entry.name(),
                             memory.entry.device().health().reason)});
    return {};
  }
  const auto sequence = submit(packet, memory, deadline);
  if (!sequence.ok()) return refuse(sequence.error());
  packet.turn->retained = true;  // when it is abandoned it may still be in its kernel
  const auto completion = memory.entry.device().wait(*sequence, deadline);
  if (!completion.ok()) return refuse(completion.error());
  packet.turn->retained = false;
  if (!completion->status.ok()) return refuse(completion->status.error());
  memory.entry.note_good();
  packet.transfers.kernel = completion->kernel;
  packet.add_cycles(*completion);
  packet.kernel += (completion->end - completion->begin).count();
  for (const auto& output : packet.outputs) {
    TESSERA_RETURN_IF_ERROR(output->ran());
  }
  return {};
}

Status bring_outputs_back(OperationPacket& packet) {
  if (!packet.fetch) return {};
  const Nanoseconds begin = pipeline::now();
  for (const auto& output : packet.outputs) {
    TESSERA_RETURN_IF_ERROR(output->to_host(packet.transfers));
  }
  packet.transfer_out += pipeline::now() - begin;
  return {};
}

}  // namespace

std::shared_ptr<pipeline::StageFunction> make_operation_pre_stage() {
  return std::make_shared<EachPacket<decltype(&bring_inputs_over)>>(&bring_inputs_over);
}
std::shared_ptr<pipeline::StageFunction> make_operation_stage() {
  return std::make_shared<EachPacket<decltype(&execute)>>(&execute);
}
std::shared_ptr<pipeline::StageFunction> make_operation_post_stage() {
  return std::make_shared<EachPacket<decltype(&bring_outputs_back)>>(&bring_outputs_back);
}

}  // namespace tessera::runtime
