#include "arch/dram_mapping.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace tessera {
namespace {

constexpr std::int64_t kBankInterleaveBytes = 256;
constexpr std::int64_t kGroupInterleaveBytes = 64;

std::int32_t bits_of(std::int64_t size) {
  TESSERA_CHECK(size > 0 && std::has_single_bit(static_cast<std::uint64_t>(size)),
                "a size of a DRAM device is {}, allowed powers of two", size);
  return std::countr_zero(static_cast<std::uint64_t>(size));
}

}  // namespace

DramMapping::DramMapping(const DramDevice& device, std::int32_t gang, DramInterleave interleave,
                         bool bank_hash)
    : burst_bytes_(std::int64_t{device.burst_bytes} * gang), hash_(bank_hash) {
  bits_of(gang);
  const std::int32_t columns = bits_of(device.row_bytes / device.burst_bytes);
  pseudo_channel_.bits = bits_of(device.pseudo_channels);
  group_.bits = bits_of(device.bank_groups);
  bank_.bits = bits_of(device.banks_per_group);
  row_.bits = bits_of(device.bytes / device.row_bytes / device.pseudo_channels /
                      device.bank_groups / device.banks_per_group);
  const auto columns_of = [&](std::int64_t bytes) {
    return std::min(columns, bits_of(std::max<std::int64_t>(1, bytes / burst_bytes_)));
  };
  // Columns below the pseudo-channel and the group, and below the bank.
  std::int32_t low = columns;
  std::int32_t below_bank = 0;
  if (interleave == DramInterleave::kBank) low = columns_of(kBankInterleaveBytes);
  if (interleave == DramInterleave::kGroup) {
    low = columns_of(kGroupInterleaveBytes / device.pseudo_channels);
    below_bank = columns - low;
  }
  pseudo_channel_.shift = low;
  group_.shift = low + pseudo_channel_.bits;
  bank_.shift = group_.shift + group_.bits + below_bank;
  row_.shift = bank_.shift + bank_.bits + columns - low - below_bank;
  chunk_ = std::int64_t{1} << low;
  if (below_bank > 0 && group_.bits > 0) {
    spread_ = std::int64_t{1} << (pseudo_channel_.bits + group_.bits);
    stripe_ = (chunk_ * spread_) << below_bank;
  }
}

}  // namespace tessera
