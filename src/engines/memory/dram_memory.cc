#include "engines/memory/dram_memory.h"

#include <fmt/format.h>

#include <cstring>

#include "base/quantity.h"

namespace tessera::engines {
namespace {

constexpr std::int64_t kRegionAlignment = 4096;

}  // namespace

Status DramMemory::allocate(std::int64_t bytes, Region& region) {
  if (bytes < 0 || bytes > bytes_ - next_address_) {
    return Error{ErrorCode::kDoesNotFit,
                 fmt::format("a region of {} bytes, {} of the DRAM's {} bytes are free; use a chip "
                             "configuration with more dram.bytes",
                             bytes, bytes_ - next_address_, bytes_)};
  }
  const std::int64_t rounded = round_up(bytes + 1, kRegionAlignment);
  region.data.reset(static_cast<std::byte*>(std::calloc(static_cast<std::size_t>(rounded), 1)));
  if (region.data == nullptr) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("the host has no memory for a DRAM region of {} bytes", bytes)};
  }
  region.bytes = bytes;
  region.address = next_address_;
  next_address_ += rounded;
  return {};
}

Result<std::size_t> DramMemory::add(const program::Program& program) {
  std::array<Region, kRegions> regions;
  const std::array<std::int64_t, kRegions> sizes = {
      static_cast<std::int64_t>(program.weights.size()), program.workspace_bytes,
      program.input_bytes, program.output_bytes, static_cast<std::int64_t>(program.stream.size())};
  for (std::size_t i = 0; i < kRegions; ++i) {
    TESSERA_RETURN_IF_ERROR(allocate(sizes[i], regions[i]));
  }
  if (!program.weights.empty()) {
    std::memcpy(regions[0].data.get(), program.weights.data(), program.weights.size());
  }
  if (!program.stream.empty()) {
    std::memcpy(regions[kRegions - 1].data.get(), program.stream.data(), program.stream.size());
  }
  networks_.push_back(std::move(regions));
  return networks_.size() - 1;
}

void DramMemory::clear() {
  networks_.clear();
  next_address_ = 0;
}

bool DramMemory::holds(std::size_t network, program::DramAddress address,
                       std::int64_t bytes) const {
  const auto size = static_cast<std::uint64_t>(region(network, address.base).bytes);
  return bytes >= 0 && address.offset <= size &&
         static_cast<std::uint64_t>(bytes) <= size - address.offset;
}

std::span<std::byte> DramMemory::stream(std::size_t network) {
  Region& stream = networks_[network].back();
  return {stream.data.get(), static_cast<std::size_t>(stream.bytes)};
}

}  // namespace tessera::engines
