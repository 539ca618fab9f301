#include "device/device.h"

#include <fmt/format.h>

#include <algorithm>

#include "device/executor_device.h"
#include "device/sim_device.h"

namespace tessera::device {
namespace {

Error unknown_buffer(BufferId buffer) {
  return Error{ErrorCode::kInvalidArgument, fmt::format("buffer {} is not allocated on this device",
                                                        static_cast<std::uint64_t>(buffer))};
}

Status check_range(Bytes offset, std::size_t count, std::size_t size) {
  const auto bytes = static_cast<std::int64_t>(count);
  if (offset.value >= 0 && offset.value + bytes <= static_cast<std::int64_t>(size)) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("{} bytes at {} of a buffer of {}", count, offset.value, size)};
}

}  // namespace

Result<BufferId> Device::allocate(Bytes size) {
  if (size.value < 0) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("a buffer of {} bytes", size.value)};
  }
  const std::uint64_t id = next_buffer_++;
  buffers_[id].resize(static_cast<std::size_t>(size.value));
  ++metrics_.buffers;
  metrics_.buffer_bytes += size.value;
  return static_cast<BufferId>(id);
}

Status Device::release(BufferId buffer) {
  const auto found = buffers_.find(static_cast<std::uint64_t>(buffer));
  if (found == buffers_.end()) return unknown_buffer(buffer);
  --metrics_.buffers;
  metrics_.buffer_bytes -= static_cast<std::int64_t>(found->second.size());
  buffers_.erase(found);
  return {};
}

Status Device::write(BufferId buffer, Bytes offset, std::span<const std::byte> bytes) {
  const auto found = buffers_.find(static_cast<std::uint64_t>(buffer));
  if (found == buffers_.end()) return unknown_buffer(buffer);
  TESSERA_RETURN_IF_ERROR(check_range(offset, bytes.size(), found->second.size()));
  std::copy(bytes.begin(), bytes.end(), found->second.begin() + offset.value);
  metrics_.bytes_written += static_cast<std::int64_t>(bytes.size());
  return {};
}

Status Device::read(BufferId buffer, Bytes offset, std::span<std::byte> bytes) {
  const auto found = buffers_.find(static_cast<std::uint64_t>(buffer));
  if (found == buffers_.end()) return unknown_buffer(buffer);
  TESSERA_RETURN_IF_ERROR(check_range(offset, bytes.size(), found->second.size()));
  std::copy_n(found->second.begin() + offset.value, bytes.size(), bytes.begin());
  metrics_.bytes_read += static_cast<std::int64_t>(bytes.size());
  return {};
}

Result<Device::Views> Device::views_of(const std::vector<BufferId>& buffers) {
  Views views;
  for (const BufferId buffer : buffers) {
    const auto found = buffers_.find(static_cast<std::uint64_t>(buffer));
    if (found == buffers_.end()) return unknown_buffer(buffer);
    views.emplace_back(found->second);
  }
  return views;
}

Result<SequenceNumber> Device::submit(const Submission& submission) {
  TESSERA_TRY(const Views inputs, views_of(submission.inputs));
  TESSERA_TRY(const Views outputs, views_of(submission.outputs));
  const std::uint64_t sequence = next_sequence_++;
  completions_.emplace(sequence, execute(submission.network, inputs, outputs));
  ++metrics_.submissions;
  return static_cast<SequenceNumber>(sequence);
}

Result<Completion> Device::wait(SequenceNumber sequence) {
  const auto found = completions_.find(static_cast<std::uint64_t>(sequence));
  if (found == completions_.end()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("sequence number {} was not submitted, or was waited for already",
                             static_cast<std::uint64_t>(sequence))};
  }
  Result<RunResult> result = std::move(found->second);
  completions_.erase(found);
  if (!result.ok()) return result.error();
  return Completion{std::move(result).value()};
}

Result<std::unique_ptr<Device>> make_device(const SessionOptions& options) {
  if (options.device == DeviceKind::kSim) return make_sim_device(options);
  return make_executor_device(options);
}

}  // namespace tessera::device
