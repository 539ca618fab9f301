#include "card/boxes.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace tessera::card {
namespace {

using engines::TimeAccount;
using isa::EngineKind;
using TaskFifo = engines::Fifo<RunTaskId>;

std::size_t outstanding(const ChipConfig& chip) {
  return static_cast<std::size_t>(chip.dma.outstanding_requests);
}

}  // namespace

std::vector<Box> report_order(const engines::BoxLayout& layout) {
  std::vector<Box> order;
  for (int box = engines::kSingleBoxes; box < layout.count(); ++box) {
    order.push_back(static_cast<Box>(box));
  }
  order.insert(order.end(), {Box::kLoad, Box::kStore, Box::kKernel, Box::kTaskManager, Box::kDram});
  return order;
}

Table<Box, std::unique_ptr<TaskFifo>> Boxes::make_queues(const ChipConfig& chip) {
  Table<Box, std::unique_ptr<TaskFifo>> made(static_cast<std::size_t>(layout.count()));
  // A sub-queue takes the whole task buffer, so that no engine's queue holds up another's.
  for (std::size_t box = 0; box < made.size(); ++box) {
    const Box number = static_cast<Box>(box);
    if (number == Box::kTaskManager || number == Box::kDram) continue;
    made[box] = std::make_unique<TaskFifo>(
        static_cast<std::size_t>(chip.task_manager.task_buffer_entries) + 1);
  }
  return made;
}

void Boxes::make_engines(const ChipConfig& chip) {
  for (int box = engines::kSingleBoxes; box < layout.first_port(); ++box) {
    const auto wiring = step_wiring(static_cast<Box>(box));
    products.push_back(std::make_unique<engines::NeuralMath>(chip, state_buffer, kernel_memory));
    if (box < engines::kSingleBoxes + layout.engines(EngineKind::kNeural)) {
      step_engines.push_back(
          std::make_unique<engines::NeuralEngine>(chip, wiring, *products.back()));
    } else {
      step_engines.push_back(
          std::make_unique<engines::PlanarEngine>(chip, wiring, planar_math, *products.back()));
    }
  }
  for (int number = layout.first_port(); number < layout.count(); ++number) {
    const auto box = static_cast<Box>(number);
    message_ports.push_back(std::make_unique<engines::MessageEngine>(
        chip, engines::MessageEngine::Wiring{.box = box,
                                             .in = box < layout.first(EngineKind::kMessageOut),
                                             .tasks = queues[box].get(),
                                             .control = &control,
                                             .math = &dma_math}));
  }
}

engines::TaskManager::Wiring Boxes::task_manager_wiring() {
  engines::TaskManager::Wiring wiring{
      .control = &control, .memory = &dram, .port = &task_port, .wakes = &wakes, .engines = {}};
  for (const auto& queue : queues) wiring.engines.push_back(queue.get());
  return wiring;
}

engines::StepEngine::Wiring Boxes::step_wiring(Box box) {
  return {.box = box,
          .tasks = queues[box].get(),
          .control = &control,
          .partitions = state_buffer.partitions(),
          .ports_counted = ports.has_value()};
}

engines::DramPort& Boxes::port(Box box) {
  if (box == Box::kLoad) return load_port;
  return box == Box::kStore ? store_port : kernel_port;
}

engines::DmaEngine::Wiring Boxes::dma_wiring(Box box) {
  return {.box = box,
          .tasks = queues[box].get(),
          .control = &control,
          .port = &port(box),
          .memory = &dram,
          .math = &dma_math,
          .wakes = &wakes,
          .ports = asks(box) ? &*ports : nullptr,
          .port_work = asks(box) ? &port_work : nullptr};
}

Boxes::Boxes(const ChipConfig& chip, engines::DramMemory* shared)
    : layout(chip.neural.count, chip.planar.count, chip.message.ports),
      wakes(layout.count()),
      own_dram(shared == nullptr ? std::make_unique<engines::DramMemory>(chip.dram.bytes)
                                 : nullptr),
      dram(shared == nullptr ? *own_dram : *shared),
      state_buffer(chip.state_buffer.partitions, chip.state_buffer.bytes_per_partition),
      kernel_memory(chip.neural.rows, chip.neural.kernel_bytes_per_partition),
      ports(PortSchedule::of(chip)),
      port_work(chip),
      control({chip.task_manager.task_buffer_entries, chip.task_manager.guaranteed_entries}, layout,
              wakes),
      queues(make_queues(chip)),
      load_port(Box::kLoad, outstanding(chip)),
      store_port(Box::kStore, outstanding(chip)),
      kernel_port(Box::kKernel, outstanding(chip)),
      task_port(Box::kTaskManager, engines::TaskManager::kRequestsMax),
      planar_math(state_buffer),
      dma_math(dram, state_buffer, kernel_memory),
      task_manager(chip, task_manager_wiring(), descriptors),
      load(chip, dma_wiring(Box::kLoad)),
      store(chip, dma_wiring(Box::kStore)),
      kernel(chip, dma_wiring(Box::kKernel)) {
  make_engines(chip);
  for (engines::DramPort* each : ports_of_dram()) each->wakes = &wakes;
  if (shared == nullptr) channel.emplace(chip, ports_of_dram());
}

void Boxes::reset(const CoreOptions& options) {
  const bool timing_only = options.timing_only;
  wakes.reset();
  for (auto& queue : queues) {
    if (queue) queue->clear();
  }
  if (channel) channel->reset();
  if (ports) ports->reset();
  for (auto& one : step_engines) one->reset(timing_only);
  for (auto& one : message_ports) {
    one->reset(timing_only, options.messages_go_on);
  }
  load.reset(timing_only);
  store.reset(timing_only);
  kernel.reset(timing_only);
}

Cycles Boxes::step(Box box, Cycles now) {
  switch (box) {
    case Box::kTaskManager:
      return task_manager.step(now);
    case Box::kDram:
      return channel->step(now);
    case Box::kLoad:
      return load.step(now);
    case Box::kStore:
      return store.step(now);
    case Box::kKernel:
      return kernel.step(now);
    case Box::kFirstEngine:
      break;
  }
  return layout.is_port(box) ? message_port(box).step(now) : engine(box).step(now);
}

bool Boxes::all_offer(engines::BoxLayout::Range engines, RunTaskId task) {
  for (int box = engines.first; box < engines.last; ++box) {
    const engines::StepEngine& one = engine(static_cast<Box>(box));
    if (!one.offers() || one.offered_task() != task) return false;
  }
  return true;
}

void Boxes::settle_offers(Cycles now) {
  const int planar = static_cast<int>(layout.first(EngineKind::kPlanar));
  for (int box = planar; box < layout.first_port(); ++box) settle_offer(static_cast<Box>(box), now);
  for (int box = engines::kSingleBoxes; box < planar; ++box) {
    settle_offer(static_cast<Box>(box), now);
  }
}

void Boxes::settle_offer(Box first, Cycles now) {
  engines::StepEngine& leader = engine(first);
  if (!leader.offers()) return;
  const RunTaskId task = leader.offered_task();
  const engines::BoxLayout::Range engines = layout.engines_of(*control.task(task).descriptor);
  if (!all_offer(engines, task)) return leader.wait_for_others(now);
  // All engines of the task: this one is the first.
  control.begin(task, leader.offered_step(), now);
  Cycles preparation = 0, due = now;
  for (int e = engines.first; e < engines.last; ++e) {
    preparation = std::max(preparation, engine(static_cast<Box>(e)).preparation(now));
  }
  const engines::StepEngine::PortShare share =
      ports ? port_share(engines, preparation, now) : engines::StepEngine::PortShare{};
  for (int e = engines.first; e < engines.last; ++e) {
    due = std::max(due, engine(static_cast<Box>(e)).take_share(now, preparation, share));
  }
  leader.lead_until(due);
  for (int e = engines.first; e < engines.last; ++e) {
    wakes.wake(static_cast<Box>(e), engine(static_cast<Box>(e)).next_event(now));
  }
}

engines::StepEngine::PortShare Boxes::port_share(engines::BoxLayout::Range engines,
                                                 Cycles preparation, Cycles now) {
  ArrayStep most;
  for (int e = engines.first; e < engines.last; ++e) {
    const ArrayStep alone = engine(static_cast<Box>(e)).alone();
    most.cycles = std::max(most.cycles, alone.cycles);
    most.moving_elements = std::max(most.moving_elements, alone.moving_elements);
  }
  if (most.cycles == 0) return {};
  const engines::StepEngine& leader = engine(static_cast<Box>(engines.first));
  const isa::TaskDescriptor& task = *control.task(leader.offered_task()).descriptor;
  const PortSlot slot = ports->reserve(
      now, most.cycles, port_work.of(task, leader.offered_step(), most, leader.port_readers()),
      preparation);
  return {.wait = slot.begin - now - preparation, .longer = Ratio(slot.length(), most.cycles)};
}

TimeAccount& Boxes::account(Box box) {
  switch (box) {
    case Box::kTaskManager:
      return task_manager.account();
    case Box::kDram:
      return channel->account();
    case Box::kLoad:
      return load.account();
    case Box::kStore:
      return store.account();
    case Box::kKernel:
      return kernel.account();
    case Box::kFirstEngine:
      break;
  }
  return layout.is_port(box) ? message_port(box).account() : engine(box).account();
}

std::string Boxes::describe() const {
  std::string text;
  for (const auto& one : step_engines) text += one->describe() + "\n  ";
  for (const auto& one : message_ports) text += one->describe() + "\n  ";
  text += fmt::format("{}\n  {}\n  {}\n  {}", load.describe(), store.describe(), kernel.describe(),
                      task_manager.describe());
  return channel ? text + "\n  " + channel->describe() : text;
}

bool Boxes::step_due(Cycles now, StepOrder* order) {
  const engines::BoxSet due = wakes.take_due(now);
  const bool shared_channel = !channel && due.has(Box::kDram);
  const auto step_box = [&](Box box) {
    if (box == Box::kDram && !channel) return;
    const Cycles next = step(box, now);
    TESSERA_CHECK(next > now, "{} wants to be woken at {} in cycle {}", layout.name(box), next,
                  now);
    wakes.wake(box, next);
  };
  const auto step_unless_it_asks = [&](Box box) {
    if (!asks(box)) step_box(box);
  };
  if (order == nullptr) {
    ports ? due.for_each(step_unless_it_asks) : due.for_each(step_box);
  } else {
    for (const Box box : order->next()) {
      if (due.has(box)) step_unless_it_asks(box);
    }
  }
  if (ports && due.has(Box::kLoad)) step_box(Box::kLoad);
  if (ports && due.has(Box::kStore)) step_box(Box::kStore);
  if (steps_are_offered()) settle_offers(now);
  return shared_channel;
}

}  // namespace tessera::card
