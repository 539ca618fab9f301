// What happens to a scheduler, and what it answers.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "schedule/state.h"

namespace tessera::schedule {

// --- events ---

struct Arrive {
  TenantId tenant = 0;  // of none that is there
  Performance performance;
  Terms terms;
};
struct Leave {
  TenantId tenant = 0;
};
// Bounds, priority, weight.
struct Change {
  TenantId tenant = 0;
  Terms terms;
};
// The package's performance as measured anew.
struct Measured {
  TenantId tenant = 0;
  Performance performance;
};
struct CoreFailed {
  CoreId core = 0;
};
// Its memory is cleared before anyone gets it.
struct CoreReturned {
  CoreId core = 0;
};
// All cores of the card that have not failed, or that have.
struct CardFailed {
  std::int32_t card = 0;
};
struct CardReturned {
  std::int32_t card = 0;
};

// An order is carried out. News of an order that a later decision has ended (its core failed, its
// tenant left) is no error: it changes nothing.
struct Relinked {  // the tenant's inferences run by the new program from now on
  TenantId tenant = 0;
  OrderId order = 0;
};
struct Drained {  // nothing of the tenant runs or is under way on the core
  CoreId core = 0;
  OrderId order = 0;
};
struct
    Cleared {  // neither the core's memory nor that which belonged to it has a byte of the tenant
  CoreId core = 0;
  OrderId order = 0;
};

using Event = std::variant<Arrive, Leave, Change, Measured, CoreFailed, CoreReturned, CardFailed,
                           CardReturned, Relinked, Drained, Cleared>;

// --- actions ---

enum class Reason {
  kNeverHolds,  // on no number of cores of any card
  kNoRoom,      // the cores are promised to those who come first
};

// The event changed nothing: no such tenant, or its old terms, as before.
struct Refuse {
  TenantId tenant = 0;
  Reason reason = Reason::kNoRoom;
  std::string message;  // for people: what was found, what is allowed
  friend bool operator==(const Refuse&, const Refuse&) = default;
};
// It is not admitted (any more). Cores that it had are taken.
struct Wait {
  TenantId tenant = 0;
  Reason reason = Reason::kNoRoom;
  std::string message;
  friend bool operator==(const Wait&, const Wait&) = default;
};
// It will be served on this card, or from now on on this one instead of another.
struct Admit {
  TenantId tenant = 0;
  std::int32_t card = 0;
  friend bool operator==(const Admit&, const Admit&) = default;
};
// The core, free and clear, is the tenant's.
struct Give {
  CoreId core = 0;
  TenantId tenant = 0;
  friend bool operator==(const Give&, const Give&) = default;
};
// The tenant begins nothing new on the core; Drained is awaited. A relink of a tenant that is under
// way ends without effect where the core belongs to it.
struct Take {
  CoreId core = 0;
  TenantId tenant = 0;
  OrderId order = 0;
  friend bool operator==(const Take&, const Take&) = default;
};
// Link the tenant's package for these cores, all of them its own, and change over; Relinked is awaited.
struct Relink {
  TenantId tenant = 0;
  Assignment assignment;
  OrderId order = 0;
  friend bool operator==(const Relink&, const Relink&) = default;
};
// Clear what the core and its memory hold; Cleared is awaited.
struct Clear {
  CoreId core = 0;
  OrderId order = 0;
  friend bool operator==(const Clear&, const Clear&) = default;
};

using Action = std::variant<Refuse, Wait, Admit, Give, Take, Relink, Clear>;

// "relink tenant 3 for cores 0 1 4, 1 image at once: order 12"
std::string to_text(const Action& action);

}  // namespace tessera::schedule
