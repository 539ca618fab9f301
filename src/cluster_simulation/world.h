// Clock, network and store for a cluster that runs in one thread from one seed: the same seed gives the
// same run, whatever the machine. For tests; the code that runs in it is the code that ships.
//
//   World world({.seed = 7});
//   world.after(100ms, [&] { ... });              an event
//   world.send("master", "node3", [&] { ... });   a message: late, lost, or cut off
//   world.store("node3").renew_lease(...)         the store as node3 sees it
//   world.cut("node3", World::kStore);
//   world.run_until(10h);
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "store/in_process_store.h"
#include "store/store.h"

namespace tessera::cluster_simulation {

using Milliseconds = std::chrono::milliseconds;

struct WorldOptions {
  std::uint64_t seed = 1;
  Milliseconds delay_min{0}, delay_max{2};  // of a message, each with its own; order is kept
  double lost_share = 0;                    // of messages: 0 to 1
  // Of changes of the store: those that are carried out while the caller hears kUnavailable.
  double lost_answer_share = 0;
};

// One thread. Events of the same moment run in the order in which they were made.
class World {
 public:
  // The name of the store for cut() and heal().
  static constexpr const char* kStore = "store";

  explicit World(WorldOptions options);
  ~World();

  Milliseconds now() const { return now_; }
  std::mt19937_64& random() { return random_; }
  // A whole number from 0 to `below` - 1, the same on every machine.
  std::uint64_t random_below(std::uint64_t below) { return random_() % below; }
  bool happens(double share);

  void at(Milliseconds moment, std::function<void()> event);
  void after(Milliseconds delay, std::function<void()> event) {
    at(now_ + delay, std::move(event));
  }

  // Runs events and ends leases up to and with this moment.
  void run_until(Milliseconds moment);

  // `arrive` runs at the receiver's side; never where the message is lost or the way is cut when it is
  // sent or would arrive. Messages of one way arrive in their order.
  void send(const std::string& from, const std::string& to, std::function<void()> arrive);

  // Both ways between two members, or between one and the store.
  void cut(const std::string& a, const std::string& b);
  void heal(const std::string& a, const std::string& b);
  bool is_cut(const std::string& a, const std::string& b) const;
  // What the member has sent and not yet been received is lost, as is what is on its way to it, and events
  // of it that were made with at_member() do not happen.
  void kill(const std::string& member);
  // An event of a member, which happens unless it was killed in between.
  void at_member(const std::string& member, Milliseconds moment, std::function<void()> event);

  // As this member sees it: kUnavailable while they are cut; its watches are silent meanwhile. The world
  // outlives it.
  store::Store& store(const std::string& member);
  // As nobody's network touches it: for checks, and for set_unavailable().
  store::InProcessStore& whole_store() { return store_; }

 private:
  class MemberStore;
  struct Event {
    std::function<void()> run;
  };
  std::uint64_t life_of(const std::string& member) { return lives_[member]; }

  const WorldOptions options_;
  std::mt19937_64 random_;
  Milliseconds now_{0};
  std::uint64_t next_number_ = 0;
  std::map<std::pair<Milliseconds, std::uint64_t>, Event> events_;
  std::map<std::pair<std::string, std::string>, Milliseconds> last_arrival_;
  std::set<std::pair<std::string, std::string>> cuts_;
  std::map<std::string, std::uint64_t> lives_;
  store::InProcessStore store_{store::StoreTime::kManual};
  std::map<std::string, std::unique_ptr<MemberStore>> stores_;
};

}  // namespace tessera::cluster_simulation
