// Channel-wise (depthwise) convolution: one input channel per output channel, not quantised.
//
//   f16, bf16   binary32 sums in kernel order, bias first, every product and every sum rounded
//   f32         the same in binary64
//   i8, u8      int32
//
// Samples of a band of output rows are widened into planes that are padded such that every tap lies
// at a fixed distance. The usual cases go from there to what is stored in vectors
// (channel_wise_band.h); for others the band is one long row.
//
// Where input samples lie apart (input dilation, as in a resize by a whole factor), outputs fall into
// phases of which each reads some of the taps (taps.h). All phases read the same planes; those of a row
// are put together before they are stored.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>

#include "arith/kernels/channel_wise_band.h"
#include "arith/kernels/direct_sum.h"
#include "arith/kernels/float_panel.h"
#include "arith/kernels/product_kinds.h"
#include "arith/kernels/taps.h"
#include "arith/rounding.h"
#include "base/check.h"
#include "base/quantity.h"

namespace tessera::kernels {
namespace {

constexpr std::int64_t kChunkPixels = 512;  // what channel_wise_row() takes
constexpr std::int64_t kTapsMax = 512;
constexpr std::int64_t kBandLanes = 8192;  // sums of a band of rows: its samples fit the cache
constexpr std::int64_t kSlack = 64;
constexpr std::int32_t kOutputZeroPointMax = 1 << 16;
// Sums of products of two differences of 8-bit numbers are exact in binary32 up to here.
constexpr std::int64_t kIntegerTapsMax = 256;

class ChannelWiseProduct final : public Product {
 public:
  ChannelWiseProduct(const ProductConfig& config, PlainWeights weights, ProductVectors vectors)
      : config_(config),
        vectors_(std::move(vectors)),
        weights_(std::move(weights)),
        integer_(config.matrix.kind == MatrixKind::kInteger),
        clamp_(fused_clamp(config)) {
    TESSERA_CHECK(config.image.channels == 1, "channel-wise with {} channels a group",
                  config.image.channels);
    const std::int64_t outputs = config.image.groups * config.image.output_channels;
    for (std::int64_t oc = 0; oc < outputs; ++oc) {
      const int zero_point = integer_ ? vector_element(vectors_.stationary_zero_points, oc, 0) : 0;
      for (std::int64_t tap = 0; tap < weights_.terms; ++tap) {
        const double weight = arith::read_element(weights_.format, weights_.at(oc, tap));
        floats_.push_back(static_cast<float>(weight - zero_point));
      }
    }
    apart_ = config.input_dilation_h != 1 || config.input_dilation_w != 1;
    direct_ = weights_.terms > (integer_ ? kIntegerTapsMax : kTapsMax) ||
              (apart_ && (config.stride_h != 1 || config.stride_w != 1)) ||
              (!integer_ && !all_finite(weights_));
    if (!direct_) find_phases();
    if (direct_ || integer_) clamp_ = {};
    if (clamp_.fused) config_.activation = {};
  }

  void run(const Surface& input, const Surface& output, std::int64_t output_channel_first,
           RowRange rows, ProductWorkspace& workspace) const override {
    TESSERA_CHECK(output.format == config_.output_format, "output surface in {}, expected {}",
                  format_name(output.format), format_name(config_.output_format));
    const Call call = {input, output, output_channel_first, workspace};
    const bool usual = is_usual(input);
    if (direct_ || (apart_ && !usual)) {
      for (std::int64_t channel = 0; channel < config_.image.groups; ++channel) {
        run_direct(call, channel, rows);
      }
      return;
    }
    const std::int64_t apart = config_.input_dilation_h;
    const Plane shape(loads_, ceil_div(output.columns, config_.input_dilation_w), 1);
    const std::int64_t step = std::max<std::int64_t>(1, kBandLanes / shape.columns) * apart;
    // Bands begin where the first phase does.
    for (std::int64_t row = rows.first; row < rows.last;) {
      const RowRange band = {row, std::min(rows.last, row / apart * apart + step)};
      usual ? run_usual_band(call, band) : run_band(call, band);
      row = band.last;
    }
  }

 private:
  struct Call {
    const Surface& input;
    const Surface& output;
    std::int64_t output_channel_first;
    ProductWorkspace& workspace;
  };

  // The padded input of a band of output rows, one plane for each phase of the strides, so that a
  // tap reads output (r, c) at a fixed distance from place r * columns + c. The places behind the
  // last output column of a row give sums that are not stored.
  struct Plane {
    std::int64_t columns = 0;  // of a plane
    std::int64_t rows = 0;
    std::int64_t planes = 0;

    Plane(const ProductConfig& config, std::int64_t output_columns, std::int64_t output_rows)
        : columns(output_columns + (config.kernel_w - 1) * config.dilation_w / config.stride_w),
          rows(output_rows + (config.kernel_h - 1) * config.dilation_h / config.stride_h),
          planes(config.stride_h * config.stride_w) {}

    std::int64_t pitch() const { return rows * columns + kBandSlack; }
    std::int64_t total() const { return planes * pitch(); }
    std::int64_t place(const ProductConfig& config, std::int64_t row, std::int64_t column) const {
      const std::int64_t plane = row % config.stride_h * config.stride_w + column % config.stride_w;
      return plane * pitch() + row / config.stride_h * columns + column / config.stride_w;
    }
  };

  // Every input_dilation_h-th output row and input_dilation_w-th column, with the taps that they read.
  struct Phase {
    std::vector<std::int64_t> tap_rows, tap_columns;  // in the padded input, of output j = 0
    std::vector<float> weights;                       // [output channel][tap]
  };

  void find_phases() {
    const TapAxis rows = TapAxis::rows(config_), columns = TapAxis::columns(config_);
    const auto first_sample = [](const TapAxis& axis) {
      std::int64_t first = INT64_MAX;
      for (std::int64_t phase = 0; phase < axis.input_dilation; ++phase) {
        for (const Tap& tap : axis.taps(phase)) first = std::min(first, tap.offset);
      }
      return first;
    };
    const std::int64_t top = first_sample(rows), left = first_sample(columns);
    loads_ = config_;
    loads_.pad_top = -top;
    loads_.pad_left = -left;
    loads_.kernel_h = loads_.kernel_w = 1;
    loads_.dilation_h = loads_.dilation_w = 1;
    loads_.input_dilation_h = loads_.input_dilation_w = 1;
    for (std::int64_t row = 0; row < rows.input_dilation; ++row) {
      for (std::int64_t column = 0; column < columns.input_dilation; ++column) {
        Phase& phase = phases_.emplace_back();
        std::vector<std::int64_t> taps;
        for (const Tap& y : rows.taps(row)) {
          for (const Tap& x : columns.taps(column)) {
            phase.tap_rows.push_back(y.offset - top);
            phase.tap_columns.push_back(x.offset - left);
            taps.push_back(y.index * config_.kernel_w + x.index);
            loads_.kernel_h = std::max(loads_.kernel_h, phase.tap_rows.back() + 1);
            loads_.kernel_w = std::max(loads_.kernel_w, phase.tap_columns.back() + 1);
          }
        }
        for (std::size_t first = 0; first < floats_.size();
             first += static_cast<std::size_t>(weights_.terms)) {
          for (const std::int64_t tap : taps) {
            phase.weights.push_back(floats_[first + static_cast<std::size_t>(tap)]);
          }
        }
      }
    }
  }

  // How a band of a phase is summed, the same for every channel.
  class BandPlan {
   public:
    // `rows` and `columns` of the phase.
    BandPlan(const ProductConfig& config, const ProductConfig& loads, const Phase& phase,
             const Plane& plane, std::int64_t rows, std::int64_t columns)
        : config_(config), columns_(columns) {
      constexpr auto kRows = static_cast<std::int64_t>(kBandGroup);
      const auto place = [&](std::int64_t row, std::int64_t column) {
        return static_cast<std::int32_t>(plane.place(loads, row, column));
      };
      for (std::size_t tap = 0; tap < phase.tap_rows.size(); ++tap) {
        taps_.push_back(place(phase.tap_rows[tap], phase.tap_columns[tap]));
      }
      const bool dense = config.dilation_h == 1 && config.dilation_w == 1 &&
                         config.input_dilation_h == 1 && config.input_dilation_w == 1;
      squares_ = rows >= kRows && dense &&
                 is_square_kernel(config.kernel_h, config.kernel_w, config.stride_h);
      if (squares_) {
        for (std::int64_t i = 0; i < square_input_rows(config.kernel_h, config.stride_h); ++i) {
          input_rows_.push_back(place(i, 0));
        }
      }
      const std::int64_t n = band_vector_lanes();
      const std::int64_t step = squares_ ? kRows : 1;
      for (std::int64_t next = 0; next < rows; next += step) {
        // The last group may have rows of the one before it.
        const std::int64_t row = std::min(next, rows - step);
        // From the last column on: what a vector stores beyond its row is stored again.
        for (std::int64_t i = ceil_div(columns, n) - 1; i >= 0; --i) {
          const std::int64_t column = squares_ ? i * n : (ceil_div(columns, n) - 1 - i) * n;
          vectors_.push_back({static_cast<std::int32_t>(row * plane.columns + column),
                              static_cast<std::int32_t>(row * columns + column)});
        }
      }
      while (!squares_ && vectors_.size() % kBandGroup != 0) vectors_.push_back(vectors_.back());
    }

    BandSums sums() const {
      return {.taps = taps_,
              .vectors = vectors_,
              .squares = squares_,
              .kernel = config_.kernel_h,
              .stride_h = config_.stride_h,
              .input_rows = input_rows_,
              .output_pitch = static_cast<std::int32_t>(columns_)};
    }

   private:
    const ProductConfig& config_;
    std::int64_t columns_;
    bool squares_ = false;
    std::vector<std::int32_t> taps_, input_rows_;
    std::vector<BandVector> vectors_;
  };

  // What channel_wise_band.h does in one go.
  bool is_usual(const Surface& input) const {
    if (config_.stride_w > 2 || (config_.stride_w == 2 && config_.pad_left < 0) ||
        input.column_pitch != format_bytes(input.format)) {
      return false;
    }
    const Format out = config_.output_format;
    if (!integer_) return input.format == Format::kF16 && out == Format::kF16;
    return config_.requantise && (out == Format::kI8 || out == Format::kU8) &&
           std::abs(config_.output_zero_point) <= kOutputZeroPointMax;
  }

  void run_usual_band(const Call& call, RowRange rows) const {
    ProductWorkspace& workspace = call.workspace;
    const std::int64_t apart_h = config_.input_dilation_h, apart_w = config_.input_dilation_w;
    // Of a phase.
    const RowRange some = {rows.first / apart_h, ceil_div(rows.last, apart_h)};
    const std::int64_t row_count = some.last - some.first;
    const std::int64_t columns = ceil_div(call.output.columns, apart_w);
    const Plane plane(loads_, columns, row_count);
    const std::int64_t floats = plane.total() + kSlack;
    float* samples = workspace.floats.reserve(floats);
    std::fill_n(samples, floats, 0.0f);
    std::vector<BandPlan> plans;
    plans.reserve(phases_.size());
    for (const Phase& phase : phases_) {
      plans.emplace_back(config_, loads_, phase, plane, row_count, columns);
    }
    OutputBatch& batch = workspace.batch;
    batch.lanes = row_count * columns * apart_w;
    const bool runs_stay = apart_h == 1;
    if (runs_stay) set_runs(call, rows, 0);
    for (std::int64_t channel = 0; channel < config_.image.groups; ++channel) {
      load_band(call, channel, some, plane);
      for (std::int64_t m = 0; m < config_.image.output_channels; ++m) {
        for (std::int64_t row = 0; row < apart_h; ++row) {
          if (!runs_stay) set_runs(call, rows, row);
          store_row_phase(call, channel * config_.image.output_channels + m, row, plans);
        }
      }
    }
    batch.lanes = 0;
    batch.runs.clear();
  }

  // Where the output rows of a phase go that are within `rows`.
  void set_runs(const Call& call, RowRange rows, std::int64_t phase) const {
    const std::int64_t apart = config_.input_dilation_h;
    const std::int64_t pitch = round_up(call.output.columns, config_.input_dilation_w);
    PixelRuns& runs = call.workspace.batch.runs;
    runs.clear();
    for (std::int64_t i = rows.first / apart; i * apart + phase < rows.last; ++i) {
      const std::int64_t row = i * apart + phase;
      if (row < rows.first) continue;
      runs.add({.first = (i - rows.first / apart) * pitch,
                .count = call.output.columns,
                .offset = row_offset(call.output, row),
                .step = call.output.column_pitch});
    }
  }

  // The phases of the columns, put together.
  void store_row_phase(const Call& call, std::int64_t oc, std::int64_t row,
                       const std::vector<BandPlan>& plans) const {
    ProductWorkspace& workspace = call.workspace;
    const OutputBatch& batch = workspace.batch;
    const std::int64_t element = format_bytes(config_.output_format);
    const std::int64_t apart = config_.input_dilation_w;
    const std::int64_t count = batch.lanes / apart;
    const std::int64_t pitch = (count + kSlack) * element;
    std::byte* const parts = workspace.lanes.reserve(apart * pitch);
    for (std::int64_t column = 0; column < apart; ++column) {
      const auto phase = static_cast<std::size_t>(row * apart + column);
      sum_band(call, oc, phases_[phase], plans[phase], parts + column * pitch);
    }
    std::byte* lanes = parts;
    if (apart > 1) {
      lanes = workspace.patch.reserve(batch.lanes * element);
      interleave({parts, pitch, apart, count}, element, lanes);
    }
    std::byte* const target = channel_base(call.output, call.output_channel_first + oc);
    if (integer_) {
      scatter(lanes, batch.runs, 1, target);
    } else {
      store_channel(config_, batch, lanes, target);
    }
  }

  // Where the samples of a row go: in the planes of a phase of the rows.
  SampleRows sample_rows(const Call& call, const Plane& plane, std::int64_t phase) const {
    const std::int64_t columns = call.input.columns, pad = loads_.pad_left;
    float* const samples = call.workspace.floats.data() + plane.place(loads_, phase, 0);
    SampleRows rows = {.format = call.input.format,
                       .zero_point = config_.moving_zero_point,
                       .count = columns,
                       .target_pitch = plane.columns};
    if (config_.stride_w == 1) {
      // A padding below 0 leaves out samples.
      const std::int64_t skipped = std::min(columns, std::max<std::int64_t>(0, -pad));
      rows.count -= skipped;
      rows.target = samples + pad + skipped;
      rows.target_count = std::min(rows.count, plane.columns - pad - skipped);
      return rows;
    }
    // Place c of phase p holds sample 2 c + p - pad.
    const auto place = [&](std::int64_t first_sample, std::int64_t& count) {
      const std::int64_t column_phase = (pad + first_sample) % 2;
      const std::int64_t first = (pad + first_sample - column_phase) / 2;
      count = std::min((columns + 1 - first_sample) / 2, plane.columns - first);
      return samples + column_phase * plane.pitch() + first;
    };
    rows.target = place(0, rows.target_count);
    rows.odd = place(1, rows.odd_count);
    return rows;
  }

  // Rows outside the input stay the zeros they are.
  void load_band(const Call& call, std::int64_t channel, RowRange rows, const Plane& plane) const {
    const Surface& input = call.input;
    const std::int64_t element = format_bytes(input.format);
    const std::int64_t first = rows.first * config_.stride_h - loads_.pad_top;
    const std::int64_t begin = std::max<std::int64_t>(0, -first);
    const std::int64_t end = std::min(plane.rows * config_.stride_h, input.rows - first);
    const bool dense = input.row_origin == 0 && input.ring_rows >= input.rows &&
                       input.row_pitch == input.columns * element &&
                       input.partition_pitch == input.rows * input.row_pitch &&
                       input.channels <= input.partitions;
    const std::byte* const base = channel_base(input, channel);
    for (std::int64_t phase = 0; phase < config_.stride_h; ++phase) {
      const std::int64_t from =
          begin + (phase + config_.stride_h - begin % config_.stride_h) % config_.stride_h;
      if (from >= end) continue;
      SampleRows part = sample_rows(call, plane, phase);
      const std::int64_t skipped_bytes = (input.columns - part.count) * element;
      const std::int64_t skipped = from / config_.stride_h * plane.columns;
      part.target += skipped;
      if (part.odd != nullptr) part.odd += skipped;
      const std::int64_t count = ceil_div(end - from, config_.stride_h);
      if (dense) {
        part.source = base + (first + from) * input.row_pitch + skipped_bytes;
        part.source_pitch = config_.stride_h * input.row_pitch;
        part.end = input.base + input.channels * input.partition_pitch;
        part.rows = count;
        load_sample_rows(part);
        continue;
      }
      part.rows = 1;
      for (std::int64_t i = 0; i < count; ++i) {
        part.source = base + row_offset(input, first + from + i * config_.stride_h) + skipped_bytes;
        part.end = part.source + part.count * element;
        load_sample_rows(part);
        part.target += plane.columns;
        if (part.odd != nullptr) part.odd += plane.columns;
      }
    }
  }

  void sum_band(const Call& call, std::int64_t oc, const Phase& phase, const BandPlan& plan,
                std::byte* lanes) const {
    BandSums sums = plan.sums();
    sums.samples = call.workspace.floats.data();
    sums.weights = phase.weights.data() + oc * std::ssize(phase.tap_rows);
    if (!integer_) {
      sum_half_band(sums,
                    {.bias = static_cast<float>(bias_of(oc)),
                     .clamps = clamp_.fused,
                     .lowest = clamp_.lowest,
                     .highest = clamp_.highest},
                    reinterpret_cast<std::uint16_t*>(lanes));
      return;
    }
    const arith::IntegerRange range = arith::integer_range(config_.output_format);
    const auto within = [&](std::int32_t bound) {
      return static_cast<std::int32_t>(
          std::clamp<std::int64_t>(bound, range.lowest, range.highest));
    };
    std::int32_t bias = 0;
    if (config_.has_bias) std::memcpy(&bias, vectors_.bias.data() + oc * 4, sizeof bias);
    sum_byte_band(sums,
                  {.bias = bias,
                   .multiplier = vector_element(vectors_.multipliers, oc, 1.0f),
                   .output_zero_point = config_.output_zero_point,
                   .lowest = within(config_.clamp_low),
                   .highest = within(config_.clamp_high),
                   .to_unsigned = config_.output_format == Format::kU8},
                  lanes);
  }

  void run_band(const Call& call, RowRange rows) const {
    const Plane plane(config_, call.output.columns, rows.last - rows.first);
    const std::int64_t lanes = (rows.last - rows.first) * plane.columns;
    // A tap's last whole vector may reach behind the planes.
    const std::int64_t floats = plane.total() + lanes + kSlack;
    float* samples = call.workspace.floats.reserve(floats + 2 * (call.input.columns + kSlack));
    float* line = samples + floats;
    float* other = line + call.input.columns + kSlack;
    std::fill_n(samples, floats, 0.0f);
    OutputBatch& batch = call.workspace.batch;
    batch.lanes = lanes;
    batch.runs.clear();
    for (std::int64_t row = rows.first; row < rows.last; ++row) {
      batch.runs.add({.first = (row - rows.first) * plane.columns,
                      .count = call.output.columns,
                      .offset = row_offset(call.output, row),
                      .step = call.output.column_pitch});
    }
    std::vector<const float*> taps;
    for (std::int64_t ky = 0; ky < config_.kernel_h; ++ky) {
      for (std::int64_t kx = 0; kx < config_.kernel_w; ++kx) {
        taps.push_back(samples +
                       plane.place(config_, ky * config_.dilation_h, kx * config_.dilation_w));
      }
    }
    for (std::int64_t channel = 0; channel < config_.image.groups; ++channel) {
      load_planes(call, channel, rows, plane, {samples, line, other});
      for (std::int64_t m = 0; m < config_.image.output_channels; ++m) {
        store_sums(call, channel * config_.image.output_channels + m, taps);
      }
    }
    batch.lanes = 0;
    batch.runs.clear();
  }

  struct PlaneMemory {
    float* samples;
    float* line;   // one input row
    float* other;  // samples that are not used
  };

  // Rows outside the input stay the zeros they are.
  void load_planes(const Call& call, std::int64_t channel, RowRange rows, const Plane& plane,
                   const PlaneMemory& memory) const {
    const std::int64_t first = rows.first * config_.stride_h - config_.pad_top;
    const std::int64_t begin = std::max<std::int64_t>(0, -first);
    const std::int64_t end = std::min(plane.rows * config_.stride_h, call.input.rows - first);
    for (std::int64_t row = begin; row < end; ++row) {
      if (config_.stride_w == 1) {
        // Place c holds sample c - pad.
        const std::int64_t from = std::max<std::int64_t>(0, config_.pad_left);
        const std::int64_t to = std::min(plane.columns, call.input.columns + config_.pad_left);
        if (from < to) {
          load_samples(call, {channel, first + row, from - config_.pad_left, to - from},
                       memory.samples + plane.place(config_, row, 0) + from);
        }
        continue;
      }
      load_samples(call, {channel, first + row, 0, call.input.columns}, memory.line);
      for (std::int64_t phase = 0; phase < config_.stride_w; ++phase) {
        spread_line(call, row, phase, plane, memory);
      }
    }
  }

  // Every stride-th sample of a line. Place `c` of the phase holds sample c * stride + phase - pad.
  void spread_line(const Call& call, std::int64_t row, std::int64_t phase, const Plane& plane,
                   const PlaneMemory& memory) const {
    const std::int64_t stride = config_.stride_w;
    const std::int64_t shift = phase - config_.pad_left;
    const std::int64_t from = shift >= 0 ? 0 : ceil_div(-shift, stride);
    const std::int64_t room = call.input.columns - shift;
    const std::int64_t to = std::min(plane.columns, room <= 0 ? 0 : ceil_div(room, stride));
    if (from >= to) return;
    float* target = memory.samples + plane.place(config_, row, phase);
    const float* source = memory.line + shift;
    std::int64_t c = from;
    if (stride == 2) {
      // The last sample may have no partner.
      const std::int64_t pairs = to - from - 1;
      split_even_odd(source + 2 * from, pairs, target + from, memory.other);
      c += pairs;
    }
    for (; c < to; ++c) target[c] = source[c * stride];
  }

  // Samples of one input row.
  struct LinePart {
    std::int64_t channel, row, first, count;
  };
  void load_samples(const Call& call, const LinePart& part, float* target) const {
    const Format format = call.input.format;
    const std::int64_t element = format_bytes(format);
    const std::byte* source = channel_base(call.input, part.channel) +
                              row_offset(call.input, part.row) +
                              part.first * call.input.column_pitch;
    if (call.input.column_pitch != element) {
      PixelRuns& samples = call.workspace.samples;
      samples.clear();
      samples.add({.first = 0, .count = part.count, .offset = 0, .step = call.input.column_pitch});
      std::byte* packed = call.workspace.scratch.reserve(part.count * element);
      gather(source, samples, element, packed);
      source = packed;
    }
    if (!integer_) return widen_to_floats(format, source, part.count, target);
    widen_bytes_to_floats(format, source, part.count, config_.moving_zero_point, target);
  }

  double bias_of(std::int64_t oc) const {
    if (!config_.has_bias || integer_) return 0.0;
    return arith::read_element(config_.bias_format,
                               vectors_.bias.data() + oc * format_bytes(config_.bias_format)) +
           0.0;  // -0 is read as +0
  }

  void store_sums(const Call& call, std::int64_t oc, const std::vector<const float*>& taps) const {
    OutputBatch& batch = call.workspace.batch;
    const Format format = integer_ ? Format::kF32 : call.output.format;
    std::byte* lanes = call.workspace.lanes.reserve((batch.lanes + kSlack) * 8);
    ChannelWiseRow sums = {.taps = taps,
                           .weights = floats_.data() + oc * weights_.terms,
                           .bias = bias_of(oc),
                           .wide = call.input.format == Format::kF32,
                           .exact_products = integer_ || call.input.format == Format::kF16,
                           .format = format,
                           .first = 0,
                           .count = 0,
                           .clamps = clamp_.fused,
                           .lowest = clamp_.lowest,
                           .highest = clamp_.highest};
    for (; sums.first < batch.lanes; sums.first += kChunkPixels) {
      sums.count = std::min(kChunkPixels, batch.lanes - sums.first);
      channel_wise_row(sums, lanes + sums.first * format_bytes(format));
    }
    store_batch(call, oc, lanes);
  }

  // `lanes` are elements of the output format, or for integers whole numbers in binary32.
  void store_batch(const Call& call, std::int64_t oc, std::byte* lanes) const {
    ProductWorkspace& workspace = call.workspace;
    std::byte* target = channel_base(call.output, call.output_channel_first + oc);
    if (!integer_) return store_channel(config_, workspace.batch, lanes, target);
    std::int32_t* sums = workspace.integer_sums.reserve(workspace.batch.lanes);
    const auto* values = reinterpret_cast<const float*>(lanes);
    for (std::int64_t i = 0; i < workspace.batch.lanes; ++i) {
      sums[i] = static_cast<std::int32_t>(values[i]);
    }
    store_integer_channel(config_, vectors_, oc, workspace.batch, sums, workspace.scratch, target);
  }

  // One element at a time.
  void run_direct(const Call& call, std::int64_t channel, RowRange rows) const {
    for (std::int64_t m = 0; m < config_.image.output_channels; ++m) {
      const std::int64_t oc = channel * config_.image.output_channels + m;
      for (std::int64_t row = rows.first; row < rows.last; ++row) {
        for (std::int64_t column = 0; column < call.output.columns; ++column) {
          direct_element(call, {channel, oc, row, column});
        }
      }
    }
  }

  void direct_element(const Call& call, const OutputElement& element) const {
    OutputBatch& batch = call.workspace.batch;
    batch.lanes = 1;
    batch.runs.clear();
    batch.runs.add(
        {.first = 0,
         .count = 1,
         .offset = row_offset(call.output, element.row) + element.column * call.output.column_pitch,
         .step = 0});
    const std::int64_t oc = element.output_channel;
    std::byte* target = channel_base(call.output, call.output_channel_first + oc);
    if (integer_) {
      std::uint32_t sum = 0;
      const int zero_point = vector_element(vectors_.stationary_zero_points, oc, 0);
      for_each_term(config_, weights_, call.input, element, [&](double x, double w) {
        sum += static_cast<std::uint32_t>((static_cast<int>(x) - config_.moving_zero_point) *
                                          (static_cast<int>(w) - zero_point));
      });
      auto signed_sum = static_cast<std::int32_t>(sum);
      store_integer_channel(config_, vectors_, oc, batch, &signed_sum, call.workspace.scratch,
                            target);
    } else {
      double sum = bias_of(oc);
      const bool wide = call.input.format == Format::kF32;
      for_each_term(config_, weights_, call.input, element, [&](double x, double w) {
        if (wide) {
          sum += x * w;
        } else {
          const float product = static_cast<float>(x) * static_cast<float>(w);
          sum = static_cast<float>(sum) + product;
        }
      });
      std::uint64_t lanes = 0;
      arith::write_element(call.output.format, sum, &lanes);
      store_channel(config_, batch, &lanes, target);
    }
    batch.lanes = 0;
    batch.runs.clear();
  }

  ProductConfig config_;
  ProductVectors vectors_;
  PlainWeights weights_;
  bool integer_ = false;
  bool apart_ = false;  // input samples lie apart
  bool direct_ = false;
  ProductConfig
      loads_;  // the padded input: a kernel that reaches over all taps of all phases, dense
  std::vector<Phase> phases_;  // [row][column] of the first output
  FusedClamp clamp_;           // then config_ has no activation
  std::vector<float> floats_;
};

}  // namespace

std::shared_ptr<const Product> make_channel_wise_product(const ProductConfig& config,
                                                         PlainWeights weights,
                                                         ProductVectors vectors) {
  return std::make_shared<ChannelWiseProduct>(config, std::move(weights), std::move(vectors));
}

}  // namespace tessera::kernels
