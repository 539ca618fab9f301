#include "recordings.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace speech {
namespace {

using Clock = std::chrono::steady_clock;
using tessera::Result;
using tessera::Status;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

constexpr std::size_t kChunksAhead = 4;  // of each recording

// The recording's next chunk; its result goes to the recording. Callbacks of a stream come in its
// order, one at a time.
Status submit_chunk(tessera::Stream& stream, RecordingResult& result, std::size_t chunk) {
  tessera::SubmitOptions options;
  options.callback = [&result](const tessera::TaskOutcome& outcome) {
    if (outcome.ok()) {
      result.voice->probabilities.push_back(outcome.result().outputs()[0].as<float>()[0]);
    } else if (result.error.empty()) {
      result.error = outcome.error().error.to_string();  // those behind it fail because of it
    }
  };
  const auto job = stream.submit_network_when_room({.inputs = {window_of(*result.voice, chunk)}},
                                                   std::move(options));
  return job.ok() ? Status() : job.error();
}

}  // namespace

Result<Detection> detect_streams(const tessera::Network& network, const StreamsOptions& options,
                                 std::vector<Recording> recordings) {
  TESSERA_TRY(tessera::Runtime runtime, tessera::Runtime::open({.devices = options.devices}));
  TESSERA_TRY(const tessera::Model model, runtime.load(network));
  const std::vector<tessera::DeviceStatus> devices = runtime.devices();
  Detection detection;
  for (Recording& recording : recordings) {
    detection.recordings.push_back({std::make_shared<Voice>(std::move(recording)), {}});
  }
  TESSERA_TRY(tessera::Pipeline pipeline,
              runtime.open_pipeline(model, {.hint = tessera::Hint::kLatency,
                                            .jobs_max = kChunksAhead * recordings.size() + 1}));
  TESSERA_TRY(const auto live_view, streaming::show(runtime, pipeline, options.http, "speech"));
  const auto begin = Clock::now();
  // The state of each recording stays on a device: output 1 of a chunk is input 1 of the next.
  std::vector<tessera::Stream> streams;
  std::size_t chunks = 0;
  for (const RecordingResult& result : detection.recordings) {
    TESSERA_TRY(const tessera::Memory memory,
                runtime.open_memory(devices[streams.size() % devices.size()].name));
    streams.push_back(pipeline.open_stream());
    TESSERA_RETURN_IF_ERROR(streams.back().bind_states(memory, {{.output = 1, .input = 1}}));
    chunks = std::max(chunks, result.voice->chunks());
  }
  Status submitted;
  for (std::size_t chunk = 0; chunk < chunks && submitted.ok(); ++chunk) {
    for (std::size_t i = 0; i < streams.size() && submitted.ok(); ++i) {
      RecordingResult& result = detection.recordings[i];
      if (chunk < result.voice->chunks()) submitted = submit_chunk(streams[i], result, chunk);
    }
  }
  pipeline.wait_until_done();  // callbacks write to `detection`
  TESSERA_RETURN_IF_ERROR(submitted);
  detection.use = {seconds_since(begin), runtime.devices(), pipeline.status()};
  if (!options.trace.empty()) TESSERA_RETURN_IF_ERROR(runtime.write_trace(options.trace));
  return detection;
}

Result<Detection> detect_one_by_one(const tessera::Network& network,
                                    const tessera::SessionOptions& options,
                                    std::vector<Recording> recordings) {
  TESSERA_TRY(tessera::Session session, tessera::Session::open(network, options));
  const auto begin = Clock::now();
  Detection detection;
  for (Recording& recording : recordings) {
    RecordingResult result{std::make_shared<Voice>(std::move(recording)), {}};
    while (!result.voice->done()) {
      TESSERA_TRY(tessera::RunResult run, session.run(next_inputs(*result.voice)));
      TESSERA_RETURN_IF_ERROR(take_outputs(*result.voice, std::move(run.outputs)));
    }
    detection.recordings.push_back(std::move(result));
  }
  detection.use.seconds = seconds_since(begin);
  return detection;
}

}  // namespace speech
