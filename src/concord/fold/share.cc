#include "concord/fold/share.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace tessera::concord {
namespace {

constexpr int kCommonUses = 3;  // what this many operations use is written early

bool is_move(Operator op) {
  switch (op) {
    case Operator::kCast:
    case Operator::kReshape:
    case Operator::kTranspose:
    case Operator::kSlice:
    case Operator::kConcat:
    case Operator::kPad:
    case Operator::kExpand:
    case Operator::kGather:
      return true;
    default:
      return false;
  }
}

class Sharing {
 public:
  explicit Sharing(Software& software) : software_(software) {
    for (std::size_t i = 0; i < software.values.size(); ++i) {
      now_.push_back({static_cast<std::int32_t>(i)});
    }
    for (const Port& port : software.outputs) ports_.insert(port.value);
  }

  void run() {
    share_constants();
    share_operations();
    for (Layer& layer : software_.layers) {
      if (layer.result.valid()) layer.result = now_[layer.result];
    }
    move_common();
  }

 private:
  void share_constants() {
    std::map<std::size_t, std::vector<ValueId>> seen;  // by the hash of their bytes
    for (std::size_t i = 0; i < software_.values.size(); ++i) {
      const Value& value = software_.values[i];
      const ValueId id{static_cast<std::int32_t>(i)};
      if (value.constant == nullptr || value.trained || ports_.count(id) > 0) continue;
      const Tensor& tensor = *value.constant;
      const std::string_view bytes(reinterpret_cast<const char*>(tensor.bytes.data()),
                                   tensor.bytes.size());
      std::vector<ValueId>& alike = seen[std::hash<std::string_view>()(bytes)];
      const auto found = std::find_if(alike.begin(), alike.end(), [&](ValueId other) {
        return *software_.value(other).constant == tensor;
      });
      if (found == alike.end()) {
        alike.push_back(id);
      } else {
        now_[i] = *found;
      }
    }
  }

  std::string key(const Operation& operation) const {
    std::string text = fmt::format("{} {} {}", static_cast<int>(operation.op),
                                   static_cast<int>(operation.to), operation.axis);
    for (const auto* list : {&operation.axes, &operation.starts, &operation.ends, &operation.steps,
                             &software_.value(operation.outputs[0]).dims}) {
      text += '|';
      for (const std::int64_t number : *list) text += std::to_string(number) + ",";
    }
    for (const ValueId id : operation.inputs) text += " " + std::to_string(id.value);
    return text;
  }

  bool may_be_shared(const Operation& operation) const {
    if (operation.op == Operator::kHostNode || operation.op == Operator::kRepeat) return false;
    return is_move(operation.op) ||
           std::all_of(operation.inputs.begin(), operation.inputs.end(), [&](ValueId id) {
             const Value& value = software_.value(id);
             return fixed_.count(id) > 0 || (value.constant != nullptr && !value.trained);
           });
  }

  void share_operations() {
    std::map<std::string, ValueId> seen;
    std::vector<Operation> kept;
    for (Operation& operation : software_.operations) {
      for (ValueId& id : operation.inputs) id = now_[id];
      if (may_be_shared(operation)) {
        const ValueId result = operation.outputs[0];
        const bool of_constants =
            std::all_of(operation.inputs.begin(), operation.inputs.end(), [&](ValueId id) {
              return fixed_.count(id) > 0 || software_.value(id).constant != nullptr;
            });
        const auto [found, fresh] = seen.try_emplace(key(operation), result);
        if (!fresh && ports_.count(result) == 0) {
          now_[result] = found->second;
          ++uses_[found->second];
          continue;
        }
        if (of_constants) fixed_.insert(result);
      }
      kept.push_back(std::move(operation));
    }
    software_.operations = std::move(kept);
  }

  // Behind the last operation that makes an operand, where that is not shared itself.
  void move_common() {
    Table<ValueId, int> made(software_.values.size(), 0);  // 1 + the operation it stands behind
    std::vector<std::vector<Operation>> behind(software_.operations.size() + 1);
    std::vector<Operation> others;
    for (Operation& operation : software_.operations) {
      const auto uses = uses_.find(operation.outputs[0]);
      const bool fixed = fixed_.count(operation.outputs[0]) > 0;
      if (fixed) operation.layer = -1;
      const bool common = uses != uses_.end() && uses->second + 1 >= kCommonUses;
      if (fixed || common) {
        int place = 0;
        for (const ValueId id : operation.inputs) place = std::max(place, made[id]);
        made[operation.outputs[0]] = place;
        behind[static_cast<std::size_t>(place)].push_back(std::move(operation));
        continue;
      }
      others.push_back(std::move(operation));
      for (const ValueId id : others.back().outputs) {
        made[id] = static_cast<int>(others.size());
      }
    }
    std::vector<Operation> all = std::move(behind[0]);
    for (std::size_t i = 0; i < others.size(); ++i) {
      all.push_back(std::move(others[i]));
      std::move(behind[i + 1].begin(), behind[i + 1].end(), std::back_inserter(all));
    }
    software_.operations = std::move(all);
  }

  Software& software_;
  Table<ValueId, ValueId> now_;      // what stands for each value
  std::set<ValueId> ports_, fixed_;  // outputs; results of operations on constants
  std::map<ValueId, int> uses_;      // operations that a result stands for, besides its own
};

}  // namespace

void share_equal(Software& software) { Sharing(software).run(); }

}  // namespace tessera::concord
