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
  if (Status here = state_->runtime->check_process("recording"); !here.ok()) {
    return {.status = std::move(here)};
  }
  const metrics::EventFile::Progress now = state_->file->progress();
  return {.events = now.events, .bytes = now.bytes, .lost = now.lost, .status = now.status};
}

Status EventRecording::finish() {
  return guarded("recording events", [this]() -> Status {
    TESSERA_RETURN_IF_ERROR(state_->runtime->check_process("recording"));
    return state_->file->close();
  });
}

Result<EventRecording> Runtime::record_events(const std::string& path) {
  TESSERA_RETURN_IF_ERROR(usable());
  if (!state_->recorder().recording()) {
    return Error{ErrorCode::kInvalidArgument,
                 "no events are recorded; open the runtime with metrics, or switch recording on"};
  }
  return guarded("recording events", [&]() -> Result<EventRecording> {
    auto state = make_shared_here<runtime::EventRecordingState>();
    state->runtime = state_;
    TESSERA_TRY(state->file, metrics::EventFile::open(state_->collector(), path));
    return EventRecording(std::move(state));
  });
}

}  // namespace tessera
