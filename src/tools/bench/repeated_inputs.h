// The same inputs for task after task. A task owns its inputs, so each gets a copy; its memory
// comes back with the result, because taking hundreds of kilobytes from the system for each task
// costs more than filling them.
//
//   take() ─► submit ─► ... ─► callback: give_back(result.runs)
//
// Thread-safe.
#pragma once

#include <mutex>
#include <vector>

#include "tessera/runtime.h"

namespace tessera::tools {

class RepeatedInputs {
 public:
  // The inputs outlive this.
  explicit RepeatedInputs(const std::vector<Tensor>& inputs) : inputs_(inputs) {}

  std::vector<Tensor> take() {
    std::vector<Tensor> copy;
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        copy = std::move(free_.back());
        free_.pop_back();
      }
    }
    copy.resize(inputs_.size());
    for (std::size_t i = 0; i < copy.size(); ++i) {
      copy[i].format = inputs_[i].format;
      copy[i].dims = inputs_[i].dims;
      copy[i].bytes.assign(inputs_[i].bytes.begin(), inputs_[i].bytes.end());
    }
    return copy;
  }

  const std::vector<Tensor>& given() const { return inputs_; }

  // Outputs lie where the inputs lay.
  void give_back(std::vector<std::vector<Tensor>> runs) {
    const std::lock_guard lock(mutex_);
    for (std::vector<Tensor>& run : runs) free_.push_back(std::move(run));
  }

 private:
  const std::vector<Tensor>& inputs_;
  std::mutex mutex_;
  std::vector<std::vector<Tensor>> free_;
};

}  // namespace tessera::tools
