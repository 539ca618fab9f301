#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <utility>

#include "base/guarded.h"
#include "base/process_mark.h"
#include "network/dynamic_state.h"
#include "runtime/part_runner.h"
#include "tessera/dynamic_network.h"

namespace tessera {

struct DynamicSession::State {
  struct One {
    Network network;
    Session session;
  };

  Result<One*> session_for(Network wanted);
  // Without a node to stop at: by definition.
  Result<RunResult> run_parts(const DynamicNetworkState::Stop* stop,
                              const std::vector<Tensor>& inputs);

  State(DynamicNetwork of, const SessionOptions& how, std::int64_t most)
      : network(std::move(of)), options(how), sessions_max(most), parts(network, how, most) {}

  DynamicNetwork network;
  SessionOptions options;
  std::int64_t sessions_max = 1;
  std::list<One> sessions;  // the last one used first
  runtime::PartRunner parts;
  bool ran_in_parts = false;  // the last run
  std::vector<std::string> output_names;
  Placement placement;
  ProcessMark mark = {};
};

Result<DynamicSession::State::One*> DynamicSession::State::session_for(Network wanted) {
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

Result<RunResult> DynamicSession::State::run_parts(const DynamicNetworkState::Stop* stop,
                                                   const std::vector<Tensor>& inputs) {
  if (options.timing_only) {
    return Error{ErrorCode::kInvalidArgument,
                 "timing_only: values decide what this model computes; leave it out"};
  }
  auto result = stop == nullptr ? parts.run_by_definition(inputs) : parts.run(*stop, inputs);
  if (!result.ok()) return result;
  ran_in_parts = true;
  output_names.clear();
  for (const model::ValueInfo& output : network.state().model.graph.outputs) {
    output_names.push_back(output.name);
  }
  placement = parts.placement();
  return result;
}

Result<DynamicSession> DynamicSession::open(DynamicNetwork network, const SessionOptions& options,
                                            std::int64_t sessions_max) {
  if (sessions_max < 1) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("DynamicSession::open: {} sessions, allowed is 1 or more", sessions_max)};
  }
  return guarded("opening a session", [&]() -> Result<DynamicSession> {
    return DynamicSession(std::make_shared<State>(std::move(network), options, sessions_max));
  });
}

Result<RunResult> DynamicSession::run(const std::vector<Tensor>& inputs) {
  return guarded("running a network", [&]() -> Result<RunResult> {
    TESSERA_RETURN_IF_ERROR(usable());
    DynamicNetworkState& model = state_->network.state();
    TESSERA_RETURN_IF_ERROR(model.check(inputs));
    if (model.by_definition) return state_->run_parts(nullptr, inputs);
    TESSERA_TRY(const std::vector<Tensor> in_buckets, model.in_buckets(inputs));
    TESSERA_TRY(DynamicNetworkState::Made made, model.made_for(in_buckets));
    if (made.stop) return state_->run_parts(&*made.stop, in_buckets);
    TESSERA_TRY(State::One* const one, state_->session_for(std::move(*made.network)));
    TESSERA_TRY(const std::vector<Tensor> taken, state_->network.inputs_of(one->network, inputs));
    TESSERA_TRY(RunResult result, one->session.run(taken));
    state_->ran_in_parts = false;
    state_->output_names.clear();
    for (const TensorDescription& output : one->network.outputs()) {
      state_->output_names.push_back(output.name);
    }
    state_->placement = one->network.placement();
    return result;
  });
}

const DynamicNetwork& DynamicSession::dynamic_network() const { return state_->network; }
const std::vector<std::string>& DynamicSession::output_names() const {
  return state_->output_names;
}
const Placement& DynamicSession::placement() const { return state_->placement; }
Status DynamicSession::usable() const { return state_->mark.check("session"); }

std::vector<NetworkRuns> DynamicSession::networks() const {
  if (state_->ran_in_parts) return state_->parts.networks();
  if (state_->sessions.empty()) return {};
  return {{state_->sessions.front().network, 1}};
}

Session* DynamicSession::session() const {
  if (state_->ran_in_parts || state_->sessions.empty()) return nullptr;
  return &state_->sessions.front().session;
}

std::optional<Network> DynamicSession::network() const {
  if (state_->ran_in_parts || state_->sessions.empty()) return std::nullopt;
  return state_->sessions.front().network;
}

}  // namespace tessera
