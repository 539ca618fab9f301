#include "schedule/scheduler.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/admit.h"
#include "schedule/plan.h"

namespace tessera::schedule {
namespace {

Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

Error no_tenant(TenantId id) {
  return invalid(fmt::format("there is no tenant {}; it has to arrive first", id));
}

Status check_terms(TenantId id, const Terms& terms) {
  Status bounds = check_bounds(terms.bounds);
  if (!bounds.ok()) return bounds.error().with_context(fmt::format("tenant {}", id));
  if (terms.weight < 1 || terms.weight > kWeightMax) {
    return invalid(
        fmt::format("tenant {}: weight is {}, allowed 1 to {}", id, terms.weight, kWeightMax));
  }
  return {};
}

Status check_tenant(TenantId id, const Performance& performance) {
  const Status checked = check_performance(performance);
  if (!checked.ok()) return checked.error().with_context(fmt::format("tenant {}", id));
  return {};
}

Status check_core(const State& state, CoreId core) {
  const auto cores = static_cast<CoreId>(state.cores.size());
  if (core >= 0 && core < cores) return {};
  return invalid(fmt::format("core {}, allowed 0 to {}", core, cores - 1));
}

Status check_card(const State& state, std::int32_t card) {
  const auto cards = static_cast<std::int32_t>(state.cards.size());
  if (card >= 0 && card < cards) return {};
  return invalid(fmt::format("card {}, allowed 0 to {}", card, cards - 1));
}

Status check_order(const State& state, OrderId order) {
  if (order >= 1 && order < state.next_order) return {};
  return invalid(
      fmt::format("order {} was never given, the last is {}", order, state.next_order - 1));
}

bool comes_before(const Tenant& a, const Tenant& b) {
  if (a.terms.priority != b.terms.priority) return a.terms.priority > b.terms.priority;
  return a.arrival < b.arrival;
}

void insert(State& state, Tenant tenant) {
  const auto place =
      std::lower_bound(state.tenants.begin(), state.tenants.end(), tenant, comes_before);
  state.tenants.insert(place, std::move(tenant));
}

Tenant remove(State& state, TenantId id) {
  const auto it = state.tenants.begin() + (find_tenant(state, id) - state.tenants.data());
  Tenant tenant = std::move(*it);
  state.tenants.erase(it);
  return tenant;
}

void find_points(const State& state, Tenant& tenant) {
  tenant.points = points_that_hold(tenant.performance, tenant.terms.bounds, state.cores_most);
}

std::string why_never(const State& state, const Tenant& tenant) {
  return why_none_holds(tenant.performance, tenant.terms.bounds, state.cores_most);
}

std::string why_no_room(const State& state, const Tenant& tenant) {
  const int cores = tenant.points.front().cores;
  return fmt::format(
      "it needs {} core{} of one card at the least, and those who come before it leave {}", cores,
      cores == 1 ? "" : "s", room_for(state, tenant));
}

// Cards whose plan has to be made anew, ascending.
struct Touched {
  std::vector<int> cards;

  bool has(int card) const { return std::binary_search(cards.begin(), cards.end(), card); }
  void add(int card) {
    if (card < 0 || has(card)) return;
    cards.insert(std::lower_bound(cards.begin(), cards.end(), card), card);
  }
};

Wait waits(const State& state, const Tenant& tenant) {
  const bool never = tenant.points.empty();
  return {.tenant = tenant.id,
          .reason = never ? Reason::kNeverHolds : Reason::kNoRoom,
          .message = never ? why_never(state, tenant) : why_no_room(state, tenant)};
}

// Makes the plan anew for the cards that the event has touched and those whose tenants change. `arrived`
// is told that it waits although it did so before.
void replan(State& state, Touched touched, Actions& actions,
            std::optional<TenantId> arrived = std::nullopt) {
  const std::vector<int> cards = admit(state);
  std::vector<std::size_t> waiting;
  for (std::size_t i = 0; i < cards.size(); ++i) {
    Tenant& tenant = state.tenants[i];
    if (cards[i] < 0 && (tenant.admitted() || tenant.id == arrived)) waiting.push_back(i);
    if (cards[i] == tenant.card) continue;
    touched.add(tenant.card);
    touched.add(cards[i]);
    stop(state, tenant, actions);
    tenant.planned = {};
    tenant.card = cards[i];
    if (cards[i] >= 0) actions.emplace_back(Admit{.tenant = tenant.id, .card = cards[i]});
  }
  for (const std::size_t i : waiting) actions.emplace_back(waits(state, state.tenants[i]));
  for (const int card : touched.cards) plan_card(state, card);
  for (Tenant& tenant : state.tenants) {
    if (touched.has(tenant.card)) pursue(state, tenant, actions);
  }
}

bool is_admitted(const State& state, TenantId id) {
  const std::vector<int> cards = admit(state);
  return cards[find_tenant(state, id) - state.tenants.data()] >= 0;
}

Actions refused(const State& state, const Tenant& tenant) {
  Wait why = waits(state, tenant);
  return {Refuse{.tenant = why.tenant, .reason = why.reason, .message = std::move(why.message)}};
}

Result<Actions> on(State& state, const Arrive& event) {
  if (find_tenant(state, event.tenant) != nullptr) {
    return invalid(
        fmt::format("tenant {} is there already; change its terms instead", event.tenant));
  }
  TESSERA_RETURN_IF_ERROR(check_terms(event.tenant, event.terms));
  TESSERA_RETURN_IF_ERROR(check_tenant(event.tenant, event.performance));
  Tenant tenant{.id = event.tenant,
                .terms = event.terms,
                .performance = event.performance,
                .arrival = state.next_arrival};
  find_points(state, tenant);
  if (tenant.points.empty()) return refused(state, tenant);
  insert(state, std::move(tenant));
  if (!event.terms.may_wait && !is_admitted(state, event.tenant)) {
    Actions actions = refused(state, *find_tenant(state, event.tenant));
    remove(state, event.tenant);
    return actions;
  }
  ++state.next_arrival;
  Actions actions;
  replan(state, {}, actions, event.tenant);
  return actions;
}

Result<Actions> on(State& state, const Leave& event) {
  if (find_tenant(state, event.tenant) == nullptr) return no_tenant(event.tenant);
  Tenant tenant = remove(state, event.tenant);
  Actions actions;
  stop(state, tenant, actions);
  Touched touched;
  touched.add(tenant.card);
  replan(state, touched, actions);
  return actions;
}

Result<Actions> on(State& state, const Change& event) {
  if (find_tenant(state, event.tenant) == nullptr) return no_tenant(event.tenant);
  TESSERA_RETURN_IF_ERROR(check_terms(event.tenant, event.terms));
  Tenant before = remove(state, event.tenant);
  Tenant changed = before;
  changed.terms = event.terms;
  find_points(state, changed);
  Touched touched;
  touched.add(changed.card);
  if (changed.points.empty()) {
    Actions actions = refused(state, changed);
    insert(state, std::move(before));
    return actions;
  }
  insert(state, std::move(changed));
  if (before.admitted() && !event.terms.may_wait && !is_admitted(state, event.tenant)) {
    Actions actions = refused(state, *find_tenant(state, event.tenant));
    remove(state, event.tenant);
    insert(state, std::move(before));
    return actions;
  }
  Actions actions;
  replan(state, touched, actions);
  return actions;
}

Result<Actions> on(State& state, const Measured& event) {
  Tenant* tenant = find_tenant(state, event.tenant);
  if (tenant == nullptr) return no_tenant(event.tenant);
  TESSERA_RETURN_IF_ERROR(check_tenant(event.tenant, event.performance));
  tenant->performance = event.performance;
  find_points(state, *tenant);
  Touched touched;
  touched.add(tenant->card);
  Actions actions;
  replan(state, touched, actions);
  return actions;
}

// Fails or returns those of the card's cores [first, end) that work or have failed.
Result<Actions> turn_cores(State& state, int card, CoreId first, CoreId end, bool fail) {
  std::vector<CoreId> cores;
  for (CoreId core = first; core < end; ++core) {
    if ((state.cores[core].phase == CorePhase::kFailed) != fail) cores.push_back(core);
  }
  if (cores.empty()) {
    const std::string which = end - first == 1 ? fmt::format("core {} has", first)
                                               : fmt::format("the cores of card {} have", card);
    return invalid(which + (fail ? " failed already" : " not failed"));
  }
  Actions actions;
  if (fail) fail_cores(state, cores, actions);
  for (const CoreId core : cores) {
    if (!fail) clear_core(state, core, actions);
  }
  Touched touched;
  touched.add(card);
  replan(state, touched, actions);
  return actions;
}

Result<Actions> turn_core(State& state, CoreId core, bool fail) {
  TESSERA_RETURN_IF_ERROR(check_core(state, core));
  return turn_cores(state, state.cores[core].card, core, core + 1, fail);
}

Result<Actions> turn_card(State& state, std::int32_t card, bool fail) {
  TESSERA_RETURN_IF_ERROR(check_card(state, card));
  const Card& c = state.cards[card];
  return turn_cores(state, card, c.first_core, c.first_core + c.cores, fail);
}

Result<Actions> on(State& state, const CoreFailed& event) {
  return turn_core(state, event.core, true);
}
Result<Actions> on(State& state, const CoreReturned& event) {
  return turn_core(state, event.core, false);
}
Result<Actions> on(State& state, const CardFailed& event) {
  return turn_card(state, event.card, true);
}
Result<Actions> on(State& state, const CardReturned& event) {
  return turn_card(state, event.card, false);
}

Result<Actions> on(State& state, const Relinked& event) {
  TESSERA_RETURN_IF_ERROR(check_order(state, event.order));
  Actions actions;
  Tenant* tenant = find_tenant(state, event.tenant);
  if (tenant != nullptr && tenant->relink == event.order) finish_relink(state, *tenant, actions);
  return actions;
}

Result<Actions> on(State& state, const Drained& event) {
  TESSERA_RETURN_IF_ERROR(check_core(state, event.core));
  TESSERA_RETURN_IF_ERROR(check_order(state, event.order));
  Actions actions;
  const Core& core = state.cores[event.core];
  if (core.phase == CorePhase::kDraining && core.order == event.order) {
    finish_drain(state, event.core, actions);
  }
  return actions;
}

Result<Actions> on(State& state, const Cleared& event) {
  TESSERA_RETURN_IF_ERROR(check_core(state, event.core));
  TESSERA_RETURN_IF_ERROR(check_order(state, event.order));
  Actions actions;
  const Core& core = state.cores[event.core];
  if (core.phase == CorePhase::kClearing && core.order == event.order) {
    finish_clear(state, event.core, actions);
  }
  return actions;
}

}  // namespace

Result<Actions> step(State& state, const Event& event) {
  return std::visit([&](const auto& e) { return on(state, e); }, event);
}

}  // namespace tessera::schedule
