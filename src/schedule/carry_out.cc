#include "schedule/carry_out.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace tessera::schedule {
namespace {

// Of ascending numbers.
std::vector<CoreId> without(const std::vector<CoreId>& all, const std::vector<CoreId>& those) {
  std::vector<CoreId> rest;
  std::set_difference(all.begin(), all.end(), those.begin(), those.end(), std::back_inserter(rest));
  return rest;
}

bool contains(const std::vector<CoreId>& cores, CoreId core) {
  return std::binary_search(cores.begin(), cores.end(), core);
}

// The tenant's relink ends without effect: cores that it had only for it go back.
void end_relink(State& state, Tenant& tenant, Actions& actions) {
  const std::vector<CoreId> joined = without(tenant.linking.cores, tenant.running.cores);
  tenant.relink = 0;
  tenant.linking = {};
  for (const CoreId core : joined) {
    if (state.cores[core].phase == CorePhase::kHeld) take_core(state, core, actions);
  }
}

}  // namespace

void pursue(State& state, Tenant& tenant, Actions& actions) {
  if (!tenant.admitted() || tenant.relink != 0 || tenant.running == tenant.planned) return;
  const std::vector<CoreId> joining = without(tenant.planned.cores, tenant.running.cores);
  const bool free = std::all_of(joining.begin(), joining.end(), [&](CoreId core) {
    return state.cores[core].phase == CorePhase::kFree;
  });
  if (!free) return;
  for (const CoreId core : joining) {
    state.cores[core].phase = CorePhase::kHeld;
    state.cores[core].owner = tenant.id;
    actions.emplace_back(Give{.core = core, .tenant = tenant.id});
  }
  tenant.linking = tenant.planned;
  tenant.relink = state.next_order++;
  actions.emplace_back(
      Relink{.tenant = tenant.id, .assignment = tenant.linking, .order = tenant.relink});
}

void take_core(State& state, CoreId core, Actions& actions) {
  Core& c = state.cores[core];
  TESSERA_CHECK(c.phase == CorePhase::kHeld, "core {} is taken in phase {}", core,
                static_cast<int>(c.phase));
  c.phase = CorePhase::kDraining;
  c.order = state.next_order++;
  actions.emplace_back(Take{.core = core, .tenant = c.owner, .order = c.order});
}

void stop(State& state, Tenant& tenant, Actions& actions) {
  if (tenant.relink != 0) end_relink(state, tenant, actions);
  for (const CoreId core : tenant.running.cores) take_core(state, core, actions);
  tenant.running = {};
}

void clear_core(State& state, CoreId core, Actions& actions) {
  Core& c = state.cores[core];
  c.phase = CorePhase::kClearing;
  c.owner = 0;
  c.order = state.next_order++;
  actions.emplace_back(Clear{.core = core, .order = c.order});
}

void fail_cores(State& state, const std::vector<CoreId>& cores, Actions& actions) {
  // All of them first: what a relink gives back must not be among them.
  std::vector<std::pair<CoreId, TenantId>> lost;
  for (const CoreId core : cores) {
    Core& c = state.cores[core];
    if (c.phase == CorePhase::kHeld) lost.emplace_back(core, c.owner);
    c.phase = CorePhase::kFailed;
    c.owner = 0;
    c.order = 0;
  }
  for (const auto& [core, owner] : lost) {
    Tenant* tenant = find_tenant(state, owner);
    TESSERA_CHECK(tenant != nullptr, "tenant {}, who holds core {}, is not there", owner, core);
    if (tenant->relink != 0 && contains(tenant->linking.cores, core)) {
      end_relink(state, *tenant, actions);
    }
    if (contains(tenant->running.cores, core)) {
      tenant->running = {.cores = without(tenant->running.cores, {core})};
    }
  }
}

void finish_relink(State& state, Tenant& tenant, Actions& actions) {
  const std::vector<CoreId> given_up = without(tenant.running.cores, tenant.linking.cores);
  tenant.running = std::move(tenant.linking);
  tenant.linking = {};
  tenant.relink = 0;
  for (const CoreId core : given_up) take_core(state, core, actions);
  pursue(state, tenant, actions);
}

void finish_drain(State& state, CoreId core, Actions& actions) { clear_core(state, core, actions); }

void finish_clear(State& state, CoreId core, Actions& actions) {
  Core& c = state.cores[core];
  c.phase = CorePhase::kFree;
  c.order = 0;
  if (!c.next) return;
  Tenant* tenant = find_tenant(state, *c.next);
  TESSERA_CHECK(tenant != nullptr, "core {} is promised to tenant {}, whom nobody knows", core,
                *c.next);
  pursue(state, *tenant, actions);
}

}  // namespace tessera::schedule
