#include "device/queued_device.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <optional>
#include <system_error>

#include "base/check.h"
#include "base/guarded.h"
#include "device/kernel_thread.h"
#include "network/network.h"

namespace tessera::device {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

// Completions not fetched yet; submitting without ever waiting is an error.
constexpr std::size_t kUnfetchedMax = 1 << 16;
// The last part of a paced run is waited for awake.
constexpr nanoseconds kSpin{15'000};

double seconds(nanoseconds duration) { return std::chrono::duration<double>(duration).count(); }

// For the kernels' threads, which must go on.
template <typename Make>
Error unavailable_or_no_memory(const Make& make) {
  return error_or_no_memory([&] { return Error{ErrorCode::kUnavailable, make()}; });
}

Properties with_queue(Properties properties, int depth) {
  properties.queue_depth = depth;
  return properties;
}

}  // namespace

QueuedDevice::QueuedDevice(std::unique_ptr<Backend> backend, QueueOptions options)
    : backend_(std::move(backend)),
      properties_(with_queue(backend_->properties(), options.queue_depth)),
      options_(std::move(options)),
      memory_(properties_.memory, properties_.functions > 1) {
  for (int i = 0; i < properties_.kernels; ++i) {
    kernels_.push_back(std::make_unique<Kernel>());
    const auto depth = static_cast<std::size_t>(options_.queue_depth);
    kernels_.back()->queue.reserve(depth);
    kernels_.back()->begun.reserve(depth + 1);  // the queue's and one that runs
  }
}

Result<std::unique_ptr<Device>> QueuedDevice::create(std::unique_ptr<Backend> backend,
                                                     QueueOptions options) {
  std::unique_ptr<QueuedDevice> device(new QueuedDevice(std::move(backend), std::move(options)));
  TESSERA_RETURN_IF_ERROR(device->start());
  return std::unique_ptr<Device>(std::move(device));
}

Status QueuedDevice::start() {
  for (int i = 0; i < properties_.kernels; ++i) {
    try {
      kernels_[i]->thread = std::thread([this, i] { kernel_loop(i); });
    } catch (const std::system_error& error) {
      return Error{
          ErrorCode::kUnavailable,
          fmt::format("device '{}': the system has no thread for kernel {} ({}); use fewer",
                      properties_.name, i, error.what())};
    }
  }
  if (options_.run_limit.count() == 0) return {};
  try {
    watch_ = std::thread([this] { watch_loop(); });
  } catch (const std::system_error& error) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("device '{}': the system has no thread to watch the limit of its runs "
                             "({}); use fewer, or no limit",
                             properties_.name, error.what())};
  }
  return {};
}

QueuedDevice::~QueuedDevice() {
  {
    const Lock lock(mutex_);
    stop_ = true;
    for (const auto& kernel : kernels_) {
      kernel->work.notify_all();
      kernel->interrupted.notify_all();
    }
    watched_.notify_all();
  }
  for (const auto& kernel : kernels_) {
    if (kernel->thread.joinable()) kernel->thread.join();
  }
  if (watch_.joinable()) watch_.join();
}

// ---- memory ----

Result<MemoryBlock> QueuedDevice::allocate(Bytes bytes) {
  TESSERA_TRY(const memory::PoolBlock block, memory_.allocate(bytes));
  return MemoryBlock{{block.base}, block.bytes};
}

Status QueuedDevice::release(const MemoryBlock& block) {
  Status released = memory_.release(block.base.value);
  memory_.bury();
  return released;
}

Result<MemoryBlock> QueuedDevice::adopt(std::span<std::byte> bytes, std::shared_ptr<void> owner) {
  if (!properties_.shared_memory) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("device '{}' has memory of its own and cannot use the host's in place",
                             properties_.name)};
  }
  const memory::PoolBlock block = memory_.adopt(bytes, std::move(owner));
  return MemoryBlock{{block.base}, block.bytes};
}

Status QueuedDevice::write(Address address, std::span<const std::byte> bytes,
                           const TransferTag& tag) {
  // Only read: transfer() has one pointer type for both directions.
  return transfer(Direction::kToDevice, address,
                  {const_cast<std::byte*>(bytes.data()), bytes.size()}, tag);
}

Status QueuedDevice::read(Address address, std::span<std::byte> bytes, const TransferTag& tag) {
  return transfer(Direction::kToHost, address, bytes, tag);
}

// When a transfer that began at `begin` is over; the link takes one after the other.
TimePoint QueuedDevice::link_time(Direction direction, std::int64_t bytes, TimePoint begin) {
  TimePoint& free_at = link_free_at_[direction];
  const TimePoint from = std::max(free_at, begin);
  const nanoseconds time = paced_time(options_.pace, bytes, options_.pace.link_bytes_per_second);
  free_at = time < TimePoint::max() - from ? from + time : TimePoint::max();
  return free_at;
}

Status QueuedDevice::transfer(Direction direction, Address address, std::span<std::byte> host,
                              const TransferTag& tag) {
  if (tag.kernel < kWholeDevice || tag.kernel >= properties_.kernels) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("device '{}': a transfer of kernel {}, it has {}", properties_.name,
                             tag.kernel, properties_.kernels)};
  }
  const bool to_device = direction == Direction::kToDevice;
  const TimePoint begin = steady_clock::now();
  TESSERA_TRY(const std::span<std::byte> device,
              memory_.hold(address.value, Bytes{std::ssize(host)}));
  if (const Status read = to_device ? Status() : backend_->host_reads(device); !read.ok()) {
    memory_.drop_hold(address.value);
    return read;
  }
  const std::span<const std::byte> from = to_device ? host : device;
  std::copy(from.begin(), from.end(), to_device ? device.begin() : host.begin());
  if (to_device) backend_->host_wrote(device);
  TimePoint due = begin;
  {
    const Lock lock(mutex_);
    ++(to_device ? counters_.transfers_to_device : counters_.transfers_to_host);
    (to_device ? counters_.bytes_to_device : counters_.bytes_to_host) += std::ssize(host);
    if (options_.pace.enabled && options_.pace.link_bytes_per_second > 0) {
      due = link_time(direction, std::ssize(host), begin);
    }
  }
  if (due > begin) std::this_thread::sleep_until(due);
  memory_.drop_hold(address.value);
  if (ActivityObserver* const observer = observer_) {
    observer->transferred({tag, to_device, Bytes{std::ssize(host)}, begin, steady_clock::now()});
  }
  return {};
}

Result<std::span<std::byte>> QueuedDevice::host_view(Address address, Bytes bytes) {
  if (!properties_.shared_memory) {
    return Error{
        ErrorCode::kUnsupported,
        fmt::format("device '{}' has memory of its own; use read() and write()", properties_.name)};
  }
  return memory_.view(address.value, bytes);
}

// ---- loading ----

// The block of a set's weights.
class QueuedDevice::WeightRegion {
 public:
  explicit WeightRegion(DeviceMemory& memory) : memory_(memory) {}
  ~WeightRegion() {
    if (!block_) return;
    const Status released = memory_.release(block_->base);
    TESSERA_CHECK(released.ok(), "{}", released.error().message);
  }
  Result<memory::PoolBlock> allocate(Bytes bytes) {
    TESSERA_TRY(block_, memory_.allocate(bytes));
    return *block_;
  }
  WeightRegion(const WeightRegion&) = delete;
  WeightRegion& operator=(const WeightRegion&) = delete;

 private:
  DeviceMemory& memory_;  // of the device
  std::optional<memory::PoolBlock> block_;
};

Result<QueuedDevice::Placed> QueuedDevice::place(Result<LoadedSet> set) {
  if (!set.ok()) return set.error();
  Placed placed{std::move(*set), nullptr};
  if (placed.set.region.empty()) {
    TESSERA_RETURN_IF_ERROR(backend_->place(placed.set, {}));
    return placed;
  }
  const Bytes bytes{std::ssize(placed.set.region)};
  const auto region = std::make_shared<WeightRegion>(memory_);
  const auto block = region->allocate(bytes);
  if (!block.ok()) {
    return block.error().with_context(fmt::format("device '{}', weights", properties_.name));
  }
  placed.region = region;
  TESSERA_RETURN_IF_ERROR(write({block->base}, placed.set.region, {}));
  TESSERA_TRY(const auto view, memory_.view(block->base, bytes));
  TESSERA_RETURN_IF_ERROR(backend_->place(placed.set, view));
  const Lock lock(mutex_);
  counters_.weight_bytes += bytes.value;
  return placed;
}

// All of them or, where there is no memory for some, none.
std::vector<LoadedLayer> QueuedDevice::keep(std::shared_ptr<const NetworkState> network,
                                            bool layers, Placed& placed) {
  // A program together with its share of the region, which goes after it.
  struct Kept {
    ~Kept() {
      if (ActivityObserver* const observer = device.observer_) observer->unloaded(id);
    }
    QueuedDevice& device;  // whose programs and submissions share it
    LoadedId id;
    std::shared_ptr<const WeightRegion> region;
    std::unique_ptr<Loaded> loaded;
  };
  Known known{.network = std::move(network), .layers = layers, .loaded = {}};
  std::map<LoadedId, std::shared_ptr<Loaded>> programs;
  for (LoadedSet::Entry& entry : placed.set.entries) {
    entry.layer.id = static_cast<LoadedId>(next_loaded_++);
    known.loaded.push_back(entry.layer);
    const std::shared_ptr<Kept> kept(
        new Kept{*this, entry.layer.id, placed.region, std::move(entry.loaded)});
    programs.emplace(entry.layer.id, std::shared_ptr<Loaded>(kept, kept->loaded.get()));
  }
  std::vector<LoadedLayer> loaded = known.loaded;
  known_.push_back(std::move(known));
  // From here on nothing takes memory.
  const Lock lock(mutex_);
  counters_.programs_loaded += std::ssize(programs);
  loaded_.merge(programs);
  return loaded;
}

QueuedDevice::Known* QueuedDevice::find_known(const NetworkState& network, bool layers) {
  const auto found = std::find_if(known_.begin(), known_.end(), [&](const Known& known) {
    return known.network.get() == &network && known.layers == layers;
  });
  return found == known_.end() ? nullptr : &*found;
}

Result<LoadedId> QueuedDevice::load(std::shared_ptr<const NetworkState> network) {
  const std::lock_guard loading(load_mutex_);
  if (Known* const known = find_known(*network, false)) {
    ++known->uses;
    return known->loaded[0].id;
  }
  TESSERA_TRY(Placed placed, place(backend_->load(network)));
  return keep(std::move(network), false, placed)[0].id;
}

Result<std::vector<LoadedLayer>> QueuedDevice::load_layers(
    std::shared_ptr<const NetworkState> network) {
  TESSERA_RETURN_IF_ERROR(network::check_package(*network, "a single layer"));
  const std::lock_guard loading(load_mutex_);
  if (Known* const known = find_known(*network, true)) {
    std::vector<LoadedLayer> loaded = known->loaded;
    ++known->uses;
    return loaded;
  }
  TESSERA_TRY(Placed placed, place(backend_->load_layers(network)));
  // What has no layer has no id to unload it by.
  if (placed.set.entries.empty()) return std::vector<LoadedLayer>();
  return keep(std::move(network), true, placed);
}

Status QueuedDevice::unload(LoadedId loaded) {
  const std::lock_guard loading(load_mutex_);
  const auto known = std::find_if(known_.begin(), known_.end(), [&](const Known& candidate) {
    return std::any_of(candidate.loaded.begin(), candidate.loaded.end(),
                       [&](const LoadedLayer& layer) { return layer.id == loaded; });
  });
  if (known == known_.end()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("device '{}': nothing is loaded as {}", properties_.name,
                             static_cast<std::uint64_t>(loaded))};
  }
  if (--known->uses > 0) return {};
  std::map<LoadedId, std::shared_ptr<Loaded>> programs;  // go without the lock held
  {
    const Lock lock(mutex_);
    for (const LoadedLayer& layer : known->loaded) {
      programs.insert(loaded_.extract(layer.id));  // which takes no memory
      ++counters_.programs_unloaded;
    }
  }
  known_.erase(known);
  return {};
}

// ---- submissions ----

Result<std::shared_ptr<Loaded>> QueuedDevice::check(const Submission& submission) const {
  const auto found = loaded_.find(submission.loaded);
  if (found == loaded_.end()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("device '{}': nothing is loaded as {}", properties_.name,
                             static_cast<std::uint64_t>(submission.loaded))};
  }
  if (submission.kernel < kAnyKernel || submission.kernel >= properties_.kernels) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("device '{}': kernel {}, it has {}", properties_.name,
                             submission.kernel, properties_.kernels)};
  }
  const Loaded& loaded = *found->second;
  if (submission.inputs.size() != loaded.inputs.size() ||
      submission.outputs.size() != loaded.outputs.size()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("device '{}': {} inputs and {} outputs given, '{}' has {} and {}",
                             properties_.name, submission.inputs.size(), submission.outputs.size(),
                             loaded.name, loaded.inputs.size(), loaded.outputs.size())};
  }
  return found->second;
}

Status QueuedDevice::hold_blocks(const Submission& submission, PendingSubmission& pending) {
  pending.held.clear();
  pending.inputs.clear();
  pending.outputs.clear();
  pending.held.reserve(submission.inputs.size() + submission.outputs.size());
  const auto hold = [&](std::span<const Address> addresses,
                        const std::vector<Loaded::Tensor>& tensors,
                        std::vector<std::span<std::byte>>& views) -> Status {
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      const auto view = memory_.hold(addresses[i].value, tensors[i].bytes);
      if (!view.ok()) {
        return view.error().with_context(
            fmt::format("device '{}', tensor '{}'", properties_.name, tensors[i].name));
      }
      pending.held.push_back(addresses[i]);
      views.push_back(*view);
    }
    return {};
  };
  if (submission.keeps != nullptr) pending.keeps = memory_.keep(submission.keeps);
  Status held = hold(submission.inputs, pending.loaded->inputs, pending.inputs);
  if (held.ok()) held = hold(submission.outputs, pending.loaded->outputs, pending.outputs);
  return held;
}

void QueuedDevice::drop_holds(PendingSubmission& pending) {
  for (const Address address : pending.held) memory_.drop_hold(address.value);
  pending.held.clear();
  memory_.end(pending.keeps);
}

// What was kept for runs is released by the kernels' threads, which hold no locks then.
void QueuedDevice::wake_to_bury() {
  if (!memory_.anything_to_bury()) return;
  for (const auto& kernel : kernels_) kernel->work.notify_one();
}

int QueuedDevice::choose_kernel(const Submission& submission) const {
  if (submission.kernel != kAnyKernel) return submission.kernel;
  const auto load = [](const std::unique_ptr<Kernel>& kernel) {
    return kernel->queue.size() + (kernel->running != nullptr ? 1 : 0);
  };
  const auto shortest =
      std::min_element(kernels_.begin(), kernels_.end(),
                       [&](const auto& a, const auto& b) { return load(a) < load(b); });
  return static_cast<int>(shortest - kernels_.begin());
}

Result<SequenceNumber> QueuedDevice::submit(const Submission& submission, TimePoint deadline) {
  Lock lock(mutex_);
  TESSERA_TRY(std::shared_ptr<Loaded> loaded, check(submission));
  if (submissions_.size() >= kUnfetchedMax) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("device '{}': {} completions were not fetched; call wait()",
                             properties_.name, submissions_.size())};
  }
  int index = 0;
  const auto can_go_on = [&] {
    index = choose_kernel(submission);
    return health_.state == HealthState::kFailed ||
           kernels_[index]->queue.size() < static_cast<std::size_t>(options_.queue_depth);
  };
  bool room = true;
  if (deadline == kNoDeadline) {
    room_.wait(lock, can_go_on);
  } else {
    room = room_.wait_until(lock, deadline, can_go_on);
  }
  if (health_.state == HealthState::kFailed) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("device '{}' has failed: {}", properties_.name, health_.reason)};
  }
  if (!room) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("device '{}', kernel {}: its queue of {} is full", properties_.name,
                             index, options_.queue_depth)};
  }
  Kernel& kernel = *kernels_[index];
  // The kernel's thread then takes no memory for it.
  kernel.begun.reserve(kernel.begun.size() + kernel.queue.size() + 1);
  PendingSubmission& pending = submissions_.add(static_cast<SequenceNumber>(next_sequence_));
  pending.run.kernel = index;
  pending.run.tag = submission.tag;
  pending.run.loaded = submission.loaded;
  pending.priority = submission.priority;
  pending.loaded = std::move(loaded);
  const Status held = guarded("", [&] { return hold_blocks(submission, pending); });
  if (!held.ok()) {
    drop_holds(pending);
    submissions_.remove(pending);
    return held.error();
  }
  ++next_sequence_;
  ++counters_.submissions;
  pending.listener = submission.listener;
  pending.context = submission.context;
  enqueue(kernel, pending, submission.caller_runs);
  return pending.run.sequence;
}

// Behind those of its own priority and of higher ones.
void QueuedDevice::enqueue(Kernel& kernel, PendingSubmission& pending, bool caller_runs) {
  pending.enqueued = steady_clock::now();
  auto place = kernel.queue.end();
  while (place != kernel.queue.begin() && (*std::prev(place))->priority < pending.priority) --place;
  kernel.queue.insert(place, &pending);
  if (!caller_runs) kernel.work.notify_one();
}

int QueuedDevice::queued(int kernel) const {
  TESSERA_CHECK(kernel >= 0 && kernel < properties_.kernels, "kernel {}", kernel);
  const Lock lock(mutex_);
  const Kernel& queue = *kernels_[kernel];
  return static_cast<int>(queue.queue.size()) + (queue.running != nullptr ? 1 : 0);
}

void QueuedDevice::look_at(int kernel, KernelWork& work) const {
  TESSERA_CHECK(kernel >= 0 && kernel < properties_.kernels, "kernel {}", kernel);
  work.waiting.clear();
  const Lock lock(mutex_);
  const Kernel& of = *kernels_[kernel];
  work.running = of.running != nullptr;
  if (of.running != nullptr) {
    work.loaded = of.running->run.loaded;
    work.since = of.running->started;
  }
  for (const PendingSubmission* const pending : of.queue) {
    work.waiting.push_back({pending->run.loaded, pending->priority});
  }
}

nanoseconds QueuedDevice::modelled_time(LoadedId loaded) const {
  const Lock lock(mutex_);
  const auto found = loaded_.find(loaded);
  if (!options_.pace.enabled || properties_.clock_hertz == 0 || found == loaded_.end()) return {};
  return paced_time(options_.pace, found->second->expected_cycles, properties_.clock_hertz);
}

// ---- waiting ----

std::string QueuedDevice::place_name(const PendingSubmission& pending) const {
  return fmt::format("device '{}', kernel {}, task {} ('{}', tag {})", properties_.name,
                     pending.run.kernel, pending.number(), pending.loaded->name, pending.run.tag);
}

void QueuedDevice::take_from_queue(PendingSubmission& pending) {
  std::vector<PendingSubmission*>& queue = kernels_[pending.run.kernel]->queue;
  queue.erase(std::find(queue.begin(), queue.end(), &pending));
  room_.notify_all();
}

// The text first, also where there is no memory for it: the submission is given up in any case.
Error QueuedDevice::given_up(PendingSubmission& pending) {
  ++counters_.given_up;
  const bool queued = pending.state == PendingSubmission::State::kQueued;
  Error error = error_or_no_memory([&] {
    const std::string place = place_name(pending);
    if (!queued) {
      return Error{ErrorCode::kUnavailable,
                   fmt::format("{}: no completion by its deadline, {:.3g} s after it began", place,
                               seconds(steady_clock::now() - pending.started))};
    }
    const std::vector<PendingSubmission*>& queue = kernels_[pending.run.kernel]->queue;
    const auto before = std::find(queue.begin(), queue.end(), &pending);
    return Error{ErrorCode::kUnavailable,
                 fmt::format("{}: not begun by its deadline, {} before it and one running; it was "
                             "taken back",
                             place, before - queue.begin())};
  });
  pending.abandoned = true;
  if (!queued) return error;
  take_from_queue(pending);
  ++counters_.withdrawn;
  end(pending);
  wake_to_bury();
  return error;
}

Result<Completion> QueuedDevice::wait(SequenceNumber sequence, TimePoint deadline) {
  Lock lock(mutex_);
  PendingSubmission* const pending = submissions_.find(sequence);
  if (pending == nullptr || pending->waited_for || pending->listener != nullptr) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("device '{}': sequence number {} was not submitted, or was waited for "
                             "already",
                             properties_.name, static_cast<std::uint64_t>(sequence))};
  }
  pending->waited_for = true;
  const auto over = [pending] {
    return pending->state == PendingSubmission::State::kDone || !pending->refused.ok();
  };
  if (deadline == kNoDeadline) {
    pending->over.wait(lock, over);
  } else if (!pending->over.wait_until(lock, deadline, over)) {
    return given_up(*pending);
  }
  if (!pending->refused.ok()) {
    Error error = std::move(pending->refused).error();  // moved: nothing throws before it is ended
    pending->abandoned = true;
    if (pending->state == PendingSubmission::State::kDone) end(*pending);
    return error;
  }
  Completion completion = std::move(pending->completion);
  submissions_.remove(*pending);
  return completion;
}

Withdrawn QueuedDevice::withdraw(SequenceNumber sequence, bool give_up) {
  const Lock lock(mutex_);
  PendingSubmission* const pending = submissions_.find(sequence);
  if (pending == nullptr || pending->listener == nullptr) return Withdrawn::kOver;
  const bool queued = pending->state == PendingSubmission::State::kQueued;
  if (!queued && !give_up) return Withdrawn::kBegun;
  ++counters_.given_up;
  pending->listener = nullptr;
  pending->abandoned = true;
  if (!queued) return Withdrawn::kBegun;
  ++counters_.withdrawn;
  take_from_queue(*pending);
  end(*pending);
  wake_to_bury();
  return Withdrawn::kNotBegun;
}

// ---- completions, failure, recovery; with the lock held ----

// The listener has the whole result: the submission is not asked for any more.
void QueuedDevice::tell(PendingSubmission& pending, Status status) {
  RunListener* const listener = std::exchange(pending.listener, nullptr);
  pending.abandoned = true;
  listener->run_over(pending.context,
                     {std::move(status), pending.state != PendingSubmission::State::kQueued,
                      std::move(pending.completion)});
}

// The device has nothing more to do with the submission.
void QueuedDevice::end(PendingSubmission& pending) {
  drop_holds(pending);
  pending.state = PendingSubmission::State::kDone;
  if (pending.listener != nullptr) tell(pending, {});
  if (pending.abandoned) {
    submissions_.remove(pending);
  } else {
    pending.over.notify_all();
  }
}

// `told` completed: what its kernel began before it and has not completed is lost.
void QueuedDevice::find_lost(Kernel& kernel, const PendingSubmission& reported) {
  while (!kernel.begun.empty()) {
    PendingSubmission& first = *kernel.begun.front();
    kernel.begun.erase(kernel.begun.begin());
    if (&first == &reported) return;
    ++counters_.lost_completions;
    refuse(first, error_or_no_memory([&] {
             return Error{ErrorCode::kUnavailable,
                          fmt::format("{}: its completion was lost; that of task {}, which the "
                                      "kernel began later, has come",
                                      place_name(first), reported.number())};
           }));
    end(first);
  }
}

void QueuedDevice::complete(SequenceNumber sequence, Completion completion) {
  PendingSubmission* const pending = submissions_.find(sequence);
  if (pending == nullptr || pending->state != PendingSubmission::State::kRunning) {
    ++counters_.wrong_completions;
    fail_locked(unavailable_or_no_memory([&] {
                  return fmt::format("it reported the completion of task {}, which {}",
                                     static_cast<std::uint64_t>(sequence),
                                     static_cast<std::uint64_t>(sequence) >= next_sequence_
                                         ? "was never submitted"
                                         : "was complete already");
                }).message);
    return;
  }
  find_lost(*kernels_[pending->run.kernel], *pending);
  ++counters_.completions;
  if (!completion.status.ok()) ++counters_.run_errors;
  if (pending->abandoned || !pending->refused.ok()) ++counters_.late_completions;
  if (completion.late) ++counters_.late_runs;
  std::optional<Error> at_fault;
  if (health_.state == HealthState::kProbing) {
    if (completion.status.ok()) {
      health_.state = HealthState::kOk;
    } else if (completion.status.error().code == ErrorCode::kUnavailable) {
      at_fault = error_or_no_memory([&] { return completion.status.error(); });
    }
  }
  pending->completion = std::move(completion);
  end(*pending);
  if (at_fault) fail_locked(std::move(at_fault->message));
}

void QueuedDevice::refuse(PendingSubmission& pending, Error error) {
  if (!pending.refused.ok()) return;
  pending.refused = error_or_no_memory([&] { return error; });
  if (pending.listener != nullptr) return tell(pending, std::move(error));
  pending.over.notify_all();
}

void QueuedDevice::fail_locked(std::string reason) {
  health_ = {HealthState::kFailed, std::move(reason)};
  const auto refuse_task = [&](PendingSubmission& pending) {
    refuse(pending, error_or_no_memory([&] {
             return Error{
                 ErrorCode::kUnavailable,
                 fmt::format("{}: the device has failed: {}", place_name(pending), health_.reason)};
           }));
  };
  for (const auto& kernel : kernels_) {
    for (PendingSubmission* const pending : kernel->queue) {
      refuse_task(*pending);
      end(*pending);
    }
    kernel->queue.clear();
  }
  submissions_.for_each([&](PendingSubmission& pending) {
    if (pending.state == PendingSubmission::State::kRunning) refuse_task(pending);
  });
  room_.notify_all();
  wake_to_bury();
}

const PendingSubmission* QueuedDevice::longest_running() const {
  const PendingSubmission* longest = nullptr;
  for (const auto& kernel : kernels_) {
    for (const PendingSubmission* const pending : kernel->begun) {
      if (pending->waits_for_core) continue;
      if (pending->refused.ok() && (longest == nullptr || pending->started < longest->started)) {
        longest = pending;
      }
    }
  }
  return longest;
}

// Fails the device when a run takes longer than the limit.
void QueuedDevice::watch_loop() {
  Lock lock(mutex_);
  while (!stop_) {
    const PendingSubmission* const longest = longest_running();
    if (longest == nullptr) {
      watch_sleeps_ = true;
      watched_.wait(lock);
      watch_sleeps_ = false;
      continue;
    }
    const TimePoint due = longest->started + options_.run_limit;
    if (steady_clock::now() < due) {
      watched_.wait_until(lock, due);
      continue;
    }
    fail_locked(unavailable_or_no_memory([&] {
                  return fmt::format("kernel {} has not ended task {} within the limit of {:.3g} s",
                                     longest->run.kernel, longest->number(),
                                     seconds(options_.run_limit));
                }).message);
  }
}

void QueuedDevice::fail(const std::string& reason) {
  const Lock lock(mutex_);
  fail_locked(reason);
}

Health QueuedDevice::health() const {
  const Lock lock(mutex_);
  return health_;
}

Status QueuedDevice::reset(TimePoint deadline) {
  const std::lock_guard resetting(reset_mutex_);
  if (options_.faults.reset_answers) {
    const std::lock_guard planning(fault_mutex_);
    if (!options_.faults.reset_answers()) {
      return Error{ErrorCode::kUnavailable,
                   fmt::format("device '{}' does not answer a reset", properties_.name)};
    }
  }
  Lock lock(mutex_);
  std::string reason = health_.reason;
  fail_locked("it is being reset");
  ++generation_;
  ++counters_.resets;
  for (const auto& kernel : kernels_) kernel->interrupted.notify_all();
  const auto at_rest = [&] {
    return std::all_of(kernels_.begin(), kernels_.end(),
                       [](const auto& kernel) { return kernel->running == nullptr; });
  };
  bool rested = true;
  if (deadline == kNoDeadline) {
    idle_.wait(lock, at_rest);
  } else {
    rested = idle_.wait_until(lock, deadline, at_rest);
  }
  if (!rested) {
    health_.reason = std::move(reason);
    return Error{ErrorCode::kUnavailable,
                 fmt::format("device '{}': a kernel did not come to rest when it was reset",
                             properties_.name)};
  }
  for (const auto& kernel : kernels_) kernel->begun.clear();
  submissions_.for_each([&](PendingSubmission& pending) {
    if (pending.state == PendingSubmission::State::kRunning) end(pending);
  });
  health_ = {HealthState::kProbing, std::move(reason)};
  room_.notify_all();
  wake_to_bury();
  return {};
}

DeviceCounters QueuedDevice::counters() const {
  const Lock lock(mutex_);
  DeviceCounters counters = counters_;
  counters.memory = memory_.counters();
  return counters;
}

// ---- kernels ----

void QueuedDevice::kernel_loop(int index) {
  // Wakes up within microseconds of the time asked for, not within the usual 50.
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  become_thread_of_kernel();
  Kernel& kernel = *kernels_[index];
  Lock lock(mutex_);
  while (true) {
    // Another thread may run what is first (run_queued).
    const auto can_run = [&] { return !kernel.queue.empty() && kernel.running == nullptr; };
    kernel.work.wait(lock, [&] { return stop_ || can_run() || memory_.anything_to_bury(); });
    if (stop_) return;
    if (can_run()) run_first(lock, kernel);
    if (memory_.anything_to_bury()) bury(lock);
  }
}

void QueuedDevice::run_first(Lock& lock, Kernel& kernel) {
  PendingSubmission& pending = *kernel.queue.front();
  kernel.queue.erase(kernel.queue.begin());
  kernel.running = &pending;
  kernel.begun.push_back(&pending);
  pending.state = PendingSubmission::State::kRunning;
  pending.started = steady_clock::now();
  room_.notify_all();
  if (watch_sleeps_) watched_.notify_one();
  const std::uint64_t generation = generation_;
  lock.unlock();
  Executed executed = execute(kernel, pending, generation);
  lock.lock();
  settle(kernel, pending, executed);
}

void QueuedDevice::run_queued(int index) {
  TESSERA_CHECK(index >= 0 && index < properties_.kernels, "kernel {}", index);
  const bool may_last =
      options_.pace.enabled || options_.faults.fault || backend_->waits_for_core();
  Kernel& kernel = *kernels_[index];
  Lock lock(mutex_);
  if (!may_last && !stop_ && kernel.running == nullptr && !kernel.queue.empty()) {
    run_first(lock, kernel);
  }
  if (!kernel.queue.empty() || memory_.anything_to_bury()) kernel.work.notify_one();
}

void QueuedDevice::bury(Lock& lock) {
  lock.unlock();
  memory_.bury();
  lock.lock();
}

void QueuedDevice::settle(Kernel& kernel, PendingSubmission& pending, Executed& executed) {
  kernel.running = nullptr;
  if (!executed.stopped) {
    kernel.free_at = executed.completion.end;
    const SequenceNumber sequence = pending.run.sequence;
    switch (executed.fault) {
      case Fault::kNone:
      case Fault::kError:
        complete(sequence, std::move(executed.completion));
        break;
      case Fault::kSecondCompletion:
        complete(sequence, std::move(executed.completion));
        complete(sequence, {});
        break;
      case Fault::kWrongCompletion:
        complete(static_cast<SequenceNumber>(next_sequence_ + 1'000'000), {});
        break;
      case Fault::kHang:
      case Fault::kLostCompletion:
        break;
    }
  }
  idle_.notify_all();
}

Fault QueuedDevice::planned_fault(const PendingSubmission& pending) {
  if (!options_.faults.fault) return Fault::kNone;
  const std::lock_guard planning(fault_mutex_);
  return options_.faults.fault({pending.run.sequence, pending.run.tag, pending.run.kernel});
}

// What a core that several devices share says of the kernel's run.
class QueuedDevice::Turn : public RunTurn {
 public:
  Turn(QueuedDevice& device, Kernel& kernel, PendingSubmission& pending, std::uint64_t generation)
      : RunTurn(pending.priority, pending.enqueued),
        device_(device),
        kernel_(kernel),
        pending_(pending),
        generation_(generation) {}
  bool wait() override {
    Lock lock(device_.mutex_);
    kernel_.interrupted.wait(
        lock, [this] { return over_ || device_.stop_ || device_.generation_ != generation_; });
    return over_;
  }
  void wait_until_over() override {
    Lock lock(device_.mutex_);
    kernel_.interrupted.wait(lock, [this] { return over_; });
  }
  void begin(TimePoint at) override {
    if (ActivityObserver* const observer = device_.observer_) observer->run_began(pending_.run, at);
    const Lock lock(device_.mutex_);
    pending_.waits_for_core = false;
    pending_.started = steady_clock::now();
    if (device_.watch_sleeps_) device_.watched_.notify_one();
  }
  void over() override {
    const Lock lock(device_.mutex_);
    over_ = true;
    kernel_.interrupted.notify_all();
  }

 private:
  QueuedDevice& device_;
  Kernel& kernel_;
  PendingSubmission& pending_;
  const std::uint64_t generation_;
  bool over_ = false;
};

RunOutcome QueuedDevice::run_backend(const PendingSubmission& pending, RunTurn& turn) {
  try {
    return backend_->run(pending.run, *pending.loaded, {pending.inputs, pending.outputs}, turn);
  } catch (...) {
    RunOutcome outcome;
    outcome.status = thrown_error("");
    return outcome;
  }
}

// The run itself, at its pace.
void QueuedDevice::compute(Kernel& kernel, PendingSubmission& pending, std::uint64_t generation,
                           Executed& executed) {
  Completion& completion = executed.completion;
  // Not pending.started: what lies between may be another thread's turn.
  TimePoint called = steady_clock::now();
  Turn turn(*this, kernel, pending, generation);
  RunOutcome outcome = run_backend(pending, turn);
  completion.end = steady_clock::now();
  if (outcome.stopped) {
    completion.begin = completion.end;
    executed.stopped = true;
    return;
  }
  const bool shared = backend_->waits_for_core() && outcome.called != TimePoint{};
  if (shared) {
    called = outcome.called;
    completion.begin = outcome.begin;
    completion.end = outcome.ready;
  }
  completion.status = std::move(outcome.status);
  completion.cycles = outcome.cycles;
  completion.status_flags = outcome.status_flags;
  completion.details = std::move(outcome.details);
  completion.value_notes = std::move(outcome.value_notes);
  if (outcome.timing_reused || outcome.joint || outcome.bytes_copied > 0) {
    const Lock lock(mutex_);
    if (outcome.timing_reused) ++counters_.timings_reused;
    if (outcome.joint) ++counters_.joint_runs;
    counters_.bytes_copied += outcome.bytes_copied;
  }
  if (!options_.pace.enabled || !completion.status.ok() || outcome.clock_hertz == 0) return;
  const Cycles cycles = shared ? outcome.end : outcome.cycles;
  const nanoseconds duration = paced_time(options_.pace, cycles, outcome.clock_hertz);
  completion.late = completion.end - called > duration;
  // What was not too slow keeps to the schedule, even if its thread was woken late.
  if (completion.late && completion.begin + duration <= completion.end) return;
  completion.end = completion.begin + duration;
  executed.stopped = !sleep_until(kernel, completion.end, generation);
}

QueuedDevice::Executed QueuedDevice::execute(Kernel& kernel, PendingSubmission& pending,
                                             std::uint64_t generation) {
  Executed executed;
  executed.fault = planned_fault(pending);
  Completion& completion = executed.completion;
  completion.sequence = pending.run.sequence;
  completion.tag = pending.run.tag;
  completion.kernel = pending.run.kernel;
  completion.begin =
      options_.pace.enabled ? std::max(kernel.free_at, pending.enqueued) : pending.started;
  const bool runs = executed.fault != Fault::kHang && executed.fault != Fault::kError;
  const bool waits = runs && backend_->waits_for_core();
  ActivityObserver* const observer = observer_;
  if (waits) {
    const Lock lock(mutex_);
    pending.waits_for_core = true;
  } else if (observer != nullptr) {
    observer->run_began(pending.run, completion.begin);
  }
  if (runs) {
    compute(kernel, pending, generation, executed);
  } else if (executed.fault == Fault::kHang) {
    executed.stopped = !sleep_until(kernel, kNoDeadline, generation);
  } else {
    completion.end = steady_clock::now();
    completion.status = unavailable_or_no_memory([] { return "the fault plan says so"; });
  }
  if (executed.stopped) {
    completion.end = steady_clock::now();
    completion.status = unavailable_or_no_memory([] { return "the run was stopped"; });
  }
  if (!completion.status.ok()) {
    completion.status = error_or_no_memory(
        [&] { return completion.status.error().with_context(place_name(pending)); });
  }
  if (observer != nullptr) observer->run_ended(pending.run, completion);
  return executed;
}

bool QueuedDevice::sleep_until(Kernel& kernel, TimePoint due, std::uint64_t generation) {
  {
    Lock lock(mutex_);
    const auto interrupted = [&] { return stop_ || generation_ != generation; };
    if (due == kNoDeadline) {
      kernel.interrupted.wait(lock, interrupted);
      return false;
    }
    if (kernel.interrupted.wait_until(lock, due - kSpin, interrupted)) return false;
  }
  while (steady_clock::now() < due) {
  }
  return true;
}

}  // namespace tessera::device
