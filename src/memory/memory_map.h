// Which bytes of the host are which bytes of the device, and which side has changed them last.
//
//   host block   [ image 0 | image 1 | image 2 ................ ]     one piece
//                     │         │         └──────────┐
//   device       [ block ]  [ block ]           [ block ]             anywhere, in this order
//
//   a host address = block + offset ─► the device block that holds the offset + the rest
//
// A byte is the same on both sides, newer on the host, or newer on the device. Writes are noted as
// they happen; nothing is moved until one side is asked to be current, and then exactly the bytes
// that are newer on the other. A write makes its side the newer one, whatever was there: to keep
// both, make the side current first.
//
// Pure bookkeeping, for one thread at a time: device/mirror.h does the transfers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "memory/block_pool.h"
#include "memory/interval_set.h"

namespace tessera::memory {

// Bytes [address, address + bytes) of the host.
struct HostRange {
  std::uint64_t address = 0;
  Bytes bytes;
};

struct Transfer {
  bool to_device = true;
  std::uint64_t host = 0, device = 0;  // addresses
  Bytes bytes;
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

// A place in the device's memory as base + offset.
struct DevicePlace {
  PoolBlock block;
  Bytes offset;
  std::uint64_t address() const { return block.base + static_cast<std::uint64_t>(offset.value); }
};

class MemoryMap {
 public:
  // The device blocks, concatenated, hold the host block. Both sides are taken to be the same:
  // nothing is written yet.
  Status map(const HostRange& host, std::span<const PoolBlock> device);
  Status unmap(std::uint64_t host_address);

  // Where the byte lies on the device.
  Result<DevicePlace> translate(std::uint64_t host_address) const;

  // A side has written the range, which lies in one mapped block.
  Status note_host_write(const HostRange& range);
  Status note_device_write(const HostRange& range);

  // What has to be moved so that the side has the latest bytes of the range; taken as moved.
  Result<std::vector<Transfer>> make_device_current(const HostRange& range);
  Result<std::vector<Transfer>> make_host_current(const HostRange& range);
  // The transfers that make_host_current would ask for.
  Result<std::vector<Transfer>> newer_on_device(const HostRange& range) const;
  // The transfers could not be made: as if they had not been asked for.
  void put_back(std::span<const Transfer> transfers);

  std::size_t blocks() const { return mapped_.size(); }

 private:
  struct Part {
    std::int64_t first = 0;  // offset in the host block
    PoolBlock block;
  };
  struct Mapped {
    HostRange host;
    std::vector<Part> parts;
    IntervalSet newer_on_host, newer_on_device;  // no byte is in both
  };
  struct Found {
    std::size_t index = 0;
    Interval offsets;
  };
  Result<Found> find(const HostRange& range) const;
  static std::vector<Transfer> cut(const Mapped& mapped, const std::vector<Interval>& intervals,
                                   bool to_device);

  std::vector<Mapped> mapped_;  // by host address
};

}  // namespace tessera::memory
