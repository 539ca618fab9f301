// The inputs of a program's steps, read ahead by a thread of its own while the processor works.
//
//   stream ─► reader's thread ─► steps that wait (at most `ahead`) ─► next()
//
// Raw: the vectors of all queues, one behind the other, step by step. Messages: each vector with
// its header (tools/stream/message.h); those of different queues in any order, those of one queue
// in the order of the steps.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "tessera/network.h"
#include "tessera/tensor.h"
#include "tools/stream/message.h"
#include "tools/stream/vector_stream.h"

namespace tessera::tools {

enum class Framing { kRaw, kMessages };

struct StepInputs {
  bool begin = false;                 // the state starts anew in front of it
  std::int32_t scalar = 0;            // of the first message
  std::vector<Tensor> tensors;        // of each queue
  std::vector<std::int32_t> scalars;  // of each queue's message; none where vectors come raw
};

class StepSource {
 public:
  // `ahead` >= 1: how many steps are read before they are taken. Throws std::system_error where the
  // system gives no thread.
  StepSource(std::shared_ptr<VectorStream> stream, std::vector<TensorDescription> queues,
             Framing framing, std::size_t ahead);
  ~StepSource();
  StepSource(const StepSource&) = delete;
  StepSource& operator=(const StepSource&) = delete;

  // Waits for the next step; nothing at the end of the stream. One thread calls it.
  Result<std::optional<StepInputs>> next();
  // The most steps that ever waited.
  std::size_t most_ahead() const;

 private:
  using Item = Result<std::optional<StepInputs>>;
  void read_all();
  bool hand_over(Item item);
  Item read_step();
  Item read_raw();
  Item read_messages();
  // A message's vector into the queue's line.
  Status take_vector(const MessageHeader& header);
  Status check_nothing_waits(const char* before) const;
  StepInputs step_of_lines();

  const std::shared_ptr<VectorStream> stream_;
  const std::vector<TensorDescription> queues_;
  const Framing framing_;
  const std::size_t ahead_;

  struct Vector {
    std::int32_t scalar = 0;
    std::uint64_t number = 0;  // of its message
    Tensor tensor;
  };
  std::vector<std::deque<Vector>> lines_;  // the reader's: vectors whose step is not complete
  std::uint64_t messages_ = 0;
  bool begin_ = false;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> waiting_;
  std::size_t most_ahead_ = 0;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace tessera::tools
