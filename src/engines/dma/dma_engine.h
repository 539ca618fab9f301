// A DMA engine: load, store or kernel DMA. Time only; bytes are moved by dma_math.h, steps become
// requests in isa/dma_work.h.
//
//   tasks ─► steps granted by data control ─► requests ─► port of the DRAM channel
//                                                              │ completions, in order
//   progress + 1 ◄─ last byte through the buffer's port ◄──────┘
//
// Up to outstanding_requests are on their way, also of several steps and tasks, so that the latency
// of DRAM is paid once. A copy reads a piece, then writes it; it begins when all that came before
// it is in DRAM, and what follows it likewise. The buffer's port takes as many bytes per cycle as
// the channel gives.
//
// Where the ports of the state buffer's banks are counted (arch/port_schedule.h), a store asks for
// those of each request before it goes out, and a load when it has come out of DRAM: requests go out,
// and bytes are in the buffer, later by what the ports hold them up.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "arch/port_schedule.h"
#include "engines/data_control/data_control.h"
#include "engines/dma/dma_math.h"
#include "engines/fifo.h"
#include "engines/memory/dram_channel.h"
#include "engines/memory/dram_memory.h"
#include "engines/time_account.h"
#include "isa/dma_work.h"
#include "isa/port_work.h"

namespace tessera::engines {

class DmaEngine {
 public:
  struct Wiring {
    Box box = Box::kLoad;
    Fifo<RunTaskId>* tasks = nullptr;  // filled by the task manager
    DataControl* control = nullptr;
    DramPort* port = nullptr;
    const DramMemory* memory = nullptr;
    DmaMath* math = nullptr;
    WakeTable* wakes = nullptr;
    // Of the state buffer, with what a step wants of it; null where they never meet.
    PortSchedule* ports = nullptr;
    isa::PortWork* port_work = nullptr;
  };
  DmaEngine(const ChipConfig& chip, const Wiring& wiring);

  void reset(bool timing_only);
  Cycles step(Cycles now);
  TimeAccount& account() { return account_; }
  std::string describe() const;
  // From now on what a copy has read is written before the request goes out that writes it, not only when the step
  // ends, where it goes to another memory: that may be in another process, to which the bytes go with the request.
  void copy_ahead() { copies_ahead_ = true; }

 private:
  // A step with requests on their way.
  struct ActiveStep {
    RunTaskId task = 0;
    std::int64_t step = 0;
    Cycles begin = 0;
    bool moved = false;  // its bytes
    isa::DmaStep plan;
    // What it wants of the buffer's ports, and the bytes that have asked for theirs.
    std::vector<PortDemand> demands;
    std::int64_t bytes_asked = 0;
    Cycles blocked_ports = 0;
  };
  struct InFlight {
    ActiveStep* step = nullptr;
    std::int64_t piece = 0;
    std::int64_t bytes = 0;
    bool read_of_copy = false;
  };
  struct PendingWrite {
    ActiveStep* step = nullptr;
    std::int64_t piece = 0;
  };

  void complete_requests(Cycles now);
  void finish_steps(Cycles now);
  void begin_task(Cycles now);
  bool begin_step(Cycles now);
  void issue(Cycles now);
  // What a step that begins wants of the state buffer's ports in all.
  void begin_on_ports(ActiveStep& step);
  // For the bytes of a store's next request, before it goes out.
  void ask_for_store(Cycles now, ActiveStep& step, std::int64_t bytes);
  // For bytes of a load that pass the buffer's port until port_free_ if nobody is in their way.
  void ask_for_load(Cycles now, ActiveStep& step, std::int64_t bytes);
  // For bytes of the step that take the engine's port for `passage` cycles and may begin at `from`:
  // by how much the ports of the banks hold them up.
  Cycles held_up(Cycles now, Cycles from, std::int64_t bytes, Cycles passage, ActiveStep& step);
  void push(Cycles now, ActiveStep& step, std::int64_t piece, bool write);
  Cycles settle(Cycles now);

  const ChipConfig chip_;
  const std::int64_t port_bytes_;  // of the buffer
  const Wiring wiring_;
  bool timing_only_ = false, copies_ahead_ = false;
  bool active_ = false;  // `task_` holds a task with steps left
  RunTaskId task_ = 0;
  std::int64_t next_step_ = 0;
  Cycles started_at_ = 0;     // end of the task's configuration
  bool drain_first_ = false;  // the task waits until all before it is in DRAM
  bool copying_ = false;      // the task begun last reads and writes DRAM
  bool issuing_ = false;      // steps_.back() has pieces left
  std::int64_t next_piece_ = 0;
  bool refused_ = false;  // data control withholds the next step
  std::int64_t outstanding_ = 0;
  Ring<ActiveStep> steps_;  // oldest first
  Ring<InFlight> in_flight_;
  Ring<PendingWrite> writes_;              // pieces read, to be written
  Cycles port_free_ = 0;                   // of the buffer
  bool out_of_buffer_ = false;             // the next piece of a store has asked for its ports
  Cycles issue_from_ = 0;                  // a store's bytes are not out of the buffer before
  Cycles store_port_free_ = 0;             // of the buffer, as far as stores have asked
  Cycles blocked_until_ = 0;               // the account's cycles that are the ports'
  std::vector<PortDemand> piece_demands_;  // scratch
  Ring<Cycles> finish_at_;
  TimeAccount account_;
};

}  // namespace tessera::engines
