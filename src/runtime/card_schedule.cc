#include "tessera/card_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <mutex>
#include <optional>

#include "base/guarded.h"
#include "device/virtual_card.h"
#include "network/network.h"
#include "schedule/scheduler.h"
#include "tessera/session.h"

namespace tessera {
namespace {

using schedule::OperatingPoint;
using schedule::OrderId;
using schedule::TenantId;

// Of a double in the range of the other unit.
std::int64_t scaled(double value, double by, std::int64_t most) {
  const double result = std::round(value * by);
  return result >= static_cast<double>(most) ? most : static_cast<std::int64_t>(result);
}

Result<schedule::Terms> terms_of(const TenantTerms& terms, int cores) {
  const auto wrong = [](const char* what, double found) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} of {}, allowed 0 (no bound) or more", what, found)};
  };
  // Not a number is none of these.
  if (!(terms.latency_us_max >= 0)) return wrong("latency_us_max", terms.latency_us_max);
  if (!(terms.images_per_second_min >= 0)) {
    return wrong("images_per_second_min", terms.images_per_second_min);
  }
  schedule::Terms result;
  if (terms.latency_us_max > 0) {
    result.bounds.latency_picoseconds_max =
        std::max<std::int64_t>(1, scaled(terms.latency_us_max, 1e6, INT64_MAX));
  }
  result.bounds.milli_images_per_second_min =
      scaled(terms.images_per_second_min, 1e3, schedule::kMilliImagesMax);
  result.bounds.cores_min = terms.cores_min;
  result.bounds.cores_max = terms.cores_max == 0 ? cores : terms.cores_max;
  TESSERA_RETURN_IF_ERROR(schedule::check_bounds(result.bounds));
  if (terms.weight < 1 || terms.weight > schedule::kWeightMax) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("weight is {}, allowed 1 to {}", terms.weight, schedule::kWeightMax)};
  }
  result.priority = terms.priority;
  result.weight = terms.weight;
  result.may_wait = terms.may_wait;
  return result;
}

// On the first cores of a card of its own: in as few groups as can be, which is the least memory bandwidth
// that it may get without neighbours.
Result<OperatingPoint> measured(const Network& network, const ChipConfig& chip, int cores) {
  TESSERA_TRY(const auto card, device::VirtualCard::create(chip));
  device::ProcessorShare share{.memory_bytes = chip.dram.bytes};
  for (int core = 0; core < cores; ++core) share.core_numbers.push_back(core);
  TESSERA_TRY(auto processor, card->take(share));
  TESSERA_TRY(auto program, processor->add(network.share(), CoreSplit::kAuto));
  const auto run = processor->run(*program, {});
  processor->remove(program);
  if (!run.ok()) return run.error();
  const auto picoseconds = [&](std::int64_t cycles) {
    return static_cast<double>(cycles) * 1e12 / static_cast<double>(chip.clock_hertz);
  };
  const double latency = picoseconds(run->cycles + run->host_cycles + run->transfer_cycles);
  const double period = picoseconds(std::max<std::int64_t>(1, run->card_end - run->card_begin));
  return OperatingPoint{
      .cores = cores,
      .images_at_once = 1,
      .latency_picoseconds = std::max<std::int64_t>(1, scaled(latency, 1, INT64_MAX)),
      .milli_images_per_second =
          std::max<std::int64_t>(1, scaled(1e15 / period, 1, schedule::kMilliImagesMax))};
}

PerformancePoint point_of(const OperatingPoint& point) {
  return {.cores = point.cores,
          .latency_us = static_cast<double>(point.latency_picoseconds) * 1e-6,
          .images_per_second = static_cast<double>(point.milli_images_per_second) * 1e-3};
}

}  // namespace

// The scheduler's state, and those for whom it decides.
class CardSchedule::State {
 public:
  State(VirtualCard card, std::vector<int> counts, schedule::State state)
      : card_(std::move(card)), counts_(std::move(counts)), state_(std::move(state)) {}

  Result<VirtualProcessor> arrive(const ArrivingTenant& tenant);
  Status leave(const std::string& name);
  Status change(const std::string& name, const TenantTerms& terms);
  ScheduleStatus status() const;

 private:
  struct Tenant {
    TenantId number = 0;
    TenantTerms terms;
    VirtualProcessor processor;
    schedule::Performance performance;
    std::string reason;
    bool left = false;
  };

  const ChipConfig& chip() const { return card_.state()->chip(); }
  Result<schedule::Performance> performance_of(const Network& network);
  Result<Tenant*> find(const std::string& name);
  Tenant& at(TenantId number);
  // Gives the event to the scheduler and carries out what it decides, and what follows from that.
  Status happen(const schedule::Event& event);
  std::optional<schedule::Event> obey(const schedule::Action& action);
  std::optional<schedule::Event> obey(const schedule::Relink& relink);
  void take_cores(TenantId number);

  const VirtualCard card_;
  const std::vector<int> counts_;
  mutable std::mutex mutex_;  // of what follows
  schedule::State state_;
  std::vector<Tenant> tenants_;
  TenantId next_number_ = 1;
  std::deque<std::string> decisions_;
  std::string refusal_;  // of the event that happens
  struct Measured {
    std::shared_ptr<const NetworkState> network;  // which keeps its address
    schedule::Performance performance;
  };
  std::map<const NetworkState*, Measured> measured_;
};

Result<schedule::Performance> CardSchedule::State::performance_of(const Network& network) {
  const auto known = measured_.find(&network.state());
  if (known != measured_.end()) return known->second.performance;
  schedule::Performance performance;
  for (const int cores : counts_) {
    auto point = measured(network, chip(), cores);
    if (!point.ok()) {
      return point.error().with_context(
          fmt::format("measuring '{}' on {} cores", network.state().path, cores));
    }
    performance.points.push_back(*point);
  }
  measured_[&network.state()] = {network.share(), performance};
  return performance;
}

Result<CardSchedule::State::Tenant*> CardSchedule::State::find(const std::string& name) {
  for (Tenant& tenant : tenants_) {
    if (!tenant.left && tenant.processor.name() == name) return &tenant;
  }
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("no tenant '{}' has arrived, or it has left", name)};
}

CardSchedule::State::Tenant& CardSchedule::State::at(TenantId number) {
  return *std::ranges::find(tenants_, number, &Tenant::number);
}

// ---- what the scheduler decides ----

// Its processor runs on these from now on. What it had besides is free and clear already; the scheduler asks
// for that in orders of its own, behind this one.
std::optional<schedule::Event> CardSchedule::State::obey(const schedule::Relink& relink) {
  Tenant& tenant = at(relink.tenant);
  const Status moved = tenant.processor.state()->move(relink.assignment.cores);
  if (moved.ok()) return schedule::Relinked{relink.tenant, relink.order};
  tenant.reason = moved.error().message;
  tenant.left = true;
  return schedule::Leave{relink.tenant};
}

// All at once: whoever gives up some only has been moved to the others before.
void CardSchedule::State::take_cores(TenantId number) {
  Tenant& tenant = at(number);
  const Status taken = tenant.processor.state()->move({});
  if (!taken.ok()) tenant.reason = taken.error().message;
}

std::optional<schedule::Event> CardSchedule::State::obey(const schedule::Action& action) {
  decisions_.push_back(to_text(action));
  if (decisions_.size() > 1000) decisions_.pop_front();
  if (const auto* const relink = std::get_if<schedule::Relink>(&action)) return obey(*relink);
  if (const auto* const take = std::get_if<schedule::Take>(&action)) {
    const auto& cores = at(take->tenant).processor.status().cores;
    if (std::ranges::count(cores, take->core) > 0) take_cores(take->tenant);
    return schedule::Drained{take->core, take->order};
  }
  if (const auto* const clear = std::get_if<schedule::Clear>(&action)) {
    return schedule::Cleared{clear->core, clear->order};
  }
  if (const auto* const wait = std::get_if<schedule::Wait>(&action)) {
    at(wait->tenant).reason = wait->message;
  } else if (const auto* const admit = std::get_if<schedule::Admit>(&action)) {
    at(admit->tenant).reason.clear();
  } else if (const auto* const refuse = std::get_if<schedule::Refuse>(&action)) {
    refusal_ = refuse->message;
  }
  return std::nullopt;
}

Status CardSchedule::State::happen(const schedule::Event& event) {
  refusal_.clear();
  TESSERA_TRY(schedule::Actions first, schedule::step(state_, event));
  std::deque<schedule::Action> actions(first.begin(), first.end());
  while (!actions.empty()) {
    const schedule::Action action = std::move(actions.front());
    actions.pop_front();
    const std::optional<schedule::Event> done = obey(action);
    if (!done) continue;
    TESSERA_TRY(const schedule::Actions next, schedule::step(state_, *done));
    actions.insert(actions.end(), next.begin(), next.end());
  }
  return {};
}

// ---- what the owner says ----

Result<VirtualProcessor> CardSchedule::State::arrive(const ArrivingTenant& arriving) {
  const std::lock_guard lock(mutex_);
  TESSERA_TRY(const schedule::Terms terms, terms_of(arriving.terms, chip().card.cores()));
  // Its name is checked before anything is measured.
  TESSERA_TRY(VirtualProcessor processor, card_.take({.name = arriving.name,
                                                      .cores = 0,
                                                      .memory_bytes = arriving.memory_bytes,
                                                      .weight = arriving.channel_weight}));
  const auto named = [&](const Error& error) {
    return error.with_context(fmt::format("tenant '{}'", processor.name()));
  };
  auto performance = performance_of(arriving.network);
  if (!performance.ok()) return named(performance.error());
  const TenantId number = next_number_;
  tenants_.push_back({.number = number,
                      .terms = arriving.terms,
                      .processor = processor,
                      .performance = *performance,
                      .reason = {}});
  const Status happened = happen(schedule::Arrive{number, *performance, terms});
  if (!happened.ok()) {
    tenants_.pop_back();
    return named(happened.error());
  }
  ++next_number_;
  if (refusal_.empty() && !at(number).left) return processor;
  const std::string reason = refusal_.empty() ? at(number).reason : refusal_;
  tenants_.pop_back();
  return named({ErrorCode::kUnavailable, fmt::format("refused: {}", reason)});
}

Status CardSchedule::State::leave(const std::string& name) {
  const std::lock_guard lock(mutex_);
  TESSERA_TRY(Tenant* const tenant, find(name));
  const TenantId number = tenant->number;
  TESSERA_RETURN_IF_ERROR(happen(schedule::Leave{number}));
  std::erase_if(tenants_, [&](const Tenant& one) { return one.number == number; });
  return {};
}

Status CardSchedule::State::change(const std::string& name, const TenantTerms& terms) {
  const std::lock_guard lock(mutex_);
  TESSERA_TRY(Tenant* const tenant, find(name));
  TESSERA_TRY(const schedule::Terms wanted, terms_of(terms, chip().card.cores()));
  const Status happened = happen(schedule::Change{tenant->number, wanted});
  const auto named = [&](const Error& error) {
    return error.with_context(fmt::format("tenant '{}'", name));
  };
  if (!happened.ok()) return named(happened.error());
  if (!refusal_.empty()) {
    return named({ErrorCode::kUnavailable, fmt::format("refused: {}", refusal_)});
  }
  tenant->terms = terms;
  if (!tenant->left) return {};
  return named({ErrorCode::kUnavailable, tenant->reason});
}

ScheduleStatus CardSchedule::State::status() const {
  const std::lock_guard lock(mutex_);
  ScheduleStatus status;
  for (const Tenant& tenant : tenants_) {
    const schedule::Tenant* const known = find_tenant(state_, tenant.number);
    ScheduledTenant& one = status.tenants.emplace_back();
    one.number = tenant.number;
    one.terms = tenant.terms;
    for (const OperatingPoint& point : tenant.performance.points) {
      one.performance.push_back(point_of(point));
    }
    one.waits = known != nullptr && !known->admitted();
    one.reason = tenant.reason;
    one.processor = tenant.processor.status();
  }
  status.decisions.assign(decisions_.begin(), decisions_.end());
  return status;
}

// ---- the handle ----

Result<CardSchedule> CardSchedule::open(const VirtualCard& card,
                                        const CardScheduleOptions& options) {
  return guarded("opening a schedule", [&]() -> Result<CardSchedule> {
    const CardConfig& shape = card.state()->chip().card;
    std::vector<int> counts = options.core_counts;
    if (counts.empty()) {
      for (int cores = 1; cores < shape.cores(); cores *= 2) counts.push_back(cores);
      counts.push_back(shape.cores());
    }
    std::ranges::sort(counts);
    counts.erase(std::ranges::unique(counts).begin(), counts.end());
    if (counts.front() < 1 || counts.back() > shape.cores()) {
      const int wrong = counts.front() < 1 ? counts.front() : counts.back();
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("tenants of {} cores; the card has {}, allowed 1 to {}", wrong,
                               shape.cores(), shape.cores())};
    }
    const std::vector<std::int32_t> groups(static_cast<std::size_t>(shape.groups),
                                           shape.cores_per_group);
    // Each tenant has cores of one card.
    const std::vector<schedule::CardShape> shapes(static_cast<std::size_t>(card.state()->cards()),
                                                  {.group_cores = groups});
    TESSERA_TRY(schedule::State state, schedule::make_state(shapes));
    return CardSchedule(std::make_shared<State>(card, std::move(counts), std::move(state)));
  });
}

Result<VirtualProcessor> CardSchedule::arrive(const ArrivingTenant& tenant) const {
  return guarded("a tenant arrives", [&] { return state_->arrive(tenant); });
}
Status CardSchedule::leave(const std::string& name) const {
  return guarded("a tenant leaves", [&] { return state_->leave(name); });
}
Status CardSchedule::change(const std::string& name, const TenantTerms& terms) const {
  return guarded("changing a tenant's terms", [&] { return state_->change(name, terms); });
}
ScheduleStatus CardSchedule::status() const { return state_->status(); }

}  // namespace tessera
