// Who has which cores of a virtual card, decided from what each tenant's network does on a number of cores
// and from the terms that the card's owner gives it.
//
//   CardSchedule::open(card)
//     └─ arrive({.name = "a", .network = n, .terms = {.latency_us_max = 2000}}) ─► VirtualProcessor
//          timing-only runs of the network ─► scheduler ─► other cores for all whom it concerns, at once
//
// The rule is that of docs/schedule.md: bounds hold, priorities come first, and the largest sum of weight x
// images a second of what is left. A call returns when everything that it decided is carried out: runs that
// were under way have ended, memory is clear, and who was given cores has them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/network.h"
#include "tessera/result.h"
#include "tessera/virtual_card.h"

namespace tessera {

// What must hold while a tenant has cores, and what it is worth.
struct TenantTerms {
  double latency_us_max = 0;         // of a run with its transfers and host steps; 0: no bound
  double images_per_second_min = 0;  // 0: no bound
  int cores_min = 1;
  int cores_max = 0;     // 0: all of the card
  int priority = 0;      // who has more is served first
  int weight = 1;        // of its images a second, 1 to 1000
  bool may_wait = true;  // while there is no room; else it is refused
};

// A tenant that arrives.
struct ArrivingTenant {
  std::string name = {};  // as VirtualProcessorOptions::name
  Network network;        // that is measured; sessions of others may be opened, too
  TenantTerms terms = {};
  std::int64_t memory_bytes = 0, channel_weight = 1;  // as VirtualProcessorOptions
};

// What a network does on a number of cores that it has for itself, in groups that nobody else is in.
struct PerformancePoint {
  int cores = 1;
  double latency_us = 0, images_per_second = 0;
};

// A tenant of a schedule, now.
struct ScheduledTenant {
  std::int64_t number = 0;  // in the decisions' texts
  TenantTerms terms;
  std::vector<PerformancePoint> performance;
  bool waits = false;  // it has no cores, since there is no room for it
  // Why it waits, or what went wrong when it was to get other cores: it has left then.
  std::string reason;
  ProcessorStatus processor;
};

// A schedule, now.
struct ScheduleStatus {
  std::vector<ScheduledTenant> tenants;  // in the order of arrival
  std::vector<std::string> decisions;    // "relink tenant 1 for cores 0 1, ...", the last 1,000
};

// How a schedule measures.
struct CardScheduleOptions {
  // The numbers of cores that a tenant may get, which are measured; empty: powers of two, and all of the card.
  std::vector<int> core_counts = {};
};

// A handle that may be copied and used by several threads at once. Its card should have no other tenants:
// what they hold is not known to it, and decisions that need their cores fail.
class CardSchedule {
 public:
  // The error names a number of cores that the card does not have.
  static Result<CardSchedule> open(const VirtualCard& card,
                                   const CardScheduleOptions& options = {});

  // Measures the network and gives it cores, or lets it wait without any. The error is kUnavailable if it is
  // refused: its bounds hold on no number of cores, or there is no room and it may not wait.
  Result<VirtualProcessor> arrive(const ArrivingTenant& tenant) const;
  // It gives up its cores; its runs are refused from then on.
  Status leave(const std::string& name) const;
  // The error is kUnavailable if they cannot hold; then the old ones stay.
  Status change(const std::string& name, const TenantTerms& terms) const;
  ScheduleStatus status() const;  // now

 private:
  class State;
  explicit CardSchedule(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;  // shared with copies
};

}  // namespace tessera
