#include "concord/fold/regroup.h"

#include <numeric>
#include <utility>

namespace tessera::concord {
namespace {

constexpr std::size_t kRowsMin = 3;

class Regrouping {
 public:
  explicit Regrouping(FoldedValues& values) : values_(values) {}

  std::vector<Operation> run(std::vector<Operation> operations) {
    for (Operation& operation : operations) {
      if (operation.op == Operator::kReshape) {
        if (const auto* row = values_.row(operation.inputs[0])) {
          const auto [all, number] = *row;
          values_.set_row(operation.outputs[0], all, number);
        }
      }
      if (operation.op == Operator::kConcat) regroup(operation);
      written_.push_back(std::move(operation));
    }
    return std::move(written_);
  }

 private:
  // Operands that stand side by side and are rows of one tensor become one operand.
  void regroup(Operation& operation) {
    std::vector<ValueId> operands;
    const std::vector<ValueId> old = operation.inputs;
    for (std::size_t i = 0; i < old.size();) {
      std::size_t end = i + 1;
      while (end < old.size() && continues(old[i], old[end])) ++end;
      if (end - i < kRowsMin || values_.row(old[i]) == nullptr) {
        operands.push_back(old[i++]);
        continue;
      }
      operands.push_back(joined({old.begin() + static_cast<std::ptrdiff_t>(i),
                                 old.begin() + static_cast<std::ptrdiff_t>(end)},
                                operation));
      i = end;
    }
    operation.inputs = std::move(operands);
    if (operation.inputs.size() > 1) return;
    // A concatenation of one tensor.
    operation.op = Operator::kReshape;
    operation.axis = 0;
  }

  bool continues(ValueId first, ValueId next) const {
    const auto* a = values_.row(first);
    const auto* b = values_.row(next);
    return a != nullptr && b != nullptr && a->first == b->first &&
           values_.value(first).dims == values_.value(next).dims;
  }

  ValueId emit(Operation operation, Format format, Shape dims, std::int32_t layer) {
    const ValueId id = values_.add(format, std::move(dims));
    operation.outputs = {id};
    operation.layer = layer;
    written_.push_back(std::move(operation));
    return id;
  }

  // Rows of dims d along `axis`: [rows, d] with the first axis brought in front of that one.
  ValueId joined(const std::vector<ValueId>& rows, const Operation& concat) {
    const auto count = static_cast<std::int64_t>(rows.size());
    auto [at, numbers] = values_.rows(rows);
    const Format format = values_.value(at).format;
    Shape dims = values_.value(at).dims;
    std::vector<std::int64_t> in_order(static_cast<std::size_t>(dims[0]));
    std::iota(in_order.begin(), in_order.end(), 0);
    if (numbers != in_order) {
      dims[0] = count;
      at = emit({.op = Operator::kGather, .inputs = {at, values_.numbers(numbers, {count})}},
                format, dims, concat.layer);
    }
    Shape row = values_.value(rows[0]).dims;
    if (concat.axis > 0) {
      Shape wide = row;
      wide.insert(wide.begin(), count);
      if (wide != dims) {
        at = emit({.op = Operator::kReshape, .inputs = {at}}, format, wide, concat.layer);
      }
      std::vector<std::int64_t> axes(wide.size());
      std::iota(axes.begin(), axes.end(), 0);
      for (std::int64_t i = 0; i < concat.axis; ++i) {
        std::swap(axes[static_cast<std::size_t>(i)], axes[static_cast<std::size_t>(i) + 1]);
      }
      for (std::size_t i = 0; i < axes.size(); ++i) {
        dims.resize(axes.size());
        dims[i] = wide[static_cast<std::size_t>(axes[i])];
      }
      at = emit({.op = Operator::kTranspose, .inputs = {at}, .axes = axes}, format, dims,
                concat.layer);
    }
    row[static_cast<std::size_t>(concat.axis)] *= count;
    return emit({.op = Operator::kReshape, .inputs = {at}}, format, row, concat.layer);
  }

  FoldedValues& values_;
  std::vector<Operation> written_;
};

}  // namespace

void regroup_rows(std::vector<Operation>& operations, FoldedValues& values) {
  operations = Regrouping(values).run(std::move(operations));
}

}  // namespace tessera::concord
