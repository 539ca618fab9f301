#include "tessera/shared_session.h"

#include <fmt/format.h>

#include <cmath>

#include "base/guarded.h"
#include "base/process_mark.h"
#include "device/shared_run.h"
#include "network/network.h"
#include "runtime/check_inputs.h"

namespace tessera {

class SharedSessionState {
 public:
  const ProcessMark mark;
  std::vector<std::shared_ptr<const NetworkState>> networks;
  std::unique_ptr<device::SharedRun> run;
};

namespace {

// Microseconds to cycles of the clock; the first cycle at or behind that time.
Result<Cycles> cycle_of(double microseconds, std::int64_t clock_hertz, std::size_t network) {
  constexpr double kMost = 1e12;  // eleven days
  if (!(microseconds >= 0 && microseconds <= kMost)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("network {} arrives at {} us, allowed 0 to {:g}", network,
                             microseconds, kMost)};
  }
  return static_cast<Cycles>(std::ceil(microseconds * 1e-6 * static_cast<double>(clock_hertz)));
}

Status check_all_inputs(const SharedSessionState& session,
                        const std::vector<std::vector<Tensor>>& inputs) {
  if (inputs.size() != session.networks.size()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("inputs of {} networks, the session has {}", inputs.size(),
                             session.networks.size())};
  }
  for (std::size_t n = 0; n < inputs.size(); ++n) {
    const Status status = runtime::check_inputs(session.networks[n]->inputs, inputs[n]);
    if (!status.ok()) return status.error().with_context(fmt::format("network {}", n));
  }
  return {};
}

}  // namespace

SharedSession::SharedSession(std::unique_ptr<SharedSessionState> state)
    : state_(std::move(state)) {}
SharedSession::SharedSession(SharedSession&&) noexcept = default;
SharedSession& SharedSession::operator=(SharedSession&&) noexcept = default;
SharedSession::~SharedSession() = default;

Result<SharedSession> SharedSession::open(const std::vector<SharedNetwork>& networks,
                                          const SharedSessionOptions& options) {
  return guarded("opening a shared session", [&]() -> Result<SharedSession> {
    auto state = std::make_unique<SharedSessionState>();
    std::vector<device::SharedRunNetwork> runs;
    for (std::size_t n = 0; n < networks.size(); ++n) {
      const SharedNetwork& of = networks[n];
      state->networks.push_back(of.network.share());
      TESSERA_TRY(const Cycles arrival,
                  cycle_of(of.arrival_us, state->networks[n]->chip.clock_hertz, n));
      runs.push_back({.network = state->networks[n],
                      .priority = of.priority,
                      .arrival = arrival,
                      .share = of.share});
    }
    TESSERA_TRY(state->run, device::SharedRun::create(runs, {.timing_only = options.timing_only,
                                                             .check_hazards = options.check_hazards,
                                                             .trace = options.trace,
                                                             .host_time = options.host_time,
                                                             .traps = options.traps}));
    return SharedSession(std::move(state));
  });
}

Result<SharedRunResult> SharedSession::run(const std::vector<std::vector<Tensor>>& inputs) {
  return guarded("running networks", [&]() -> Result<SharedRunResult> {
    if (state_ == nullptr) {
      return Error{ErrorCode::kInvalidArgument,
                   "this shared session was moved from; open another one"};
    }
    TESSERA_RETURN_IF_ERROR(state_->mark.check("shared session"));
    TESSERA_RETURN_IF_ERROR(check_all_inputs(*state_, inputs));
    return state_->run->run(inputs);
  });
}

}  // namespace tessera
