// One thread that waits for all file descriptors of a transport.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

namespace tessera::transport {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

// What waits for descriptors. Called on the loop's thread.
class Pollable {
 public:
  virtual ~Pollable() = default;
  // One of its descriptors may have become ready (edges, not levels). True: call again soon.
  virtual bool on_ready() = 0;
  // Every tick.
  virtual void on_tick(Clock::time_point now) = 0;
  // The loop ends: nothing is called after this.
  virtual void on_loop_end() = 0;
};

class Loop {
 public:
  explicit Loop(Milliseconds tick);
  ~Loop();

  // Ends everything that is in it, and the thread. Not from the thread itself.
  void stop();

  // Any thread. What is posted after the loop's end is dropped.
  void post(std::function<void()> task);
  bool is_own_thread() const { return std::this_thread::get_id() == own_; }

  // On the loop's thread. The loop keeps the object until remove().
  using Id = std::uint64_t;
  enum class Trigger { kEdge, kLevel };  // kLevel: as long as it can be read
  Id add(std::shared_ptr<Pollable> pollable, const std::vector<int>& descriptors,
         Trigger trigger = Trigger::kEdge);
  // Before the descriptors are closed. The object may go at once.
  void remove(Id id);
  // On the loop's thread: on_ready() of it, soon.
  void call_soon(Id id) { soon_.push_back(id); }

 private:
  void run();
  void run_posted();
  void call(Id id);

  const Milliseconds tick_;
  int epoll_ = -1, wake_ = -1;
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;
  bool is_ending_ = false;
  // Of the thread.
  Id last_id_ = 0;
  std::unordered_map<Id, std::shared_ptr<Pollable>> pollables_;  // shared with whoever uses them
  std::vector<Id> soon_;
  std::thread thread_;
  std::thread::id own_;
};

}  // namespace tessera::transport
