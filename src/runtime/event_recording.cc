// Runtime::record_events: a file of all events, for as long as a handle to it lives.
#include "base/guarded.h"
#include "metrics/event_file.h"
#include "runtime/runtime_state.h"
#include "tessera/runtime.h"

namespace tessera {
namespace runtime {

struct EventRecordingState {
  std::shared_ptr<RuntimeState> runtime;  // shared with models and pipelines
  std::unique_ptr<metrics::EventFile> file;
};

}  // namespace runtime

EventRecording::Progress EventRecording::progress() const {
  const metrics::EventFile::Progress now = state_->file->progress();
  return {.events = now.events, .bytes = now.bytes, .lost = now.lost, .status = now.status};
}

Status EventRecording::finish() {
  return guarded("recording events", [this] { return state_->file->close(); });
}

Result<EventRecording> Runtime::record_events(const std::string& path) {
  if (!state_->recorder().recording()) {
    return Error{ErrorCode::kInvalidArgument,
                 "no events are recorded; open the runtime with metrics, or switch recording on"};
  }
  return guarded("recording events", [&]() -> Result<EventRecording> {
    auto state = std::make_shared<runtime::EventRecordingState>();
    state->runtime = state_;
    TESSERA_TRY(state->file, metrics::EventFile::open(state_->collector(), path));
    return EventRecording(std::move(state));
  });
}

}  // namespace tessera
