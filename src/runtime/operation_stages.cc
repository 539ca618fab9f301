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

Status bring_over(OperationPacket& packet) {
  MemoryState& memory = *packet.outputs.front()->memory;
  device::Mirror& mirror = memory.mirror;
  packet.transfers.task = packet.header.id;
  if (memory.entry.device().properties().kernels == 1) packet.transfers.kernel = 0;
  const Nanoseconds begin = pipeline::now();
  for (const auto& input : packet.inputs) {
    TESSERA_RETURN_IF_ERROR(mirror.to_device(input->block.host, packet.transfers));
    TESSERA_TRY(const device::Address address, mirror.translate(input->block.host.data()));
    packet.input_addresses.push_back(address);
  }
  for (const auto& output : packet.outputs) {
    TESSERA_TRY(const device::Address address, mirror.translate(output->block.host.data()));
    packet.output_addresses.push_back(address);
  }
  if (packet.weights != nullptr) {
    TESSERA_RETURN_IF_ERROR(mirror.to_device(packet.weights->block.host));
    TESSERA_TRY(packet.weight_address, mirror.translate(packet.weights->block.host.data()));
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
                                     .tag = packet.header.id},
                                    deadline);
  }
  return memory.entry.device().submit({.loaded = packet.layers->ids[packet.layer_index],
                                       .inputs = packet.input_addresses,
                                       .outputs = packet.output_addresses,
                                       .tag = packet.header.id},
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
  const auto completion = memory.entry.device().wait(*sequence, deadline);
  if (!completion.ok()) return refuse(completion.error());
  if (!completion->status.ok()) return refuse(completion->status.error());
  memory.entry.note_good();
  packet.transfers.kernel = completion->kernel;
  packet.cycles += completion->cycles;
  packet.kernel += (completion->end - completion->begin).count();
  for (const auto& output : packet.outputs) {
    TESSERA_RETURN_IF_ERROR(memory.mirror.ran(output->block.host));
  }
  return {};
}

Status take_back(OperationPacket& packet) {
  if (!packet.fetch) return {};
  const Nanoseconds begin = pipeline::now();
  for (const auto& output : packet.outputs) {
    TESSERA_RETURN_IF_ERROR(output->memory->mirror.to_host(output->block.host, packet.transfers));
  }
  packet.transfer_out += pipeline::now() - begin;
  return {};
}

}  // namespace

std::shared_ptr<pipeline::StageFunction> make_operation_pre_stage() {
  return std::make_shared<EachPacket<decltype(&bring_over)>>(&bring_over);
}
std::shared_ptr<pipeline::StageFunction> make_operation_stage() {
  return std::make_shared<EachPacket<decltype(&execute)>>(&execute);
}
std::shared_ptr<pipeline::StageFunction> make_operation_post_stage() {
  return std::make_shared<EachPacket<decltype(&take_back)>>(&take_back);
}

}  // namespace tessera::runtime
