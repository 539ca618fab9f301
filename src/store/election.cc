#include "store/election.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/deadline.h"

namespace tessera::store {
namespace {

using Milliseconds = std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

std::string prefix_of(std::string_view name) { return std::string(name) + "/"; }

std::optional<Leader> first_of(const std::vector<Entry>& candidates) {
  const auto first =
      std::min_element(candidates.begin(), candidates.end(),
                       [](const Entry& a, const Entry& b) { return a.created < b.created; });
  if (first == candidates.end()) return std::nullopt;
  return Leader{.value = first->value, .epoch = first->created, .lease = first->lease};
}

Error gone(const std::string& key) {
  return {ErrorCode::kUnavailable,
          fmt::format("election: the candidate's entry '{}' is gone: it resigned, or its lease "
                      "has ended; stand again",
                      key)};
}

}  // namespace

Result<std::optional<Leader>> current_leader(Store& store, std::string_view name,
                                             Milliseconds timeout) {
  TESSERA_TRY(const Entries found, store.read_prefix(prefix_of(name), timeout));
  return first_of(found.entries);
}

Result<Candidate> Candidate::stand(Store& store, std::string name, std::string value, LeaseId lease,
                                   Milliseconds timeout) {
  const Clock::time_point deadline = deadline_after(timeout);
  const std::string key = prefix_of(name) + fmt::format("{:016x}", lease);
  const Put put{.key = key, .value = std::move(value), .lease = lease};
  // Made, or found and given the value; another round where it changed in between.
  for (;;) {
    TESSERA_TRY(const CommitResult made,
                store.commit({.comparisons = {absent(key)}, .puts = {put}}, time_until(deadline)));
    if (made.outcome == CommitOutcome::kLeaseEnded) return gone(key);
    if (made.succeeded()) return Candidate(store, std::move(name), key, made.revision);
    TESSERA_TRY(const MaybeEntry found, store.read(key, time_until(deadline)));
    if (!found.entry) continue;
    const Revision created = found.entry->created;
    TESSERA_TRY(const CommitResult changed,
                store.commit({.comparisons = {created_at(key, created)}, .puts = {put}},
                             time_until(deadline)));
    if (changed.succeeded()) return Candidate(store, std::move(name), key, created);
  }
}

Result<bool> Candidate::is_leading(Milliseconds timeout) {
  TESSERA_TRY(const Entries found, store_->read_prefix(prefix_of(name_), timeout));
  const auto is_own = [this](const Entry& entry) {
    return entry.key == key_ && entry.created == epoch_;
  };
  if (std::none_of(found.entries.begin(), found.entries.end(), is_own)) return gone(key_);
  return first_of(found.entries)->epoch == epoch_;
}

Result<bool> Candidate::wait_until_leading(Milliseconds timeout) {
  const Clock::time_point deadline = deadline_after(timeout);
  TESSERA_TRY(std::unique_ptr<Watch> watch,
              store_->watch(prefix_of(name_), {}, time_until(deadline)));
  for (;;) {
    // A watch says that something changed; who leads is read, by nobody's memory.
    TESSERA_TRY(const bool leads, is_leading(time_until(deadline)));
    if (leads) return true;
    TESSERA_TRY(const std::optional<Batch> batch, watch->next(time_until(deadline)));
    if (!batch || time_until(deadline) == Milliseconds(0)) return false;
    if (batch->is_gap) {
      TESSERA_TRY(watch, store_->watch(prefix_of(name_), {}, time_until(deadline)));
    }
  }
}

Status Candidate::resign(Milliseconds timeout) {
  TESSERA_TRY([[maybe_unused]] const CommitResult result,
              store_->commit({.comparisons = {guard()}, .deletes = {key_}}, timeout));
  return {};
}

Result<LeaderObserver> LeaderObserver::start(Store& store, std::string name, Milliseconds timeout,
                                             std::function<void()> on_ready) {
  LeaderObserver observer(store, std::move(name), std::move(on_ready));
  TESSERA_RETURN_IF_ERROR(observer.read_again(timeout));
  observer.choose();
  return observer;
}

Status LeaderObserver::read_again(Milliseconds timeout) {
  watch_ = nullptr;
  const Clock::time_point deadline = deadline_after(timeout);
  TESSERA_TRY(Entries found, store_->read_prefix(prefix_of(name_), timeout));
  TESSERA_TRY(watch_,
              store_->watch(prefix_of(name_), {.from = found.revision + 1, .on_ready = on_ready_},
                            time_until(deadline)));
  candidates_ = std::move(found.entries);
  return {};
}

void LeaderObserver::take(const Change& change) {
  std::erase_if(candidates_, [&](const Entry& e) { return e.key == change.entry.key; });
  if (change.kind == ChangeKind::kPut) candidates_.push_back(change.entry);
}

bool LeaderObserver::choose() {
  std::optional<Leader> leader = first_of(candidates_);
  const bool has_changed = leader != leader_;
  leader_ = std::move(leader);
  return has_changed;
}

Result<bool> LeaderObserver::wait_for_change(Milliseconds timeout) {
  const Clock::time_point deadline = deadline_after(timeout);
  for (;;) {
    if (!watch_) {
      TESSERA_RETURN_IF_ERROR(read_again(time_until(deadline)));
      if (choose()) return true;
    }
    TESSERA_TRY(const std::optional<Batch> batch, watch_->next(time_until(deadline)));
    if (!batch) return false;
    if (batch->is_gap) {
      watch_ = nullptr;
      continue;
    }
    for (const Change& change : batch->changes) take(change);
    if (choose()) return true;
  }
}

}  // namespace tessera::store
