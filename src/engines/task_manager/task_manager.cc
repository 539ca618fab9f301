#include "engines/task_manager/task_manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "isa/descriptor_check.h"
#include "isa/encoding.h"

namespace tessera::engines {
namespace {

// Stream requests on their way.
constexpr std::size_t kRequestsAhead = 2;

}  // namespace

DescriptorCache::Entry& DescriptorCache::entry(std::uint32_t base_addresses, isa::TaskId task) {
  if (entries_.size() <= base_addresses) entries_.resize(base_addresses + 1);
  std::vector<Entry>& entries = entries_[base_addresses];
  if (entries.size() <= task) entries.resize(task + 1);
  return entries[task];
}

TaskManager::TaskManager(const ChipConfig& chip, const Wiring& wiring, DescriptorCache& cache)
    : chip_(chip),
      wiring_(wiring),
      cache_(cache),
      request_ends_(kRequestsMax),
      grids_(kRequestsMax) {}

void TaskManager::reset(std::vector<TaskQueue> queues, const std::vector<RunNetwork>& networks,
                        bool timing_only) {
  timing_only_ = timing_only;
  queues_ = std::move(queues);
  networks_ = networks;
  faults_.assign(networks.size(), std::nullopt);
  active_ = kNone;
  switch_allowed_ = true;
  requested_ = arrived_ = 0;
  stale_ = 0;
  request_ends_.clear();
  grids_.clear();
  fetched_.reset();
  dispatch_.reset();
  dispatched_ = 0;
  account_.reset();
}

bool TaskManager::done() const {
  if (fetched_ || dispatch_) return false;
  return std::all_of(queues_.begin(), queues_.end(),
                     [](const TaskQueue& queue) { return queue.count() == 0; });
}

void TaskManager::extend(std::size_t queue, isa::TaskId tail, Cycles arrival) {
  queues_[queue].tail = tail;
  queues_[queue].arrival = arrival;
  wiring_.wakes->wake(Box::kTaskManager, arrival);
}

void TaskManager::drop(std::size_t queue) {
  queues_[queue].head = queues_[queue].tail;
  if (fetched_ && fetched_->queue == queue) fetched_.reset();
  if (active_ == queue) active_ = kNone;
}

Cycles TaskManager::step(Cycles now) {
  Ring<Cycles>& completions = wiring_.port->completions;
  while (!completions.empty() && completions.front() <= now) {
    completions.pop();
    if (stale_ > 0) {
      --stale_;
    } else {
      arrived_ = request_ends_.front();
    }
    request_ends_.pop();
    grids_.pop();
  }
  finish_dispatch(now);
  const std::size_t best = arbitrate(now);
  if (fetched_ && !held() && best != kNone &&
      queues_[best].priority > queues_[fetched_->queue].priority) {
    queues_[fetched_->queue].head = fetched_->task;  // put back, fetched again later
    fetched_.reset();
  }
  begin_dispatch(now);
  finish_dispatch(now);  // one that takes no cycles
  if (!fetched_) {
    choose_queue(best);
    decode_head(now);
  }
  issue(now);
  return settle(now);
}

void TaskManager::finish_dispatch(Cycles now) {
  if (!dispatch_ || dispatch_->done_at > now) return;
  const isa::TaskDescriptor& task = *dispatch_->descriptor;
  wiring_.control->enter(dispatch_->task, task, now);
  const BoxLayout::Range engines = wiring_.control->layout().engines_of(task);
  for (int box = engines.first; box < engines.last; ++box) {
    wiring_.engines[box]->push(now, dispatch_->task);
    wiring_.wakes->wake(static_cast<Box>(box), now + 1);
  }
  switch_allowed_ = task.switch_allowed;
  ++dispatched_;
  ++account_.counters.tasks;
  dispatch_.reset();
}

void TaskManager::begin_dispatch(Cycles now) {
  if (dispatch_ || !fetched_ || fetched_->ready_at > now) return;
  const std::uint32_t index = queues_[fetched_->queue].network;
  if (!wiring_.control->entry_free(index, now)) return;
  const RunNetwork& network = networks_[index];
  dispatch_ = Dispatch{network.position + (fetched_->task - network.first), fetched_->descriptor,
                       now + chip_.task_manager.dispatch_cycles};
  fetched_.reset();
}

bool TaskManager::held() const {
  return dispatch_ ? !dispatch_->descriptor->switch_allowed : !switch_allowed_;
}

std::size_t TaskManager::arbitrate(Cycles now) const {
  std::size_t best = kNone;
  const bool active_waits = active_ != kNone && queues_[active_].count() > 0;
  if (held() && active_waits) return active_;
  for (std::size_t q = 0; q < queues_.size(); ++q) {
    const TaskQueue& queue = queues_[q];
    if (queue.count() == 0 || queue.arrival > now) continue;
    if (best == kNone || queue.priority > queues_[best].priority ||
        (queue.priority == queues_[best].priority && q == active_)) {
      best = q;
    }
  }
  return best;
}

std::int64_t TaskManager::stream_offset(const TaskQueue& queue, isa::TaskId task) const {
  const std::vector<std::uint32_t>& offsets = queue.program->stream_offsets;
  return task < offsets.size() ? offsets[task]
                               : static_cast<std::int64_t>(queue.program->stream.size());
}

void TaskManager::choose_queue(std::size_t best) {
  if (best == kNone || best == active_) return;
  // The stream buffer holds one queue's descriptors.
  active_ = best;
  stale_ = request_ends_.size();
  requested_ = arrived_ = stream_offset(queues_[best], queues_[best].head);
}

Result<const isa::TaskDescriptor*> TaskManager::decode(const TaskQueue& queue) {
  const std::span<const std::byte> stream = wiring_.memory->stream(queue.base_addresses);
  const auto first = static_cast<std::size_t>(stream_offset(queue, queue.head));
  const auto last = static_cast<std::size_t>(stream_offset(queue, queue.head + 1));
  if (first > last || last > stream.size()) {
    return Error{ErrorCode::kInvalidModel, "the descriptor lies outside the stream"};
  }
  const std::span<const std::byte> bytes = stream.subspan(first, last - first);
  DescriptorCache::Entry& entry = cache_.entry(queue.base_addresses, queue.head);
  if (entry.descriptor != nullptr && entry.bytes.size() == bytes.size() &&
      std::memcmp(entry.bytes.data(), bytes.data(), bytes.size()) == 0) {
    return checked_kernel(*entry.descriptor, queue);
  }
  std::size_t consumed = 0;
  TESSERA_TRY(isa::TaskDescriptor task, isa::decode(bytes, consumed));
  isa::CheckContext context{
      .chip = chip_,
      .expected = queue.head,
      .task_count = static_cast<isa::TaskId>(queue.program->stream_offsets.size()),
      .region = queue.program->region,
      .core = wiring_.control->core(),
      .cores = wiring_.control->cores(),
      .memories = wiring_.control->cores() > 1 ? isa::kCardMemoriesMax : 1};
  for (std::size_t base = 0; base < context.region_bytes.size(); ++base) {
    context.region_bytes[base] =
        wiring_.memory->size(queue.base_addresses, static_cast<isa::BaseIndex>(base));
  }
  TESSERA_RETURN_IF_ERROR(isa::check_descriptor(task, context));
  entry = {{bytes.begin(), bytes.end()}, std::make_unique<isa::TaskDescriptor>(std::move(task))};
  return checked_kernel(*entry.descriptor, queue);
}

// The host may have written other weights since the last run.
Result<const isa::TaskDescriptor*> TaskManager::checked_kernel(const isa::TaskDescriptor& task,
                                                               const TaskQueue& queue) const {
  if (timing_only_) return &task;
  TESSERA_RETURN_IF_ERROR(
      isa::check_kernel_bytes(task, wiring_.memory->weights(queue.base_addresses)));
  return &task;
}

void TaskManager::decode_head(Cycles now) {
  if (active_ == kNone) return;
  TaskQueue& queue = queues_[active_];
  if (queue.count() == 0 || queue.arrival > now) return;
  const std::int64_t end = stream_offset(queue, queue.head + 1);
  if (arrived_ < end) return;
  const Result<const isa::TaskDescriptor*> task = decode(queue);
  if (!task.ok()) {
    faults_[queue.network] = NetworkFault{queue.head, task.error()};
    queue.head = queue.tail;
    active_ = kNone;
    wiring_.wakes->wake(Box::kTaskManager, now + 1);
    return;
  }
  const std::int64_t words = ceil_div(end - stream_offset(queue, queue.head), 4);
  fetched_ = Fetched{active_, queue.head, *task,
                     now + ceil_div(words, chip_.task_manager.configuration_words_per_cycle)};
  ++queue.head;
}

void TaskManager::issue(Cycles now) {
  DramPort& port = *wiring_.port;
  port.wants_accept = false;
  if (active_ == kNone) return;
  const TaskQueue& queue = queues_[active_];
  const std::int64_t end = stream_offset(queue, queue.tail);
  while (requested_ < end && request_ends_.size() < kRequestsAhead + stale_ &&
         !request_ends_.full()) {
    // The buffer holds two requests' worth of the stream, and always the next descriptor.
    const std::int64_t request = descriptor_request_bytes(chip_);
    const std::int64_t head = stream_offset(queue, queue.head);
    const std::int64_t next = stream_offset(queue, std::min(queue.head + 1, queue.tail));
    if (requested_ - head >= std::max(2 * request, next - head)) return;
    if (!port.requests.can_push(now)) {
      port.wants_accept = true;
      return;
    }
    StridedRuns& grid = grids_.push();
    grid = StridedRuns{};
    grid.address = wiring_.memory->stream_address(queue.base_addresses) + requested_;
    grid.run_bytes = std::min(request, end - requested_);
    port.requests.push(now, {.grid = &grid, .bytes = grid.run_bytes});
    requested_ += grid.run_bytes;
    request_ends_.push(requested_);
    if (!*wiring_.port->channel_full) {
      wiring_.wakes->wake(Box::kDram, now + 1 + wiring_.port->wake_cycles);
    }
  }
}

Cycles TaskManager::settle(Cycles now) {
  Cycles next = kNever;
  const DramPort& port = *wiring_.port;
  if (!port.completions.empty()) next = port.completions.front();
  if (port.wants_accept && port.requests.has_room()) next = std::min(next, now + 1);
  if (dispatch_) next = std::min(next, dispatch_->done_at);
  if (fetched_ && fetched_->ready_at > now) next = std::min(next, fetched_->ready_at);
  bool waiting = false;
  for (const TaskQueue& queue : queues_) {
    if (queue.count() == 0) continue;
    if (queue.arrival > now) {
      next = std::min(next, queue.arrival);
    } else {
      waiting = true;
    }
  }
  // The freed fetch queue is seen in the next cycle.
  if (!fetched_ && active_ != kNone && queues_[active_].count() > 0 &&
      queues_[active_].arrival <= now &&
      arrived_ >= stream_offset(queues_[active_], queues_[active_].head + 1)) {
    next = std::min(next, now + 1);
  }
  Activity activity = Activity::kIdle;
  if (dispatch_ || (fetched_ && fetched_->ready_at > now)) {
    activity = Activity::kBusy;
  } else if (fetched_) {
    activity = Activity::kBlockedDependency;  // the task buffer is full
  } else if (waiting) {
    activity = Activity::kBlockedMemory;
  }
  account_.enter(now, activity, nullptr);
  account_.counters.bytes_read = port.bytes_read;
  return next;
}

std::string TaskManager::describe() const {
  std::string text = fmt::format("task_manager: {} tasks dispatched", dispatched_);
  if (fetched_) text += fmt::format(", task {} waits for the task buffer", fetched_->task);
  for (std::size_t q = 0; q < queues_.size(); ++q) {
    text += fmt::format(", queue {} holds {}", q, queues_[q].count());
  }
  return text;
}

}  // namespace tessera::engines
