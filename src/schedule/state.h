// What the scheduler knows: cards with groups of cores, tenants, who holds what, what is under way.
//
// A core goes around:
//
//            give                    take                 drained: clear              cleared
//   free ───────────► held by one ───────────► draining ─────────────────► clearing ─────────► free
//                     tenant                   (still its)                 (nobody's)
//
// from each phase to failed, and from there by a clearing back to free.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/performance.h"

namespace tessera::schedule {

using TenantId = std::int64_t;
using CoreId = std::int32_t;   // of all cards: card 0's cores first, each card's by groups
using OrderId = std::int64_t;  // numbers what others have to carry out; 0 is none

inline constexpr int kCardGroupsMax = 16;
inline constexpr int kWeightMax = 1000;

enum class CorePhase : std::uint8_t { kFree, kHeld, kDraining, kClearing, kFailed };

struct Core {
  std::int32_t card = 0;
  std::int32_t group = 0;  // of its card
  CorePhase phase = CorePhase::kFree;
  TenantId owner = 0;              // while held or draining
  OrderId order = 0;               // the take or clear that is under way
  std::optional<TenantId> next{};  // who has it in the plan
  friend bool operator==(const Core&, const Core&) = default;
};

// How many cores each group has, before any fails.
struct CardShape {
  std::vector<std::int32_t> group_cores;
};

struct Card {
  CoreId first_core = 0;
  std::int32_t cores = 0;
  std::int32_t groups = 0;
  friend bool operator==(const Card&, const Card&) = default;
};

// The cores that a tenant's program is linked for, ascending, and how many images it computes at once;
// 0: no program runs on them.
struct Assignment {
  std::vector<CoreId> cores;
  std::int32_t images_at_once = 0;
  friend bool operator==(const Assignment&, const Assignment&) = default;
};

struct Terms {
  Bounds bounds;
  std::int32_t priority = 0;  // who has more comes first
  std::int32_t weight = 1;    // of its throughput, 1 to kWeightMax
  bool may_wait = true;       // when it cannot be served now; else it is refused
};

struct Tenant {
  TenantId id = 0;
  Terms terms;
  Performance performance;
  std::int64_t arrival = 0;  // numbers the arrivals

  // points_that_hold() its bounds on the largest card.
  std::vector<OperatingPoint> points{};

  std::int32_t card = -1;  // on which it is admitted; -1: it waits
  Assignment planned{};    // where it is to run; empty while it waits
  Assignment running{};    // where it runs now
  Assignment linking{};    // where it will run when the relink under way is finished
  OrderId relink = 0;      // that relink; 0: none is under way

  bool admitted() const { return card >= 0; }
  // Where it will be when what is under way is done, whatever is planned.
  const Assignment& coming() const { return relink != 0 ? linking : running; }
};

// A value: copying it copies everything. Made by make_state(), changed by step() alone.
struct State {
  std::vector<Card> cards;
  std::vector<Core> cores;
  std::vector<Tenant> tenants;  // by priority, then by arrival: who comes first is served first
  std::int64_t next_arrival = 1;
  OrderId next_order = 1;

  std::int32_t cores_most = 0;  // of the largest card
};

// All cores free. An error names the card whose shape is not of 1 to kCardGroupsMax groups with at
// least one core each and at most kCardCoresMax cores together, or says that there is no card.
Result<State> make_state(const std::vector<CardShape>& cards);

// nullptr where there is none of this number.
const Tenant* find_tenant(const State& state, TenantId id);
Tenant* find_tenant(State& state, TenantId id);

// Cores of the card that have not failed.
int working_cores(const State& state, int card);

}  // namespace tessera::schedule
