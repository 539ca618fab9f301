#include "concord/fold/turns.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace tessera::concord {
namespace {

using Source = TurnOperand::Source;

class TurnWriter {
 public:
  TurnWriter(const std::vector<Operation>& operations, const Run& run, std::int32_t layer,
             FoldedValues& values)
      : operations_(operations), run_(run), layer_(layer), values_(values) {
    repeat_.turns = static_cast<std::int64_t>(run.turns);
    for (std::size_t place = 0; place < run.period; ++place) {
      const Value& made = values.value(operations[run.first + place].outputs[0]);
      inside_.push_back(values.add(made.format, Shape(made.dims)));
    }
  }

  std::vector<Operation> write(const Table<ValueId, int>& last_reader) {
    for (std::size_t place = 0; place < run_.period; ++place) write_body(place);
    std::vector<ValueId> results = finals_;
    for (std::size_t place = 0; place < run_.period; ++place) {
      if (const auto kept = keep(place, last_reader)) results.push_back(*kept);
    }
    // Finals without a name.
    for (std::size_t i = 0; i < finals_.size(); ++i) {
      if (!finals_[i].valid()) {
        const Value& carried = values_.value(repeat_.carried[i]);
        finals_[i] = values_.add(carried.format, Shape(carried.dims));
      }
      results[i] = finals_[i];
    }
    Operation whole{.op = Operator::kRepeat, .inputs = before_, .outputs = std::move(results)};
    whole.inputs.insert(whole.inputs.end(), all_.begin(), all_.end());
    whole.inputs.insert(whole.inputs.end(), captured_.begin(), captured_.end());
    whole.repeat = std::make_shared<const Repeat>(std::move(repeat_));
    whole.layer = layer_;
    ahead_.push_back(std::move(whole));
    std::move(behind_.begin(), behind_.end(), std::back_inserter(ahead_));
    return std::move(ahead_);
  }

 private:
  ValueId emit(std::vector<Operation>& list, Operation operation, ValueId result) {
    operation.outputs = {result};
    operation.layer = layer_;
    list.push_back(std::move(operation));
    return result;
  }

  void write_body(std::size_t place) {
    Operation operation = operations_[run_.first + place];
    for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
      operation.inputs[i] = operand(run_.operands[place][i]);
    }
    if (operation.op == Operator::kSlice && starts_differ(place)) make_gather(place, operation);
    operation.outputs = {inside_[place]};
    repeat_.body.push_back(std::move(operation));
  }

  ValueId operand(const TurnOperand& from) {
    switch (from.source) {
      case Source::kThisTurn:
        return inside_[from.place];
      case Source::kEarlierTurn:
        return carried(from);
      case Source::kGiven:
        return given(from.outside);
      case Source::kSame:
        break;
    }
    captured_.insert(from.same);
    return from.same;
  }

  // One value per turn of lag: what was made a turn ago, the turn before that, and so on.
  ValueId carried(const TurnOperand& from) {
    ValueId next = inside_[from.place];
    for (std::size_t lag = 1; lag <= from.lag; ++lag) {
      const auto count = static_cast<std::ptrdiff_t>(lag);
      const std::vector<ValueId> outside(from.outside.end() - count, from.outside.end());
      const auto [found, fresh] = carried_.try_emplace({from.place, outside});
      if (fresh) {
        const Value& like = values_.value(next);
        found->second = values_.add(like.format, Shape(like.dims));
        repeat_.carried.push_back(found->second);
        repeat_.next.push_back(next);
        before_.push_back(outside[0]);
        finals_.emplace_back();
      }
      next = found->second;
    }
    return next;
  }

  ValueId given(const std::vector<ValueId>& rows) {
    const auto [found, fresh] = given_.try_emplace(rows);
    if (!fresh) return found->second;
    return found->second = give(stacked(rows));
  }

  ValueId give(ValueId all) {
    all_.push_back(all);
    repeat_.given.push_back(values_.add_row_of(all));
    return repeat_.given.back();
  }

  // [turns, ...], made ahead of the loop.
  ValueId stacked(const std::vector<ValueId>& rows) {
    const Value first = values_.value(rows[0]);
    Shape dims = first.dims;
    dims.insert(dims.begin(), repeat_.turns);
    if (const auto [all, places] = values_.rows(rows); all.valid()) {
      const Shape own = values_.value(all).dims;
      std::vector<std::int64_t> in_order(static_cast<std::size_t>(own[0]));
      std::iota(in_order.begin(), in_order.end(), 0);
      ValueId chosen = all;
      if (places != in_order) {
        Shape some = own;
        some[0] = repeat_.turns;
        chosen = emit(
            ahead_,
            {.op = Operator::kGather, .inputs = {all, values_.numbers(places, {repeat_.turns})}},
            values_.add(first.format, some));
      }
      if (values_.value(chosen).dims == dims) return chosen;
      return emit(ahead_, {.op = Operator::kReshape, .inputs = {chosen}},
                  values_.add(first.format, dims));
    }
    if (std::all_of(rows.begin(), rows.end(),
                    [&](ValueId id) { return values_.value(id).constant != nullptr; })) {
      Tensor tensor{first.format, dims, {}};
      for (const ValueId id : rows) {
        const auto& bytes = values_.value(id).constant->bytes;
        tensor.bytes.insert(tensor.bytes.end(), bytes.begin(), bytes.end());
      }
      return values_.constant(std::move(tensor));
    }
    Shape row = dims;
    row[0] = 1;
    std::vector<ValueId> parts;
    for (const ValueId id : rows) {
      parts.push_back(
          emit(ahead_, {.op = Operator::kReshape, .inputs = {id}}, values_.add(first.format, row)));
    }
    return emit(ahead_, {.op = Operator::kConcat, .inputs = std::move(parts)},
                values_.add(first.format, dims));
  }

  bool starts_differ(std::size_t place) const {
    for (std::size_t turn = 1; turn < run_.turns; ++turn) {
      const Operation& other = operations_[run_.first + turn * run_.period + place];
      if (other.starts != operations_[run_.first + place].starts) return true;
    }
    return false;
  }

  // A slice from another place each turn: its elements' places are given.
  void make_gather(std::size_t place, Operation& operation) {
    const auto axis = operation.axes[0];
    const std::int64_t length = values_.value(inside_[place]).dims[static_cast<std::size_t>(axis)];
    std::vector<std::int64_t> places;
    for (std::size_t turn = 0; turn < run_.turns; ++turn) {
      const Operation& slice = operations_[run_.first + turn * run_.period + place];
      for (std::int64_t i = 0; i < length; ++i) {
        places.push_back(slice.starts[0] + i * slice.steps[0]);
      }
    }
    const ValueId all = values_.numbers(places, {repeat_.turns, length});
    operation = {.op = Operator::kGather,
                 .inputs = {operation.inputs[0], give(all)},
                 .axis = axis,
                 .layer = operation.layer};
  }

  // Defines what is read behind the run; the new result of the loop, where that takes one.
  std::optional<ValueId> keep(std::size_t place, const Table<ValueId, int>& last_reader) {
    std::vector<std::pair<std::size_t, ValueId>> read;
    for (std::size_t turn = 0; turn < run_.turns; ++turn) {
      const ValueId id = operations_[run_.first + turn * run_.period + place].outputs[0];
      if (last_reader[id] >= static_cast<int>(run_.end())) {
        read.emplace_back(turn, id);
      }
    }
    if (read.empty()) return std::nullopt;
    if (read.size() == 1 && read[0].first + 1 == run_.turns) {
      const auto next = std::find(repeat_.next.begin(), repeat_.next.end(), inside_[place]);
      if (next != repeat_.next.end()) {
        finals_[static_cast<std::size_t>(next - repeat_.next.begin())] = read[0].second;
        return std::nullopt;
      }
    }
    const Value& made = values_.value(inside_[place]);
    Shape dims = made.dims;
    dims.insert(dims.begin(), repeat_.turns);
    const ValueId all = values_.add(made.format, std::move(dims));
    repeat_.kept.push_back(inside_[place]);
    for (const auto& [turn, id] : read) {
      const auto number = static_cast<std::int64_t>(turn);
      values_.set_row(id, all, number);
      emit(behind_, {.op = Operator::kGather, .inputs = {all, values_.numbers({number}, {})}}, id);
    }
    return all;
  }

  const std::vector<Operation>& operations_;
  const Run& run_;
  const std::int32_t layer_;
  FoldedValues& values_;
  Repeat repeat_;
  std::vector<ValueId> inside_;                 // what each operation of the body makes
  std::vector<ValueId> before_, finals_, all_;  // of carried, carried, given
  std::set<ValueId> captured_;
  std::map<std::pair<std::size_t, std::vector<ValueId>>, ValueId> carried_;
  std::map<std::vector<ValueId>, ValueId> given_;
  std::vector<Operation> ahead_, behind_;
};

}  // namespace

FoldedValues::FoldedValues(Software& software) : software_(software) {
  for (const Value& value : software.values) names_.insert(value.name);
}

ValueId FoldedValues::add(Format format, Shape dims) {
  const ValueId id{static_cast<std::int32_t>(software_.values.size())};
  std::string name = "r" + std::to_string(id.value);
  while (!names_.insert(name).second) name += "_";
  software_.values.push_back({std::move(name), format, std::move(dims), nullptr});
  return id;
}

ValueId FoldedValues::numbers(const std::vector<std::int64_t>& numbers, Shape dims) {
  const auto [found, fresh] = numbers_.try_emplace({numbers, dims});
  if (!fresh) return found->second;
  Tensor tensor = Tensor::zeros(Format::kI64, std::move(dims));
  std::memcpy(tensor.bytes.data(), numbers.data(), tensor.bytes.size());
  return found->second = constant(std::move(tensor));
}

ValueId FoldedValues::constant(Tensor tensor) {
  const ValueId id = add(tensor.format, tensor.dims);
  software_.values.back().constant = std::make_shared<const Tensor>(std::move(tensor));
  return id;
}

const std::pair<ValueId, std::int64_t>* FoldedValues::row(ValueId id) const {
  const auto found = rows_.find(id);
  return found == rows_.end() ? nullptr : &found->second;
}

std::pair<ValueId, std::vector<std::int64_t>> FoldedValues::rows(
    const std::vector<ValueId>& ids) const {
  ValueId all;
  std::vector<std::int64_t> numbers;
  for (const ValueId id : ids) {
    const auto* found = row(id);
    if (found == nullptr || (all.valid() && found->first != all)) return {};
    all = found->first;
    numbers.push_back(found->second);
  }
  return {all, std::move(numbers)};
}

std::vector<Operation> write_turns(const std::vector<Operation>& operations, const Run& run,
                                   const Table<ValueId, int>& last_reader, std::int32_t layer,
                                   FoldedValues& values) {
  return TurnWriter(operations, run, layer, values).write(last_reader);
}

}  // namespace tessera::concord
