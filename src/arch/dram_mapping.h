// Where an address lies in a DRAM channel: which bank, which row.
//
//   address / burst  =  row | ... fields of column, pseudo-channel, bank group, bank ...
//
//   row               column, pseudo-channel, group, bank, row: a whole row at consecutive addresses
//   bank_interleaved  256 B stay in a row, then the next bank (groups change first)
//   group_interleaved 64 B (or one burst, where that is more), then the next bank group; a row of
//                     every group is full before the bank changes
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "arch/dram_device.h"

namespace tessera {

enum class DramInterleave : std::int32_t { kRow, kBank, kGroup };

inline constexpr std::array<std::string_view, 3> kDramInterleaveNames = {"row", "bank_interleaved",
                                                                         "group_interleaved"};

struct DramPlace {
  std::int32_t bank = 0;  // (pseudo-channel * groups + group) * banks of a group + bank
  std::int32_t row = 0;
  friend bool operator==(const DramPlace&, const DramPlace&) = default;
};

class DramMapping {
 public:
  // `gang` devices (a power of two) work side by side: burst and row hold as many times the bytes.
  // `bank_hash` mixes the lowest bits of the row into group and bank, so that a pitch of a power of
  // two does not stay in one bank.
  DramMapping(const DramDevice& device, std::int32_t gang, DramInterleave interleave,
              bool bank_hash);

  // Of burst number `burst` (address / burst_bytes()), modulo the size of the channel.
  DramPlace place(std::uint64_t burst) const {
    const std::int32_t row = take(row_, burst);
    const std::int32_t mixed = hash_ ? row : 0;
    const std::int32_t group = take(group_, burst) ^ (mixed & low_bits(group_.bits));
    const std::int32_t bank = take(bank_, burst) ^ ((mixed >> group_.bits) & low_bits(bank_.bits));
    const std::int32_t channel = take(pseudo_channel_, burst);
    return {.bank = (((channel << group_.bits) | group) << bank_.bits) | bank, .row = row};
  }
  std::int64_t burst_bytes() const { return burst_bytes_; }

  // Bursts at consecutive addresses that stay in one row of one bank, from a multiple of it on.
  std::int64_t chunk() const { return chunk_; }
  // Where bank groups change below bits of the column: chunks that lie side by side in different
  // groups and pseudo-channels, in rows of the same number; otherwise 1.
  std::int64_t spread() const { return spread_; }
  // With spread() > 1: bursts until another row or bank begins.
  std::int64_t stripe() const { return stripe_; }

 private:
  struct Field {
    std::int32_t shift = 0, bits = 0;
  };
  static std::int32_t low_bits(std::int32_t bits) { return (std::int32_t{1} << bits) - 1; }
  static std::int32_t take(const Field& field, std::uint64_t burst) {
    return static_cast<std::int32_t>(burst >> field.shift) & low_bits(field.bits);
  }

  std::int64_t burst_bytes_;
  bool hash_;
  Field pseudo_channel_, group_, bank_, row_;
  std::int64_t chunk_ = 1, spread_ = 1, stripe_ = 1;
};

}  // namespace tessera
