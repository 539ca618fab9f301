// Sequences whose states grow (tessera/growing_session.h), many at once on the devices of a runtime: one stream for each, with
// tasks in flight.
//
//   runtime->open_pipeline("decoder.onnx", {.states = {{"past.key", "present.key"}}, .rows_max = 512}) ─► GrowingPipeline
//     └─ open_stream() ─► GrowingStream                 a sequence, and memory of its states on one device
//          └─ submit(inputs) ─► Job                     appends a row
//
//   stream 0   task of row 0 ─► row 1 ─► row 2 ...      each has its turn on the states when the one before it is over
//   stream 1   task of row 0 ─► row 1 ...               the same, beside it: on another device, or in the gaps
//
// Tasks of a stream may be submitted without waiting (a prompt, token by token). A network is compiled for each capacity of
// rows, once for all streams, when the first task needs it and by the thread that submits that one; tasks of other capacities
// are submitted meanwhile. Of all else docs/runtime.md and tessera/runtime.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/growing_session.h"
#include "tessera/runtime.h"

namespace tessera {

// How the pipeline of each capacity is.
struct GrowingPipelineOptions {
  // Without stages, which are pre, execute and post of each network. `jobs_max` is of each capacity by itself.
  PipelineOptions pipeline = {};
  std::vector<std::string> devices = {};  // names; empty: all of the runtime
};

// Of one sequence.
struct GrowingStreamOptions {
  StreamOptions stream = {};
  std::string device =
      {};  // that holds its states; empty: the one that holds those of the fewest sequences
};

// Since it was opened, and now.
struct GrowingPipelineStatus {
  std::int64_t streams = 0;            // now: whose memory is there
  std::int64_t submitted = 0;          // tasks
  std::int64_t networks_compiled = 0;  // one for each capacity
};

namespace runtime {
class GrowingPipelineState;  // internal; see src/runtime/growing_pipeline.cc
class GrowingSequence;
}  // namespace runtime

// One sequence. A handle that may be copied and used by several threads; the memory of the states goes with the last handle,
// and with the tasks that are on their way.
class GrowingStream {
 public:
  // Inputs in the order of GrowingPipeline::inputs(), of shapes for capacity() rows; the task appends a row. Its result has
  // the outputs that are no states. kDoesNotFit: the states have `rows_max` rows. kUnavailable: the pipeline has no room.
  //
  // When a task fails, is cancelled or is late, so do those behind it that were submitted already, with its error; the rows
  // before it stay as they are. Others are refused (kInvalidArgument) until keep_rows() says where the sequence goes on.
  Result<Job> submit(const std::vector<Tensor>& inputs, SubmitOptions options = {});
  // Waits for room, then submits.
  Result<Job> submit_when_room(const std::vector<Tensor>& inputs, SubmitOptions options = {});

  // That the states have when the tasks that were submitted are done; or those before the task that failed.
  std::int64_t rows() const;
  // Rows that the next task's network sees beside the one that it makes; 0: there is no room.
  std::int64_t capacity() const;
  // The sequence goes on with its first `rows` rows: after a failure, or to take back some. Waits for the tasks that were
  // submitted; where it must not, in a stage or callback, it is kUnavailable while there are any. kInvalidArgument for more
  // than the states have, and the error of a task whose row would stay.
  Status keep_rows(std::int64_t rows);
  Status clear();                     // keep_rows(0)
  const std::string& device() const;  // that holds the states: its name
  void wait_until_done();             // all tasks of this stream
  std::uint32_t id() const;           // number of the stream in its runtime

  // Internal.
  GrowingStream(std::shared_ptr<runtime::GrowingPipelineState> pipeline,
                std::shared_ptr<runtime::GrowingSequence> sequence)
      : pipeline_(std::move(pipeline)), sequence_(std::move(sequence)) {}

 private:
  std::shared_ptr<runtime::GrowingPipelineState> pipeline_;  // shared by its handles and streams
  std::shared_ptr<runtime::GrowingSequence> sequence_;       // shared by its handles
};

// Opened by Runtime::open_pipeline. For several threads at once.
class GrowingPipeline {
 public:
  const std::vector<DeclaredShape>& inputs() const;  // in the order of the model, without states
  const std::vector<std::string>& output_names() const;  // likewise
  // An empty sequence. Its memory is taken with its first task, whose error is kDoesNotFit where the device has no room.
  Result<GrowingStream> open_stream(const GrowingStreamOptions& options = {});
  GrowingPipelineStatus status() const;  // as of now
  void wait_until_done();                // all tasks of all streams, and their callbacks

  // Internal.
  explicit GrowingPipeline(std::shared_ptr<runtime::GrowingPipelineState> state)
      : state_(std::move(state)) {}

 private:
  std::shared_ptr<runtime::GrowingPipelineState> state_;  // shared with its streams
};

}  // namespace tessera
