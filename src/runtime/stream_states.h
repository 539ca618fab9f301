// What the tasks of a stream hand on from one to the next.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/growing_rows.h"
#include "tessera/memory.h"
#include "tessera/network.h"

namespace tessera::runtime {

// What the tasks of a stream hand on: of each state two blocks, one is read and the other written,
// in turn; or memory that grows by a row with each task.
class StreamStates {
 public:
  struct Pair {
    std::size_t input = 0, output = 0;
    std::array<Block, 2> blocks;
  };
  StreamStates() = default;
  explicit StreamStates(std::vector<Pair> pairs) : pairs_(std::move(pairs)) {}
  explicit StreamStates(std::shared_ptr<GrowingRows> rows) : rows_(std::move(rows)) {}
  // Adds the inputs that are states, and says where the outputs go that are states. `inputs` are those of the pipeline's
  // first model, `outputs` of its last.
  Status add_to(NetworkTask& task, std::span<const TensorDescription> inputs,
                std::span<const TensorDescription> outputs) const;
  void turn() {
    ++turn_;
    if (rows_ != nullptr) rows_->turn();
  }

 private:
  std::vector<Pair> pairs_;  // by input
  std::size_t turn_ = 0;
  std::shared_ptr<GrowingRows> rows_;  // shared with the sequence; null: none
};

}  // namespace tessera::runtime
