#include "concord/write/schedule.h"

#include <algorithm>

namespace tessera::concord {
namespace {

// Values given back after the last operation that touches them.
void find_dead(const Software& software, const Table<ValueId, bool>& fixed,
               std::vector<Stage>& stages) {
  Table<ValueId, bool> needed(software.values.size(), false);
  for (const Port& port : software.outputs) needed[port.value] = true;
  for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage) {
    const auto visit = [&](ValueId id) {
      if (needed[id] || fixed[id] || software.value(id).trained) return;
      needed[id] = true;
      stage->dead.push_back(id);
    };
    std::for_each(stage->operation->inputs.begin(), stage->operation->inputs.end(), visit);
    std::for_each(stage->operation->outputs.begin(), stage->operation->outputs.end(), visit);
  }
}

}  // namespace

Schedule make_schedule(const Software& software) {
  Schedule schedule;
  Table<ValueId, bool> fixed(software.values.size(), false), read(fixed), run_reads(fixed);
  for (std::size_t i = 0; i < fixed.size(); ++i) {
    fixed[i] = software.values[i].constant != nullptr && !software.values[i].trained;
  }
  for (const Operation& operation : software.operations) {
    const bool once = operation.op != Operator::kHostNode &&
                      std::all_of(operation.inputs.begin(), operation.inputs.end(),
                                  [&](ValueId id) { return static_cast<bool>(fixed[id]); });
    for (const ValueId id : operation.inputs) {
      read[id] = true;
      if (!once) run_reads[id] = true;
    }
    if (once) {
      for (const ValueId id : operation.outputs) fixed[id] = true;
    }
    (once ? schedule.once : schedule.always).push_back({&operation, {}});
  }
  for (const Port& port : software.outputs) {
    read[port.value] = run_reads[port.value] = true;
  }
  find_dead(software, fixed, schedule.always);
  for (std::size_t i = 0; i < fixed.size(); ++i) {
    const ValueId id{static_cast<std::int32_t>(i)};
    const bool is_constant = software.values[i].constant != nullptr;
    if (is_constant && read[i]) schedule.constants.push_back(id);
    if (fixed[i] && !run_reads[i] && (read[i] || !is_constant)) schedule.only_once.push_back(id);
  }
  return schedule;
}

}  // namespace tessera::concord
