#include "schedule/check_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "schedule/admit.h"

namespace tessera::schedule {
namespace {

template <typename... Values>
Error broken(fmt::format_string<Values...> text, Values&&... values) {
  return {ErrorCode::kInternal, fmt::format(text, std::forward<Values>(values)...)};
}

Status check_holders(const State& state) {
  std::vector<int> holders(state.cores.size());
  for (const Tenant& tenant : state.tenants) {
    std::set<CoreId> cores(tenant.running.cores.begin(), tenant.running.cores.end());
    cores.insert(tenant.linking.cores.begin(), tenant.linking.cores.end());
    for (const CoreId core : cores) {
      ++holders[core];
      const Core& c = state.cores[core];
      if (c.phase != CorePhase::kHeld || c.owner != tenant.id) {
        return broken("tenant {} has core {}, which says owner {}", tenant.id, core, c.owner);
      }
    }
    if (!tenant.admitted() && !cores.empty()) return broken("tenant {} waits on cores", tenant.id);
  }
  for (std::size_t core = 0; core < holders.size(); ++core) {
    const int expected = state.cores[core].phase == CorePhase::kHeld ? 1 : 0;
    if (holders[core] != expected) return broken("core {} has {} holders", core, holders[core]);
  }
  return {};
}

Status check_plan(const State& state, const Tenant& tenant, std::vector<int>& planned) {
  for (const CoreId core : tenant.planned.cores) {
    const Core& c = state.cores[core];
    if (c.phase == CorePhase::kFailed) return broken("core {} has failed and is planned", core);
    if (c.card != tenant.card) return broken("core {} is of another card", core);
    if (c.next != tenant.id) return broken("core {} is not tenant {}'s next", core, tenant.id);
    if (++planned[core] != 1) return broken("core {} is planned twice", core);
  }
  if (!tenant.admitted()) return {};
  const auto& bounds = tenant.terms.bounds;
  const auto fits = [&](const OperatingPoint& p) {
    return p.cores == static_cast<int>(tenant.planned.cores.size()) &&
           p.images_at_once == tenant.planned.images_at_once &&
           p.latency_picoseconds <= bounds.latency_picoseconds_max &&
           p.milli_images_per_second >= bounds.milli_images_per_second_min &&
           p.cores >= bounds.cores_min && p.cores <= bounds.cores_max;
  };
  const auto& points = tenant.performance.points;
  if (std::none_of(points.begin(), points.end(), fits)) {
    return broken("the plan of tenant {}, {} cores, does not hold its bounds", tenant.id,
                  tenant.planned.cores.size());
  }
  return {};
}

std::int64_t images(const Tenant& tenant, int cores) {
  for (const OperatingPoint& point : tenant.points) {
    if (point.cores == cores) return point.milli_images_per_second;
  }
  return 0;
}

// No tenant of a card would make more images with cores that are nobody's in the plan.
Status check_idle(const State& state, const std::vector<int>& planned) {
  for (int card = 0; card < static_cast<int>(state.cards.size()); ++card) {
    const CoreId first = state.cards[card].first_core;
    int idle = working_cores(state, card);
    for (CoreId core = first; core < first + state.cards[card].cores; ++core) {
      idle -= planned[core];
      if (planned[core] == 0 && state.cores[core].next) return broken("core {} has a next", core);
    }
    for (const Tenant& tenant : state.tenants) {
      if (tenant.card != card) continue;
      const int cores = static_cast<int>(tenant.planned.cores.size());
      for (int more = cores + 1; more <= cores + idle; ++more) {
        if (images(tenant, more) > images(tenant, cores)) {
          return broken("tenant {} could use {} of {} idle cores", tenant.id, more - cores, idle);
        }
      }
    }
  }
  return {};
}

}  // namespace

Status check_state(const State& state) {
  TESSERA_RETURN_IF_ERROR(check_holders(state));
  std::vector<int> planned(state.cores.size());
  for (const Tenant& tenant : state.tenants) {
    TESSERA_RETURN_IF_ERROR(check_plan(state, tenant, planned));
    if (tenant.admitted() || tenant.points.empty()) continue;
    const int room = room_for(state, tenant);
    if (room >= tenant.points.front().cores) {
      return broken("tenant {} waits and has room: {} cores", tenant.id, room);
    }
  }
  return check_idle(state, planned);
}

bool at_rest(const State& state) {
  const bool cores = std::none_of(state.cores.begin(), state.cores.end(), [](const Core& core) {
    return core.phase == CorePhase::kDraining || core.phase == CorePhase::kClearing;
  });
  return cores && std::all_of(state.tenants.begin(), state.tenants.end(), [](const Tenant& tenant) {
           return tenant.relink == 0 && tenant.running == tenant.planned;
         });
}

}  // namespace tessera::schedule
