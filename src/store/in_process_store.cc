#include "store/in_process_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/deadline.h"

namespace tessera::store {
namespace {

using Milliseconds = std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kBatchChangesMax = 1000;  // then the batch ends with its revision
constexpr Milliseconds kNoEnd = Milliseconds::max();

struct HeldLease {
  Milliseconds ttl{0}, end{0};
  std::set<std::string> keys{};
};

struct Reader {
  std::string prefix;
  Revision next = 0;  // the first revision that it has not seen
  std::function<void()> on_ready;
  bool was_told = false, is_cancelled = false, has_gap = false;
};

bool holds(const Comparison& comparison, const Entry* entry) {
  const auto relates = [&](const auto& found, const auto& expected) {
    switch (comparison.relation) {
      case Relation::kEqual:
        return found == expected;
      case Relation::kNotEqual:
        return found != expected;
      case Relation::kLess:
        return found < expected;
      case Relation::kGreater:
        return found > expected;
    }
    return false;
  };
  switch (comparison.with) {
    case CompareWith::kModified:
      return relates(entry ? entry->modified : 0, comparison.revision);
    case CompareWith::kCreated:
      return relates(entry ? entry->created : 0, comparison.revision);
    case CompareWith::kValue:
      return entry && relates(entry->value, comparison.value);
  }
  return false;
}

bool is_below(const std::string& key, const std::string& prefix) {
  return key.compare(0, prefix.size(), prefix) == 0;
}

}  // namespace

// Everything behind one mutex. Times are since the store was made.
class InProcessStore::State {
 public:
  State(StoreTime time, std::size_t history_changes_max)
      : time_(time), history_changes_max_(history_changes_max) {}

  // Tells those who wait: readers, and the thread that ends leases.
  std::mutex mutex;
  std::condition_variable changed;
  bool is_ending = false;

  StoreTime time() const { return time_; }
  Revision revision() const { return revision_; }
  const std::map<std::string, Entry>& entries() const { return entries_; }
  const Entry* find(const std::string& key) const {
    const auto found = entries_.find(key);
    return found == entries_.end() ? nullptr : &found->second;
  }

  Milliseconds now() const {
    if (time_ == StoreTime::kManual) return manual_now_;
    return std::chrono::duration_cast<Milliseconds>(Clock::now() - began_);
  }
  Clock::time_point moment_of(Milliseconds time) const { return began_ + time; }
  Milliseconds next_lease_end() const {
    Milliseconds next = kNoEnd;
    if (!unavailable_.empty()) return next;
    for (const auto& [id, lease] : leases_) next = std::min(next, lease.end);
    return next;
  }

  // Before each call: leases end whose time is over, in the order of their ends.
  void end_leases() {
    while (next_lease_end() <= now()) {
      const auto first = std::min_element(
          leases_.begin(), leases_.end(),
          [](const auto& a, const auto& b) { return a.second.end < b.second.end; });
      end_lease(first->first);
    }
  }
  void advance_to(Milliseconds time) {
    while (next_lease_end() <= time) {
      manual_now_ = std::max(manual_now_, next_lease_end());
      end_leases();
    }
    manual_now_ = time;
  }

  Status check_available() const {
    if (unavailable_.empty()) return {};
    return Error{ErrorCode::kUnavailable, "store in process: " + unavailable_};
  }
  void set_unavailable(std::string reason) {
    const bool comes_back = !unavailable_.empty() && reason.empty();
    end_leases();
    unavailable_ = std::move(reason);
    if (!comes_back) return;
    for (auto& [id, lease] : leases_) lease.end = end_after(lease.ttl);
  }

  CommitResult commit(const Transaction& transaction);

  Lease grant(Milliseconds ttl) {
    leases_[++last_lease_] = {.ttl = ttl, .end = end_after(ttl)};
    changed.notify_all();
    return {.id = last_lease_, .ttl = ttl};
  }
  Renewal renew(LeaseId id) {
    const auto found = leases_.find(id);
    if (found == leases_.end()) return {};
    found->second.end = end_after(found->second.ttl);
    return {.is_alive = true, .ttl = found->second.ttl};
  }
  void end_lease(LeaseId id) {
    const auto found = leases_.find(id);
    if (found == leases_.end()) return;
    const std::set<std::string> keys = std::move(found->second.keys);
    leases_.erase(found);
    if (keys.empty()) return;
    ++revision_;
    for (const std::string& key : keys) erase(key);
    tell_readers();
  }

  void compact(Revision revision) {
    first_kept_ = std::max(first_kept_, std::min(revision, revision_));
    while (!history_.empty() && history_.front().entry.modified < first_kept_) history_.pop_front();
    tell_readers();
  }

  void add(Reader* reader) {
    if (reader->next == 0) reader->next = revision_ + 1;
    readers_.push_back(reader);
    tell(*reader);
  }
  void remove(Reader* reader) { std::erase(readers_, reader); }
  // What the reader has not seen yet; moves it on.
  std::optional<Batch> take(Reader& reader);

 private:
  void put(const Put& put);
  void erase(const std::string& key);
  void tell_readers() {
    while (history_.size() > history_changes_max_) {
      first_kept_ = history_.front().entry.modified + 1;
      while (!history_.empty() && history_.front().entry.modified < first_kept_) {
        history_.pop_front();
      }
    }
    for (Reader* reader : readers_) tell(*reader);
    changed.notify_all();
  }
  void tell(Reader& reader) {
    if (reader.was_told || reader.is_cancelled || !has_news(reader)) return;
    reader.was_told = true;
    if (reader.on_ready) reader.on_ready();
  }
  std::deque<Change>::const_iterator first_from(Revision revision) const {
    return std::lower_bound(
        history_.begin(), history_.end(), revision,
        [](const Change& change, Revision r) { return change.entry.modified < r; });
  }
  bool has_news(const Reader& reader) const {
    if (reader.next < first_kept_) return true;
    return std::any_of(first_from(reader.next), history_.end(), [&](const Change& change) {
      return is_below(change.entry.key, reader.prefix);
    });
  }

  // now() is rounded down, and no lease ends early.
  Milliseconds end_after(Milliseconds ttl) const {
    return now() + ttl + Milliseconds(time_ == StoreTime::kOwn ? 1 : 0);
  }

  const StoreTime time_;
  const std::size_t history_changes_max_;
  const Clock::time_point began_ = Clock::now();
  Milliseconds manual_now_{0};
  std::string unavailable_;

  Revision revision_ = 1, first_kept_ = 1;  // etcd's first revision is 1 as well
  std::map<std::string, Entry> entries_;
  std::map<LeaseId, HeldLease> leases_;
  LeaseId last_lease_ = 0;
  std::deque<Change> history_;
  std::vector<Reader*> readers_;
};

CommitResult InProcessStore::State::commit(const Transaction& transaction) {
  for (const Comparison& comparison : transaction.comparisons) {
    if (!holds(comparison, find(comparison.key))) {
      return {.outcome = CommitOutcome::kComparisonFailed, .revision = revision_};
    }
  }
  for (const Put& put : transaction.puts) {
    if (put.lease != 0 && !leases_.contains(put.lease)) {
      return {.outcome = CommitOutcome::kLeaseEnded};
    }
  }
  const auto is_there = [&](const std::string& key) { return find(key) != nullptr; };
  if (transaction.puts.empty() &&
      std::none_of(transaction.deletes.begin(), transaction.deletes.end(), is_there)) {
    return {.revision = revision_};
  }
  ++revision_;
  for (const Put& each : transaction.puts) put(each);
  for (const std::string& key : transaction.deletes) erase(key);
  tell_readers();
  return {.revision = revision_};
}

void InProcessStore::State::put(const Put& put) {
  Entry& entry = entries_[put.key];
  if (entry.lease != put.lease && entry.lease != 0) leases_.at(entry.lease).keys.erase(put.key);
  if (put.lease != 0) leases_.at(put.lease).keys.insert(put.key);
  entry = {.key = put.key,
           .value = put.value,
           .created = entry.created == 0 ? revision_ : entry.created,
           .modified = revision_,
           .lease = put.lease};
  history_.push_back({.kind = ChangeKind::kPut, .entry = entry});
}

void InProcessStore::State::erase(const std::string& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  const auto lease = leases_.find(found->second.lease);
  if (lease != leases_.end()) lease->second.keys.erase(key);
  entries_.erase(found);
  history_.push_back({.kind = ChangeKind::kDelete, .entry = {.key = key, .modified = revision_}});
}

std::optional<Batch> InProcessStore::State::take(Reader& reader) {
  if (reader.is_cancelled || reader.has_gap) return std::nullopt;
  if (reader.next < first_kept_) {
    reader.has_gap = true;
    return Batch{.is_gap = true, .revision = first_kept_};
  }
  Batch batch;
  for (auto change = first_from(reader.next); change != history_.end(); ++change) {
    const Revision revision = change->entry.modified;
    if (batch.changes.size() >= kBatchChangesMax && revision != batch.revision) break;
    if (!is_below(change->entry.key, reader.prefix)) continue;
    batch.changes.push_back(*change);
    batch.revision = revision;
  }
  if (batch.changes.empty()) {
    reader.next = std::max(reader.next, revision_ + 1);
    reader.was_told = false;
    return std::nullopt;
  }
  reader.next = batch.revision + 1;
  return batch;
}

namespace {

// In front of each call: the mutex is held, leases have ended, the store is there.
#define TESSERA_ENTER_STORE(state)                    \
  const std::lock_guard lock((state).mutex);          \
  TESSERA_RETURN_IF_ERROR((state).check_available()); \
  (state).end_leases()

void run_lease_thread(InProcessStore::State& state) {
  std::unique_lock lock(state.mutex);
  while (!state.is_ending) {
    state.end_leases();
    const Milliseconds next = state.next_lease_end();
    if (next == kNoEnd) {
      state.changed.wait(lock);
    } else {
      state.changed.wait_until(lock, state.moment_of(next));
    }
  }
}

class InProcessWatch : public Watch {
 public:
  InProcessWatch(std::shared_ptr<InProcessStore::State> state, std::string prefix,
                 WatchOptions options)
      : state_(std::move(state)),
        reader_{.prefix = std::move(prefix),
                .next = options.from,
                .on_ready = std::move(options.on_ready)} {
    state_->add(&reader_);  // the caller holds the mutex
  }
  ~InProcessWatch() override {
    const std::lock_guard lock(state_->mutex);
    state_->remove(&reader_);
  }

  Result<std::optional<Batch>> next(Milliseconds timeout) override {
    const Clock::time_point deadline = deadline_after(timeout);
    std::unique_lock lock(state_->mutex);
    for (;;) {
      if (std::optional<Batch> batch = state_->take(reader_)) return batch;
      const bool waits = state_->time() == StoreTime::kOwn && !reader_.is_cancelled;
      if (!waits || state_->changed.wait_until(lock, deadline) == std::cv_status::timeout) {
        return state_->take(reader_);
      }
    }
  }
  void cancel() override {
    const std::lock_guard lock(state_->mutex);
    reader_.is_cancelled = true;
    state_->changed.notify_all();
  }

 private:
  std::shared_ptr<InProcessStore::State> state_;
  Reader reader_;
};

}  // namespace

InProcessStore::InProcessStore(StoreTime time, std::size_t history_changes_max)
    : state_(std::make_shared<State>(time, history_changes_max)) {
  if (time == StoreTime::kOwn) lease_thread_ = std::thread([this] { run_lease_thread(*state_); });
}

InProcessStore::~InProcessStore() {
  if (!lease_thread_.joinable()) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_ending = true;
    state_->changed.notify_all();
  }
  lease_thread_.join();
}

Result<Entries> InProcessStore::read_prefix(std::string_view prefix, Milliseconds) {
  TESSERA_ENTER_STORE(*state_);
  Entries found{.revision = state_->revision()};
  const std::string begin(prefix);
  for (auto entry = state_->entries().lower_bound(begin);
       entry != state_->entries().end() && is_below(entry->first, begin); ++entry) {
    found.entries.push_back(entry->second);
  }
  return found;
}

Result<MaybeEntry> InProcessStore::read(std::string_view key, Milliseconds) {
  TESSERA_ENTER_STORE(*state_);
  const Entry* entry = state_->find(std::string(key));
  return MaybeEntry{.entry = entry ? std::optional(*entry) : std::nullopt,
                    .revision = state_->revision()};
}

Result<CommitResult> InProcessStore::commit(const Transaction& transaction, Milliseconds) {
  TESSERA_RETURN_IF_ERROR(check_transaction(transaction));
  TESSERA_ENTER_STORE(*state_);
  return state_->commit(transaction);
}

Result<Lease> InProcessStore::grant_lease(Milliseconds ttl, Milliseconds) {
  TESSERA_RETURN_IF_ERROR(check_lease_time(ttl));
  TESSERA_ENTER_STORE(*state_);
  return state_->grant(ttl);
}

Result<Renewal> InProcessStore::renew_lease(LeaseId lease, Milliseconds) {
  TESSERA_ENTER_STORE(*state_);
  return state_->renew(lease);
}

Status InProcessStore::revoke_lease(LeaseId lease, Milliseconds) {
  TESSERA_ENTER_STORE(*state_);
  state_->end_lease(lease);
  return {};
}

Result<std::unique_ptr<Watch>> InProcessStore::watch(std::string_view prefix, WatchOptions options,
                                                     Milliseconds) {
  TESSERA_RETURN_IF_ERROR(check_watch_start(options.from));
  TESSERA_ENTER_STORE(*state_);
  return std::unique_ptr<Watch>(
      std::make_unique<InProcessWatch>(state_, std::string(prefix), std::move(options)));
}

void InProcessStore::advance(Milliseconds time) {
  const std::lock_guard lock(state_->mutex);
  state_->advance_to(state_->now() + time);
}

Milliseconds InProcessStore::now() const {
  const std::lock_guard lock(state_->mutex);
  return state_->now();
}

Milliseconds InProcessStore::next_lease_end() const {
  const std::lock_guard lock(state_->mutex);
  return state_->next_lease_end();
}

Status InProcessStore::compact(Revision revision, Milliseconds) {
  TESSERA_ENTER_STORE(*state_);
  state_->compact(revision);
  return {};
}

void InProcessStore::set_unavailable(std::string reason) {
  const std::lock_guard lock(state_->mutex);
  state_->set_unavailable(std::move(reason));
  state_->changed.notify_all();
}

}  // namespace tessera::store
