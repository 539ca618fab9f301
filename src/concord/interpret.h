// A Software run by the project's own evaluator of ONNX nodes, one operation after the other: slow,
// and what the other ways of running it are held against.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "concord/software.h"

namespace tessera::concord {

// Called for every value as it is computed; may be empty.
using ValueObserver = std::function<void(ValueId id, const Tensor& value)>;

// Inputs and results in the order of the ports, of exactly their formats and shapes.
Result<std::vector<Tensor>> interpret(const Software& software, std::span<const Tensor> inputs,
                                      const ValueObserver& observer = {});

}  // namespace tessera::concord
