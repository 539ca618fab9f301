#include "concord/fold/fold.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <map>
#include <optional>
#include <utility>

#include "concord/fold/compact.h"
#include "concord/fold/depth_first.h"
#include "concord/fold/regroup.h"
#include "concord/fold/run.h"
#include "concord/fold/share.h"
#include "concord/fold/turns.h"

namespace tessera::concord {
namespace {

constexpr std::size_t kTurnsMin = 3;
constexpr std::size_t kSavedMin = 64;  // operations that a loop must save
// Of a software's operations: where no more are left the loops have been found.
constexpr double kFoldedShare = 0.75;

// Operations of one layer that stand together.
struct Stretch {
  std::size_t first = 0, count = 0;
  int kind = 0;  // equal where the operations are
};

class Folding {
 public:
  explicit Folding(Software& software) : software_(software), values_(software) {
    const std::vector<Operation>& all = software.operations;
    made_.assign(software.values.size(), -1);
    last_reader_.assign(software.values.size(), -1);
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (const ValueId id : all[i].inputs) last_reader_[id] = static_cast<int>(i);
      for (const ValueId id : all[i].outputs) made_[id] = static_cast<int>(i);
    }
    for (const Port& port : software.outputs) last_reader_[port.value] = INT_MAX;
    find_stretches();
  }

  void run() {
    std::vector<Operation> written;
    std::size_t next = 0;  // operation
    for (std::size_t at = 0; at < stretches_.size();) {
      const std::optional<Run> run = run_from(at);
      if (!run) {
        ++at;
        continue;
      }
      copy(next, run->first, written);
      std::vector<Operation> loop =
          write_turns(software_.operations, *run, last_reader_, add_layer(*run), values_);
      std::move(loop.begin(), loop.end(), std::back_inserter(written));
      next = run->end();
      while (at < stretches_.size() && stretches_[at].first < next) ++at;
    }
    copy(next, software_.operations.size(), written);
    regroup_rows(written, values_);
    software_.operations = std::move(written);
  }

 private:
  void copy(std::size_t from, std::size_t to, std::vector<Operation>& written) const {
    const auto begin = software_.operations.begin();
    written.insert(written.end(), begin + static_cast<std::ptrdiff_t>(from),
                   begin + static_cast<std::ptrdiff_t>(to));
  }

  std::string signature(const Operation& operation) const {
    std::string text = fmt::format("{} {} {}", static_cast<int>(operation.op),
                                   static_cast<int>(operation.to), operation.axis);
    const auto add = [&](const std::vector<std::int64_t>& numbers) {
      text += '|';
      for (const std::int64_t number : numbers) text += std::to_string(number) + ",";
    };
    add(operation.axes);
    add(operation.steps);
    if (operation.op != Operator::kSlice || operation.axes.size() != 1) {
      add(operation.starts);
      add(operation.ends);
    }
    for (const auto* ids : {&operation.inputs, &operation.outputs}) {
      for (const ValueId id : *ids) {
        const Value& value = software_.value(id);
        text += format_name(value.format);
        add(value.dims);
      }
    }
    return text;
  }

  void find_stretches() {
    const std::vector<Operation>& all = software_.operations;
    std::map<std::string, int> kinds;
    for (std::size_t i = 0; i < all.size();) {
      Stretch stretch{i, 0, -1};
      const std::int32_t layer = all[i].layer;
      std::string whole = layer < 0 ? "" : software_.layers[layer].kind;
      bool unique = layer < 0;
      for (; i < all.size() && all[i].layer == layer; ++i) {
        unique |= all[i].op == Operator::kHostNode || all[i].op == Operator::kRepeat;
        whole += "\n" + signature(all[i]);
        ++stretch.count;
      }
      if (unique) whole += fmt::format("\nstretch {}", stretches_.size());
      stretch.kind = kinds.try_emplace(whole, static_cast<int>(kinds.size())).first->second;
      stretches_.push_back(stretch);
    }
  }

  std::size_t operation_at(std::size_t stretch) const {
    return stretch < stretches_.size() ? stretches_[stretch].first : software_.operations.size();
  }

  // How many turns of `period` stretches stand behind one another from here.
  std::size_t turns_at(std::size_t at, std::size_t period) const {
    std::size_t same = 0;
    while (at + same + period < stretches_.size() &&
           stretches_[at + same].kind == stretches_[at + same + period].kind) {
      ++same;
    }
    return same / period + 1;
  }

  // The loop that saves most, if there is one here.
  std::optional<Run> run_from(std::size_t at) const {
    std::size_t best = 0, period = 0;
    for (std::size_t i = 1; at + i * kTurnsMin <= stretches_.size(); ++i) {
      if (stretches_[at + i].kind != stretches_[at].kind) continue;
      const std::size_t turns = turns_at(at, i);
      const std::size_t saved = (turns - 1) * (operation_at(at + i) - operation_at(at));
      if (turns < kTurnsMin || saved < kSavedMin || saved <= best) continue;
      best = saved;
      period = i;
    }
    if (period == 0) return std::nullopt;
    return aligned(at, period);
  }

  // A turn may begin with any of its layers: the one to begin with is that from which fewest values
  // pass to the next turn.
  std::optional<Run> aligned(std::size_t at, std::size_t period) const {
    std::optional<Run> best;
    for (std::size_t first = at; first < at + period; ++first) {
      const std::size_t turns = turns_at(first, period);
      for (std::size_t less = 0; less < 2 && turns >= kTurnsMin + less; ++less) {
        const std::size_t count = operation_at(first + period) - operation_at(first);
        auto run = find_turns(software_, made_, operation_at(first), count, turns - less);
        if (!run) continue;
        if (!best || run->carried() < best->carried()) best = std::move(run);
        break;
      }
    }
    return best;
  }

  std::int32_t add_layer(const Run& run) {
    const auto layer = static_cast<std::int32_t>(software_.layers.size());
    const auto first = static_cast<std::size_t>(software_.operations[run.first].layer);
    software_.layers.push_back(
        {fmt::format("{}.repeat", software_.layers[first].name), "repeat", {}, "", Format::kF16});
    return layer;
  }

  Software& software_;
  FoldedValues values_;
  Table<ValueId, int> made_, last_reader_;  // operations
  std::vector<Stretch> stretches_;
};

Software folded_in_order(const Software& software) {
  Software result = software;
  share_equal(result);
  drop_unread(result);
  Folding(result).run();
  drop_unread(result);
  compact(result, software);
  return result;
}

std::size_t operations_of(const Software& software) {
  std::size_t count = 0;
  for_each_operation(software.operations, [&](const Operation&) { ++count; });
  return count;
}

}  // namespace

Software folded(const Software& software) {
  if (std::any_of(software.values.begin(), software.values.end(),
                  [](const Value& value) { return value.trained; })) {
    return software;
  }
  const std::optional<Software> reordered = ordered_depth_first(software);
  if (!reordered) return folded_in_order(software);
  Software result = folded_in_order(*reordered);
  const auto all = static_cast<double>(operations_of(software));
  if (static_cast<double>(operations_of(result)) <= kFoldedShare * all) return result;
  Software other = folded_in_order(software);
  return operations_of(other) <= operations_of(result) ? std::move(other) : std::move(result);
}

}  // namespace tessera::concord
