#include "transport/loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace tessera::transport {

Loop::Loop(Milliseconds tick) : tick_(tick) {
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (epoll_ >= 0 && wake_ >= 0) {
    epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.u64 = 0}};
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event);
  }
  thread_ = std::thread([this] { run(); });
  own_ = thread_.get_id();
}

void Loop::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_ending_, true)) return;
  }
  post({});
  thread_.join();
}

Loop::~Loop() {
  stop();
  ::close(epoll_);
  ::close(wake_);
}

void Loop::post(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (is_ending_ && task) return;
  if (task) posted_.push_back(std::move(task));
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
}

Loop::Id Loop::add(std::shared_ptr<Pollable> pollable, const std::vector<int>& descriptors,
                   Trigger trigger) {
  const Id id = ++last_id_;
  const std::uint32_t events =
      trigger == Trigger::kLevel ? EPOLLIN : EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  for (const int descriptor : descriptors) {
    epoll_event event{.events = events, .data = {.u64 = id}};
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event);
  }
  pollables_[id] = std::move(pollable);
  soon_.push_back(id);  // what came before is no edge any more
  return id;
}

// Descriptors leave epoll when they are closed: each is open in one place.
void Loop::remove(Id id) { pollables_.erase(id); }

void Loop::call(Id id) {
  const auto found = pollables_.find(id);
  if (found == pollables_.end()) return;
  const std::shared_ptr<Pollable> kept = found->second;  // it may remove itself
  if (kept->on_ready()) soon_.push_back(id);
}

void Loop::run_posted() {
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(posted_);
  }
  for (const auto& task : tasks) task();
}

void Loop::run() {
  std::array<epoll_event, 64> events{};
  Clock::time_point next_tick = Clock::now() + tick_;
  for (;;) {
    const auto left = std::chrono::ceil<Milliseconds>(next_tick - Clock::now());
    const int wait = soon_.empty() ? static_cast<int>(std::max<std::int64_t>(left.count(), 0)) : 0;
    const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()),
                                   pollables_.empty() && soon_.empty() ? -1 : wait);
    run_posted();
    {
      const std::lock_guard lock(mutex_);
      if (is_ending_) break;
    }
    std::vector<Id> soon;
    soon.swap(soon_);
    for (int i = 0; i < count; ++i) {
      const Id id = events[static_cast<std::size_t>(i)].data.u64;
      if (id != 0 && std::find(soon.begin(), soon.end(), id) == soon.end()) soon.push_back(id);
    }
    for (const Id id : soon) call(id);
    if (const Clock::time_point now = Clock::now(); now >= next_tick) {
      next_tick = now + tick_;
      std::vector<std::shared_ptr<Pollable>> all;
      for (const auto& [id, pollable] : pollables_) all.push_back(pollable);
      for (const auto& pollable : all) pollable->on_tick(now);
    }
  }
  run_posted();
  while (!pollables_.empty()) {
    const std::shared_ptr<Pollable> last = pollables_.begin()->second;
    pollables_.erase(pollables_.begin());
    last->on_loop_end();
  }
}

}  // namespace tessera::transport
