// Values of a run that are not in their tensors' bytes: blocks of device memory, and memory of the
// application's. Beside each tensor of a task's runs there may be one; the tensor then has its
// format and shape, and no bytes.
//
//   run of a task     [ tensor with bytes | header | header ]
//   its values        [        -          |  view  | block  ]
//
// Whatever looks at the elements on the host makes ordinary tensors of them first (gather).
#pragma once

#include <optional>
#include <vector>

#include "runtime/memory_state.h"
#include "tessera/memory.h"

namespace tessera::runtime {

struct RunValue {
  std::shared_ptr<BlockState> block;  // shared with the application, or with other stages' runs
  std::optional<TensorView> view;

  bool present() const { return block != nullptr || view.has_value(); }
  Format format() const { return block != nullptr ? block->format : view->format; }
  const Shape& dims() const { return block != nullptr ? block->dims : view->dims; }
  bool fits(const TensorDescription& tensor) const;
  // Whether its elements are those of the dense tensor, also where it lies in blocks.
  bool stands_for(const TensorDescription& dense) const;
  std::string description() const;
  // In words, where the task that was to write it failed.
  Status valid(const std::string& name) const;
  void clear() { *this = {}; }
};
using RunValues = std::vector<RunValue>;

// The value's elements become the tensor's bytes, and the value goes. Nothing where there is none.
Status gather(Tensor& tensor, RunValue& value);
// The same of a value that stands for the dense tensor, which it becomes.
Status gather_dense(const TensorDescription& dense, Tensor& tensor, RunValue& value);
Status gather_all(std::vector<Tensor>& tensors, RunValues& values);

// Puts the outputs of the run where the task wants them, as far as they are not there yet: tensors
// into blocks and views, and what stayed on a device without being asked for into tensors.
// `outputs` is empty or has an entry for each. Fetches the blocks that are to be brought back.
Status deliver(std::vector<Tensor>& tensors, RunValues& values,
               const std::vector<NetworkOutput>& outputs);

}  // namespace tessera::runtime
