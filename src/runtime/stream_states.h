// What the tasks of a stream hand on from one to the next.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tessera/memory.h"
#include "tessera/network.h"

namespace tessera::runtime {

// What the tasks of a stream hand on: of each state two blocks, one is read and the other written,
// in turn.
class StreamStates {
 public:
  struct Pair {
    std::size_t input = 0, output = 0;
    std::array<Block, 2> blocks;
  };
  StreamStates() = default;
  explicit StreamStates(std::vector<Pair> pairs) : pairs_(std::move(pairs)) {}
  // Adds the inputs that are states, and says where the outputs go that are states.
  // `outputs` are those of the pipeline's last model.
  Status add_to(NetworkTask& task, std::span<const TensorDescription> outputs) const;
  void turn() { ++turn_; }

 private:
  std::vector<Pair> pairs_;  // by input
  std::size_t turn_ = 0;
};

}  // namespace tessera::runtime
