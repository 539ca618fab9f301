#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <utility>

#include "base/guarded.h"
#include "base/process_mark.h"
#include "tessera/dynamic_network.h"

namespace tessera {

struct DynamicSession::State {
  struct One {
    Network network;
    Session session;
  };

  Result<One*> session_for(const std::vector<Tensor>& inputs);

  DynamicNetwork network;
  SessionOptions options;
  std::int64_t sessions_max = 1;
  std::list<One> sessions;  // the last one used first
  ProcessMark mark = {};
};

Result<DynamicSession::State::One*> DynamicSession::State::session_for(
    const std::vector<Tensor>& inputs) {
  TESSERA_TRY(Network wanted, network.network_for(inputs));
  const auto found = std::ranges::find_if(
      sessions, [&wanted](const One& one) { return one.network.share() == wanted.share(); });
  if (found != sessions.end()) {
    sessions.splice(sessions.begin(), sessions, found);
    return &sessions.front();
  }
  // A processor may have room for no more.
  while (std::ssize(sessions) >= sessions_max) sessions.pop_back();
  TESSERA_TRY(Session session, Session::open(wanted, options));
  sessions.push_front({std::move(wanted), std::move(session)});
  return &sessions.front();
}

Result<DynamicSession> DynamicSession::open(DynamicNetwork network, const SessionOptions& options,
                                            std::int64_t sessions_max) {
  if (sessions_max < 1) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("DynamicSession::open: {} sessions, allowed is 1 or more", sessions_max)};
  }
  return guarded("opening a session", [&]() -> Result<DynamicSession> {
    return DynamicSession(
        std::make_shared<State>(State{std::move(network), options, sessions_max, {}, {}}));
  });
}

Result<RunResult> DynamicSession::run(const std::vector<Tensor>& inputs) {
  return guarded("running a network", [&]() -> Result<RunResult> {
    TESSERA_RETURN_IF_ERROR(usable());
    TESSERA_TRY(State::One* const one, state_->session_for(inputs));
    TESSERA_TRY(const std::vector<Tensor> taken, state_->network.inputs_of(one->network, inputs));
    return one->session.run(taken);
  });
}

Status DynamicSession::usable() const { return state_->mark.check("session"); }

std::optional<Network> DynamicSession::network() const {
  if (state_->sessions.empty()) return std::nullopt;
  return state_->sessions.front().network;
}

}  // namespace tessera
