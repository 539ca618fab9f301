#include "cluster_simulation/world.h"

#include <algorithm>

namespace tessera::cluster_simulation {
namespace {

std::pair<std::string, std::string> way(const std::string& a, const std::string& b) {
  return a < b ? std::pair(a, b) : std::pair(b, a);
}

}  // namespace

class World::MemberStore : public store::Store {
 public:
  MemberStore(World& world, std::string member) : world_(world), member_(std::move(member)) {}

  Result<store::Entries> read_prefix(std::string_view prefix, Milliseconds timeout) override {
    TESSERA_RETURN_IF_ERROR(check());
    return world_.store_.read_prefix(prefix, timeout);
  }
  Result<store::MaybeEntry> read(std::string_view key, Milliseconds timeout) override {
    TESSERA_RETURN_IF_ERROR(check());
    return world_.store_.read(key, timeout);
  }
  Result<store::CommitResult> commit(const store::Transaction& transaction,
                                     Milliseconds timeout) override {
    TESSERA_RETURN_IF_ERROR(check());
    return heard(world_.store_.commit(transaction, timeout));
  }
  Result<store::Lease> grant_lease(Milliseconds ttl, Milliseconds timeout) override {
    TESSERA_RETURN_IF_ERROR(check());
    return heard(world_.store_.grant_lease(ttl, timeout));
  }
  Result<store::Renewal> renew_lease(store::LeaseId lease, Milliseconds timeout) override {
    TESSERA_RETURN_IF_ERROR(check());
    return heard(world_.store_.renew_lease(lease, timeout));
  }
  Status revoke_lease(store::LeaseId lease, Milliseconds timeout) override {
    TESSERA_RETURN_IF_ERROR(check());
    return heard(world_.store_.revoke_lease(lease, timeout));
  }
  Result<std::unique_ptr<store::Watch>> watch(std::string_view prefix, store::WatchOptions options,
                                              Milliseconds timeout) override {
    TESSERA_RETURN_IF_ERROR(check());
    TESSERA_TRY(std::unique_ptr<store::Watch> inner,
                world_.store_.watch(prefix, std::move(options), timeout));
    return std::unique_ptr<store::Watch>(std::make_unique<MemberWatch>(*this, std::move(inner)));
  }
  Status compact(store::Revision revision, Milliseconds timeout) override {
    TESSERA_RETURN_IF_ERROR(check());
    return heard(world_.store_.compact(revision, timeout));
  }
  std::string describe() const override { return "simulated, of " + member_; }

 private:
  class MemberWatch : public store::Watch {
   public:
    MemberWatch(MemberStore& of, std::unique_ptr<store::Watch> inner)
        : of_(of), inner_(std::move(inner)) {}
    Result<std::optional<store::Batch>> next(Milliseconds timeout) override {
      if (!of_.check().ok()) return std::optional<store::Batch>();
      return inner_->next(timeout);
    }
    void cancel() override { inner_->cancel(); }

   private:
    MemberStore& of_;
    std::unique_ptr<store::Watch> inner_;
  };

  Status check() const {
    if (!world_.is_cut(member_, kStore)) return {};
    return Error{ErrorCode::kUnavailable, describe() + ": cut off"};
  }
  // The answer, or its loss.
  template <typename T>
  T heard(T answer) {
    if (!answer.ok() || !world_.happens(world_.options_.lost_answer_share)) return answer;
    return Error{ErrorCode::kUnavailable,
                 describe() + ": the answer was lost; whether it was carried out is not known"};
  }

  World& world_;
  const std::string member_;
};

World::World(WorldOptions options) : options_(options), random_(options.seed) {}
World::~World() = default;

// Whole numbers, since distributions differ from library to library.
bool World::happens(double share) {
  constexpr std::uint64_t kWhole = std::uint64_t{1} << 32;
  if (share <= 0) return false;
  return static_cast<double>(random_below(kWhole)) < share * static_cast<double>(kWhole);
}

void World::at(Milliseconds moment, std::function<void()> event) {
  events_[{std::max(moment, now_), next_number_++}] = {.run = std::move(event)};
}

void World::run_until(Milliseconds moment) {
  for (;;) {
    const Milliseconds event = events_.empty() ? Milliseconds::max() : events_.begin()->first.first;
    const Milliseconds next = std::min({event, store_.next_lease_end(), moment});
    if (next > now_) {
      store_.advance(next - now_);
      now_ = next;
    }
    if (event > now_ || events_.empty()) {
      if (now_ >= moment) return;
      continue;
    }
    auto first = events_.extract(events_.begin());
    first.mapped().run();
  }
}

void World::send(const std::string& from, const std::string& to, std::function<void()> arrive) {
  const auto spread = static_cast<std::uint64_t>((options_.delay_max - options_.delay_min).count());
  const Milliseconds delay =
      options_.delay_min + Milliseconds(static_cast<std::int64_t>(random_below(spread + 1)));
  const bool is_lost = happens(options_.lost_share);
  if (is_lost || is_cut(from, to)) return;
  Milliseconds& arrival = last_arrival_[{from, to}];
  arrival = std::max(arrival, now_ + delay);
  at(arrival,
     [this, from, to, of_from = life_of(from), of_to = life_of(to), run = std::move(arrive)] {
       const bool are_alive = life_of(from) == of_from && life_of(to) == of_to;
       if (are_alive && !is_cut(from, to)) run();
     });
}

void World::cut(const std::string& a, const std::string& b) { cuts_.insert(way(a, b)); }
void World::heal(const std::string& a, const std::string& b) { cuts_.erase(way(a, b)); }
bool World::is_cut(const std::string& a, const std::string& b) const {
  return cuts_.contains(way(a, b));
}

void World::kill(const std::string& member) { ++lives_[member]; }

void World::at_member(const std::string& member, Milliseconds moment, std::function<void()> event) {
  at(moment, [this, member, life = life_of(member), run = std::move(event)] {
    if (life_of(member) == life) run();
  });
}

store::Store& World::store(const std::string& member) {
  std::unique_ptr<MemberStore>& found = stores_[member];
  if (!found) found = std::make_unique<MemberStore>(*this, member);
  return *found;
}

}  // namespace tessera::cluster_simulation
