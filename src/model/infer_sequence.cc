// Sequences and optionals: their operators say which tensors a name stands for, and only where
// tensors are cut or joined is there work left.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "model/infer_walk.h"
#include "model/ops/elements.h"

namespace tessera::model {

namespace {

constexpr std::array<std::string_view, 11> kOperators = {
    "ConcatFromSequence", "Optional",          "OptionalGetElement", "OptionalHasElement",
    "SequenceAt",         "SequenceConstruct", "SequenceEmpty",      "SequenceErase",
    "SequenceInsert",     "SequenceLength",    "SplitToSequence"};

std::int64_t attribute(const Node& node, const std::string& name, std::int64_t otherwise) {
  const auto found = node.attributes.find(name);
  const auto* value =
      found == node.attributes.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
  return value != nullptr ? *value : otherwise;
}

}  // namespace

class SequenceWalk {
 public:
  // All three outlive the object.
  SequenceWalk(Walk& walk, const Node& node, Scope& scope)
      : walk_(walk), node_(node), scope_(scope), held_(walk.operands(node, scope)) {}

  Status run() {
    TESSERA_TRY(Held result, result_of());
    if (node_.outputs.size() != 1) return ops::invalid("one output is needed");
    walk_.define(scope_, node_.outputs[0], std::move(result));
    return {};
  }

 private:
  Result<Held> result_of();
  Result<Held> construct() const;
  Result<Held> insert();
  Result<Held> erase();
  Result<Held> at();
  Result<Held> concat();
  Result<Held> split();
  Result<std::vector<std::int64_t>> split_sizes(std::int64_t extent);
  Result<std::string> piece(std::int64_t begin, std::int64_t end, std::int64_t axis);
  Result<Held> get_element() const;

  Result<const Held*> sequence(std::size_t input) const {
    if (input < held_.size() && held_[input].is_sequence()) return &held_[input];
    return ops::invalid(fmt::format("input {} is not a sequence", input));
  }
  Result<std::string> tensor(std::size_t input) const {
    if (input < held_.size() && held_[input].is_tensor()) return held_[input].tensors[0];
    return ops::invalid(fmt::format("input {} is not a tensor", input));
  }
  bool has(std::size_t input) const {
    return input < held_.size() && held_[input].kind != Held::Kind::kNothing;
  }
  // Input `input` as a position in 0 .. count-1 (or count), counted from the end if negative.
  Result<std::size_t> position(std::size_t input, std::size_t count, bool end_allowed);
  std::string name(const std::string& what) const {
    return fmt::format("{}{}.{}", scope_.prefix(), node_.name, what);
  }

  Walk& walk_;
  const Node& node_;
  Scope& scope_;
  const std::vector<Held> held_;
};

Result<Held> SequenceWalk::result_of() {
  const std::string& op = node_.op_type;
  if (op == "Identity") return held_[0];
  if (op == "Optional") return held_.empty() ? Held::nothing() : held_[0];
  if (op == "OptionalGetElement") return get_element();
  if (op == "OptionalHasElement") {
    Tensor there = Tensor::zeros(Format::kBool, {});
    there.bytes[0] = std::byte{static_cast<std::uint8_t>(has(0) ? 1 : 0)};
    return Held::of(walk_.constant(std::move(there), name("there")));
  }
  if (op == "SequenceEmpty") return Held::sequence({});
  if (op == "SequenceConstruct") return construct();
  if (op == "SequenceInsert") return insert();
  if (op == "SequenceErase") return erase();
  if (op == "SequenceAt") return at();
  if (op == "ConcatFromSequence") return concat();
  if (op == "SplitToSequence") return split();
  TESSERA_TRY(const Held* all, sequence(0));
  const auto length = static_cast<std::int64_t>(all->tensors.size());
  return Held::of(walk_.constant(ops::integer_scalar(length), name("length")));
}

Result<Held> SequenceWalk::get_element() const {
  if (has(0)) return held_[0];
  return ops::invalid("the optional is empty");
}

Result<Held> SequenceWalk::construct() const {
  std::vector<std::string> tensors;
  for (std::size_t i = 0; i < held_.size(); ++i) {
    TESSERA_TRY(std::string one, tensor(i));
    tensors.push_back(std::move(one));
  }
  return Held::sequence(std::move(tensors));
}

Result<std::size_t> SequenceWalk::position(std::size_t input, std::size_t count, bool end_allowed) {
  TESSERA_TRY(const std::string where, tensor(input));
  TESSERA_TRY(const Tensor* value, walk_.known(where, "the position"));
  if (!format_is_integer(value->format) || element_count(value->dims) != 1) {
    return ops::invalid("the position is not one integer");
  }
  const auto length = static_cast<std::int64_t>(count);
  std::int64_t index = ops::Reader<std::int64_t>(*value)[0];
  const std::int64_t highest = end_allowed ? length : length - 1;
  if (index < -length || index > highest) {
    return ops::invalid(fmt::format("position {} is outside [{}, {}]", index, -length, highest));
  }
  if (index < 0) index += length;
  return static_cast<std::size_t>(index);
}

Result<Held> SequenceWalk::insert() {
  TESSERA_TRY(const Held* all, sequence(0));
  TESSERA_TRY(const std::string added, tensor(1));
  std::vector<std::string> tensors = all->tensors;
  std::size_t where = tensors.size();
  if (has(2)) {
    TESSERA_TRY(where, position(2, tensors.size(), true));
  }
  tensors.insert(tensors.begin() + static_cast<long>(where), added);
  return Held::sequence(std::move(tensors));
}

Result<Held> SequenceWalk::erase() {
  TESSERA_TRY(const Held* all, sequence(0));
  std::vector<std::string> tensors = all->tensors;
  if (tensors.empty()) return ops::invalid("the sequence is empty");
  std::size_t where = tensors.size() - 1;
  if (has(1)) {
    TESSERA_TRY(where, position(1, tensors.size(), false));
  }
  tensors.erase(tensors.begin() + static_cast<long>(where));
  return Held::sequence(std::move(tensors));
}

Result<Held> SequenceWalk::at() {
  TESSERA_TRY(const Held* all, sequence(0));
  TESSERA_TRY(const std::size_t where, position(1, all->tensors.size(), false));
  return Held::of(all->tensors[where]);
}

// Along an axis that is there, or along a new one.
Result<Held> SequenceWalk::concat() {
  TESSERA_TRY(const Held* all, sequence(0));
  if (all->tensors.empty()) return ops::invalid("the sequence is empty");
  if (!node_.attributes.contains("axis")) return ops::invalid("attribute 'axis' is missing");
  std::int64_t axis = attribute(node_, "axis", 0);
  std::vector<std::string> parts = all->tensors;
  if (attribute(node_, "new_axis", 0) != 0) {
    for (std::string& part : parts) {
      const auto rank = static_cast<std::int64_t>(walk_.value(part).dims.size()) + 1;
      TESSERA_TRY(axis, ops::normalise_axis(axis, rank));
      std::vector<std::string> inputs{part};
      Attributes attributes;
      if (walk_.opset_ < 13) {
        attributes["axes"] = ops::Integers{axis};
      } else {
        inputs.push_back(walk_.constant(ops::integer_vector({axis}), name("axes")));
      }
      TESSERA_TRY(part, walk_.emit("Unsqueeze", inputs, attributes, name("part")));
    }
  }
  TESSERA_TRY(std::string joined, walk_.emit("Concat", parts, {{"axis", axis}}, name("joined")));
  return Held::of(std::move(joined));
}

// How long each piece is along the axis: given, or pieces of equal length and a rest.
Result<std::vector<std::int64_t>> SequenceWalk::split_sizes(std::int64_t extent) {
  if (!has(1)) {
    TESSERA_RETURN_IF_ERROR(walk_.take_iterations(extent));
    return std::vector<std::int64_t>(static_cast<std::size_t>(extent), 1);
  }
  TESSERA_TRY(const std::string where, tensor(1));
  TESSERA_TRY(const Tensor* value, walk_.known(where, "the split"));
  if (!format_is_integer(value->format) || value->dims.size() > 1) {
    return ops::invalid("the split is not a vector of integers");
  }
  std::vector<std::int64_t> sizes = ops::load<std::int64_t>(*value);
  const bool each = value->dims.empty();
  for (const std::int64_t size : sizes) {
    if (size < (each ? 1 : 0)) return ops::invalid(fmt::format("a piece of {} elements", size));
  }
  std::int64_t total = 0;
  if (each) {
    const std::int64_t length = sizes[0];
    TESSERA_RETURN_IF_ERROR(walk_.take_iterations(extent / length + 1));
    sizes.clear();
    for (; total < extent; total += sizes.back()) sizes.push_back(std::min(length, extent - total));
    return sizes;
  }
  TESSERA_RETURN_IF_ERROR(walk_.take_iterations(static_cast<std::int64_t>(sizes.size())));
  for (const std::int64_t size : sizes) {
    if (size > extent - total) return ops::invalid("the pieces are longer than the axis");
    total += size;
  }
  if (total == extent) return sizes;
  return ops::invalid(fmt::format("the pieces have {} elements, the axis has {}", total, extent));
}

Result<std::string> SequenceWalk::piece(std::int64_t begin, std::int64_t end, std::int64_t axis) {
  const std::string begins = walk_.constant(ops::integer_vector({begin}), name("begin"));
  const std::string ends = walk_.constant(ops::integer_vector({end}), name("end"));
  const std::string axes = walk_.constant(ops::integer_vector({axis}), name("axes"));
  return walk_.emit("Slice", {held_[0].tensors[0], begins, ends, axes}, {}, name("piece"));
}

Result<Held> SequenceWalk::split() {
  TESSERA_TRY(const std::string whole, tensor(0));
  const Shape dims = walk_.value(whole).dims;
  TESSERA_TRY(const std::int64_t axis, ops::normalise_axis(attribute(node_, "axis", 0),
                                                           static_cast<std::int64_t>(dims.size())));
  TESSERA_TRY(const std::vector<std::int64_t> sizes,
              split_sizes(dims[static_cast<std::size_t>(axis)]));
  const bool squeezed = !has(1) && attribute(node_, "keepdims", 1) == 0;
  std::vector<std::string> pieces;
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    if (squeezed) {
      const std::string index = walk_.constant(ops::integer_scalar(begin), name("index"));
      TESSERA_TRY(std::string one,
                  walk_.emit("Gather", {whole, index}, {{"axis", axis}}, name("piece")));
      pieces.push_back(std::move(one));
    } else {
      TESSERA_TRY(std::string one, piece(begin, begin + size, axis));
      pieces.push_back(std::move(one));
    }
    begin += size;
  }
  return Held::sequence(std::move(pieces));
}

bool is_sequence_operator(const Node& node, const std::vector<Held>& operands) {
  if (!node.domain.empty()) return false;
  if (node.op_type == "Identity") return !operands.empty() && !operands[0].is_tensor();
  return std::find(kOperators.begin(), kOperators.end(), node.op_type) != kOperators.end();
}

Status walk_sequence(Walk& walk, const Node& node, Scope& scope) {
  return SequenceWalk(walk, node, scope).run();
}

std::vector<std::string> sequence_operators() { return {kOperators.begin(), kOperators.end()}; }

}  // namespace tessera::model
