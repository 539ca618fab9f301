#include "engines/memory/dram_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/quantity.h"

namespace tessera::engines {
namespace {

constexpr std::int64_t kRegionAlignment = 4096;

}  // namespace

Status DramMemory::reserve(std::int64_t bytes, Region& region) {
  if (bytes < 0 || bytes > limit_ - next_address_) {
    return Error{ErrorCode::kDoesNotFit,
                 fmt::format("a region of {} bytes, {} of the DRAM's {} bytes are free; use a chip "
                             "configuration with more dram.bytes",
                             bytes, std::max<std::int64_t>(limit_ - next_address_, 0), bytes_)};
  }
  region.bytes = bytes;
  region.address = next_address_;
  next_address_ += round_up(bytes + 1, kRegionAlignment);
  return {};
}

Status DramMemory::allocate(std::int64_t bytes, Region& region) {
  TESSERA_RETURN_IF_ERROR(reserve(bytes, region));
  if (physical_ != nullptr) {
    region.data = physical_->at(region.address);
    return {};
  }
  const auto rounded = static_cast<std::size_t>(round_up(bytes + 1, kRegionAlignment));
  region.owned.reset(static_cast<std::byte*>(std::calloc(rounded, 1)));
  region.data = region.owned.get();
  if (region.data == nullptr) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("the host has no memory for a DRAM region of {} bytes", bytes)};
  }
  return {};
}

void DramMemory::choose_gap(std::int64_t wanted, const DramPart& within) {
  physical_ = within.physical;
  std::vector<DramRange> taken;
  for (const DramPart& part : taken_) {
    if (part.range.bytes > 0 && part.physical == within.physical) taken.push_back(part.range);
  }
  std::sort(taken.begin(), taken.end(),
            [](const DramRange& a, const DramRange& b) { return a.first < b.first; });
  next_address_ = within.range.first;
  limit_ = within.range.last();
  for (const DramRange& range : taken) {
    if (range.last() <= next_address_ || range.first >= limit_) continue;
    if (range.first - next_address_ >= wanted) {
      limit_ = range.first;
      return;
    }
    next_address_ = range.last();
  }
}

Result<std::size_t> DramMemory::add(const isa::Program& program, std::span<const std::byte> weights,
                                    std::optional<DramPart> within) {
  const std::int64_t weight_bytes =
      weights.empty() ? std::ssize(program.weights) : std::ssize(weights);
  std::int64_t wanted = 0;
  for (const std::int64_t bytes : {weight_bytes, program.workspace_bytes, program.input_bytes,
                                   program.output_bytes, std::ssize(program.stream)}) {
    wanted += round_up(std::max<std::int64_t>(bytes, 0) + 1, kRegionAlignment);
  }
  choose_gap(wanted, within.value_or(DramPart{{0, bytes_}}));
  const std::int64_t first = next_address_;
  Regions regions;
  if (weights.empty()) {
    TESSERA_RETURN_IF_ERROR(allocate(std::ssize(program.weights), regions[0]));
    if (!program.weights.empty()) {
      std::memcpy(regions[0].data, program.weights.data(), program.weights.size());
    }
  } else {
    TESSERA_RETURN_IF_ERROR(reserve(std::ssize(weights), regions[0]));
    // Only read: no task of a verified program writes there.
    regions[0].data = const_cast<std::byte*>(weights.data());
  }
  const std::array<std::int64_t, kRegions> sizes = {0, program.workspace_bytes, program.input_bytes,
                                                    program.output_bytes,
                                                    std::ssize(program.stream)};
  for (std::size_t i = 1; i < kRegions; ++i) {
    TESSERA_RETURN_IF_ERROR(allocate(sizes[i], regions[i]));
  }
  if (!program.stream.empty()) {
    std::memcpy(regions[kRegions - 1].data, program.stream.data(), program.stream.size());
  }
  const auto free = std::find_if(taken_.begin(), taken_.end(),
                                 [](const DramPart& part) { return part.range.bytes == 0; });
  const auto network = static_cast<std::size_t>(free - taken_.begin());
  if (network == networks_.size()) {
    networks_.emplace_back();
    taken_.emplace_back();
    shares_with_.emplace_back();
  }
  networks_[network] = std::move(regions);
  taken_[network] = {{first, std::min(next_address_, limit_) - first}, physical_};
  shares_with_[network] = network;
  return network;
}

Result<std::size_t> DramMemory::add_core(std::size_t of, const isa::Program& program,
                                         std::optional<DramPart> within) {
  isa::Program stream;
  stream.stream = program.stream;
  TESSERA_TRY(const std::size_t network, add(stream, {}, within));
  for (int base = 0; base < isa::kBaseIndexCount; ++base) {
    const Region& from = networks_[of][static_cast<isa::BaseIndex>(base)];
    Region& to = networks_[network][static_cast<isa::BaseIndex>(base)];
    to.owned.reset();
    to.data = from.data;
    to.bytes = from.bytes;
    to.address = from.address;
    to.parts = from.parts;
  }
  shares_with_[network] = of;
  return network;
}

void DramMemory::remove(std::size_t network) {
  for (std::size_t other = 0; other < networks_.size(); ++other) {
    if (shares_with_[other] != network) continue;
    networks_[other] = Regions{};
    const DramPart& part = taken_[other];
    if (part.physical != nullptr) part.physical->clear(part.range);
    taken_[other] = {};
    shares_with_[other] = other;
  }
}

void DramMemory::clear() {
  shares_with_.clear();
  networks_.clear();
  taken_.clear();
}

void DramMemory::bind(std::size_t network, isa::DramAddress address, std::span<std::byte> bytes) {
  std::vector<Part>& parts = networks_[network][address.base].parts;
  auto place =
      std::lower_bound(parts.begin(), parts.end(), address.offset,
                       [](const Part& part, std::uint64_t offset) { return part.offset < offset; });
  if (place == parts.end() || place->offset != address.offset) place = parts.insert(place, Part{});
  *place = {address.offset, bytes};
  for (std::size_t other = 0; other < networks_.size(); ++other) {
    if (other != network && shares_with_[other] == network) bind(other, address, bytes);
  }
}

std::byte* DramMemory::find_part(const Region& region, std::uint64_t offset) {
  const auto after =
      std::upper_bound(region.parts.begin(), region.parts.end(), offset,
                       [](std::uint64_t wanted, const Part& part) { return wanted < part.offset; });
  if (after == region.parts.begin()) return region.data + offset;
  const Part& part = *std::prev(after);
  const std::uint64_t inside = offset - part.offset;
  return inside <= part.bytes.size() ? part.bytes.data() + inside : region.data + offset;
}

std::byte* DramMemory::at_modelled(std::size_t network, std::int64_t address, std::int64_t bytes) {
  for (const isa::BaseIndex base :
       {isa::BaseIndex::kWorkspace, isa::BaseIndex::kInput, isa::BaseIndex::kOutput}) {
    const Region& at = region(network, base);
    const std::int64_t offset = address - at.address;
    if (offset < 0 || bytes < 0 || offset > at.bytes || bytes > at.bytes - offset) continue;
    return find(at, static_cast<std::uint64_t>(offset));
  }
  return nullptr;
}

bool DramMemory::holds(std::size_t network, isa::DramAddress address, std::int64_t bytes) const {
  const auto size = static_cast<std::uint64_t>(region(network, address.base).bytes);
  return bytes >= 0 && address.offset <= size &&
         static_cast<std::uint64_t>(bytes) <= size - address.offset;
}

std::span<std::byte> DramMemory::stream(std::size_t network) {
  Region& stream = networks_[network].back();
  return {stream.data, static_cast<std::size_t>(stream.bytes)};
}

}  // namespace tessera::engines
