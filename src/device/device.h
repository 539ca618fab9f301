// One interface to every kind of processor: allocate, write, read, load, submit, wait.
//
//   load(network) ─► id     allocate/write inputs ─► submit(id, buffers) ─► sequence number
//                                                  ─► wait(sequence) ─► completion, read outputs
//
// An application sees the same calls whatever is behind them. A device belongs to one thread at a
// time; the runtime's pipeline gives each its own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "network/network.h"
#include "tessera/session.h"

namespace tessera::device {

enum class BufferId : std::uint64_t {};
enum class LoadedId : std::uint64_t {};
enum class SequenceNumber : std::uint64_t {};

struct Submission {
  LoadedId network{};
  std::vector<BufferId> inputs, outputs;  // in the order of the network's inputs and outputs
};

// What a run cost; `result.outputs` stays empty, the output buffers hold them.
struct Completion {
  RunResult result;
};

struct DeviceMetrics {
  std::int64_t submissions = 0;
  std::int64_t bytes_written = 0, bytes_read = 0;  // by the host, into and out of buffers
  std::int64_t buffers = 0, buffer_bytes = 0;      // allocated now
};

class Device {
 public:
  virtual ~Device() = default;

  Result<BufferId> allocate(Bytes size);
  Status release(BufferId buffer);
  Status write(BufferId buffer, Bytes offset, std::span<const std::byte> bytes);
  Status read(BufferId buffer, Bytes offset, std::span<std::byte> bytes);

  virtual DeviceKind kind() const = 0;
  virtual Result<LoadedId> load(std::shared_ptr<const NetworkState> network) = 0;
  // Submissions run in order; an error of the run is what wait() returns.
  Result<SequenceNumber> submit(const Submission& submission);
  Result<Completion> wait(SequenceNumber sequence);
  const DeviceMetrics& metrics() const { return metrics_; }

 protected:
  using Views = std::vector<std::span<std::byte>>;
  // Runs the network on the bytes of the buffers.
  virtual Result<RunResult> execute(LoadedId network, const Views& inputs,
                                    const Views& outputs) = 0;

 private:
  Result<Views> views_of(const std::vector<BufferId>& buffers);

  std::map<std::uint64_t, std::vector<std::byte>> buffers_;
  std::map<std::uint64_t, Result<RunResult>> completions_;
  std::uint64_t next_buffer_ = 1, next_sequence_ = 1;
  DeviceMetrics metrics_;
};

// The device of the options' kind.
Result<std::unique_ptr<Device>> make_device(const SessionOptions& options);

}  // namespace tessera::device
