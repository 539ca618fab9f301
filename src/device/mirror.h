// Host memory that has its counterpart on a device, kept the same where it is needed and only
// there.
//
//   allocate ─► host bytes + a device block for each part     wrote(bytes)   host has changed them
//   to_device(bytes) before a run reads them                  ran(bytes)     a run has written them
//   to_host(bytes) before the host reads them
//
// Calling to_device and to_host around every run, whatever is where, still moves no byte twice:
// weights and images that are there are not sent again, and what one layer leaves for the next
// stays. Where host and device share memory the host bytes are the device's block, and nothing is
// moved.
//
// Any thread may call; the bytes of one block belong to one thread at a time.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "device/device.h"
#include "memory/memory_map.h"

namespace tessera::device {

// `parts` lie contiguously on the host, and anywhere on the device.
struct MirroredBlock {
  std::span<std::byte> host;
  std::vector<MemoryBlock> parts;
};

class Mirror {
 public:
  // The device outlives the mirror.
  explicit Mirror(Device& device) : device_(device) {}
  ~Mirror();
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  Result<MirroredBlock> allocate(std::span<const Bytes> parts);
  // Host memory of the caller's that becomes a block of one part, of which the host has the newer
  // bytes. Where memory is shared it is the device's block, and `owner` is released when the block
  // is released and no run uses it any more; else when it is released. The error is
  // kInvalidArgument if some of the bytes are in a block already.
  Result<MirroredBlock> map(std::span<std::byte> host, std::shared_ptr<void> owner);
  // A block that was allocated elsewhere and that a run has written. It is released in any case.
  Result<MirroredBlock> take_over(const MemoryBlock& block);
  Status release(const MirroredBlock& block);

  // Where the byte lies on the device.
  Result<Address> translate(const std::byte* host) const;

  Status wrote(std::span<const std::byte> host);
  Status ran(std::span<const std::byte> host);
  Status to_device(std::span<const std::byte> host, const TransferTag& tag = {});
  Status to_host(std::span<const std::byte> host, const TransferTag& tag = {});
  // The latest bytes of the range in `to`, which is as long: what the device has newer comes from
  // there, and the host's stay as they are.
  Status read(std::span<const std::byte> host, std::span<std::byte> to,
              const TransferTag& tag = {});

 private:
  template <typename Make>
  Result<MirroredBlock> make_block(const Make& make);
  enum class Newer { kNeither, kHost, kDevice };
  Status keep(const MirroredBlock& block, std::shared_ptr<void> owner,
              Newer newer = Newer::kNeither);
  Status release_parts(const MirroredBlock& block);
  // `host` is the range that the transfers are of.
  Status move(std::span<const std::byte> host, const std::vector<memory::Transfer>& transfers,
              const TransferTag& tag);

  Device& device_;
  // Held while bytes move, one for each direction, before mutex_: once a side is reported
  // current the bytes are there, though another thread brings them.
  std::mutex moving_to_device_, moving_to_host_;
  mutable std::mutex mutex_;
  memory::MemoryMap map_;
  struct Owned {
    MirroredBlock block;
    // Of the host's bytes: none where they are the device's.
    std::shared_ptr<void> owner;
  };
  std::vector<Owned> owned_;
};

}  // namespace tessera::device
