#include "engines/data_control/exceptions.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "arith/format.h"
#include "arith/rounding.h"

namespace tessera::engines {

using isa::NeuralTask;
using isa::PlanarTask;
using isa::Traps;

namespace {

// The numbers at both ends of a format; none where nothing saturates.
struct Ends {
  double lowest = 0, highest = 0;
};

std::optional<Ends> ends_of(Format format) {
  if (format_is_vector(format)) {
    const arith::FloatShape shape = arith::float_shape(format);
    const double highest =
        std::ldexp(2 - std::ldexp(1.0, 1 - shape.significand_bits), shape.exponent_max);
    return Ends{-highest, highest};
  }
  if (!format_is_integer(format) || format_bytes(format) > 4) return std::nullopt;
  const arith::IntegerRange range = arith::integer_range(format);
  return Ends{static_cast<double>(range.lowest), static_cast<double>(range.highest)};
}

// What is exceptional about a result, or "".
std::string exception_of(double value, const std::optional<Ends>& ends, std::uint8_t traps) {
  if ((traps & Traps::kNan) != 0 && std::isnan(value)) return "trap nan: a NaN";
  if ((traps & Traps::kInfinity) != 0 && std::isinf(value)) return "trap infinity: an infinity";
  const bool saturated = ends && (value <= ends->lowest || value >= ends->highest);
  if ((traps & Traps::kSaturation) != 0 && saturated) {
    return fmt::format("trap saturation: {}", value);
  }
  return "";
}

// Channels of a task's output surface that it writes.
struct Channels {
  std::int64_t first = 0, count = 0;
};

Channels written_channels(const isa::TaskConfig& config) {
  if (const auto* planar = std::get_if<PlanarTask>(&config)) {
    return {planar->output_channel_first, planar->output.channels};
  }
  const auto& neural = std::get<NeuralTask>(config);
  const KernelImageShape& image = neural.product.image;
  return {neural.output_channel_first,
          neural.transpose ? neural.moving.columns : image.groups * image.output_channels};
}

// Of planar work that is done by one rounding and an activation behind it.
const Activation* activation_behind_rounding(const isa::TaskConfig& config) {
  if (const auto* neural = std::get_if<NeuralTask>(&config)) {
    return neural->transpose ? nullptr : &neural->product.activation;
  }
  const auto& planar = std::get<PlanarTask>(config);
  switch (planar.mode) {
    case isa::PlanarMode::kPooling:
      return &planar.pool.after;
    case isa::PlanarMode::kReduction:
      return &planar.reduce.activation;
    case isa::PlanarMode::kElementwise:
      return planar.input_count > 1 ? &planar.elementwise.activation : nullptr;
    case isa::PlanarMode::kGainBias:
      return &planar.elementwise.activation;
    case isa::PlanarMode::kTranspose:
      break;
  }
  return nullptr;
}

bool leaves_no_result(const isa::TaskConfig& config) {
  if (const auto* planar = std::get_if<PlanarTask>(&config)) {
    return planar->keeps || planar->mode == isa::PlanarMode::kTranspose;
  }
  const auto& neural = std::get<NeuralTask>(config);
  return neural.psum.keeps || neural.transpose;
}

}  // namespace

ValueExtent extent_of_results(PartitionedMemory& state_buffer, const isa::TaskDescriptor& task,
                              std::int64_t step) {
  const auto* planar = std::get_if<PlanarTask>(&task.config);
  const isa::BufferSurface& output =
      planar != nullptr ? planar->output : std::get<NeuralTask>(task.config).output;
  if (!format_is_vector(output.format) || leaves_no_result(task.config)) {
    return ValueExtent::kUnknown;
  }
  const Activation* const behind = activation_behind_rounding(task.config);
  const arith::HiddenEnds hidden =
      behind == nullptr ? arith::HiddenEnds{} : arith::hidden_ends(output.format, *behind);
  const RowRange rows = task.bands.range(step);
  const Surface surface = state_buffer.surface(output, task.bands.image(step));
  const Channels channels = written_channels(task.config);
  const bool dense = surface.column_pitch == format_bytes(output.format);
  ValueExtent extent = ValueExtent::kUnknown;
  for (std::int64_t c = channels.first; c < channels.first + channels.count; ++c) {
    for (std::int64_t row = rows.first; row < rows.last; ++row) {
      const std::int64_t calls = dense ? 1 : output.columns;
      for (std::int64_t column = 0; column < calls; ++column) {
        extent =
            arith::further(extent, arith::value_extent(output.format, surface.at(c, row, column),
                                                       dense ? output.columns : 1, hidden));
      }
    }
  }
  return extent;
}

std::string exception_in_results(PartitionedMemory& state_buffer, const isa::TaskDescriptor& task,
                                 std::int64_t step, std::uint8_t traps) {
  const auto* planar = std::get_if<PlanarTask>(&task.config);
  if (planar != nullptr && planar->keeps) return "";
  if (planar == nullptr && std::get<NeuralTask>(task.config).psum.keeps) return "";
  const isa::BufferSurface& output =
      planar != nullptr ? planar->output : std::get<NeuralTask>(task.config).output;
  const std::int64_t image = task.bands.image(step);
  const RowRange rows = task.bands.range(step);
  const Surface surface = state_buffer.surface(output, image);
  const Channels channels = written_channels(task.config);
  const std::optional<Ends> ends = ends_of(output.format);
  for (std::int64_t c = channels.first; c < channels.first + channels.count; ++c) {
    for (std::int64_t row = rows.first; row < rows.last; ++row) {
      for (std::int64_t column = 0; column < output.columns; ++column) {
        const double value = arith::read_element(output.format, surface.at(c, row, column));
        const std::string found = exception_of(value, ends, traps);
        if (found.empty()) continue;
        return fmt::format("{} in image {}, channel {}, row {}, column {} of the results", found,
                           image, c, row, column);
      }
    }
  }
  return "";
}

std::string exception_in_product(const arith::StickyFlags& flags, std::uint8_t traps) {
  if ((traps & Traps::kNan) != 0 && flags.nan) {
    return "trap nan: a NaN among the operands of the array, which reads it as 0";
  }
  if ((traps & Traps::kInfinity) != 0 && flags.infinity) {
    return "trap infinity: an infinity among the operands of the array, which reads it as the "
           "largest number";
  }
  if ((traps & Traps::kRange) != 0 && flags.accumulator_range) {
    return "trap range: a sum of 2^33 or more in an accumulator";
  }
  return "";
}

}  // namespace tessera::engines
