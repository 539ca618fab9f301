#include "concord/lift/tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "graph/move_box.h"

namespace tessera::concord {

using graph::CopyBox;
using graph::MoveAttributes;
using graph::TensorId;

std::string LiftedTensors::unique(const std::string& wanted, std::set<std::string>& names) {
  const std::string base = wanted.empty() ? "layer" : wanted;
  std::string name = base;
  for (int i = 2; !names.insert(name).second; ++i) name = fmt::format("{}#{}", base, i);
  return name;
}

TensorId LiftedTensors::add(const std::string& name, Format format, const Shape& dims) {
  graph_.tensors.push_back(
      {.name = unique_name(name), .format = format, .dims = dims, .constant = nullptr});
  return {static_cast<std::int32_t>(graph_.tensors.size() - 1)};
}

TensorId LiftedTensors::constant(const std::string& name, Format format, const Shape& dims,
                                 std::vector<std::byte> bytes) {
  auto tensor = std::make_shared<Tensor>();
  tensor->format = format;
  tensor->dims = dims;
  tensor->bytes = std::move(bytes);
  return constant(name, std::move(tensor));
}

TensorId LiftedTensors::constant(const std::string& name, std::shared_ptr<const Tensor> tensor) {
  const TensorId id = add(name, tensor->format, tensor->dims);
  graph_.tensor(id).constant = std::move(tensor);
  return id;
}

void LiftedTensors::set_value(LiftedValue value, TensorId tensor) {
  if (values_.size() <= value) values_.resize(value + 1);
  values_[value] = tensor;
}

TensorId LiftedTensors::read(const Operand& operand, const Shape& dims, const std::string& reader) {
  switch (operand.kind) {
    case Operand::Kind::kWhole:
      return reshape(value(operand.value), dims, reader);
    case Operand::Kind::kConstant: {
      auto tensor = std::make_shared<Tensor>(*operand.constants[0]);
      tensor->dims = dims;
      return constant(reader + ".constant", std::move(tensor));
    }
    case Operand::Kind::kBoxes:
      break;
  }
  return move(operand, dims, reader);
}

TensorId LiftedTensors::reshape(TensorId from, const Shape& dims, const std::string& reader) {
  if (graph_.tensor(from).dims == dims) return from;
  const std::string key = fmt::format("reshape {} [{}]", from.value, fmt::join(dims, ","));
  const auto known = moves_.find(key);
  if (known != moves_.end()) return known->second;
  return moves_[key] = copy(from, dims, reader + ".shape");
}

TensorId LiftedTensors::copy(TensorId from, const Shape& dims, const std::string& name) {
  const TensorId to = add(name, graph_.tensor(from).format, dims);
  MoveAttributes move;
  move.copies = {graph::dense_box(element_count(dims))};
  add_node(to, {from}, std::move(move));
  return to;
}

void LiftedTensors::add_node(TensorId to, std::vector<TensorId> inputs, MoveAttributes move) {
  graph_.nodes.push_back(
      {unique_node_name(graph_.tensor(to).name), {}, std::move(inputs), {to}, std::move(move)});
}

TensorId LiftedTensors::expand(TensorId from, const Shape& dims, const std::string& reader) {
  const Shape source = graph_.tensor(from).dims;
  CopyBox box{.input = 0,
              .input_offset = 0,
              .output_offset = 0,
              .extents = dims,
              .input_strides = graph::row_major_strides(source),
              .output_strides = graph::row_major_strides(dims)};
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (source[i] == 1) box.input_strides[i] = 0;
  }
  const TensorId to = add(reader + ".repeat", graph_.tensor(from).format, dims);
  MoveAttributes move;
  move.copies = {graph::simplified(box)};
  add_node(to, {from}, std::move(move));
  return to;
}

TensorId LiftedTensors::move(const Operand& operand, const Shape& dims, const std::string& reader) {
  MoveAttributes attributes;
  attributes.has_fill = operand.has_fill;
  attributes.fill = operand.fill;
  std::vector<TensorId> inputs;
  std::map<LiftedValue, std::int32_t> places;
  std::string key = fmt::format("move {} [{}] {} {:x}", static_cast<int>(operand.format),
                                fmt::join(dims, ","), operand.has_fill, operand.fill);
  for (const SourceBox& box : operand.boxes) {
    CopyBox copied{.input = 0,
                   .input_offset = box.input_offset,
                   .output_offset = box.output_offset,
                   .extents = box.extents,
                   .input_strides = box.input_strides,
                   .output_strides = box.output_strides};
    copied = graph::simplified(copied);
    if (box.value == kWeights) {
      copied.input = static_cast<std::int32_t>(inputs.size());
      inputs.push_back(constant(reader + ".constant", operand.constants[box.constant]));
    } else {
      const auto [place, added] =
          places.try_emplace(box.value, static_cast<std::int32_t>(inputs.size()));
      if (added) inputs.push_back(value(box.value));
      copied.input = place->second;
    }
    key += fmt::format(" {}:{}:{}:{}:{}:{}", inputs[static_cast<std::size_t>(copied.input)].value,
                       copied.input_offset, copied.output_offset, fmt::join(copied.extents, ","),
                       fmt::join(copied.input_strides, ","), fmt::join(copied.output_strides, ","));
    attributes.copies.push_back(std::move(copied));
  }
  const auto known = moves_.find(key);
  if (known != moves_.end()) return known->second;
  const TensorId to = add(reader + ".move", operand.format, dims);
  moves_[key] = to;
  add_node(to, std::move(inputs), std::move(attributes));
  return to;
}

}  // namespace tessera::concord
