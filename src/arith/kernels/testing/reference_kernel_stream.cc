#include "arith/kernels/testing/reference_kernel_stream.h"

namespace tessera {
namespace {

Error bad(const char* what) {
  return {ErrorCode::kInvalidModel, std::string("compressed kernel: ") + what};
}

// Bits of the stream, lowest first.
class Bits {
 public:
  explicit Bits(std::span<const std::byte> bytes) : bytes_(bytes) {}
  // False behind the end.
  bool take(std::int64_t count, std::uint32_t& value) {
    value = 0;
    for (std::int64_t i = 0; i < count; ++i, ++at_) {
      const auto byte = static_cast<std::size_t>(at_ / 8);
      if (byte >= bytes_.size()) return false;
      const auto bit = std::to_integer<std::uint32_t>(bytes_[byte]) >> at_ % 8 & 1;
      value |= bit << i;
    }
    return true;
  }
  void to_byte() { at_ = (at_ + 7) / 8 * 8; }
  bool at_end() const { return at_ == static_cast<std::int64_t>(bytes_.size()) * 8; }

 private:
  std::span<const std::byte> bytes_;
  std::int64_t at_ = 0;
};

void put(std::uint32_t value, std::int64_t bytes, std::byte* to) {
  for (std::int64_t i = 0; i < bytes; ++i) {
    to[i] = static_cast<std::byte>(value >> (8 * i) & 0xFF);
  }
}

}  // namespace

Status reference_expand_kernel_stream(const KernelStream& stream, std::span<const std::byte> bytes,
                                      const KernelRows& rows) {
  TESSERA_RETURN_IF_ERROR(check_kernel_stream_fields(stream, rows.partitions, rows.bytes));
  if (bytes.size() != stream.stored_bytes) return bad("another length than its descriptor says");
  const std::int64_t element = stream.element_bytes;
  Bits bits(bytes);
  std::vector<std::uint32_t> palette(stream.palette_entries);
  for (std::uint32_t& entry : palette) {
    if (!bits.take(element * 8, entry)) return bad("the stream ends within the palette");
  }
  const std::int64_t count = stream.image_bytes / element;
  for (std::int64_t p = 0; p < rows.partitions; ++p) {
    std::byte* const to = rows.base + p * rows.pitch;
    for (std::int64_t first = 0; first < count; first += kStreamGroupElements) {
      bool present[kStreamGroupElements];
      for (std::int64_t i = 0; i < kStreamGroupElements; ++i) {
        std::uint32_t bit = 1;
        const bool is_mask = stream.zero_mask && i < (count - first + 7) / 8 * 8;
        if (is_mask && !bits.take(1, bit)) return bad("the stream ends within a mask");
        if (first + i >= count && is_mask && bit != 0) return bad("a mask bit behind the elements");
        present[i] = bit != 0;
      }
      for (std::int64_t i = 0; i < kStreamGroupElements && first + i < count; ++i) {
        std::uint32_t value = 0;
        if (present[i]) {
          const std::int64_t width = stream.palette_bits > 0 ? stream.palette_bits : element * 8;
          if (!bits.take(width, value)) return bad("the stream ends within a group");
          if (stream.palette_bits > 0) {
            if (value >= palette.size()) return bad("an index behind the palette");
            value = palette[value];
          }
        }
        put(value, element, to + (first + i) * element);
      }
      bits.to_byte();
    }
  }
  for (std::int64_t p = 0; p < rows.partitions; ++p) {
    for (std::int64_t i = stream.image_bytes; i < rows.bytes; ++i) {
      std::uint32_t value = 0;
      if (!bits.take(8, value)) return bad("the stream ends within the rest");
      rows.base[p * rows.pitch + i] = static_cast<std::byte>(value);
    }
  }
  return bits.at_end() ? Status() : Status(bad("bytes are left over"));
}

}  // namespace tessera
