#include "isa/planar_modes.h"

#include <fmt/format.h>

#include <algorithm>

#include "isa/rows_read.h"

namespace tessera::isa {
namespace {

constexpr std::int64_t kBitsOfAByte = 8;

Error bad(std::string message) { return {ErrorCode::kInvalidModel, std::move(message)}; }

Status require(bool condition, const char* what) {
  if (!condition) return bad(what);
  return {};
}

// Accumulators of a part are read before its elements, written behind them.
void add_accumulators(const PlanarTask& task, PlanarWork& work) {
  work.accumulators = work.output_elements * (int{task.continues} + int{task.keeps});
  if (task.keeps) work.output_elements = 0;
}

Status check_affine(const Affine& affine, Format format) {
  return require(!affine.enabled || (format_is_affine(format) && affine.scale > 0.0f),
                 "a scale belongs to integers of at most 32 bits and is greater than 0");
}

// Pooling and reduction take elements of at most 32 bits; 64 bits are only converted.
Status check_filter_formats(const PlanarTask& task) {
  const auto fits = [](Format format) {
    return format_bytes(format) <= 4 && format != Format::kBool;
  };
  return require(fits(task.inputs[0].format) && fits(task.output.format),
                 "pooling and reduction take numbers of at most 32 bits");
}

// A converter in front of a filter has comparators and one multiply-add; it and the one behind
// work on floats.
Status check_filter_functions(const PlanarTask& task, const Activation& before,
                              const Activation& after, bool affine) {
  const bool none = before == Activation{} && after == Activation{};
  TESSERA_RETURN_IF_ERROR(
      require(none || !affine, "functions around a filter of integers with a scale"));
  TESSERA_RETURN_IF_ERROR(
      require(unary_row(before.function).kind == UnaryKind::kLine,
              "the converter in front of a filter compares, multiplies and adds only"));
  const auto fits = [](const Activation& function, const BufferSurface& surface) {
    return function.function == UnaryFunction::kIdentity || format_is_vector(surface.format);
  };
  return require(fits(before, task.inputs[0]) && fits(after, task.output),
                 "functions around a filter take and give floats of at most 32 bits");
}

Status check_window(const PoolConfig& pool, const PlanarEngineConfig& limits) {
  const std::int64_t counts[] = {pool.stride_h, pool.stride_w, pool.dilation_h, pool.dilation_w};
  for (const std::int64_t count : counts) {
    if (count < 1 || count > kExtentMax) return bad("a pooling extent is out of range");
  }
  const std::int64_t pads[] = {pool.pad_top, pool.pad_left, pool.pad_bottom, pool.pad_right};
  for (const std::int64_t pad : pads) {
    if (pad < -kExtentMax || pad > kExtentMax) return bad("a padding is out of range");
  }
  const std::int64_t rows = (pool.window_h - 1) * pool.dilation_h + 1;
  const std::int64_t columns = (pool.window_w - 1) * pool.dilation_w + 1;
  if (pool.window_h < 1 || pool.window_w < 1) return bad("a pooling extent is out of range");
  return check_window_extents(rows, columns, limits);
}

// Output extents of a reduction: 1 on reduced axes, the input's on the others.
Status check_reduction(const PlanarTask& task) {
  const BufferSurface& in = task.inputs[0];
  const BufferSurface& out = task.output;
  return require((task.reduce.over_rows ? out.rows == 1 : out.rows <= in.rows) &&
                     (task.reduce.over_columns ? out.columns == 1 : out.columns <= in.columns),
                 "the reduction's surfaces do not fit each other");
}

// A lane reads two elements a cycle. What is one for all columns stays in a register.
std::int64_t gain_bias_cycles(const PlanarTask& task) {
  std::int64_t streams = 0;
  for (const BufferSurface& input : task.inputs) streams += input.column_pitch != 0;
  return std::max<std::int64_t>(1, ceil_div(streams, 2));
}

}  // namespace

RowRange planar_rows_read(const PlanarTask& task, int input, RowRange rows) {
  const BufferSurface& surface = task.inputs[input];
  switch (task.mode) {
    case PlanarMode::kPooling:
      return pool_rows_read(task.pool, surface.rows, rows);
    case PlanarMode::kReduction:
      if (task.reduce.over_rows) return {0, surface.rows};
      break;
    case PlanarMode::kElementwise:
    case PlanarMode::kTranspose:
    case PlanarMode::kGainBias:
      break;
  }
  return rows;
}

std::int64_t elements_read(const RowRange& read, const BufferSurface& input) {
  return std::max<std::int64_t>(0, read.last - read.first) * input.columns;
}

PlanarStep planar_task_step(const PlanarTask& task, RowRange rows) {
  PlanarWork work;
  work.channels = task.output.channels;
  work.channel_first = task.output_channel_first;
  work.output_elements = (rows.last - rows.first) * task.output.columns;
  work.input_elements = work.output_elements;
  switch (task.mode) {
    case PlanarMode::kPooling:
      work.input_elements = elements_read(planar_rows_read(task, 0, rows), task.inputs[0]);
      work.input_cycles = unary_function_cycles(task.pool.before.function);
      work.output_cycles = unary_function_cycles(task.pool.after.function);
      work.window_columns = task.pool.window_w;
      work.window_rows = task.pool.window_h;
      if (task.pool.function == PoolFunction::kMedian) {
        work.median_bits = kBitsOfAByte * format_bytes(task.inputs[0].format);
      }
      add_accumulators(task, work);
      break;
    case PlanarMode::kElementwise:
      work.output_cycles = unary_function_cycles(task.elementwise.activation.function);
      if (task.elementwise.binary) {
        work.output_cycles =
            std::max(work.output_cycles, binary_function_cycles(task.elementwise.function));
      }
      break;
    case PlanarMode::kGainBias:
      work.input_cycles = gain_bias_cycles(task);
      work.output_cycles = unary_function_cycles(task.elementwise.activation.function);
      break;
    case PlanarMode::kTranspose:
      return {PlanarTranspose{.channels = task.output.columns,
                              .columns = task.output.channels,
                              .rows = rows.last - rows.first}};
    case PlanarMode::kReduction:
      work.input_elements = elements_read(planar_rows_read(task, 0, rows), task.inputs[0]);
      work.input_cycles = unary_function_cycles(task.reduce.before.function);
      work.output_cycles = std::max(reduce_function_cycles(task.reduce.function),
                                    unary_function_cycles(task.reduce.activation.function));
      add_accumulators(task, work);
      break;
  }
  return {work};
}

int planar_inputs(const PlanarTask& task) {
  if (task.mode == PlanarMode::kGainBias) return 3;
  return task.mode == PlanarMode::kElementwise && task.elementwise.binary ? 2 : 1;
}

bool planar_comes_in_parts(const PlanarTask& task) {
  if (task.mode == PlanarMode::kPooling) return task.pool.function != PoolFunction::kMedian;
  return task.mode == PlanarMode::kReduction;
}

Status check_planar_input(const PlanarTask& task, int input) {
  const BufferSurface& in = task.inputs[input];
  if (task.mode == PlanarMode::kTranspose) {
    TESSERA_RETURN_IF_ERROR(check_mirror(in, task.output));
    return require(in.channels >= task.output.columns && in.columns >= task.output.channels,
                   "a transposition's surfaces do not mirror each other");
  }
  TESSERA_RETURN_IF_ERROR(require(in.broadcast_channels || in.channels >= task.output.channels,
                                  "an input surface has fewer channels than the output"));
  if (task.mode != PlanarMode::kElementwise && task.mode != PlanarMode::kGainBias) return {};
  return require((in.broadcast_rows || in.rows >= task.output.rows) &&
                     (in.column_pitch == 0 || in.columns >= task.output.columns),
                 "an input surface is smaller than the output");
}

// Converters in front of and behind the filters.
Status check_planar_converters(const PlanarTask& task) {
  const Format first = task.inputs[0].format;
  switch (task.mode) {
    case PlanarMode::kPooling:
      TESSERA_RETURN_IF_ERROR(check_filter_formats(task));
      TESSERA_RETURN_IF_ERROR(
          check_filter_functions(task, task.pool.before, task.pool.after,
                                 task.pool.input.enabled || task.pool.output.enabled));
      TESSERA_RETURN_IF_ERROR(check_affine(task.pool.input, first));
      return check_affine(task.pool.output, task.output.format);
    case PlanarMode::kReduction:
      TESSERA_RETURN_IF_ERROR(check_filter_formats(task));
      TESSERA_RETURN_IF_ERROR(
          check_filter_functions(task, task.reduce.before, {}, task.reduce.input.enabled));
      TESSERA_RETURN_IF_ERROR(check_affine(task.reduce.input, first));
      return check_affine(task.reduce.output, task.output.format);
    case PlanarMode::kTranspose:
      return {};
    case PlanarMode::kGainBias:
      TESSERA_RETURN_IF_ERROR(require(
          format_is_vector(task.elementwise.gain_format) && format_is_vector(task.inputs[2].format),
          "gain and bias are of floats of at most 32 bits"));
      break;
    case PlanarMode::kElementwise:
      break;
  }
  TESSERA_RETURN_IF_ERROR(check_affine(task.elementwise.inputs[0], first));
  if (task.elementwise.binary || task.mode == PlanarMode::kGainBias) {
    TESSERA_RETURN_IF_ERROR(check_affine(task.elementwise.inputs[1], task.inputs[1].format));
  }
  return check_affine(task.elementwise.output, task.output.format);
}

Status check_planar_extents(const PlanarTask& task, const PlanarEngineConfig& limits) {
  switch (task.mode) {
    case PlanarMode::kPooling:
      return check_window(task.pool, limits);
    case PlanarMode::kReduction:
      return check_reduction(task);
    case PlanarMode::kElementwise:
    case PlanarMode::kTranspose:
    case PlanarMode::kGainBias:
      break;
  }
  return {};
}

Status check_window_extents(std::int64_t rows, std::int64_t columns,
                            const PlanarEngineConfig& limits) {
  if (rows <= limits.window_rows_max && columns <= limits.window_columns_max) return {};
  return bad(fmt::format("the window is {} x {}, the planar engine holds at most {} x {}", rows,
                         columns, limits.window_rows_max, limits.window_columns_max));
}

Status check_mirror(const BufferSurface& in, const BufferSurface& out) {
  return require(out.format == in.format && (in.broadcast_rows || in.rows >= out.rows) &&
                     !out.broadcast_channels && !out.broadcast_rows,
                 "a transposition's surfaces do not mirror each other");
}

}  // namespace tessera::isa
