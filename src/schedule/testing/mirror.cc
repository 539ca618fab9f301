#include "schedule/testing/mirror.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace tessera::schedule {
namespace {

template <typename... Values>
Error broken(fmt::format_string<Values...> text, Values&&... values) {
  return {ErrorCode::kInternal, fmt::format(text, std::forward<Values>(values)...)};
}

bool has(const Assignment& assignment, CoreId core) {
  return std::count(assignment.cores.begin(), assignment.cores.end(), core) != 0;
}

void lose(Assignment& assignment, CoreId core) {
  if (!has(assignment, core)) return;
  std::erase(assignment.cores, core);
  assignment.images_at_once = 0;
}

}  // namespace

Event Outstanding::done() const {
  const auto core = static_cast<CoreId>(subject);
  switch (kind) {
    case Kind::kRelink:
      return Relinked{.tenant = subject, .order = order};
    case Kind::kDrain:
      return Drained{.core = core, .order = order};
    case Kind::kClear:
      return Cleared{.core = core, .order = order};
  }
  return {};
}

Mirror::Mirror(const State& start) : cores_(start.cores.size()) {
  for (const Core& core : start.cores) card_.push_back(core.card);
}

void Mirror::fail(CoreId core) {
  if (cores_[core].phase == CorePhase::kFailed) return;
  cores_[core] = {.phase = CorePhase::kFailed};
  for (auto& [id, program] : programs_) {
    lose(program.running, core);
    if (program.relink != 0 && has(program.linking, core)) {
      program.relink = 0;
      program.linking = {};
    }
  }
}

void Mirror::happen(const Event& event) {
  if (const auto* e = std::get_if<CoreFailed>(&event)) fail(e->core);
  if (const auto* e = std::get_if<CardFailed>(&event)) {
    for (std::size_t i = 0; i < cores_.size(); ++i) {
      if (card_[i] == e->card) fail(static_cast<CoreId>(i));
    }
  }
  if (const auto* e = std::get_if<CoreReturned>(&event)) cores_[e->core].returned = true;
  if (const auto* e = std::get_if<CardReturned>(&event)) {
    for (std::size_t i = 0; i < cores_.size(); ++i) {
      const bool failed = cores_[i].phase == CorePhase::kFailed;
      if (card_[i] == e->card && failed) cores_[i].returned = true;
    }
  }
  if (const auto* e = std::get_if<Relinked>(&event)) {
    const auto it = programs_.find(e->tenant);
    if (it != programs_.end() && it->second.relink == e->order) {
      it->second = {.running = it->second.linking, .linking = {}};
    }
  }
  if (const auto* e = std::get_if<Drained>(&event)) {
    MirroredCore& core = cores_[e->core];
    if (core.phase == CorePhase::kDraining && core.order == e->order) core.drained = true;
  }
  if (const auto* e = std::get_if<Cleared>(&event)) {
    MirroredCore& core = cores_[e->core];
    if (core.phase == CorePhase::kClearing && core.order == e->order) core = {};
  }
}

Status Mirror::obey(const Give& action) {
  MirroredCore& core = cores_[action.core];
  if (core.phase != CorePhase::kFree) return broken("core {} is given and not free", action.core);
  core = {.phase = CorePhase::kHeld, .owner = action.tenant};
  return {};
}

Status Mirror::obey(const Take& action) {
  MirroredCore& core = cores_[action.core];
  if (core.phase != CorePhase::kHeld || core.owner != action.tenant) {
    return broken("core {} is taken from tenant {}, which has it not", action.core, action.tenant);
  }
  core = {.phase = CorePhase::kDraining, .owner = action.tenant, .order = action.order};
  Program& program = programs_[action.tenant];
  lose(program.running, action.core);
  if (program.relink != 0 && has(program.linking, action.core)) {
    program.relink = 0;
    program.linking = {};
  }
  return {};
}

Status Mirror::obey(const Relink& action) {
  Program& program = programs_[action.tenant];
  if (program.relink != 0) return broken("tenant {} is linked twice at once", action.tenant);
  if (action.assignment.cores.empty()) return broken("tenant {} on no core", action.tenant);
  for (const CoreId core : action.assignment.cores) {
    if (cores_[core].phase != CorePhase::kHeld || cores_[core].owner != action.tenant) {
      return broken("tenant {} is linked for core {}, which it has not", action.tenant, core);
    }
  }
  program.linking = action.assignment;
  program.relink = action.order;
  return {};
}

Status Mirror::obey(const Clear& action) {
  MirroredCore& core = cores_[action.core];
  if (!core.drained && !core.returned) return broken("core {} is cleared in use", action.core);
  core = {.phase = CorePhase::kClearing, .order = action.order};
  return {};
}

Status Mirror::obey(const Action& action) {
  if (const auto* a = std::get_if<Give>(&action)) return obey(*a);
  if (const auto* a = std::get_if<Take>(&action)) return obey(*a);
  if (const auto* a = std::get_if<Relink>(&action)) return obey(*a);
  if (const auto* a = std::get_if<Clear>(&action)) return obey(*a);
  return {};
}

Status Mirror::apply(const Event& event, const std::vector<Action>& actions) {
  happen(event);
  std::set<TenantId> ran;
  for (const auto& [id, program] : programs_) {
    if (program.running.images_at_once != 0) ran.insert(id);
  }
  // A program ends when the tenant leaves, has to wait or changes the card, and with a core of its own.
  if (const auto* e = std::get_if<Leave>(&event)) ran.erase(e->tenant);
  for (const Action& action : actions) {
    TESSERA_RETURN_IF_ERROR(obey(action));
    if (const auto* a = std::get_if<Wait>(&action)) ran.erase(a->tenant);
    if (const auto* a = std::get_if<Admit>(&action)) ran.erase(a->tenant);
  }
  for (const TenantId id : ran) {
    if (programs_[id].running.images_at_once == 0) return broken("tenant {} was stopped", id);
  }
  for (std::size_t i = 0; i < cores_.size(); ++i) {
    if (cores_[i].drained || cores_[i].returned) return broken("core {} was not cleared", i);
  }
  if (const auto* e = std::get_if<Leave>(&event)) programs_.erase(e->tenant);
  return {};
}

Status Mirror::compare(const State& state) const {
  for (std::size_t i = 0; i < cores_.size(); ++i) {
    const MirroredCore& here = cores_[i];
    const Core& there = state.cores[i];
    if (here.phase != there.phase || here.owner != there.owner || here.order != there.order) {
      return broken("core {}: phase {} of {} by the actions, {} of {} by the state", i,
                    static_cast<int>(here.phase), here.owner, static_cast<int>(there.phase),
                    there.owner);
    }
  }
  for (const Tenant& tenant : state.tenants) {
    const auto it = programs_.find(tenant.id);
    const Program program = it == programs_.end() ? Program{} : it->second;
    if (program.running != tenant.running || program.linking != tenant.linking ||
        program.relink != tenant.relink) {
      return broken("tenant {}: other programs by the actions than by the state", tenant.id);
    }
  }
  return {};
}

std::vector<Outstanding> Mirror::outstanding() const {
  std::vector<Outstanding> orders;
  for (const auto& [id, program] : programs_) {
    if (program.relink != 0) orders.push_back({Outstanding::Kind::kRelink, id, program.relink});
  }
  for (std::size_t i = 0; i < cores_.size(); ++i) {
    const auto core = static_cast<std::int64_t>(i);
    if (cores_[i].phase == CorePhase::kDraining) {
      orders.push_back({Outstanding::Kind::kDrain, core, cores_[i].order});
    }
    if (cores_[i].phase == CorePhase::kClearing) {
      orders.push_back({Outstanding::Kind::kClear, core, cores_[i].order});
    }
  }
  return orders;
}

}  // namespace tessera::schedule
