// The cards as the scheduler's actions leave them, kept from events and actions alone and by the rules of
// whoever carries them out. What the scheduler believes is held against it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "schedule/event.h"

namespace tessera::schedule {

// An order that nobody has carried out yet.
struct Outstanding {
  enum class Kind { kRelink, kDrain, kClear } kind = Kind::kRelink;
  std::int64_t subject = 0;  // the tenant, or the core
  OrderId order = 0;

  Event done() const;
};

class Mirror {
 public:
  explicit Mirror(const State& start);

  // Both in the order in which they happen: the event, then its actions. The error says which rule the
  // actions break.
  Status apply(const Event& event, const std::vector<Action>& actions);
  // Whether the state says the same.
  Status compare(const State& state) const;

  std::vector<Outstanding> outstanding() const;

 private:
  struct MirroredCore {
    CorePhase phase = CorePhase::kFree;
    TenantId owner = 0;
    OrderId order = 0;
    bool drained = false;  // the news came with this event
    bool returned = false;
  };
  struct Program {
    Assignment running{};
    Assignment linking{};
    OrderId relink = 0;
  };

  void happen(const Event& event);
  void fail(CoreId core);
  Status obey(const Action& action);
  Status obey(const Give& action);
  Status obey(const Take& action);
  Status obey(const Relink& action);
  Status obey(const Clear& action);

  std::vector<MirroredCore> cores_;
  std::vector<std::int32_t> card_;  // by core
  std::map<TenantId, Program> programs_;
};

}  // namespace tessera::schedule
