// The page, the figures and the controls of pipelines over HTTP: src/dashboard with what a runtime
// knows behind it.
#include <fmt/format.h>

#include "base/guarded.h"
#include "dashboard/server.h"
#include "pipeline/stage.h"
#include "runtime/runtime_state.h"
#include "tessera/runtime.h"

namespace tessera {
namespace runtime {
namespace {

constexpr const char* kTune = "balance threads";
constexpr const char* kDebug = "run on";
constexpr const char* kOff = "off";
constexpr const char* kOn = "on";
constexpr const char* kDebugPositions[] = {"device", "host", "both, compared"};

}  // namespace

// Stages by name over all pipelines; the switches are those of all of them.
class PipelineControls : public dashboard::Controls {
 public:
  PipelineControls(const RuntimeState& runtime, std::vector<Pipeline> pipelines,
                   std::vector<VirtualCard> cards)
      : runtime_(runtime), pipelines_(std::move(pipelines)), cards_(std::move(cards)) {}

  std::vector<CardStatus> cards() override {
    std::vector<CardStatus> cards;
    for (const VirtualCard& card : cards_) cards.push_back(card.status());
    return cards;
  }

  metrics::Conditions conditions() override {
    metrics::Conditions conditions;
    for (const auto& device : runtime_.devices()) {
      const DeviceStatus status = device->status();
      conditions.devices.push_back(
          {status.name, status.healthy, status.fault, device->run_memory().is_wanted()});
    }
    for (const Pipeline& pipeline : pipelines_) {
      const PipelineStatus status = pipeline.status();
      conditions.in_flight_max += static_cast<std::int64_t>(status.jobs_max);
      for (const StageStatus& stage : status.stages) {
        if (stage.kind == StageKind::kExecute) conditions.execute_stages.push_back(stage.name);
      }
    }
    return conditions;
  }

  std::vector<dashboard::StageControl> stages() override {
    std::vector<dashboard::StageControl> stages;
    for (const Pipeline& pipeline : pipelines_) {
      for (const StageStatus& stage : pipeline.status().stages) {
        stages.push_back({stage.name, stage.threads, pipeline::kThreadsMax});
      }
    }
    return stages;
  }

  Status set_threads(const std::string& stage, int threads) override {
    std::string known;
    for (Pipeline& pipeline : pipelines_) {
      for (const StageStatus& status : pipeline.status().stages) {
        if (status.name == stage) return pipeline.set_threads(stage, threads);
        known += (known.empty() ? "" : ", ") + status.name;
      }
    }
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("there is no stage '{}'; there are {}", stage, known)};
  }

  std::vector<dashboard::Choice> choices() override {
    if (pipelines_.empty()) return {};
    const PipelineStatus status = pipelines_.front().status();
    return {{kTune, status.tuning ? kOn : kOff, {kOff, kOn}},
            {kDebug,
             kDebugPositions[static_cast<std::size_t>(status.debug)],
             {std::begin(kDebugPositions), std::end(kDebugPositions)}}};
  }

  Status choose(const std::string& name, const std::string& position) override {
    if (name == kTune && (position == kOn || position == kOff)) {
      for (Pipeline& pipeline : pipelines_) pipeline.set_tuning(position == kOn);
      return {};
    }
    for (std::size_t mode = 0; mode < std::size(kDebugPositions); ++mode) {
      if (name != kDebug || position != kDebugPositions[mode]) continue;
      for (Pipeline& pipeline : pipelines_) {
        pipeline.set_debug({.mode = static_cast<DebugMode>(mode)});
      }
      return {};
    }
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("'{}' cannot be '{}'; allowed {}: {}, {}; {}: {}", name, position,
                             kTune, kOff, kOn, kDebug, fmt::join(kDebugPositions, ", "))};
  }

 private:
  const RuntimeState& runtime_;  // outlives the controls
  std::vector<Pipeline> pipelines_;
  const std::vector<VirtualCard> cards_;
};

class LiveViewState {
 public:
  LiveViewState(std::shared_ptr<RuntimeState> runtime, const LiveViewOptions& options)
      : runtime_(std::move(runtime)), controls_(*runtime_, options.pipelines, options.cards) {}

  Status start(const dashboard::ServerOptions& options) {
    TESSERA_TRY(server_, dashboard::Server::start(runtime_->collector(), &controls_, options));
    return {};
  }
  std::string url() const { return server_->url(); }

 private:
  const std::shared_ptr<RuntimeState> runtime_;  // shared with models and pipelines
  PipelineControls controls_;
  std::unique_ptr<dashboard::Server> server_;  // after what it shows
};

}  // namespace runtime

std::string LiveView::url() const { return state_->url(); }

Result<LiveView> Runtime::open_live_view(const LiveViewOptions& options) {
  return guarded("opening a live view", [&]() -> Result<LiveView> {
    TESSERA_RETURN_IF_ERROR(usable());
    dashboard::ServerOptions server = {.title = options.title};
    TESSERA_TRY(server.listen, dashboard::parse_listen_address(options.listen));
    auto view = make_shared_here<runtime::LiveViewState>(state_, options);
    TESSERA_RETURN_IF_ERROR(view->start(server));
    return LiveView(std::move(view));
  });
}

}  // namespace tessera
