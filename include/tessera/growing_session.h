// A model whose state grows with each run (the keys and values of a decoder), in device memory that is never moved.
//
//   GrowingSession::open("decoder.onnx", {.states = {{"past.key", "present.key"}}, .rows_max = 512})
//     ─►  run(inputs)  ─►  outputs; the state has a row more
//
//   device memory of a state, by rows:   [row 0] [row 1] ... [row n-1] [row n] ...  [row rows_max - 1]
//                                        what a run reads: a capacity     └ what it appends
//
// The model says  present = Concat(past, new).  A run reads as many rows as its network has capacity for (64, 128, 256, ...
// up to `rows_max`), takes row n from what it has just made, and writes that row where it belongs: nothing else is written,
// nothing goes over the link, and a larger capacity reads more of the same memory. So a network is compiled for each
// capacity, not for each length. Rows behind the newest one hold zeros, and the model has to leave them out: it has an input
// that says so (an attention mask). Where it does, the bits are those of a run that gets the same capacity's rows as plain
// inputs, and sums of the number contract, to which zeros add nothing, give those of a run without the rows behind.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/network.h"
#include "tessera/result.h"
#include "tessera/run_result.h"
#include "tessera/session.h"
#include "tessera/tensor.h"

namespace tessera {

// Names of an input and of the output that is it with one more row: Concat of the two along one axis.
struct GrowingState {
  std::string input, output;
};

// What grows, and how far.
struct GrowingOptions {
  // `shapes` of inputs that are no states and do not depend on the capacity. Open dimensions of a state but its rows are 1.
  LoadOptions load = {};
  std::vector<GrowingState> states = {};  // at least one
  std::int64_t rows_max = 1024;    // that a state may have, 1 to 2^20; its memory is taken at once
  std::int64_t capacity_min = 64;  // rows of the first network, at least 1
};

// Internal; see src/runtime/growing_session.cc.
class GrowingSessionState;

// One sequence on one device. For one thread at a time.
class GrowingSession {
 public:
  // The error names the state that the model does not have, or does not make by Concat. Of `options` device, threads,
  // cores, cards, split, check_hazards, serial, trace and timing_only are used; others are refused.
  static Result<GrowingSession> open(const std::string& path, const GrowingOptions& growing,
                                     const SessionOptions& options = {});
  GrowingSession(GrowingSession&&) noexcept;
  GrowingSession& operator=(GrowingSession&&) noexcept;
  ~GrowingSession();

  // In the order of the model, without states.
  const std::vector<DeclaredShape>& inputs() const;
  const std::vector<std::string>& output_names() const;  // likewise
  std::int64_t rows() const;                             // that the states have
  // Rows that the next run's network sees beside the one that it makes; 0: there is no room. A mask has as many elements as
  // the model gives it for so many rows.
  std::int64_t capacity() const;
  // Inputs in the order of inputs(), outputs in the model's order without states; their shapes are those for capacity()
  // rows. kDoesNotFit when the states have `rows_max` rows: open one with more. A run that fails leaves the states as they are.
  Result<RunResult> run(const std::vector<Tensor>& inputs);
  // The network of the last run; nothing before the first one.
  std::optional<Network> network() const;
  // The states have their first `rows` rows; those behind go. kInvalidArgument for more than they have.
  Status keep_rows(std::int64_t rows);
  Status clear();                          // the states have no row
  std::int64_t networks_compiled() const;  // since it was opened

 private:
  explicit GrowingSession(std::unique_ptr<GrowingSessionState> state);
  std::unique_ptr<GrowingSessionState> state_;
};

}  // namespace tessera
