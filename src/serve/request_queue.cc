#include "serve/request_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

namespace tessera::serve {

namespace {

using Clock = std::chrono::steady_clock;
using RequestPtr = std::shared_ptr<OpenRequest>;  // shared with the run

const Failure kLateFailure = {Problem::kLate, "the request's time was over before it was done"};

// Requests of equal groups make a batch. Empty: it goes alone.
std::vector<Shape> group_of(const OpenRequest& request, std::int64_t batch_max) {
  std::vector<Shape> group = request.shapes;
  for (Shape& shape : group) {
    if (shape.empty() || shape[0] != request.rows || request.rows > batch_max) return {};
    shape[0] = 0;
  }
  return group;
}

}  // namespace

struct RequestQueue::State {
  CompiledShapes& shapes;
  const RequestQueueOptions options;
  std::mutex mutex;
  std::condition_variable changed;
  std::list<RequestPtr> waiting;  // by priority, then arrival
  struct Sent {
    Clock::time_point deadline;
    std::weak_ptr<OpenRequest> request;
  };
  std::list<Sent> sent;  // of those with a deadline
  int runs = 0;
  bool is_ending = false;

  // What is to be done next, and when to look again where there is nothing.
  struct Next {
    std::vector<RequestPtr> batch;
    std::vector<RequestPtr> late;
    std::int64_t rows = 0;
    Clock::time_point wake = Clock::time_point::max();
  };
  Next next();
  void take_late(Next& next, Clock::time_point now);
  void take_batch(Next& next, Clock::time_point now);
  void run(std::vector<RequestPtr> batch, std::int64_t rows);
  void work();
};

void RequestQueue::State::take_late(Next& next, Clock::time_point now) {
  for (auto at = waiting.begin(); at != waiting.end();) {
    if ((*at)->deadline > now) {
      next.wake = std::min(next.wake, (*at)->deadline);
      ++at;
      continue;
    }
    next.late.push_back(std::move(*at));
    at = waiting.erase(at);
  }
  for (auto at = sent.begin(); at != sent.end();) {
    if (at->deadline > now && !at->request.expired()) {
      next.wake = std::min(next.wake, at->deadline);
      ++at;
      continue;
    }
    if (RequestPtr request = at->request.lock()) next.late.push_back(std::move(request));
    at = sent.erase(at);
  }
}

// The first group that is full, or whose oldest request has waited long enough.
void RequestQueue::State::take_batch(Next& next, Clock::time_point now) {
  if (runs >= options.runs_max) return;
  std::vector<std::vector<Shape>> seen;
  for (const RequestPtr& first : waiting) {
    const std::vector<Shape> group = group_of(*first, options.batch_max);
    if (group.empty()) {
      next.batch = {first};
      next.rows = 0;
      break;
    }
    if (std::ranges::find(seen, group) != seen.end()) continue;
    seen.push_back(group);
    std::vector<RequestPtr> batch;
    std::int64_t rows = 0;
    bool is_full = false;
    Clock::time_point oldest = Clock::time_point::max();
    for (const RequestPtr& each : waiting) {
      if (group_of(*each, options.batch_max) != group) continue;
      oldest = std::min(oldest, each->arrival);
      if (rows + each->rows > options.batch_max) {
        is_full = true;
        continue;
      }
      rows += each->rows;
      batch.push_back(each);
    }
    is_full = is_full || rows == options.batch_max;
    if (!is_full && now < oldest + options.delay) {
      next.wake = std::min(next.wake, oldest + options.delay);
      continue;
    }
    next.batch = std::move(batch);
    next.rows = rows;
    break;
  }
  for (const RequestPtr& each : next.batch) waiting.remove(each);
}

RequestQueue::State::Next RequestQueue::State::next() {
  Next next;
  const Clock::time_point now = Clock::now();
  take_late(next, now);
  take_batch(next, now);
  if (next.batch.empty()) return next;
  ++runs;
  for (const RequestPtr& each : next.batch) {
    if (each->deadline != Clock::time_point::max()) sent.push_back({each->deadline, each});
  }
  return next;
}

void RequestQueue::State::run(std::vector<RequestPtr> batch, std::int64_t rows) {
  const std::shared_ptr<const void> model = batch.front()->model;  // lives until here
  std::vector<Shape> wanted = batch.front()->shapes;
  if (rows > 0) {
    for (Shape& shape : wanted) shape[0] = batch_size(rows, options.batch_max);
  }
  const auto compiled = shapes.compile(wanted);
  if (compiled.ok()) return options.submit(*compiled, std::move(batch), rows);
  for (const RequestPtr& each : batch) {
    options.fail(*each,
                 {Problem::kInput, fmt::format("the model cannot be compiled for these shapes: {}",
                                               compiled.error().message)});
  }
  const std::lock_guard lock(mutex);
  --runs;
}

void RequestQueue::State::work() {
  std::unique_lock lock(mutex);
  while (!is_ending) {
    Next now = next();
    if (!now.batch.empty() || !now.late.empty()) {
      lock.unlock();
      for (const RequestPtr& each : now.late) options.fail(*each, kLateFailure);
      if (!now.batch.empty()) run(std::move(now.batch), now.rows);
      now = {};  // the last of a request, and of its model, may go here
      lock.lock();
      continue;
    }
    if (now.wake == Clock::time_point::max()) {
      changed.wait(lock);
    } else {
      changed.wait_until(lock, now.wake);
    }
  }
}

Result<std::unique_ptr<RequestQueue>> RequestQueue::start(CompiledShapes& shapes,
                                                          const RequestQueueOptions& options) {
  std::unique_ptr<RequestQueue> queue(
      new RequestQueue(std::shared_ptr<State>(new State{shapes, options, {}, {}, {}, {}})));
  try {
    queue->thread_ = std::thread([state = queue->state_] { state->work(); });
  } catch (const std::system_error& error) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("the system has no thread for a model's requests ({}); end some, or "
                             "allow more (ulimit -u)",
                             error.what())};
  }
  return queue;
}

RequestQueue::~RequestQueue() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_ending = true;
  }
  state_->changed.notify_all();
  if (!thread_.joinable()) return;
  // The thread itself may have had the model's last request.
  if (std::this_thread::get_id() == thread_.get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

bool RequestQueue::push(std::shared_ptr<OpenRequest> request) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->waiting.size() >= state_->options.requests_max) return false;
    const int priority = request->request.priority;
    auto at = state_->waiting.end();
    while (at != state_->waiting.begin() && (*std::prev(at))->request.priority < priority) --at;
    state_->waiting.insert(at, std::move(request));
  }
  state_->changed.notify_all();
  return true;
}

void RequestQueue::run_ended() {
  {
    const std::lock_guard lock(state_->mutex);
    --state_->runs;
  }
  state_->changed.notify_all();
}

}  // namespace tessera::serve
