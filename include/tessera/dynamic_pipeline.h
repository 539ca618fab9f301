// Tasks of many shapes in one stream: a pipeline for each network that the inputs ask for, behind one handle.
//
//   runtime->open_pipeline(*DynamicNetwork::open("recogniser.onnx"), {})  ─► DynamicPipeline
//     └─ open_stream() ─► DynamicStream
//          └─ submit(inputs of any shape) ─► Job        shapes 1x3x48x320 ─► [pre] ─► [execute] ─► [post] ─┐
//                                                        shapes 1x3x48x120 ─► [pre] ─► [execute] ─► [post] ─┴─► results in order
//
// A shape that is new is compiled, and its weights go to the devices, by a thread of the pipeline, one shape after another:
// submit() does not wait for it. Tasks of that stream wait behind it, so that they stay in their order; those of other streams
// flow on. A model that no single network can be runs in parts, by that thread. Of all else docs/runtime.md and
// tessera/runtime.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/dynamic_network.h"
#include "tessera/runtime.h"

namespace tessera {

// How the pipeline of each shape is.
struct DynamicPipelineOptions {
  // Without stages, which are pre, execute and post of each network. `jobs_max` is of each shape by itself, and of the tasks
  // that were submitted before their network was there.
  PipelineOptions pipeline = {};
  std::vector<std::string> devices = {};  // names; empty: all of the runtime
  // Shapes that have a pipeline at once, at least 1. For another one that was not used for longest and has no task goes; where
  // all have tasks there are more for a while.
  std::int64_t pipelines_max = 8;
};

// Since it was opened, and now.
struct DynamicPipelineStatus {
  std::int64_t pipelines = 0;         // now
  std::int64_t pipelines_opened = 0;  // of shapes that had none
  std::int64_t submitted = 0;         // tasks
  std::int64_t waiting =
      0;  // tasks, for a network that is compiled, or for others before them that do
  std::int64_t ran_in_parts = 0;   // tasks
  std::int64_t failed_shapes = 0;  // tasks that failed since there is no network for their shapes
  DynamicCounters networks;        // DynamicNetwork::counters
};

namespace runtime {
class DynamicPipelineState;  // internal; see src/runtime/dynamic_pipeline.cc
}  // namespace runtime

// A sequence of tasks of any shapes that the network takes. For several threads at once.
class DynamicStream {
 public:
  // Inputs in the order of DynamicNetwork::inputs(). Inputs that the model does not take are an error here, and so is a pipeline
  // without room (kUnavailable). Where no network can be made for their shapes, or no device has room for it, the job fails with
  // that error (TaskFailure::kError), in its turn; other jobs are not touched. A job may be cancelled, or be late, while its
  // network is compiled.
  Result<Job> submit(const std::vector<Tensor>& inputs, SubmitOptions options = {});
  // Waits for room, then submits.
  Result<Job> submit_when_room(const std::vector<Tensor>& inputs, SubmitOptions options = {});
  void wait_until_done();    // all tasks of this stream
  std::uint32_t id() const;  // number of the stream in its runtime

  // Internal.
  DynamicStream(std::shared_ptr<runtime::DynamicPipelineState> pipeline,
                std::shared_ptr<runtime::StreamState> state)
      : pipeline_(std::move(pipeline)), state_(std::move(state)) {}

 private:
  std::shared_ptr<runtime::DynamicPipelineState> pipeline_;  // shared by its handles and streams
  std::shared_ptr<runtime::StreamState> state_;              // shared with its jobs
};

// Opened by Runtime::open_pipeline. For several threads at once.
class DynamicPipeline {
 public:
  // A stream of its own order and priority; there may be many.
  DynamicStream open_stream(const StreamOptions& options = {});
  DynamicPipelineStatus status() const;  // as of now
  void wait_until_done();                // all tasks of all streams, and their callbacks

  // Internal.
  explicit DynamicPipeline(std::shared_ptr<runtime::DynamicPipelineState> state)
      : state_(std::move(state)) {}

 private:
  std::shared_ptr<runtime::DynamicPipelineState> state_;  // shared with its streams
};

}  // namespace tessera
