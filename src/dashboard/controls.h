// What an operator can change while a pipeline runs, and how the runtime is, as the dashboard sees
// it. The runtime implements it; the dashboard knows nothing else of the runtime.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "metrics/limit.h"
#include "tessera/card_status.h"

namespace tessera::dashboard {

struct StageControl {
  std::string name;  // as its metrics source is called
  int threads = 1;
  int threads_max = 1;  // 1..threads_max are allowed
};

// Something with a few named positions, for example "tune": off, auto.
struct Choice {
  std::string name;
  std::string chosen;
  std::vector<std::string> allowed;
};

// Thread-safe: the dashboard calls it from its own thread, on which all clients wait meanwhile.
class Controls {
 public:
  virtual ~Controls() = default;
  virtual std::vector<StageControl> stages() = 0;
  virtual Status set_threads(const std::string& stage, int threads) = 0;
  virtual std::vector<Choice> choices() { return {}; }
  // Virtual cards on which the run's devices have parts.
  virtual std::vector<CardStatus> cards() { return {}; }
  // For what limits the run.
  virtual metrics::Conditions conditions() { return {}; }
  virtual Status choose(const std::string& name, const std::string& position);
};

}  // namespace tessera::dashboard
