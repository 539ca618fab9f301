#include "arch/format_choice.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include "arith/microscaling.h"

namespace tessera {
namespace {

Error wrong(const std::string& text, const std::string& what) {
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("format '{}': {}; allowed {}", text, what, format_choices())};
}

std::vector<std::string> cut_at_colons(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t first = 0;
  while (true) {
    const std::size_t colon = text.find(':', first);
    parts.push_back(text.substr(first, colon - first));
    if (colon == std::string::npos) return parts;
    first = colon + 1;
  }
}

std::optional<int> whole_number(const std::string& text) {
  int value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Status apply_block_float(const std::string& text, const std::vector<std::string>& parts,
                         MatrixFormat& matrix) {
  matrix.kind = MatrixKind::kBlockFloat;
  std::vector<int> bits;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    if (last && (parts[i] == "exact" || parts[i] == "q34.40")) {
      matrix.long_format = parts[i] == "exact" ? LongFormat::kExact : LongFormat::kQ34_40;
      continue;
    }
    const std::optional<int> number = whole_number(parts[i]);
    if (!number || *number < 2 || *number > 15 || bits.size() == 2) {
      return wrong(text,
                   fmt::format("found '{}' for mantissa bits (2..15) or a long format", parts[i]));
    }
    bits.push_back(*number);
  }
  if (!bits.empty()) {
    matrix.mantissa_bits_moving = bits.front();
    matrix.mantissa_bits_stationary = bits.back();
  }
  return {};
}

// "fixed:11:4", "log:4": activations in block floating point, weights on a grid.
Status apply_weight_grid(const std::string& text, const std::vector<std::string>& parts,
                         FormatsConfig& formats) {
  const bool fixed = parts[0] == "fixed";
  const int least = fixed ? arith::kFixedRangeBitsMin : arith::kLogarithmicBitsMin;
  const int most = fixed ? arith::kFixedRangeBitsMax : arith::kLogarithmicBitsMax;
  if (parts.size() != 2 && parts.size() != 3) {
    return wrong(text, "needs the bits of a weight, as in 'fixed:4' or 'log:11:4'");
  }
  const std::optional<int> bits = whole_number(parts.back());
  if (!bits || *bits < least || *bits > most) {
    return wrong(text, fmt::format("found '{}' for the bits of a weight ({}..{})", parts.back(),
                                   least, most));
  }
  MatrixFormat& matrix = formats.matrix;
  if (parts.size() == 3) {
    const std::optional<int> moving = whole_number(parts[1]);
    if (!moving || *moving < 2 || *moving > 15) {
      return wrong(text, fmt::format("found '{}' for mantissa bits (2..15)", parts[1]));
    }
    matrix.mantissa_bits_moving = *moving;
  }
  matrix.kind = MatrixKind::kBlockFloat;
  (fixed ? formats.fixed_weight_bits : formats.logarithmic_weight_bits) = *bits;
  matrix.mantissa_bits_stationary = arith::weight_grid_mantissa(formats.weight_grid());
  return {};
}

Status apply_microscaling(const std::string& text, const std::vector<std::string>& parts,
                          MatrixFormat& matrix) {
  matrix.kind = MatrixKind::kMicroscaling;
  matrix.element_stationary = matrix.element_moving;
  matrix.micro_scale = MicroScale::kFloor;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (i == 1 && arith::micro_element_from_name(parts[i], matrix.element_stationary)) continue;
    bool found = false;
    for (const MicroScale mode : {MicroScale::kFloor, MicroScale::kCeil, MicroScale::kEven}) {
      if (i + 1 != parts.size() || parts[i] != arith::micro_scale_name(mode)) continue;
      matrix.micro_scale = mode;
      found = true;
    }
    if (!found) {
      return wrong(text, fmt::format("found '{}' for an element format or a scale mode", parts[i]));
    }
  }
  return {};
}

}  // namespace

std::string format_choices() {
  std::string elements;
  for (int i = 0; i < kMicroElementCount; ++i) {
    elements += fmt::format(", {}", arith::micro_element_name(static_cast<MicroElement>(i)));
  }
  return fmt::format(
      "f32, bf16, f16, bfp[:MX[:MW]][:exact|:q34.40], fixed[:MX]:BITS, log[:MX]:BITS{} (each with "
      "[:WEIGHTS]"
      "[:floor|:ceil|:even])",
      elements);
}

Status apply_format_choice(const std::string& text, FormatsConfig& formats) {
  const std::vector<std::string> parts = cut_at_colons(text);
  formats.fixed_weight_bits = formats.logarithmic_weight_bits = 0;
  if (parts[0] == "fixed" || parts[0] == "log") return apply_weight_grid(text, parts, formats);
  if (parts.size() == 1) {
    const std::optional<Format> vector = format_from_name(text);
    if (vector && format_is_vector(*vector)) {
      formats.vector = *vector;
      formats.matrix.kind = MatrixKind::kFloat;
      return {};
    }
  }
  if (parts[0] == "bfp") return apply_block_float(text, parts, formats.matrix);
  if (arith::micro_element_from_name(parts[0], formats.matrix.element_moving)) {
    return apply_microscaling(text, parts, formats.matrix);
  }
  return wrong(text, "unknown");
}

std::string format_choice_text(const FormatsConfig& formats) {
  const MatrixFormat& matrix = formats.matrix;
  const arith::WeightGrid grid = formats.weight_grid();
  if (grid.kind != arith::WeightGridKind::kNone) {
    return fmt::format("{}:{}:{}", formats.fixed_weight_bits > 0 ? "fixed" : "log",
                       matrix.mantissa_bits_moving, grid.bits);
  }
  switch (matrix.kind) {
    case MatrixKind::kBlockFloat:
      return fmt::format("bfp:{}:{}{}", matrix.mantissa_bits_moving,
                         matrix.mantissa_bits_stationary,
                         matrix.long_format == LongFormat::kExact ? "" : ":q34.40");
    case MatrixKind::kMicroscaling: {
      std::string text = arith::micro_element_name(matrix.element_moving);
      if (matrix.element_stationary != matrix.element_moving) {
        text += fmt::format(":{}", arith::micro_element_name(matrix.element_stationary));
      }
      if (matrix.micro_scale != MicroScale::kFloor) {
        text += fmt::format(":{}", arith::micro_scale_name(matrix.micro_scale));
      }
      return text;
    }
    default:
      return std::string(format_name(formats.vector));
  }
}

}  // namespace tessera
