#include "engines/card_memory/tenant_bandwidth.h"

#include <algorithm>

#include "base/check.h"

namespace tessera::engines {
namespace {

// Divisible by all weights, so that clocks are exact.
constexpr std::int64_t kPace = 720'720;

}  // namespace

TenantBandwidth::TenantBandwidth(const BandwidthSizes& sizes, std::size_t asks_max) {
  set(0, sizes, 1, asks_max);
}

void TenantBandwidth::reset() {
  for (Tenant& tenant : tenants_) {
    if (tenant.controller) tenant.controller->reset();
    tenant.clock = tenant.charged = 0;
  }
  last_clock_ = 0;
  waiting_ = 0;
}

void TenantBandwidth::set(std::uint32_t tenant, const BandwidthSizes& sizes, std::int64_t weight,
                          std::size_t asks_max) {
  TESSERA_CHECK(tenant < kCoresMax && weight >= 1 && weight <= kTenantWeightMax,
                "tenant {} with weight {}", tenant, weight);
  if (tenant >= tenants_.size()) tenants_.resize(tenant + 1);
  Tenant& one = tenants_[tenant];
  TESSERA_CHECK(!one.controller || one.controller->waiting() == 0, "tenant {} asks for the channel",
                tenant);
  one.controller = std::make_unique<BandwidthController>(sizes, asks_max);
  one.pace = kPace / weight;
  one.charged = 0;
}

void TenantBandwidth::add(std::uint32_t tenant, const BandwidthController::Ask& ask, Cycles now) {
  TESSERA_CHECK(tenant < tenants_.size() && tenants_[tenant].controller, "tenant {} asks", tenant);
  Tenant& one = tenants_[tenant];
  if (one.controller->waiting() == 0) one.clock = std::max(one.clock, last_clock_);
  one.controller->add(ask, now);
  ++waiting_;
}

std::optional<BandwidthController::Ask> TenantBandwidth::take(
    Cycles now, const BandwidthController::Room& room) {
  // Those that have been tried are not tried again: their requests have no room.
  CoreSet tried = 0;
  while (true) {
    Tenant* next = nullptr;
    std::size_t number = 0;
    for (std::size_t i = 0; i < tenants_.size(); ++i) {
      Tenant& one = tenants_[i];
      if ((tried >> i & 1) != 0 || !one.controller || one.controller->waiting() == 0) continue;
      if (next != nullptr && one.clock >= next->clock) continue;
      next = &one;
      number = i;
    }
    if (next == nullptr) return std::nullopt;
    if (const auto ask = next->controller->take(now, room)) {
      last_clock_ = std::max(last_clock_, next->clock);
      charge(*next, ask->cost);
      --waiting_;
      return ask;
    }
    tried |= CoreSet{1} << number;
  }
}

Cycles TenantBandwidth::next(Cycles now) const {
  Cycles next = kNever;
  for (const Tenant& one : tenants_) {
    if (one.controller) next = std::min(next, one.controller->next(now));
  }
  return next;
}

void TenantBandwidth::correct(std::uint32_t tenant, CoreSet cores, bool can_wait, Cycles cycles) {
  tenants_[tenant].controller->correct(cores, can_wait, cycles);
  charge(tenants_[tenant], cycles);
}

void TenantBandwidth::charge(Tenant& tenant, Cycles cycles) {
  tenant.clock += cycles * tenant.pace;
  tenant.charged += cycles;
}

}  // namespace tessera::engines
