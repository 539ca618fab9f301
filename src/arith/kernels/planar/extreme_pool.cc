#include "arith/kernels/planar/extreme_pool.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "arith/rounding.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "arith/kernels/planar/extreme_pool.cc"
#include "arith/vector_targets.h"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Keys of signed integers: the order of the elements; kNan above all.
template <typename Key, bool kFloat>
class Keys {
 public:
  using D = hn::ScalableTag<Key>;
  using V = hn::Vec<D>;
  static constexpr Key kNan = std::numeric_limits<Key>::max();
  static constexpr Key kLowest = std::numeric_limits<Key>::min();

  explicit Keys(const ExtremeWindow& window) {
    const D d;
    flip_ = hn::Set(d, static_cast<Key>(window.minimum ? -1 : 0));
    if constexpr (kFloat) {
      const std::int64_t infinity = window.format == Format::kF16    ? 0x7C00
                                    : window.format == Format::kBf16 ? 0x7F80
                                                                     : 0x7F800000;
      infinity_ = hn::Set(d, static_cast<Key>(infinity));
      // Nothing under the window decodes to beyond infinity; f16 and bf16 saturate.
      largest_ =
          hn::Set(d, static_cast<Key>(window.format == Format::kF32 ? infinity : infinity - 1));
      nan_ = hn::Set(d, static_cast<Key>(arith::round_to(window.format, NAN)));
    } else {
      offset_ = hn::Set(d, static_cast<Key>(window.format == Format::kU8 ? kLowest : 0));
    }
  }

  HWY_INLINE V encode(V bits) const {
    const D d;
    if constexpr (!kFloat) return hn::Xor(hn::Xor(bits, offset_), flip_);
    const auto mask = hn::Set(d, kNan);
    const V magnitude = hn::And(bits, mask);
    const V ordered = hn::Xor(bits, hn::And(hn::BroadcastSignBit(bits), mask));
    return hn::IfThenElse(hn::Gt(magnitude, infinity_), mask, hn::Xor(ordered, flip_));
  }

  HWY_INLINE V decode(V key) const {
    const D d;
    if constexpr (!kFloat) return hn::Xor(hn::Xor(key, flip_), offset_);
    const auto mask = hn::Set(d, kNan);
    const V ordered = hn::Xor(key, flip_);
    const V bits = hn::Xor(ordered, hn::And(hn::BroadcastSignBit(ordered), mask));
    const V magnitude = hn::Min(hn::And(bits, mask), largest_);
    const V number = hn::Or(magnitude, hn::And(bits, hn::Set(d, kLowest)));
    return hn::IfThenElse(hn::Eq(key, mask), nan_, number);
  }

 private:
  V flip_ = hn::Zero(D()), infinity_ = hn::Zero(D()), largest_ = hn::Zero(D());
  V nan_ = hn::Zero(D()), offset_ = hn::Zero(D());
};

template <typename Key, bool kFloat>
class ExtremePool {
 public:
  ExtremePool(const ExtremeWindow& window, const ExtremeChannel& channel,
              AlignedBuffer<std::byte>& scratch)
      : window_(window), channel_(channel), keys_(window) {
    const std::int64_t reach = (window.window_w - 1) * window.dilation_w + 1;
    padded_ = window.pad_left +
              std::max(window.columns, (window.output_columns - 1) * window.stride_w + reach);
    // Vectors are loaded and stored whole.
    line_pitch_ = padded_ + 4 * n_;
    row_pitch_ = window.columns + n_;
    const auto rows = static_cast<std::int64_t>(channel.inputs.size());
    const std::int64_t keys = 3 * line_pitch_ + rows * row_pitch_;
    line_ = reinterpret_cast<Key*>(scratch.reserve(keys * std::int64_t{sizeof(Key)}));
    even_ = line_ + line_pitch_;
    odd_ = even_ + line_pitch_;
    rows_ = odd_ + line_pitch_;
    std::fill_n(line_, line_pitch_, Keys<Key, kFloat>::kLowest);
  }

  // Rows first: where windows are strides apart, columns are then taken apart once for each row of results.
  HWY_INLINE void run() {
    for (std::size_t row = 0; row < channel_.inputs.size(); ++row) {
      encode_row(reinterpret_cast<const Key*>(channel_.inputs[row]),
                 rows_ + static_cast<std::int64_t>(row) * row_pitch_);
    }
    for (std::size_t row = 0; row < channel_.outputs.size(); ++row) {
      reduce_rows(channel_.rows[row]);
      reduce_columns(reinterpret_cast<Key*>(channel_.outputs[row]));
    }
  }

 private:
  using D = hn::ScalableTag<Key>;

  // With a vector of lowest keys behind.
  HWY_INLINE void encode_row(const Key* row, Key* target) {
    const D d;
    const std::int64_t columns = window_.columns;
    if (columns < n_) {
      HWY_ALIGN Key part[hn::MaxLanes(D())] = {};
      const std::int64_t rest = std::clamp<std::int64_t>(columns, 0, hn::MaxLanes(D()));
      std::copy_n(row, rest, part);
      hn::Store(keys_.encode(hn::Load(d, part)), d, part);
      std::fill(std::copy_n(part, rest, target), target + row_pitch_, Keys<Key, kFloat>::kLowest);
      return;
    }
    hn::StoreU(hn::Set(d, Keys<Key, kFloat>::kLowest), d, target + columns);
    for (std::int64_t at = 0; at < columns; at += n_) {
      const std::int64_t i =
          std::min(at, columns - n_);  // the last vector as far back as it is whole
      hn::StoreU(keys_.encode(hn::LoadU(d, row + i)), d, target + i);
    }
  }

  // Of every column under a row of windows, the largest key, into the line.
  HWY_INLINE void reduce_rows(const ExtremeRows& rows) {
    const D d;
    Key* const target = line_ + window_.pad_left;
    for (std::int64_t i = 0; i < window_.columns; i += n_) {
      auto best = hn::Set(d, Keys<Key, kFloat>::kLowest);
      const Key* row = rows_ + rows.first * row_pitch_ + i;
      for (std::int64_t k = 0; k < rows.count; ++k) {
        best = hn::Max(best, hn::LoadU(d, row));
        row += channel_.dilation_h * row_pitch_;
      }
      hn::StoreU(best, d, target + i);
    }
  }

  // Of every window, the largest key in the line.
  HWY_INLINE void reduce_columns(Key* output) {
    const D d;
    if (window_.stride_w == 2) split_line();
    for (std::int64_t at = 0; at < window_.output_columns; at += n_) {
      // The last vector as far back as it is whole.
      const std::int64_t i = std::max<std::int64_t>(0, std::min(at, window_.output_columns - n_));
      auto best = hn::Set(d, Keys<Key, kFloat>::kLowest);
      for (std::int64_t k = 0; k < window_.window_w; ++k) {
        const std::int64_t tap = k * window_.dilation_w;
        if (window_.stride_w == 1) {
          best = hn::Max(best, hn::LoadU(d, line_ + tap + i));
        } else if (window_.stride_w == 2) {
          best = hn::Max(best, hn::LoadU(d, (tap % 2 == 0 ? even_ : odd_) + tap / 2 + i));
        } else {
          best = hn::Max(best, strided(tap, i));
        }
      }
      const auto bits = keys_.decode(best);
      if (i + n_ <= window_.output_columns) {
        hn::StoreU(bits, d, output + i);
      } else {
        HWY_ALIGN Key part[hn::MaxLanes(D())];
        hn::Store(bits, d, part);
        std::memcpy(output + i, part,
                    static_cast<std::size_t>(window_.output_columns - i) * sizeof(Key));
      }
    }
  }

  HWY_INLINE void split_line() {
    std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
    const D d;
    for (; 2 * i < padded_; i += n_) {
      hn::Vec<D> even, odd;
      hn::LoadInterleaved2(d, line_ + 2 * i, even, odd);
      hn::StoreU(even, d, even_ + i);
      hn::StoreU(odd, d, odd_ + i);
    }
#endif
    for (; 2 * i < padded_; ++i) {
      even_[i] = line_[2 * i];
      odd_[i] = line_[2 * i + 1];
    }
  }

  HWY_INLINE hn::Vec<D> strided(std::int64_t tap, std::int64_t first) const {
    HWY_ALIGN Key part[hn::MaxLanes(D())] = {};
    const std::int64_t count = std::min(n_, window_.output_columns - first);
    for (std::int64_t i = 0; i < count; ++i) part[i] = line_[tap + (first + i) * window_.stride_w];
    return hn::Load(D(), part);
  }

  const ExtremeWindow& window_;
  const ExtremeChannel& channel_;
  const Keys<Key, kFloat> keys_;
  const std::int64_t n_ = static_cast<std::int64_t>(hn::Lanes(D()));
  std::int64_t padded_ = 0, line_pitch_ = 0, row_pitch_ = 0;
  Key *line_ = nullptr, *even_ = nullptr, *odd_ = nullptr, *rows_ = nullptr;
};

void pool_channel(const ExtremeWindow& window, const ExtremeChannel& channel,
                  AlignedBuffer<std::byte>& scratch) {
  switch (window.format) {
    case Format::kF16:
    case Format::kBf16:
      return ExtremePool<std::int16_t, true>(window, channel, scratch).run();
    case Format::kF32:
      return ExtremePool<std::int32_t, true>(window, channel, scratch).run();
    default:
      return ExtremePool<std::int8_t, false>(window, channel, scratch).run();
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::kernels {

HWY_EXPORT(pool_channel);

void extreme_channel(const ExtremeWindow& window, const ExtremeChannel& channel,
                     AlignedBuffer<std::byte>& scratch) {
  HWY_DYNAMIC_DISPATCH(pool_channel)(window, channel, scratch);
}

}  // namespace tessera::kernels
#endif  // HWY_ONCE
