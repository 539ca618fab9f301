#include "schedule/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace tessera::schedule {

Result<State> make_state(const std::vector<CardShape>& cards) {
  if (cards.empty()) return Error{ErrorCode::kInvalidArgument, "no card, allowed at least one"};
  State state;
  for (const CardShape& shape : cards) {
    const auto& groups = shape.group_cores;
    const auto number = static_cast<std::int32_t>(state.cards.size());
    const auto fits = [](std::int32_t n) { return n >= 1 && n <= kCardCoresMax; };
    const bool valid = !groups.empty() && groups.size() <= kCardGroupsMax &&
                       std::all_of(groups.begin(), groups.end(), fits) &&
                       fits(std::accumulate(groups.begin(), groups.end(), 0));
    if (!valid) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("card {} has groups of {} cores, allowed 1 to {} groups of at least "
                               "one core, {} cores together",
                               number, fmt::join(groups, ", "), kCardGroupsMax, kCardCoresMax)};
    }
    Card card{.first_core = static_cast<CoreId>(state.cores.size()),
              .groups = static_cast<std::int32_t>(groups.size())};
    for (std::int32_t group = 0; group < card.groups; ++group) {
      card.cores += groups[group];
      state.cores.resize(state.cores.size() + groups[group], {.card = number, .group = group});
    }
    state.cores_most = std::max(state.cores_most, card.cores);
    state.cards.push_back(card);
  }
  return state;
}

const Tenant* find_tenant(const State& state, TenantId id) {
  const auto it = std::find_if(state.tenants.begin(), state.tenants.end(),
                               [&](const Tenant& tenant) { return tenant.id == id; });
  return it == state.tenants.end() ? nullptr : &*it;
}

Tenant* find_tenant(State& state, TenantId id) {
  return const_cast<Tenant*>(find_tenant(static_cast<const State&>(state), id));
}

int working_cores(const State& state, int card) {
  const auto first = state.cores.begin() + state.cards[card].first_core;
  return static_cast<int>(
      std::count_if(first, first + state.cards[card].cores,
                    [](const Core& core) { return core.phase != CorePhase::kFailed; }));
}

}  // namespace tessera::schedule
