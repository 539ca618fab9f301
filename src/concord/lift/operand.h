// What a layer reads, said in terms of values: from a tag an element to a few strided boxes.
//
//   tags of the layer's input        (conv1, 0) (conv1, 1) ... (conv1, 63) (conv2, 0) ...
//   operand                          box of conv1, box of conv2: a concatenation
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "arith/tensor.h"
#include "base/result.h"
#include "concord/lift/boxes.h"
#include "concord/lift/tags.h"

namespace tessera::concord {

struct Operand {
  enum class Kind : std::uint8_t { kWhole, kConstant, kBoxes };
  Kind kind = Kind::kBoxes;
  Format format = Format::kF16;
  Shape dims;
  LiftedValue value = kNothing;                          // kWhole: all of this value, in its order
  std::vector<std::shared_ptr<const Tensor>> constants;  // kConstant: the first
  std::vector<SourceBox> boxes;                          // kBoxes
  bool has_fill = false;
  std::uint64_t fill = 0;  // bits
};

// What the reader of tags must know of a value.
struct ValueInfo {
  Format format = Format::kF16;
  std::int64_t elements = 0;
};

struct OperandContext {
  const ShadowCore& core;
  const isa::Program& program;
  const std::vector<ValueInfo>& values;  // by LiftedValue
};

// `tags` of a dense tensor of `dims`; kNothing where it is not read. With `drop_repeats` an axis
// along which nothing changes gets extent 1.
Result<Operand> make_operand(const OperandContext& context, Format format, Shape dims,
                             std::vector<Tag> tags, bool drop_repeats);

}  // namespace tessera::concord
