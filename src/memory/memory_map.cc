#include "memory/memory_map.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace tessera::memory {
namespace {

std::uint64_t end_of(const HostRange& range) {
  return range.address + static_cast<std::uint64_t>(range.bytes.value);
}

}  // namespace

Status MemoryMap::map(const HostRange& host, std::span<const PoolBlock> device) {
  Mapped mapped{host, {}, {}, {}};
  std::int64_t bytes = 0;
  for (const PoolBlock& block : device) {
    mapped.parts.push_back({bytes, block});
    bytes += block.bytes.value;
  }
  if (bytes != host.bytes.value || bytes == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("a host block of {} bytes mapped to device blocks of {}",
                             host.bytes.value, bytes)};
  }
  const auto after = std::upper_bound(
      mapped_.begin(), mapped_.end(), host.address,
      [](std::uint64_t address, const Mapped& other) { return address < other.host.address; });
  const bool meets_next = after != mapped_.end() && after->host.address < end_of(host);
  const bool meets_last = after != mapped_.begin() && end_of(std::prev(after)->host) > host.address;
  if (meets_next || meets_last) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("host address {:#x}: some of the {} bytes are mapped already",
                             host.address, bytes)};
  }
  mapped_.insert(after, std::move(mapped));
  return {};
}

Result<MemoryMap::Found> MemoryMap::find(const HostRange& range) const {
  const auto after = std::upper_bound(
      mapped_.begin(), mapped_.end(), range.address,
      [](std::uint64_t address, const Mapped& other) { return address < other.host.address; });
  if (after != mapped_.begin() && range.bytes.value >= 0) {
    const Mapped& mapped = *std::prev(after);
    if (end_of(range) <= end_of(mapped.host)) {
      const auto first = static_cast<std::int64_t>(range.address - mapped.host.address);
      return Found{static_cast<std::size_t>(&mapped - mapped_.data()),
                   {first, first + range.bytes.value}};
    }
  }
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("{} bytes at host address {:#x} do not lie in one mapped block",
                           range.bytes.value, range.address)};
}

Status MemoryMap::unmap(std::uint64_t host_address) {
  TESSERA_TRY(const Found found, find({host_address, Bytes{0}}));
  if (found.offsets.first != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("no mapped block begins at host address {:#x}", host_address)};
  }
  mapped_.erase(mapped_.begin() + static_cast<std::ptrdiff_t>(found.index));
  return {};
}

Result<DevicePlace> MemoryMap::translate(std::uint64_t host_address) const {
  TESSERA_TRY(const Found found, find({host_address, Bytes{1}}));
  const std::vector<Part>& parts = mapped_[found.index].parts;
  const auto after =
      std::upper_bound(parts.begin(), parts.end(), found.offsets.first,
                       [](std::int64_t offset, const Part& part) { return offset < part.first; });
  const Part& part = *std::prev(after);
  return DevicePlace{part.block, Bytes{found.offsets.first - part.first}};
}

Status MemoryMap::note_host_write(const HostRange& range) {
  TESSERA_TRY(const Found found, find(range));
  mapped_[found.index].newer_on_host.add(found.offsets);
  mapped_[found.index].newer_on_device.remove(found.offsets);
  return {};
}

Status MemoryMap::note_device_write(const HostRange& range) {
  TESSERA_TRY(const Found found, find(range));
  mapped_[found.index].newer_on_device.add(found.offsets);
  mapped_[found.index].newer_on_host.remove(found.offsets);
  return {};
}

std::vector<Transfer> MemoryMap::cut(const Mapped& mapped, const std::vector<Interval>& intervals,
                                     bool to_device) {
  std::vector<Transfer> transfers;
  for (const Interval& interval : intervals) {
    for (const Part& part : mapped.parts) {
      const std::int64_t first = std::max(interval.first, part.first);
      const std::int64_t last = std::min(interval.last, part.first + part.block.bytes.value);
      if (first >= last) continue;
      transfers.push_back({to_device, mapped.host.address + static_cast<std::uint64_t>(first),
                           part.block.base + static_cast<std::uint64_t>(first - part.first),
                           Bytes{last - first}});
    }
  }
  return transfers;
}

Result<std::vector<Transfer>> MemoryMap::make_device_current(const HostRange& range) {
  TESSERA_TRY(const Found found, find(range));
  Mapped& mapped = mapped_[found.index];
  auto transfers = cut(mapped, mapped.newer_on_host.inside(found.offsets), true);
  mapped.newer_on_host.remove(found.offsets);
  return transfers;
}

Result<std::vector<Transfer>> MemoryMap::make_host_current(const HostRange& range) {
  TESSERA_TRY(const Found found, find(range));
  Mapped& mapped = mapped_[found.index];
  auto transfers = cut(mapped, mapped.newer_on_device.inside(found.offsets), false);
  mapped.newer_on_device.remove(found.offsets);
  return transfers;
}

Result<std::vector<Transfer>> MemoryMap::newer_on_device(const HostRange& range) const {
  TESSERA_TRY(const Found found, find(range));
  const Mapped& mapped = mapped_[found.index];
  return cut(mapped, mapped.newer_on_device.inside(found.offsets), false);
}

void MemoryMap::put_back(std::span<const Transfer> transfers) {
  for (const Transfer& transfer : transfers) {
    const HostRange range{transfer.host, transfer.bytes};
    const Status noted = transfer.to_device ? note_host_write(range) : note_device_write(range);
    TESSERA_CHECK(noted.ok(), "a transfer of a block that is gone: {}", noted.error().message);
  }
}

}  // namespace tessera::memory
