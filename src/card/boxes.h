// The boxes of one core, wired up: engines, memories, task manager, and the ports of its DRAM.
//
// They exchange nothing within a cycle, so the order of stepping is free; steps that several engines
// share begin in a second phase of the cycle, when all that are due have been stepped.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "arch/port_schedule.h"
#include "card/run_statistics.h"
#include "engines/data_control/data_control.h"
#include "engines/dma/dma_engine.h"
#include "engines/memory/dram_channel.h"
#include "engines/memory/dram_memory.h"
#include "engines/memory/partitioned_memory.h"
#include "engines/message/message_engine.h"
#include "engines/neural/neural_engine.h"
#include "engines/planar/planar_engine.h"
#include "engines/task_manager/task_manager.h"
#include "isa/port_work.h"

namespace tessera::card {

using engines::Box;
using engines::RunTaskId;

// The boxes in the order of reports: neural and planar engines, message processors, DMA, task manager,
// DRAM channel.
std::vector<Box> report_order(const engines::BoxLayout& layout);

// An order of stepping within a cycle, shuffled anew every cycle.
class StepOrder {
 public:
  StepOrder(const engines::BoxLayout& layout, std::uint64_t seed)
      : state_(seed), order_(report_order(layout)) {}
  const std::vector<Box>& next() {
    for (std::size_t i = order_.size() - 1; i > 0; --i) {
      state_ ^= state_ << 13;
      state_ ^= state_ >> 7;
      state_ ^= state_ << 17;
      std::swap(order_[i], order_[state_ % (i + 1)]);
    }
    return order_;
  }

 private:
  std::uint64_t state_;
  std::vector<Box> order_;
};

// Everything of a core that has a state, in the order of construction.
struct Boxes {
  explicit Boxes(const ChipConfig& chip) : Boxes(chip, nullptr) {}
  // With `shared` the core's DRAM is that of others too, which outlives it; the channel then belongs
  // to its group, which has the core's ports().
  Boxes(const ChipConfig& chip, engines::DramMemory* shared);
  void reset(const CoreOptions& options);
  Cycles step(Box box, Cycles now);
  // Steps the boxes that are due at `now` and wakes them again; with `order` in that order. Whether
  // the channel is due too, where it is shared and not stepped here.
  bool step_due(Cycles now, StepOrder* order);
  // Begins the steps that all engines of their tasks have offered: planar engines first, since the
  // ports of the state buffer are given in that order.
  void settle_offers(Cycles now);
  // Whether the box asks for ports while it is stepped: load, then store, behind all others.
  bool asks(Box box) const {
    return ports.has_value() && (box == Box::kLoad || box == Box::kStore);
  }
  engines::TimeAccount& account(Box box);
  std::string describe() const;
  engines::DramPort& port(Box box);
  std::vector<engines::DramPort*> ports_of_dram() {
    return {&load_port, &store_port, &kernel_port, &task_port};
  }
  // A neural or planar engine.
  engines::StepEngine& engine(Box box) { return *step_engines[index_of(box)]; }
  engines::MessageEngine& message_port(Box box) const {
    return *message_ports[static_cast<std::size_t>(static_cast<int>(box) - layout.first_port())];
  }
  static std::size_t index_of(Box box) {
    return static_cast<std::size_t>(box) - engines::kSingleBoxes;
  }

  const engines::BoxLayout layout;
  engines::WakeTable wakes;
  std::unique_ptr<engines::DramMemory> own_dram;
  engines::DramMemory& dram;
  engines::PartitionedMemory state_buffer, kernel_memory;
  std::optional<PortSchedule> ports;  // of the state buffer's banks, if they are counted
  isa::PortWork port_work;
  engines::DataControl control;
  Table<Box, std::unique_ptr<engines::Fifo<RunTaskId>>> queues;  // null where a box has none
  engines::DramPort load_port, store_port, kernel_port, task_port;
  std::optional<engines::DramChannel> channel;  // unless it is shared
  // Of each neural engine, and the filters of each planar one: tasks that an engine leads.
  std::vector<std::unique_ptr<engines::NeuralMath>> products;
  engines::PlanarMath planar_math;
  engines::DmaMath dma_math;
  engines::DescriptorCache descriptors;
  engines::TaskManager task_manager;
  std::vector<std::unique_ptr<engines::StepEngine>> step_engines;      // neural, then planar
  std::vector<std::unique_ptr<engines::MessageEngine>> message_ports;  // in, then out
  engines::DmaEngine load, store, kernel;

 private:
  Table<Box, std::unique_ptr<engines::Fifo<RunTaskId>>> make_queues(const ChipConfig& chip);
  void make_engines(const ChipConfig& chip);
  engines::TaskManager::Wiring task_manager_wiring();
  engines::StepEngine::Wiring step_wiring(Box box);
  engines::DmaEngine::Wiring dma_wiring(Box box);
  void settle_offer(Box first, Cycles now);
  // What the ports allow the step that the engines have offered, from `preparation` cycles on.
  engines::StepEngine::PortShare port_share(engines::BoxLayout::Range engines, Cycles preparation,
                                            Cycles now);
  bool all_offer(engines::BoxLayout::Range engines, RunTaskId task);
  bool steps_are_offered() const {
    return ports.has_value() || layout.first_port() > engines::kSingleBoxes + 2;
  }
};

}  // namespace tessera::card
