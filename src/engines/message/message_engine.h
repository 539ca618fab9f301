// A message processor: one direction of a port at the network edge. Time only; the bytes are moved by
// dma_math.h, and arch/message_link.h says when they come.
//
//   tasks ─► steps granted by data control ─► the step's messages at the port
//                                                  │ the last byte in place
//   progress + 1 ◄─────────────────────────────────┘
//
// On the way in, messages come before a task asks for them, as far as there is room in the port's
// buffer. The next step begins when the messages of the one before have passed the port, while their
// last bytes are on their way to their place.
#pragma once

#include <cstdint>
#include <string>

#include "arch/chip_config.h"
#include "arch/message_link.h"
#include "engines/data_control/data_control.h"
#include "engines/dma/dma_math.h"
#include "engines/fifo.h"
#include "engines/time_account.h"

namespace tessera::engines {

class MessageEngine {
 public:
  struct Wiring {
    Box box = Box::kFirstEngine;
    bool in = true;
    Fifo<RunTaskId>* tasks = nullptr;  // filled by the task manager
    DataControl* control = nullptr;
    DmaMath* math = nullptr;
  };
  MessageEngine(const ChipConfig& chip, const Wiring& wiring);

  // `go_on`: messages come on as if there were no break behind the run before, which end_run() ended.
  void reset(bool timing_only, bool go_on);
  void end_run(Cycles end) { link_.go_on(end); }
  // Does all that can be done at `now`; returns when it next has something to do by itself.
  Cycles step(Cycles now);
  TimeAccount& account() { return account_; }
  std::string describe() const;

 private:
  // A step whose messages pass the port, or are on their way behind it.
  struct ActiveStep {
    RunTaskId task = 0;
    std::int64_t step = 0;
    Cycles begin = 0, taken = 0, done = 0;
    std::int64_t bytes = 0;
  };

  void finish_steps(Cycles now);
  void begin_task(Cycles now);
  void begin_step(Cycles now);
  void move(const ActiveStep& step);
  Cycles settle(Cycles now);

  const Cycles task_start_;
  const Wiring wiring_;
  MessageLink link_;
  bool timing_only_ = false;
  bool active_ = false;  // `task_` holds a task with steps left
  RunTaskId task_ = 0;
  std::int64_t next_step_ = 0;
  Cycles started_at_ = 0;   // end of the task's configuration
  Cycles taken_at_ = 0;     // the port is free for the next step
  bool refused_ = false;    // data control withholds the next step
  Ring<ActiveStep> steps_;  // oldest first
  TimeAccount account_;
};

}  // namespace tessera::engines
