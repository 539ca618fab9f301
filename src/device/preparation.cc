#include "device/preparation.h"

#include <sys/resource.h>

#include <utility>

namespace tessera::device {
namespace {

// Where the system refuses, the thread has the priority of others, which is no harm.
void lower_priority() {
  constexpr int kNice = 10;
  (void)setpriority(PRIO_PROCESS, 0, kNice);  // on Linux of the calling thread alone
}

}  // namespace

Preparation::Preparation(std::function<bool(const Preparation&)> work) : work_(std::move(work)) {
  thread_ = std::thread([this] { serve(); });
}

Preparation::~Preparation() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Preparation::wake() {
  {
    const std::lock_guard lock(mutex_);
    has_work_ = woken_ = true;
  }
  changed_.notify_all();
}

bool Preparation::over() const {
  const std::lock_guard lock(mutex_);
  return !has_work_;
}

bool Preparation::wait_until_over(std::chrono::milliseconds limit) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return !has_work_; });
}

bool Preparation::stops() const {
  const std::lock_guard lock(mutex_);
  return stops_;
}

void Preparation::serve() {
  lower_priority();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stops_ || (has_work_ && pauses_ == 0); });
    if (stops_) return;
    woken_ = false;
    lock.unlock();
    const bool more = work_(*this);
    lock.lock();
    if (more || woken_) continue;
    has_work_ = false;
    changed_.notify_all();
  }
}

Preparation::Pause::Pause(Preparation* of) : of_(of) {
  if (of_ == nullptr) return;
  const std::lock_guard lock(of_->mutex_);
  ++of_->pauses_;
}

Preparation::Pause::~Pause() {
  if (of_ == nullptr) return;
  {
    const std::lock_guard lock(of_->mutex_);
    --of_->pauses_;
  }
  of_->changed_.notify_all();
}

}  // namespace tessera::device
