// The register file of a task: one visitor names every field of a configuration in a fixed order,
// and that order is the register address. Encoder, decoder and firmware text use the same visitor,
// so they cannot disagree.
//
//   configuration ──visit──► registers[0..n) (32 bits each; 64-bit fields take two, low first)
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "isa/descriptor.h"

namespace tessera::isa {

// Calls visit(name, field) for every field. Fields are integers, floats, bools and enums.
template <typename V>
void visit_fields(V& visit, BufferSurface& s) {
  visit("offset", s.offset);
  visit("format", s.format);
  visit("images", s.images);
  visit("channels", s.channels);
  visit("rows", s.rows);
  visit("columns", s.columns);
  visit("block_pitch", s.block_pitch);
  visit("row_pitch", s.row_pitch);
  visit("column_pitch", s.column_pitch);
  visit("ring_rows", s.ring_rows);
  visit("broadcast_channels", s.broadcast_channels);
  visit("broadcast_images", s.broadcast_images);
  visit("broadcast_rows", s.broadcast_rows);
}

template <typename V>
void visit_fields(V& visit, Activation& a) {
  visit("function", a.function);
  visit("alpha", a.alpha);
  visit("beta", a.beta);
}

template <typename V>
void visit_fields(V& visit, LocalResponse& r) {
  visit("size", r.size);
  visit("alpha", r.alpha);
  visit("beta", r.beta);
  visit("bias", r.bias);
}

template <typename V>
void visit_fields(V& visit, Affine& a) {
  visit("enabled", a.enabled);
  visit("scale", a.scale);
  visit("zero_point", a.zero_point);
}

// Older fields of a product's matrix format; the later ones are behind those of the task.
template <typename V>
void visit_fields(V& visit, MatrixFormat& m) {
  visit("kind", m.kind);
  visit("native_dimension", m.native_dimension);
  visit("mantissa_bits_moving", m.mantissa_bits_moving);
  visit("mantissa_bits_stationary", m.mantissa_bits_stationary);
}

template <typename V>
void visit_fields(V& visit, KernelImageShape& k) {
  visit("channel_wise", k.channel_wise);
  visit("cut", k.cut);
  visit("groups", k.groups);
  visit("channels", k.channels);
  visit("output_channels", k.output_channels);
  visit("taps", k.taps);
  visit("rows", k.rows);
  visit("columns", k.columns);
  visit("format", k.format);
}

template <typename V>
void visit_fields(V& visit, ProductConfig& p) {
  visit.group("image", p.image);
  visit("kernel_h", p.kernel_h);
  visit("kernel_w", p.kernel_w);
  visit("stride_h", p.stride_h);
  visit("stride_w", p.stride_w);
  visit("pad_top", p.pad_top);
  visit("pad_left", p.pad_left);
  visit("dilation_h", p.dilation_h);
  visit("dilation_w", p.dilation_w);
  visit("input_dilation_h", p.input_dilation_h);
  visit("input_dilation_w", p.input_dilation_w);
  visit.group("matrix", p.matrix);
  visit("output_format", p.output_format);
  visit("has_bias", p.has_bias);
  visit("bias_format", p.bias_format);
  visit.group("activation", p.activation);
  visit("requantise", p.requantise);
  visit("output_zero_point", p.output_zero_point);
  visit("clamp_low", p.clamp_low);
  visit("clamp_high", p.clamp_high);
  visit("moving_zero_point", p.moving_zero_point);
}

template <typename V>
void visit_fields(V& visit, NeuralTask& t) {
  visit.group("product", t.product);
  visit.group("moving", t.moving);
  visit("moving_channel_first", t.moving_channel_first);
  visit.group("output", t.output);
  visit("output_channel_first", t.output_channel_first);
  visit("dynamic", t.dynamic);
  visit("kernel_offset", t.kernel_offset);
  visit("bias_offset", t.bias_offset);
  visit("multiplier_offset", t.multiplier_offset);
  visit("multiplier_count", t.multiplier_count);
  visit("zero_point_offset", t.zero_point_offset);
  visit("zero_point_count", t.zero_point_count);
  visit.group("stationary", t.stationary);
  visit("transpose", t.transpose);
  visit("stationary_channel_first", t.stationary_channel_first);
  MatrixFormat& matrix = t.product.matrix;
  visit("long_format", matrix.long_format);
  visit("element_moving", matrix.element_moving);
  visit("element_stationary", matrix.element_stationary);
  visit("micro_scale", matrix.micro_scale);
  visit.group("local_response", t.product.local_response);
  visit("correlate", t.product.correlate);
  visit("psum_keeps", t.psum.keeps);
  visit("psum_continues", t.psum.continues);
  visit("psum_first", t.psum.first);
}

template <typename V>
void visit_fields(V& visit, PoolConfig& p) {
  visit("function", p.function);
  visit("window_h", p.window_h);
  visit("window_w", p.window_w);
  visit("stride_h", p.stride_h);
  visit("stride_w", p.stride_w);
  visit("pad_top", p.pad_top);
  visit("pad_left", p.pad_left);
  visit("pad_bottom", p.pad_bottom);
  visit("pad_right", p.pad_right);
  visit("dilation_h", p.dilation_h);
  visit("dilation_w", p.dilation_w);
  visit("include_padding", p.include_padding);
  visit.group("input", p.input);
  visit.group("output", p.output);
}

template <typename V>
void visit_fields(V& visit, ElementwiseConfig& e) {
  visit("binary", e.binary);
  visit("function", e.function);
  visit.group("activation", e.activation);
  visit.group("inputs[0]", e.inputs[0]);
  visit.group("inputs[1]", e.inputs[1]);
  visit.group("output", e.output);
}

template <typename V>
void visit_fields(V& visit, ReduceConfig& r) {
  visit("function", r.function);
  visit("over_rows", r.over_rows);
  visit("over_columns", r.over_columns);
  visit.group("activation", r.activation);
  visit.group("input", r.input);
  visit.group("output", r.output);
}

template <typename V>
void visit_fields(V& visit, PlanarTask& t) {
  visit("mode", t.mode);
  visit.group("pool", t.pool);
  visit.group("elementwise", t.elementwise);
  visit.group("reduce", t.reduce);
  visit.group("inputs[0]", t.inputs[0]);
  visit.group("inputs[1]", t.inputs[1]);
  visit.group("output", t.output);
  visit("input_count", t.input_count);
  visit("continues", t.continues);
  visit("keeps", t.keeps);
  visit("accumulator_offset", t.accumulator_offset);
  visit.group("inputs[2]", t.inputs[2]);
  visit("gain_format", t.elementwise.gain_format);
  visit.group("pool_before", t.pool.before);
  visit.group("pool_after", t.pool.after);
  visit.group("reduce_before", t.reduce.before);
  visit("output_channel_first", t.output_channel_first);
}

template <typename V>
void visit_fields(V& visit, DramAddress& a) {
  visit("base", a.base);
  visit("offset", a.offset);
}

template <typename V>
void visit_fields(V& visit, TransferTask& t) {
  visit.group("address", t.dram.address);
  visit("stride_image", t.dram.strides[0]);
  visit("stride_channel", t.dram.strides[1]);
  visit("stride_row", t.dram.strides[2]);
  visit("stride_column", t.dram.strides[3]);
  visit.group("buffer", t.buffer);
  visit("channel_first", t.channel_first);
  visit("channel_count", t.channel_count);
}

inline constexpr std::size_t kCopyAxesMax = 8;

// A CopyTask with its axes in fixed places; unused axes have extent 0.
struct FlatCopyTask {
  CopyTask task;
  std::uint32_t axes = 0;
  std::int64_t extents[kCopyAxesMax] = {};
  std::int64_t source_strides[kCopyAxesMax] = {};
  std::int64_t destination_strides[kCopyAxesMax] = {};

  FlatCopyTask() = default;
  explicit FlatCopyTask(const CopyTask& source);
  CopyTask to_task() const;
};

template <typename V>
void visit_fields(V& visit, FlatCopyTask& t) {
  static constexpr const char* kExtentNames[kCopyAxesMax] = {
      "extent0", "extent1", "extent2", "extent3", "extent4", "extent5", "extent6", "extent7"};
  static constexpr const char* kSourceNames[kCopyAxesMax] = {
      "source_stride0", "source_stride1", "source_stride2", "source_stride3",
      "source_stride4", "source_stride5", "source_stride6", "source_stride7"};
  static constexpr const char* kDestinationNames[kCopyAxesMax] = {
      "destination_stride0", "destination_stride1", "destination_stride2", "destination_stride3",
      "destination_stride4", "destination_stride5", "destination_stride6", "destination_stride7"};
  visit("fill", t.task.fill);
  visit("fill_bits", t.task.fill_bits);
  visit("element_bytes", t.task.element_bytes);
  visit.group("source", t.task.source);
  visit.group("destination", t.task.destination);
  visit("axes", t.axes);
  for (std::size_t i = 0; i < kCopyAxesMax; ++i) {
    visit(kExtentNames[i], t.extents[i]);
    visit(kSourceNames[i], t.source_strides[i]);
    visit(kDestinationNames[i], t.destination_strides[i]);
  }
}

template <typename V>
void visit_fields(V& visit, KernelStream& s) {
  visit("element_bytes", s.element_bytes);
  visit("zero_mask", s.zero_mask);
  visit("palette_bits", s.palette_bits);
  visit("palette_entries", s.palette_entries);
  visit("image_bytes", s.image_bytes);
  visit("stored_bytes", s.stored_bytes);
}

template <typename V>
void visit_fields(V& visit, KernelTask& t) {
  visit.group("source", t.source);
  visit("dram_pitch", t.dram_pitch);
  visit("partitions", t.partitions);
  visit("bytes_per_partition", t.bytes_per_partition);
  visit("kernel_offset", t.kernel_offset);
  visit.group("stream", t.stream);
}

template <typename V>
void visit_fields(V& visit, MessageTask& t) {
  visit("kind", t.kind);
  visit("queue", t.queue);
  visit_fields(visit, t.transfer);
  visit.group("image", t.image);
  visit("kernel_offset", t.kernel_offset);
}

// The largest allowed enumerator of an enum field, for the decoder's check.
template <typename E>
constexpr std::uint32_t enum_max();
template <>
constexpr std::uint32_t enum_max<Format>() {
  return kFormatCount - 1;
}
template <>
constexpr std::uint32_t enum_max<UnaryFunction>() {
  return kUnaryFunctionCount - 1;
}
template <>
constexpr std::uint32_t enum_max<BinaryFunction>() {
  return kBinaryFunctionCount - 1;
}
template <>
constexpr std::uint32_t enum_max<ReduceFunction>() {
  return kReduceFunctionCount - 1;
}
template <>
constexpr std::uint32_t enum_max<PoolFunction>() {
  return kPoolFunctionCount - 1;
}
template <>
constexpr std::uint32_t enum_max<MatrixKind>() {
  return 3;
}
template <>
constexpr std::uint32_t enum_max<LongFormat>() {
  return 1;
}
template <>
constexpr std::uint32_t enum_max<MicroElement>() {
  return kMicroElementCount - 1;
}
template <>
constexpr std::uint32_t enum_max<MicroScale>() {
  return 2;
}
template <>
constexpr std::uint32_t enum_max<BlockCut>() {
  return 1;
}
template <>
constexpr std::uint32_t enum_max<PlanarMode>() {
  return kPlanarModeNames.size() - 1;
}
template <>
constexpr std::uint32_t enum_max<MessageKind>() {
  return kMessageKindNames.size() - 1;
}
template <>
constexpr std::uint32_t enum_max<BaseIndex>() {
  return kBaseIndexCount - 1;
}

// Writes every field to 32-bit registers.
class RegisterWriter {
 public:
  template <typename T>
  void operator()(const char*, T& field) {
    if constexpr (std::is_enum_v<T>) {
      registers_.push_back(static_cast<std::uint32_t>(field));
    } else if constexpr (std::is_same_v<T, float>) {
      registers_.push_back(std::bit_cast<std::uint32_t>(field));
    } else {
      const auto bits = static_cast<std::uint64_t>(field);
      registers_.push_back(static_cast<std::uint32_t>(bits));
      if constexpr (sizeof(T) == 8) registers_.push_back(static_cast<std::uint32_t>(bits >> 32));
    }
  }
  template <typename T>
  void group(const char*, T& fields) {
    visit_fields(*this, fields);
  }
  std::vector<std::uint32_t> take() { return std::move(registers_); }

 private:
  std::vector<std::uint32_t> registers_;
};

// Reads every field back; the first field out of range is remembered by name.
class RegisterReader {
 public:
  explicit RegisterReader(const std::vector<std::uint32_t>& registers) : registers_(registers) {}

  template <typename T>
  void operator()(const char* name, T& field) {
    const std::uint32_t low = registers_[next_++];
    if constexpr (std::is_enum_v<T>) {
      if (low > enum_max<T>()) {
        fail(name, low, enum_max<T>());
      } else {
        field = static_cast<T>(low);
      }
    } else if constexpr (std::is_same_v<T, bool>) {
      if (low > 1) fail(name, low, 1);
      field = low != 0;
    } else if constexpr (std::is_same_v<T, float>) {
      field = std::bit_cast<float>(low);
    } else if constexpr (sizeof(T) == 8) {
      const std::uint64_t high = registers_[next_++];
      field = static_cast<T>(high << 32 | low);
    } else if constexpr (sizeof(T) == 1) {
      if (low > 255) fail(name, low, 255);
      field = static_cast<T>(low);
    } else {
      field = static_cast<T>(low);
    }
  }
  template <typename T>
  void group(const char*, T& fields) {
    visit_fields(*this, fields);
  }
  const std::string& error() const { return error_; }  // empty: all in range

 private:
  void fail(const char* name, std::uint32_t found, std::uint32_t allowed_max);

  const std::vector<std::uint32_t>& registers_;
  std::size_t next_ = 0;
  std::string error_;
};

template <typename T>
std::vector<std::uint32_t> to_registers(T fields) {
  RegisterWriter writer;
  visit_fields(writer, fields);
  return writer.take();
}

}  // namespace tessera::isa
