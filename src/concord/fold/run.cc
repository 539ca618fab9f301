#include "concord/fold/run.h"

#include <algorithm>
#include <set>
#include <utility>

#include "arith/format.h"

namespace tessera::concord {
namespace {

constexpr std::size_t kLagMax = 4;

class Turns {
 public:
  Turns(const Software& software, const Table<ValueId, int>& made, const Run& run)
      : software_(software), operations_(software.operations), made_(made), run_(run) {}

  std::optional<TurnOperand> operand(std::size_t place, std::size_t number) const {
    std::vector<ValueId> values;
    for (std::size_t turn = 0; turn < run_.turns; ++turn) {
      const std::size_t at = run_.first + turn * run_.period + place;
      values.push_back(operations_[at].inputs[number]);
    }
    const int maker = made_[values.back()];
    if (maker < static_cast<int>(run_.first)) return from_outside(std::move(values));
    const std::size_t offset = static_cast<std::size_t>(maker) - run_.first;
    const std::size_t lag = run_.turns - 1 - offset / run_.period;
    return from_inside(values, offset % run_.period, lag);
  }

 private:
  bool is_outside(ValueId id) const { return made_[id] < static_cast<int>(run_.first); }

  std::optional<TurnOperand> from_outside(std::vector<ValueId> values) const {
    for (const ValueId id : values) {
      if (!is_outside(id)) return std::nullopt;
    }
    TurnOperand result;
    if (std::all_of(values.begin(), values.end(), [&](ValueId id) { return id == values[0]; })) {
      result.same = values[0];
    } else {
      const Value& value = software_.value(values[0]);
      if (value.constant != nullptr && format_is_float(value.format)) return std::nullopt;
      result.source = TurnOperand::Source::kGiven;
      result.outside = std::move(values);
    }
    return result;
  }

  std::optional<TurnOperand> from_inside(const std::vector<ValueId>& values, std::size_t place,
                                         std::size_t lag) const {
    if (lag > kLagMax || lag >= run_.turns) return std::nullopt;
    TurnOperand result;
    result.source = lag == 0 ? TurnOperand::Source::kThisTurn : TurnOperand::Source::kEarlierTurn;
    result.place = place;
    result.lag = lag;
    for (std::size_t turn = 0; turn < run_.turns; ++turn) {
      if (turn < lag) {
        if (!is_outside(values[turn])) return std::nullopt;
        result.outside.push_back(values[turn]);
      } else {
        const std::size_t maker = run_.first + (turn - lag) * run_.period + place;
        if (operations_[maker].outputs[0] != values[turn]) return std::nullopt;
      }
    }
    return result;
  }

  const Software& software_;
  const std::vector<Operation>& operations_;
  const Table<ValueId, int>& made_;
  const Run& run_;
};

}  // namespace

std::size_t Run::carried() const {
  std::set<std::pair<std::size_t, std::size_t>> all;
  for (const auto& list : operands) {
    for (const TurnOperand& operand : list) {
      for (std::size_t lag = 1; lag <= operand.lag; ++lag) all.insert({operand.place, lag});
    }
  }
  return all.size();
}

std::optional<Run> find_turns(const Software& software, const Table<ValueId, int>& made,
                              std::size_t first, std::size_t period, std::size_t turns) {
  const std::vector<Operation>& operations = software.operations;
  Run run{first, period, turns, {}};
  const Turns all(software, made, run);
  for (std::size_t place = 0; place < period; ++place) {
    std::vector<TurnOperand> operands;
    for (std::size_t number = 0; number < operations[first + place].inputs.size(); ++number) {
      auto operand = all.operand(place, number);
      if (!operand) return std::nullopt;
      operands.push_back(*std::move(operand));
    }
    run.operands.push_back(std::move(operands));
  }
  return run;
}

}  // namespace tessera::concord
