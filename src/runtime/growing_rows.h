// The states of one sequence whose rows grow, on one device, and the tasks that append to them.
//
//   memory of a state     [row 0] ... [row n-1] [row n] [row n+1] ...        taken once, never moved
//   task of row n          reads the first `capacity` rows, writes row n
//   task of row n+1        the same with row n+1: it has its turn when the one before it is over
//
// A task that fails leaves the rows before its own; those behind it fail, too, since their row has lost its place, until
// keep_rows() says where the sequence goes on.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "runtime/growing_model.h"
#include "runtime/memory_state.h"
#include "tessera/memory.h"

namespace tessera::runtime {

class GrowingRows : public RowOrder, public std::enable_shared_from_this<GrowingRows> {
 public:
  // `seat` is released with the memory.
  GrowingRows(std::shared_ptr<const GrowingModel> model, std::shared_ptr<MemoryState> memory,
              std::shared_ptr<void> seat)
      : model_(std::move(model)), memory_(std::move(memory)), seat_(std::move(seat)) {}

  const std::string& device() const { return memory_->entry.name(); }
  // ---- under the lock of the stream's states ----
  // With the first network, for all rows.
  Status take_memory(const Network& network);
  // Adds the inputs that are states, and says where the new rows go. kUnavailable: the network is of another capacity than
  // the next row's.
  Status add_to(NetworkTask& task, std::span<const TensorDescription> inputs,
                std::span<const TensorDescription> outputs);
  void turn();  // the task is on its way
  // That the states have when the tasks submitted are done, or before the one that failed.
  std::int64_t rows() const;
  // Where no row is left.
  Status check_room() const;

  // Waits for the tasks that were submitted; from a stage or a callback it does not. `states` is the lock.
  Status keep_rows(std::int64_t rows, std::mutex& states);

  void invalidate(Status /*why*/) override {}  // row_failed() says which
  void row_failed(std::int64_t row, Status why) override;
  Status valid() const override;

 private:
  struct Failed {
    std::int64_t row = 0;
    Error why;
  };
  Result<Block> part(std::size_t state, const TensorDescription& tensor, std::int64_t row);
  Status write_zeros(std::int64_t from, std::int64_t to);
  std::optional<Failed> failed() const;

  const std::shared_ptr<const GrowingModel> model_;  // shared by the sequences of a pipeline
  const std::shared_ptr<MemoryState> memory_;        // shared with the blocks
  const std::shared_ptr<void> seat_;                 // shared with nobody
  struct StateRows {
    std::shared_ptr<BlockState> block;  // shared with the tasks that use it
    std::int64_t row_bytes = 0;
  };
  std::vector<StateRows> states_;
  std::int64_t rows_ = 0;     // of the tasks submitted
  std::int64_t touched_ = 0;  // of which some may not hold zeros
  mutable std::mutex mutex_;  // of what follows
  std::optional<Failed> failed_;
};

}  // namespace tessera::runtime
