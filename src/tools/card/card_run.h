// Tenants of a virtual card run alone and together, and what is said of them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tessera/session.h"
#include "tools/card/tenant_arguments.h"

namespace tessera::tools {

// A tenant that has its cores, or waits for them.
struct CardTenant {
  TenantArguments arguments;
  Network network;
  std::vector<Tensor> inputs;
  VirtualProcessor processor;
  std::string waits;  // why it has no cores; empty: it has
  // Of each run, in cycles of the card with the host's steps: on its cores alone, and beside the others.
  std::vector<std::int64_t> alone, together;
  std::int64_t processor_cycles = 0;  // of the last one, without host steps
  Status status;                      // of its runs
};

// What tenants are on.
struct CardsOf {
  std::string arch;
  int cards = 1;
};

double mean_of(const std::vector<std::int64_t>& cycles);  // 0: there are none

// Each by itself on a card of its own, then all together, `times` runs each. An error where a tenant's
// outputs beside others are not those that it has alone.
Status run_tenants(const CardsOf& cards, int times, bool timing_only,
                   std::vector<CardTenant>& tenants);

// Who has which cores of which group, and what memory.
std::string cores_text(const CardStatus& status);
// What its cores, channels, ring links and network ports have done of the time on its clock.
std::string parts_text(const CardStatus& status);
std::string tenants_text(const CardStatus& status, const std::vector<CardTenant>& tenants);
nlohmann::json card_json(const CardStatus& status, const std::vector<CardTenant>& tenants);

}  // namespace tessera::tools
