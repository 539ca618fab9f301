#include "recordings.h"

#include <chrono>
#include <utility>

namespace speech {
namespace {

using Clock = std::chrono::steady_clock;
using tessera::Result;
using tessera::Status;
using tessera::Task;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Voice& voice_of(const Task& task) { return *static_cast<Voice*>(task.payload.get()); }

Result<tessera::Pipeline> open_pipeline(tessera::Runtime& runtime, const tessera::Model& model,
                                        std::size_t recordings) {
  tessera::PipelineOptions options;
  std::vector<tessera::StageOptions> stages = tessera::default_stages(model);
  stages.insert(
      stages.begin(),
      {.kind = tessera::StageKind::kHost, .name = "cut", .function = [](Task& task) -> Status {
         task.runs.assign(1, next_inputs(voice_of(task)));
         return {};
       }});
  stages.push_back(
      {.kind = tessera::StageKind::kHost, .name = "note", .function = [](Task& task) -> Status {
         return take_outputs(voice_of(task), std::move(task.runs.at(0)));
       }});
  options.stages = std::move(stages);
  options.jobs_max = recordings;  // a recording has one task at a time
  options.hint = tessera::Hint::kLatency;
  return runtime.open_pipeline(std::move(options));
}

// The recordings that have a task in flight; `jobs` and `which` go together.
struct InFlight {
  std::vector<tessera::Job> jobs;
  std::vector<std::size_t> which;

  void remove(std::size_t i) {
    std::swap(jobs[i], jobs.back());
    std::swap(which[i], which.back());
    jobs.pop_back();
    which.pop_back();
  }
};

}  // namespace

Result<Detection> detect_streams(const tessera::Network& network, const StreamsOptions& options,
                                 std::vector<Recording> recordings) {
  TESSERA_TRY(tessera::Runtime runtime, tessera::Runtime::open({.devices = options.devices}));
  TESSERA_TRY(const tessera::Model model, runtime.load(network));
  TESSERA_TRY(tessera::Pipeline pipeline, open_pipeline(runtime, model, recordings.size()));
  TESSERA_TRY(const auto live_view, streaming::show(runtime, pipeline, options.http, "speech"));
  const auto begin = Clock::now();
  Detection detection;
  std::vector<tessera::Stream> streams;
  InFlight flying;
  const auto submit_next = [&](std::size_t i) -> Status {
    const std::shared_ptr<Voice>& voice = detection.recordings[i].voice;
    if (voice->done()) return {};
    TESSERA_TRY(tessera::Job job, streams[i].submit_when_room({}, {.payload = voice}));
    flying.jobs.push_back(std::move(job));
    flying.which.push_back(i);
    return {};
  };
  for (Recording& recording : recordings) {
    streams.push_back(pipeline.open_stream());
    detection.recordings.push_back({std::make_shared<Voice>(std::move(recording)), {}});
    TESSERA_RETURN_IF_ERROR(submit_next(streams.size() - 1));
  }
  while (!flying.jobs.empty()) {
    const std::size_t first = *tessera::wait_any(flying.jobs);
    const std::size_t i = flying.which[first];
    const tessera::TaskOutcome outcome = flying.jobs[first].wait();
    flying.remove(first);
    if (outcome.ok()) {
      TESSERA_RETURN_IF_ERROR(submit_next(i));
    } else {
      detection.recordings[i].error = outcome.error().error.to_string();
    }
  }
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
