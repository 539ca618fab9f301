// A group's channel between tenants: whose request goes to it next, before the bandwidth controller of
// that tenant says which of its cores'.
//
//   tenant 0: controller ─ cores' requests ─┐
//   tenant 1: controller ─ cores' requests ─┤ by weight ─► channel
//   ...                                     ┘
//
// Each has a clock of its own, which goes on by (channel's time that it is charged) / weight. Of those
// that ask, the one whose clock is behind goes next, the lower number first; who begins to ask has a
// clock that is not behind the one that went last. So a tenant that always asks has of the channel at least
//
//   weight / (sum of the weights of those that ask)
//
// up to a request of each of them, and one that asks now and then waits for no more than the requests that
// are at the channel already: nobody saves up time, and nobody pays for time that others left unused.
// With one tenant it is the controller alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engines/card_memory/bandwidth_controller.h"

namespace tessera::engines {

inline constexpr std::int64_t kTenantWeightMax = 16;

class TenantBandwidth {
 public:
  // `sizes` are those of tenant 0, which has weight 1.
  TenantBandwidth(const BandwidthSizes& sizes, std::size_t asks_max);

  void reset();
  // A tenant that has nothing waiting, from now on with these cores and weight (1 to kTenantWeightMax), of
  // which at most `asks_max` requests wait at a time.
  void set(std::uint32_t tenant, const BandwidthSizes& sizes, std::int64_t weight,
           std::size_t asks_max);

  // As BandwidthController's, of a tenant.
  void add(std::uint32_t tenant, const BandwidthController::Ask& ask, Cycles now);
  std::optional<BandwidthController::Ask> take(Cycles now, const BandwidthController::Room& room);
  Cycles next(Cycles now) const;
  void correct(std::uint32_t tenant, CoreSet cores, bool can_wait, Cycles cycles);
  void written(std::uint32_t tenant) { tenants_[tenant].controller->written(); }

  std::size_t waiting() const { return waiting_; }
  // Of the channel's time, charged to a tenant so far.
  Cycles charged(std::uint32_t tenant) const {
    return tenant < tenants_.size() ? tenants_[tenant].charged : 0;
  }

 private:
  struct Tenant {
    std::unique_ptr<BandwidthController> controller;  // null: none
    std::int64_t pace = 0;                            // of its clock, for a cycle of the channel
    std::int64_t clock = 0;
    Cycles charged = 0;
  };
  void charge(Tenant& tenant, Cycles cycles);

  std::vector<Tenant> tenants_;
  std::int64_t last_clock_ = 0;  // of the tenant that went last, before its request
  std::size_t waiting_ = 0;
};

}  // namespace tessera::engines
